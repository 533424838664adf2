package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultMaxInFlight  = 256
	defaultWriteTimeout = 30 * time.Second
	discardTime         = 500 * time.Millisecond // for a client to read why it was closed
	maxMethod           = 128                    // bytes of a method's name
)

// ServerOptions are Serve's settings. The zero value of each field is its default.
type ServerOptions struct {
	// MaxFrame limits one line, and one raw payload, in bytes; 0 is DefaultMaxFrame.
	// All requests of a connection together may hold twice as much.
	MaxFrame int64

	// Memory is shared by connections, to bound what their large frames hold together; a
	// connection whose frame finds none left gets CodeBusy and is closed. nil is no bound
	// but MaxFrame's.
	Memory *Memory

	// MaxInFlight is how many requests of one connection run at a time; 0 is 256. Four
	// times as many wait behind them; beyond that a request is answered with CodeBusy.
	MaxInFlight int

	// Inline names methods that never block and are answered in the reading goroutine;
	// nil is none. No limit holds them up, so a client's ping or cancel is answered
	// whatever else runs.
	Inline func(method string) bool

	// Control names methods that may block and steer other requests, as one that feeds
	// a running command does; nil is none. They have a limit of their own, of the same
	// size as MaxInFlight, so that they do not wait behind the requests they steer.
	Control func(method string) bool

	// Last names methods whose result may be a *Stream, which makes the connection one; nil is
	// none. Such a request must be the only one in flight, and the next frame is not read before it
	// is answered: its client cancels it by closing the connection.
	Last func(method string) bool

	// WriteTimeout drops a client that takes nothing of its answers for so long;
	// 0 is 30 s, negative is never. It does not hold once a notification was sent on the
	// connection: a reader who pauses a stream is flow control, not a fault.
	WriteTimeout time.Duration

	// Gone reports whether nobody reads answers any more. With it, the client's
	// end-of-file says only that no more requests come: those in flight go on until they
	// are answered, or Gone, asked again and again meanwhile, says so. nil takes an
	// end-of-file for the client's end, and cancels what is in flight.
	Gone func() bool

	// Logger takes warnings about a client's faults, and panics; nil discards.
	Logger *slog.Logger
}

