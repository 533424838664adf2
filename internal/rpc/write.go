package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	writePiece   = 1 << 20   // bytes that must be taken within one write limit
	writeJoin    = 64 << 10  // a payload up to this is copied behind its line: one write
	pendingLimit = 1 << 20   // bytes of answers that wait for a busy connection before their senders do
	pendingBatch = 64 << 10  // bytes of answers held back while more requests are at hand
	pendingKeep  = 256 << 10 // a buffer above this is given up once it is written
)

// past is a deadline that ends a read or write under way.
var past = time.Unix(1, 0)

// deadlineSlack is how much later than asked a deadline may be set, so that it need not
// be set for every frame.
const deadlineSlack = time.Second

// errStalled is a peer that takes nothing.
var errStalled = errors.New("the other end takes nothing")

// deadliner is the part of net.Conn that lets a blocked write or read be interrupted.
type deadliner interface {
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// A writer puts whole frames on a connection in the order in which they came, each with
// one Write where it can. One goroutine at a time holds the connection; small answers that
// come meanwhile are left with it, so that their senders do not wait.
type writer struct {
	conn  io.Writer
	dl    deadliner     // nil when the connection has no deadlines
	stall time.Duration // 0: no limit
	close func()        // ends the connection: nothing more can be written
	set   time.Time     // the deadline on conn; the holder's

	mu       sync.Mutex
	pending  []byte // frames accepted, to be written before any later one
	busy     bool   // somebody holds the connection
	waiters  []chan struct{}
	err      error // the connection can take no more
	streamed bool  // a notification has been sent
}

func newWriter(conn io.ReadWriteCloser, stall time.Duration, closeConn func()) *writer {
	w := &writer{conn: conn, stall: stall, close: closeConn}
	if dl, ok := conn.(deadliner); ok && dl.SetWriteDeadline(time.Time{}) == nil {
		w.dl = dl
	}
	return w
}

// A class says how a frame may be written.
type class uint8

const (
	wait   class = iota // return once the frame is written
	answer              // may be left with the goroutine that is writing
	batch               // may be held back until flush
)

// write sends one frame: head, which ends in a newline, and the payload raw behind it.
// Neither is kept. When ctx or the deadline (zero: none) ends first and nothing of the
// frame was sent, the frame is dropped; a frame that was begun is left for the next writer
// to finish, so that the stream stays whole. An end of ctx is noticed during a write only
// if the caller sees to it that interrupt is called. Only wait heeds either.
func (w *writer) write(ctx context.Context, deadline time.Time, head, raw []byte, c class) error {
	if c != wait {
		ctx, deadline = context.Background(), time.Time{}
	}
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	room := len(w.pending)+len(head)+len(raw) <= pendingLimit
	if w.busy && c != wait && room || c == batch && len(w.pending) < pendingBatch && room {
		w.pending = append(append(w.pending, head...), raw...)
		w.mu.Unlock()
		return nil
	}
	if err := w.acquireLocked(ctx, deadline); err != nil {
		w.mu.Unlock()
		return err
	}
	first := w.takeLocked()
	w.mu.Unlock()

	rest, err := w.send(ctx, deadline, first, head, raw)
	return w.release(rest, err, first)
}

// flush sends what batch held back.
func (w *writer) flush() error {
	w.mu.Lock()
	if w.err != nil || w.busy || len(w.pending) == 0 {
		defer w.mu.Unlock()
		return w.err
	}
	w.busy = true
	first := w.takeLocked()
	w.mu.Unlock()
	return w.release(nil, w.drain(first), first)
}

// drain sends frames that no caller waits for: only the connection's end stops it.
func (w *writer) drain(frames []byte) error {
	_, err := w.send(context.Background(), time.Time{}, frames, nil, nil)
	return err
}

// acquireLocked makes the caller the holder, in turn. It unlocks mu while it waits.
func (w *writer) acquireLocked(ctx context.Context, deadline time.Time) error {
	if !w.busy {
		w.busy = true
		return nil
	}
	timeout, stop := until(deadline)
	defer stop()
	turn := make(chan struct{})
	w.waiters = append(w.waiters, turn)
	w.mu.Unlock()
	select {
	case <-turn:
		w.mu.Lock()
		if w.err != nil {
			w.passLocked()
		}
		return w.err
	case <-ctx.Done():
	case <-timeout:
	}
	w.mu.Lock()
	if i := slices.Index(w.waiters, turn); i >= 0 {
		w.waiters = slices.Delete(w.waiters, i, i+1)
		return fmt.Errorf("%w %w", ended(ctx, deadline), errUnsent)
	}
	// The turn was given at the same moment: use it, the write will notice the end.
	if w.err != nil {
		w.passLocked()
		return w.err
	}
	return nil
}

// passLocked gives the connection to the next waiter, or to nobody.
func (w *writer) passLocked() {
	if len(w.waiters) == 0 {
		w.busy = false
		return
	}
	close(w.waiters[0])
	w.waiters = slices.Delete(w.waiters, 0, 1)
}

func (w *writer) takeLocked() []byte {
	p := w.pending
	w.pending = nil
	return p
}

// release ends the caller's hold. rest is what is left of a frame that was begun; what
// others left meanwhile is sent unless somebody waits, who will do it.
func (w *writer) release(rest []byte, err error, spare []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(rest) > 0 {
		w.pending = append(rest, w.pending...)
	}
	if err != nil && !errors.Is(err, errEnded) {
		w.failLocked(err)
	}
	for err == nil && w.err == nil && len(w.pending) > 0 && len(w.waiters) == 0 {
		p := w.takeLocked()
		w.mu.Unlock()
		sendErr := w.drain(p)
		w.mu.Lock()
		if sendErr != nil {
			w.failLocked(sendErr)
		}
	}
	if w.pending == nil && cap(spare) <= pendingKeep {
		w.pending = spare[:0]
	}
	w.passLocked()
	return err
}

// fail makes every later write fail with err.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *writer) failLocked(err error) {
	if w.err == nil {
		w.err = err
		w.pending = nil
		w.close()
	}
}

