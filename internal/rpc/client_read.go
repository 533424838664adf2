package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// An inbound is the frame being read. It outlives its reader: one whose context ends in
// the middle leaves it to the next.
type inbound struct {
	have    bool // the line is here
	e       envelope
	line    []byte
	hasRaw  bool
	payload payload
	decoded bool // note and to are set
	to      uint64
	note    any
}

// await waits for a call's answer, reading when nobody else does.
func (c *Client) await(ctx context.Context, cl *call) (Response, error) {
	c.mu.Lock()
	cl.waiting = true
	if !cl.answered && !c.reading && c.err == nil {
		c.reading, cl.lead = true, true
	}
	lead := cl.lead
	c.mu.Unlock()
	for {
		var err error
		if lead {
			err = c.read(ctx, cl)
		} else {
			err = c.follow(ctx, cl)
		}
		c.mu.Lock()
		if cl.answered {
			c.passLocked(cl)
			c.mu.Unlock()
			return cl.res, cl.err
		}
		lead = cl.lead
		c.mu.Unlock()
		if err != nil {
			c.abandon(cl, true)
			return Response{}, err
		}
	}
}

// follow waits for a call's answer, or its turn to read.
func (c *Client) follow(ctx context.Context, cl *call) error {
	timeout, stop := until(cl.deadline)
	defer stop()
	select {
	case <-cl.wake:
		return nil
	case <-timeout:
	case <-ctx.Done():
	case <-c.failed:
		return c.Err()
	}
	return ended(ctx, cl.deadline)
}

// abandon forgets a call that nobody waits for any more; an answer to it will come if
// it was sent.
func (c *Client) abandon(cl *call, sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, cl.id)
	if cl.gone != nil {
		close(cl.gone)
	}
	if sent && cl != c.sweeper && !cl.answered {
		c.oweLocked()
	}
	c.passLocked(cl)
}

// oweLocked counts an answer that nobody waits for, and sees to it that it is read.
func (c *Client) oweLocked() {
	c.owed++
	if c.sweeper == nil && c.err == nil {
		cl := &call{wake: make(chan struct{}, 1)}
		c.sweeper = cl
		c.bg.Go(func() { _, _ = c.await(context.Background(), cl) })
	}
}

// paidLocked notes that an answer came that nobody waits for.
func (c *Client) paidLocked() {
	c.owed = max(c.owed-1, 0)
	if cl := c.sweeper; c.owed == 0 && cl != nil {
		c.sweeper = nil
		cl.answered = true
		if !cl.lead {
			cl.wake <- struct{}{} // has room: see passLocked
		}
	}
}

// passLocked gives the reading, if cl has it, to a call that waits.
func (c *Client) passLocked(cl *call) {
	if !cl.lead {
		return
	}
	cl.lead = false
	c.reading = false
	next := c.sweeper
	for _, other := range c.calls {
		if other.waiting && other != cl {
			next = other
			break
		}
	}
	if next != nil && next != cl && next.waiting {
		c.reading, next.lead = true, true
		next.wake <- struct{}{} // has room: only a reader sends, and the reader is next
	}
}