func (o *ServerOptions) withDefaults() ServerOptions {
	var d ServerOptions
	if o != nil {
		d = *o
	}
	if d.MaxFrame <= 0 {
		d.MaxFrame = DefaultMaxFrame
	}
	if d.MaxInFlight <= 0 {
		d.MaxInFlight = defaultMaxInFlight
	}
	none := func(string) bool { return false }
	if d.Inline == nil {
		d.Inline = none
	}
	if d.Control == nil {
		d.Control = none
	}
	if d.Last == nil {
		d.Last = none
	}
	if d.WriteTimeout == 0 {
		d.WriteTimeout = defaultWriteTimeout
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Serve answers the requests that come on conn until the client goes away, breaks the
// framing, or ctx ends; then it closes conn and returns after the last Handle of this
// connection has. The first line may be "CONNECT <port>", which is answered
// "OK <port>". conn.Close must end a Read and a Write that block. The error is nil at
// the client's end-of-file between two frames, and ctx's when ctx ended it.
func Serve(ctx context.Context, conn io.ReadWriteCloser, h Handler, opts *ServerOptions) error {
	o := opts.withDefaults()
	var once sync.Once
	closeConn := func() { once.Do(func() { _ = conn.Close() }) }
	defer closeConn()
	defer context.AfterFunc(ctx, closeConn)()

	s := &server{
		h: h, opts: o,
		r:      newReader(conn, o.MaxFrame),
		w:      newWriter(conn, max(o.WriteTimeout, 0), closeConn),
		flight: make(map[uint64]context.CancelFunc),
		freed:  make(chan struct{}, 1),
	}
	reqCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.r.mem = o.Memory
	err := s.loop(reqCtx)
	o.Memory.give(s.r.release())
	var fatal *Error
	switch {
	case errors.Is(err, errTaken):
		err = nil
		closeConn()
	case errors.Is(err, io.EOF):
		err = nil
		s.linger(reqCtx)
	case errors.As(err, &fatal):
		o.Logger.WarnContext(ctx, "connection closed for a broken frame", "reason", fatal.Message)
	case !errors.Is(err, io.ErrUnexpectedEOF):
		closeConn()
	}
	cancel()
	defer time.AfterFunc(max(o.WriteTimeout, discardTime), closeConn).Stop()
	s.running.Wait()
	if flushErr := s.w.flush(); errors.Is(flushErr, errStalled) {
		err = flushErr // a client that has gone is not a fault, one that stalls is
	}
	if fatal != nil {
		farewell(conn, closeConn)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// farewell lets the client read the error that ends its connection: closing at once,
// with bytes unread, would reset the connection and might lose it.
func farewell(conn io.ReadWriteCloser, closeConn func()) {
	defer time.AfterFunc(discardTime, closeConn).Stop()
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn)
}

// A server is one connection. It is the Peer of its requests.
type server struct {
	h    Handler
	opts ServerOptions
	r    *reader
	w    *writer
	enc  encoders

	raw     atomic.Bool
	running sync.WaitGroup

	mu      sync.Mutex
	session any
	flight  map[uint64]context.CancelFunc
	lanes   [2]lane
	bytes   int64         // of the requests in flight
	full    bool          // a request was refused and nothing has ended since
	freed   chan struct{} // something has ended
}

// loop reads frames until something ends the connection.
func (s *server) loop(ctx context.Context) error {
	for first := true; ; first = false {
		if !s.r.buffered() {
			if err := s.w.flush(); err != nil {
				return err
			}
		}
		line, err := s.r.line()
		if errors.Is(err, errTooLong) {
			return s.fatal(ctx, nil, Errorf(CodeInvalidRequest, "%v", err))
		}
		if errors.Is(err, errNoMemory) {
			return s.fatal(ctx, nil, Errorf(CodeBusy, "%v", err))
		}
		if err != nil {
			return err
		}
		if first && bytes.HasPrefix(line, []byte("CONNECT")) {
			err = s.connect(ctx, line)
		} else {
			err = s.frame(ctx, line)
		}
		if err != nil {
			return err
		}
	}
}

// connect answers the handshake of Firecracker's host socket, for sockets without one.
func (s *server) connect(ctx context.Context, line []byte) error {
	port, ok := bytes.CutPrefix(line, []byte("CONNECT "))
	if ok && len(port) > 0 {
		if n, st := scanUint(port); st == valid && n < 1<<32 {
			return s.w.write(ctx, time.Time{}, fmt.Appendf(nil, "OK %d\n", n), nil, answer)
		}
	}
	return s.fatal(ctx, nil, Errorf(CodeInvalidRequest, "malformed CONNECT: want CONNECT <port>"))
}

// fatal reports an error after which the frames cannot be told apart any more.
func (s *server) fatal(ctx context.Context, id *uint64, cause *Error) error {
	if err := s.fail(ctx, id, cause, answer); err != nil {
		return err
	}
	return cause
}

// frame does what one line asks. An error ends the connection.
func (s *server) frame(ctx context.Context, line []byte) error {
	if len(bytes.TrimLeft(line, " \t\r")) == 0 {
		s.opts.Memory.give(s.r.release())
		return nil // an empty line asks nothing
	}
	var e envelope
	if err := scanEnvelope(line, &e); err != nil {
		s.opts.Memory.give(s.r.release())
		cause := Errorf(CodeParse, "parse error: %v", err)
		if s.raw.Load() {
			// The line may have announced a payload, whose bytes must not be taken for requests.
			return s.fatal(ctx, nil, cause)
		}
		return s.fail(ctx, nil, cause, batch)
	}
	req := &Request{ID: e.id}
	if e.seen&memberRaw != 0 && s.raw.Load() {
		if e.rawState != valid || e.dup&memberRaw != 0 {
			return s.fatal(ctx, e.echo(), Errorf(CodeInvalidRequest, "raw must be one number of bytes"))
		}
		if e.raw > uint64(s.opts.MaxFrame) {
			return s.fatal(ctx, e.echo(), Errorf(CodeInvalidRequest, "raw payload of %d bytes exceeds the limit of %d", e.raw, s.opts.MaxFrame))
		}
		p := newPayload(int64(e.raw), nil)
		err := s.r.fill(&p)
		if errors.Is(err, errNoMemory) {
			return s.fatal(ctx, e.echo(), Errorf(CodeBusy, "%v", err))
		}
		if err != nil {
			return err
		}
		req.Raw = p.buf
	}
	held := s.r.release()
	if cause := s.check(&e); cause != nil {
		s.opts.Memory.give(held)
		return s.fail(ctx, e.echo(), cause, batch)
	}
	req.Method = string(e.method)
	if len(line) > readKeep/4 {
		s.r.detach() // the request keeps the buffer, which is cheaper than a copy
		req.Params = e.params
	} else {
		req.Params = bytes.Clone(e.params)
	}
	if s.opts.Last(req.Method) {
		defer s.opts.Memory.give(held)
		return s.stream(ctx, req)
	}
	return s.dispatch(ctx, req, int64(len(line)+len(req.Raw)), held)
}

// echo is the id to answer with; nil where none could be read.
func (e *envelope) echo() *uint64 {
	if e.kind != kindObject || e.idState != valid || e.dup&memberID != 0 {
		return nil
	}
	return &e.id
}

// check finds what makes a frame no request that can be performed.
func (s *server) check(e *envelope) *Error {
	bad := func(msg string) *Error { return &Error{Code: CodeInvalidRequest, Message: "invalid request: " + msg} }
	switch {
	case e.kind == kindArray:
		return bad("batches are not supported: send one object a line")
	case e.kind != kindObject:
		return bad("a request is an object")
	case e.dup != 0:
		return bad("a member comes twice")
	case e.idState != valid:
		return bad("id must be an unsigned 64-bit integer")
	case !e.version:
		return bad(`jsonrpc must be "2.0"`)
	case !e.methodOK:
		return bad("method must be a string")
	case e.seen&memberRaw != 0 && !s.raw.Load():
		return bad("raw payloads were not agreed on this connection")
	case len(e.method) > maxMethod:
		return Errorf(CodeMethodNotFound, "method not found: %.32s…", bytes.ToValidUTF8(e.method[:32], nil))
	}
	if len(e.params) > 0 {
		switch e.params[0] {
		case '{', '[':
		case 'n':
			e.params = nil
		default:
			return bad("params must be an object or an array")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight[e.id] != nil {
		return bad("a request with this id is in flight")
	}
	return nil
}

// fail sends an error response.
func (s *server) fail(ctx context.Context, id *uint64, cause *Error, c class) error {
	enc := s.enc.get()
	defer s.enc.put(enc)
	return s.w.write(ctx, time.Time{}, enc.failure(id, cause), nil, c)
}