// unlimited turns the stall limit off: a client that was sent output may take its time.
func (w *writer) unlimited() {
	w.mu.Lock()
	w.streamed = true
	w.mu.Unlock()
}

// interrupt ends a write under way whose context has ended. It may come late: a write
// that meets a deadline which is not its own goes on.
func (w *writer) interrupt() {
	if w.dl != nil {
		_ = w.dl.SetWriteDeadline(past)
	}
}

// send writes first, head and raw, as the holder; first's memory is the holder's to use.
// When ctx or the deadline ends it, err is an errEnded and rest is a copy of what has to
// follow to complete the frame that was begun.
func (w *writer) send(ctx context.Context, deadline time.Time, first, head, raw []byte) (rest []byte, err error) {
	begun := len(first) // bytes that are not the caller's own frame
	if small := len(raw) > 0 && len(raw) <= writeJoin; begun > 0 || small {
		head = append(first, head...)
		if small {
			head, raw = append(head, raw...), nil
		}
	}
	sent, err := w.sendAll(ctx, deadline, head, raw)
	switch {
	case !errors.Is(err, errEnded):
		return nil, err
	case sent <= begun:
		return slices.Clone(head[sent:begun]), fmt.Errorf("%w %w", err, errUnsent)
	case sent < len(head):
		return slices.Concat(head[sent:], raw), err
	default:
		return slices.Clone(raw[sent-len(head):]), err
	}
}

// sendAll writes both parts in pieces, each of which the stall limit bounds, and returns
// how many bytes went out.
func (w *writer) sendAll(ctx context.Context, deadline time.Time, head, raw []byte) (sent int, err error) {
	for len(head) > 0 || len(raw) > 0 {
		h := head[:min(len(head), writePiece)]
		r := raw[:min(len(raw), writePiece-len(h))]
		head, raw = head[len(h):], raw[len(r):]
		n, err := w.piece(ctx, deadline, h, r)
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// piece writes head and raw.
func (w *writer) piece(ctx context.Context, deadline time.Time, head, raw []byte) (sent int, err error) {
	stalled := w.stallsAt()
	disarm := w.arm(deadline, stalled)
	defer disarm()
	if ctx.Err() != nil { // arm may have undone its interrupt
		return 0, ended(ctx, deadline)
	}
	for {
		n, err := w.once(head, raw)
		sent += n
		h := min(n, len(head))
		head, raw = head[h:], raw[n-h:]
		switch {
		case err == nil:
			return sent, nil
		case w.dl == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return sent, err
		case !stalled.IsZero() && !time.Now().Before(stalled):
			return sent, errStalled
		}
		// Whose deadline was it? Not this write's, unless ended says so; set afresh, and
		// look once more for an interrupt that came between.
		_ = w.dl.SetWriteDeadline(time.Time{})
		w.set = time.Time{}
		if err := ended(ctx, deadline); err != nil {
			return sent, err
		}
		w.arm(deadline, stalled)
	}
}

// once makes one write.
func (w *writer) once(head, raw []byte) (int, error) {
	switch {
	case len(raw) == 0:
		return w.conn.Write(head)
	case len(head) == 0:
		return w.conn.Write(raw)
	}
	n, err := (&net.Buffers{head, raw}).WriteTo(w.conn)
	return int(n), err
}

// stallsAt is when the stall limit ends a write that begins now; zero is never.
func (w *writer) stallsAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streamed || w.stall <= 0 {
		return time.Time{}
	}
	return time.Now().Add(w.stall)
}

// arm sees to it that a write ends at the earlier of two times, or a little later; zero
// is never. A deadline that is left from an earlier write and comes too soon costs that
// write one more turn, no more.
func (w *writer) arm(a, b time.Time) (disarm func()) {
	at := a
	if at.IsZero() || !b.IsZero() && b.Before(at) {
		at = b
	}
	switch {
	case at.IsZero():
	case w.dl == nil:
		t := time.AfterFunc(time.Until(at), func() { w.fail(errStalled) })
		return func() { t.Stop() }
	case w.set.Before(at) || w.set.After(at.Add(deadlineSlack)):
		w.set = at.Add(deadlineSlack)
		_ = w.dl.SetWriteDeadline(w.set)
	}
	return func() {}
}
