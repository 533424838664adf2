package rpc

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Stream is a Handler's result for a method that ServerOptions.Last names: after the response both
// directions of the connection are Serve's.
type Stream struct {
	Result any

	// Serve is called once, also when the response could not be sent. ctx ends with the
	// connection's, which then is closed too; when Serve returns it is closed.
	Serve func(ctx context.Context, conn *Conn)
}

// A Conn is what a Stream is given: the connection, with the bytes that were read ahead.
type Conn struct {
	io.ReadWriteCloser
	ahead []byte
}

// Read reads what was read ahead and then from the connection.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.ReadWriteCloser.Read(p)
	}
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

// CloseWrite tells the other end that no more comes; errors.ErrUnsupported where the connection cannot.
func (c *Conn) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// errTaken ends the loop of a connection that has become a stream.
var errTaken = errors.New("the connection has become a stream")

// stream performs a request that may make a stream of the connection. It is done by the
// reading goroutine, so that no byte behind the request is taken for a frame.
func (s *server) stream(ctx context.Context, req *Request) error {
	if !s.idle(ctx) {
		return s.fail(ctx, &req.ID, Errorf(CodeInvalidRequest, "invalid request: %s must be the only request in flight", req.Method), batch)
	}
	if err := s.w.flush(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	settle := s.watch(ctx, cancel)
	enc := s.enc.get()
	defer s.enc.put(enc)
	head, _ := s.answer(ctx, enc, req)
	settle()
	err := s.w.write(ctx, time.Time{}, head, nil, answer)
	if err == nil {
		err = s.w.flush()
	}
	if req.stream == nil {
		return err
	}
	if err != nil {
		cancel() // there is nobody to serve, but something to let go of
	}
	if s.w.dl != nil {
		_ = s.w.dl.SetWriteDeadline(time.Time{}) // what a stream may wait for is its own matter
	}
	conn := &Conn{s.w.conn.(io.ReadWriteCloser), s.r.buf[s.r.start:s.r.end]}
	s.r.start = s.r.end
	req.stream.Serve(ctx, conn)
	return errTaken
}

// idle reports whether nothing else is in flight, waiting a little for what is performed, and to the end for what is being
// answered: its client may have the answer already.
func (s *server) idle(ctx context.Context) bool {
	timeout := time.NewTimer(refuseAfter)
	defer timeout.Stop()
	for late := false; ; {
		s.mu.Lock()
		idle := s.lanes[0].running+s.lanes[1].running == 0
		performed := len(s.flight)
		s.mu.Unlock()
		if idle || late && performed > 0 {
			return idle
		}
		if s.w.flush() != nil {
			return false
		}
		select {
		case <-s.freed:
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			return false
		}
	}
}

// watch cancels a request when the client goes away while it is performed. Nobody reads
// frames meanwhile, so it reads ahead. settle ends it.
func (s *server) watch(ctx context.Context, cancel func()) (settle func()) {
	reads := s.r.end == s.r.start && s.w.dl != nil && s.w.dl.SetReadDeadline(time.Time{}) == nil
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if reads {
			err = s.r.more()
		}
		switch {
		case ctx.Err() != nil:
		case s.opts.Gone != nil && (err == nil || errors.Is(err, io.EOF)):
			s.await(ctx, cancel)
		case err != nil:
			cancel()
		}
	}()
	return func() {
		stop()
		if reads {
			_ = s.w.dl.SetReadDeadline(past)
		}
		<-done
		if reads {
			_ = s.w.dl.SetReadDeadline(time.Time{})
		}
	}
}

// await cancels when nobody reads answers any more.
func (s *server) await(ctx context.Context, cancel func()) {
	tick := time.NewTicker(goneInterval)
	defer tick.Stop()
	for !s.opts.Gone() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	cancel()
}
