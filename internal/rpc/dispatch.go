package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	queueFactor = 4           // requests that may wait, for each that may run
	smallFrame  = 4 << 10     // a request below this is not counted against the bytes in flight
	refuseAfter = time.Second // how long reading stops before a request is refused
)

// errRaw is a payload for a peer that did not ask for payloads.
var errRaw = errors.New("raw payloads were not agreed on this connection")

// A lane is a class of requests with a limit of its own.
type lane struct {
	running int
	queue   []func()
}

// dispatch has a request performed: at once if it is inline, else by a goroutine, else
// when one is free. held is what the request holds of the shared memory.
func (s *server) dispatch(ctx context.Context, req *Request, size, held int64) error {
	if s.opts.Inline(req.Method) {
		defer s.opts.Memory.give(held)
		return s.perform(ctx, req, batch)
	}
	l := &s.lanes[0]
	if s.opts.Control(req.Method) {
		l = &s.lanes[1]
	}
	if size < smallFrame {
		size = 0
	}
	if !s.admit(ctx, l, size) {
		s.opts.Memory.give(held)
		return s.fail(ctx, &req.ID, Errorf(CodeBusy, "too many requests in flight"), batch)
	}
	reqCtx, cancel := context.WithCancel(ctx)
	job := func() {
		defer cancel()
		if ctx.Err() == nil {
			// The connection's end is seen by the reading goroutine as well.
			_ = s.perform(reqCtx, req, answer)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight[req.ID] = cancel
	s.bytes += size
	run := func() {
		job()
		s.opts.Memory.give(held)
		s.mu.Lock()
		s.bytes -= size
		s.mu.Unlock()
	}
	if l.running >= s.opts.MaxInFlight {
		l.queue = append(l.queue, run)
		return nil
	}
	l.running++
	s.running.Go(func() { s.work(l, run) })
	return nil
}

// work runs a request and then those that wait in its lane.
func (s *server) work(l *lane, run func()) {
	for run != nil {
		run()
		s.mu.Lock()
		s.full = false
		run = nil
		if len(l.queue) > 0 {
			run = l.queue[0]
			l.queue[0] = nil
			l.queue = l.queue[1:]
		} else {
			l.running--
		}
		s.mu.Unlock()
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

// admit reports whether there is room for a request of size bytes, waiting a little for
// it. Reading stops meanwhile, which is what slows a client down; it does not stop for
// longer, because a client's end-of-file and its cancel requests are seen by reading only.
func (s *server) admit(ctx context.Context, l *lane, size int64) bool {
	var timeout <-chan time.Time
	for {
		s.mu.Lock()
		queued := len(l.queue) >= queueFactor*s.opts.MaxInFlight
		room := !queued && (size == 0 || s.bytes == 0 || s.bytes+size <= 2*s.opts.MaxFrame)
		full := s.full
		s.mu.Unlock()
		if room || full {
			return room
		}
		if timeout == nil {
			if s.w.flush() != nil {
				return false
			}
			t := time.NewTimer(refuseAfter)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return false
		case <-timeout:
			s.mu.Lock()
			s.full = true
			s.mu.Unlock()
		}
	}
}

// perform calls the handler and sends its answer. The error is the connection's.
func (s *server) perform(ctx context.Context, req *Request, c class) error {
	enc := s.enc.get()
	defer s.enc.put(enc)
	defer func() {
		if req.Sent != nil {
			req.Sent()
		}
	}()
	head, raw := s.answer(ctx, enc, req)
	s.mu.Lock()
	delete(s.flight, req.ID)
	s.mu.Unlock()
	return s.w.write(ctx, time.Time{}, head, raw, c)
}

// answer calls the handler and builds the response. A panic in either is an internal
// error: the connection goes on.
func (s *server) answer(ctx context.Context, enc *encoder, req *Request) (head, raw []byte) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		what := fmt.Sprintf("%T", p) // its text may hold arguments
		if e, ok := p.(runtime.Error); ok {
			what = e.Error()
		}
		s.opts.Logger.ErrorContext(ctx, "handler panicked", "method", req.Method, "id", req.ID, "panic", what, "stack", string(debug.Stack()))
		enc.buf.Reset()
		head, raw = enc.failure(&req.ID, Errorf(CodeInternal, "internal error")), nil
	}()
	res, err := s.h.Handle(ctx, s, req)
	if st, ok := res.(*Stream); ok && err == nil {
		req.stream, res = st, st.Result
	}
	if err == nil {
		if head, raw, err = s.encode(enc, req.ID, res); err == nil {
			return head, raw
		}
		enc.buf.Reset()
	}
	head = enc.failure(&req.ID, asError(err))
	if int64(len(head)) > s.opts.MaxFrame {
		enc.buf.Reset()
		head = enc.failure(&req.ID, Errorf(asError(err).Code, "the error's text is too long to send"))
	}
	return head, nil
}

// encode builds the response that carries a handler's result.
func (s *server) encode(enc *encoder, id uint64, res any) (head, raw []byte, err error) {
	switch r := res.(type) {
	case Reply:
		res, raw = r.Result, r.Raw
	case *Reply:
		res, raw = r.Result, r.Raw
	}
	if raw != nil && !s.raw.Load() {
		return nil, nil, errRaw
	}
	if head, err = enc.result(id, res, raw); err != nil {
		return nil, nil, fmt.Errorf("encode the result: %w", err)
	}
	if n := max(len(head)-1, len(raw)); int64(n) > s.opts.MaxFrame {
		return nil, nil, errTooLarge("a result", n, s.opts.MaxFrame)
	}
	return head, raw, nil
}

// goneInterval is how often a client that sends no more is looked after.
const goneInterval = 20 * time.Millisecond

// linger waits for the requests in flight while there is somebody to answer.
func (s *server) linger(ctx context.Context) {
	if s.opts.Gone == nil {
		return
	}
	tick := time.NewTicker(goneInterval)
	defer tick.Stop()
	for {
		s.mu.Lock()
		idle := s.lanes[0].running+s.lanes[1].running == 0
		s.mu.Unlock()
		if idle || s.opts.Gone() {
			return
		}
		select {
		case <-s.freed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Notify implements Peer.
func (s *server) Notify(ctx context.Context, method string, params any, raw []byte) error {
	if raw != nil && !s.raw.Load() {
		return errRaw
	}
	enc := s.enc.get()
	defer s.enc.put(enc)
	head, err := enc.request(nil, method, params, raw)
	if err != nil {
		return fmt.Errorf("encode a notification: %w", err)
	}
	if n := max(len(head)-1, len(raw)); int64(n) > s.opts.MaxFrame {
		return errTooLarge("a notification", n, s.opts.MaxFrame)
	}
	s.w.unlimited()
	defer context.AfterFunc(ctx, s.w.interrupt)()
	return s.w.write(ctx, time.Time{}, head, raw, wait)
}

// Cancel implements Peer.
func (s *server) Cancel(id uint64) bool {
	s.mu.Lock()
	cancel := s.flight[id]
	s.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// AllowRaw implements Peer.
func (s *server) AllowRaw() { s.raw.Store(true) }

// RawAllowed implements Peer.
func (s *server) RawAllowed() bool { return s.raw.Load() }

// Session implements Peer.
func (s *server) Session() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// SetSession implements Peer.
func (s *server) SetSession(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = v
}