// read reads frames until cl is answered, its time is over, or the connection ends.
func (c *Client) read(ctx context.Context, cl *call) error {
	if cl.deadline.After(c.set) {
		c.set = cl.deadline.Add(deadlineSlack)
		_ = c.dl.SetReadDeadline(c.set)
		if ctx.Err() != nil { // whose interrupt that may have undone
			return ended(ctx, cl.deadline)
		}
	}
	for !cl.answered { // only a reader sets it
		err := c.frame()
		switch {
		case err == nil:
			if err := c.deliver(ctx, cl.deadline); err != nil {
				return err
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Whose? Set this call's afresh, then look whether its time is over: an
			// interrupt that comes between the two is not lost.
			c.set = cl.deadline
			_ = c.dl.SetReadDeadline(c.set)
			if err := ended(ctx, cl.deadline); err != nil {
				return err
			}
		case errors.Is(err, errTooLong):
			return c.lose(fmt.Errorf("%w: %w", ErrMalformed, err))
		case errors.Is(err, ErrMalformed):
			return c.lose(err)
		default:
			return c.lose(fmt.Errorf("read: %w", err))
		}
	}
	return nil
}

// frame reads one frame into c.in, or goes on with the one that is there.
func (c *Client) frame() error {
	in := &c.in
	if !in.have {
		line, err := c.r.line()
		if err != nil {
			return err
		}
		*in = inbound{line: line}
		if err := scanEnvelope(line, &in.e); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if err := c.prepare(in); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		in.have = true
	}
	if in.hasRaw {
		return c.r.fill(&in.payload)
	}
	return nil
}

// prepare checks a frame's envelope and makes ready for its payload.
func (c *Client) prepare(in *inbound) error {
	e := &in.e
	switch {
	case e.kind != kindObject:
		return errors.New("not an object")
	case e.dup != 0:
		return errors.New("a member comes twice")
	case e.seen&memberMethod != 0 && e.seen&memberID != 0:
		return errors.New("a request, where only answers and notifications may come")
	case e.seen&memberMethod == 0 && e.idState == absent, e.idState == invalid:
		return errors.New("no id that can be read")
	case e.seen&memberRaw == 0:
		return nil
	case !c.raw.Load():
		return errRaw
	case e.rawState != valid:
		return errors.New("raw is not a number of bytes")
	case e.raw > uint64(c.opts.MaxFrame):
		return fmt.Errorf("%w: a payload of %d bytes, the limit is %d", errTooLong, e.raw, c.opts.MaxFrame)
	}
	var into []byte
	if e.idState == valid {
		c.mu.Lock()
		if cl := c.calls[e.id]; cl != nil {
			into = cl.spec.Into
		}
		c.mu.Unlock()
	}
	in.hasRaw, in.payload = true, newPayload(int64(e.raw), into)
	return nil
}

// deliver gives the frame in c.in to the call it is for.
func (c *Client) deliver(ctx context.Context, deadline time.Time) error {
	in := &c.in
	if c.opts.Logger.Enabled(ctx, LevelTrace) && !in.decoded {
		c.opts.Logger.Log(ctx, LevelTrace, "rpc response body", "id", in.e.id, "body", string(in.line))
	}
	var err error
	if in.e.seen&memberMethod != 0 {
		err = c.deliverNote(ctx, deadline, in)
	} else {
		err = c.deliverAnswer(ctx, in)
	}
	if err == nil {
		*in = inbound{}
	}
	return err
}

// deliverNote hands a notification to its call, waiting until that takes it. The reader's
// own ctx and deadline end the wait; the next reader goes on with it.
func (c *Client) deliverNote(ctx context.Context, deadline time.Time, in *inbound) error {
	if !in.decoded {
		if c.opts.Notification == nil {
			return nil
		}
		var raw []byte
		if in.hasRaw {
			raw = in.payload.buf
		}
		var err error
		if in.to, in.note, err = c.opts.Notification(string(in.e.method), in.e.params, raw); err != nil {
			c.opts.Logger.DebugContext(ctx, "notification dropped", "error", err)
			return nil
		}
		in.decoded = true
	}
	c.mu.Lock()
	cl := c.calls[in.to]
	c.mu.Unlock()
	if cl == nil || cl.spec.Notes == nil {
		c.opts.Logger.DebugContext(ctx, "notification dropped", "id", in.to, "error", "no such request")
		return nil
	}
	timeout, stop := until(deadline)
	defer stop()
	select {
	case cl.spec.Notes <- in.note:
	case <-cl.gone:
	case <-timeout:
		return ended(ctx, deadline)
	case <-ctx.Done():
		return ended(ctx, deadline)
	case <-c.failed:
		return c.Err()
	}
	return nil
}

// deliverAnswer wakes the call that a response is for.
func (c *Client) deliverAnswer(ctx context.Context, in *inbound) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, err := c.addresseeLocked(in)
	if err != nil {
		c.mu.Unlock()
		err = c.lose(err)
		c.mu.Lock()
		return err
	}
	if cl == nil {
		c.opts.Logger.DebugContext(ctx, "late answer dropped", "id", in.e.id)
		c.paidLocked()
		return nil
	}
	cl.res, cl.err = c.outcome(in)
	cl.answered = true
	delete(c.calls, cl.id)
	if !cl.lead {
		cl.wake <- struct{}{} // has room: see passLocked
	}
	return nil
}

// addresseeLocked finds the call that a response is for: nil for one that was forgotten.
func (c *Client) addresseeLocked(in *inbound) (*call, error) {
	if in.e.idState == valid {
		if in.e.id >= c.nextID || in.e.id == 0 {
			return nil, fmt.Errorf("%w: an answer to request %d, which was never sent", ErrMalformed, in.e.id)
		}
		return c.calls[in.e.id], nil
	}
	// An id of null: the other end could not read a request of ours. With one in flight it
	// is that one.
	if len(c.calls) == 1 {
		for _, cl := range c.calls {
			return cl, nil
		}
	}
	_, err := c.outcome(in)
	if err == nil {
		err = errors.New("a result without an id")
	}
	return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
}

// outcome is what a response says. It keeps nothing of the read buffer.
func (c *Client) outcome(in *inbound) (Response, error) {
	e := &in.e
	if len(e.errObject) > 0 && e.errObject[0] != 'n' {
		cause := &Error{}
		if err := json.Unmarshal(e.errObject, cause); err != nil {
			return Response{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return Response{}, cause
	}
	if e.seen&memberResult == 0 {
		return Response{}, ErrNoResult
	}
	var res Response
	if len(in.line) > readKeep/4 {
		c.r.detach()
		res.Result = e.result
	} else {
		res.Result = bytes.Clone(e.result)
	}
	if in.hasRaw {
		res.Raw = in.payload.buf
	}
	return res, nil
}
