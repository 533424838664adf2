package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// LevelTrace is below debug: whole requests and answers, which may hold secrets.
const LevelTrace = slog.LevelDebug - 4

// Errors of a Client. Each is wrapped with its cause.
var (
	// ErrClosed is a call on a Client that was closed.
	ErrClosed = errors.New("connection is closed")
	// ErrLost is a connection that ended, or that the other end broke.
	ErrLost = errors.New("connection lost")
	// ErrMalformed is a message from the other end that is not what the protocol says.
	ErrMalformed = errors.New("malformed message")
	// ErrEncode is a request that cannot be sent: no JSON, or above the frame limit.
	ErrEncode = errors.New("encode the request")
	// ErrNoResult is a response with neither result nor error.
	ErrNoResult = errors.New("missing result in response")
)

// maxPosts bounds the requests that Post keeps while the other end takes nothing.
const maxPosts = 1024

// ClientOptions are NewClient's settings. The zero value of each field is its default.
type ClientOptions struct {
	// MaxFrame limits a line, and a raw payload, from the other end; 0 is DefaultMaxFrame.
	MaxFrame int64

	// Notification decodes a notification: the request it belongs to, and the value for
	// that request's Notes. params is good during the call only. An error drops the
	// notification; nil drops all.
	Notification func(method string, params json.RawMessage, raw []byte) (id uint64, v any, err error)

	// Logger takes requests by method and id and dropped messages at debug, the bodies at
	// LevelTrace; nil discards.
	Logger *slog.Logger
}

// A Call is one request.
type Call struct {
	Method string
	Params any
	Raw    []byte // payload to send; nil for none

	// Timeout ends the call with ErrTimeout, up to a second late; 0 is never.
	Timeout time.Duration
	// Into is where the response's payload goes when it is large enough. After an error
	// it must not be used again.
	Into []byte
	// Notes takes the request's notifications, as Notification decoded them, in order
	// and all of them before Do returns. A full channel stops the connection.
	Notes chan<- any
	// Sent, when not nil, is told the request's id once the request is written.
	Sent func(id uint64)
}

// A Response is a request's outcome.
type Response struct {
	ID     uint64 // of the request, after an error too; 0 when there was none
	Result json.RawMessage
	Raw    []byte // nil when it had none
}

// A Client is the calling side of a connection. It is safe for concurrent use. It runs
// no goroutine of its own as a rule: whoever waits for an answer reads, for the others
// too, and passes the reading on when its own has come. Only for answers that nobody waits
// for any more there is one, because the other end may take nothing before they are read.
type Client struct {
	conn io.ReadWriteCloser
	dl   deadliner
	opts ClientOptions
	w    *writer
	enc  encoders
	send atomic.Int64 // limit on what the other end takes
	raw  atomic.Bool
	bg   sync.WaitGroup

	r   *reader // r, in and set belong to whoever holds reading
	in  inbound
	set time.Time // the read deadline on conn

	failed chan struct{} // closed with err set

	mu      sync.Mutex
	err     error
	nextID  uint64
	calls   map[uint64]*call
	reading bool // somebody reads
	posts   []Call
	posting bool
	owed    int   // answers that nobody waits for, as far as is known
	sweeper *call // reads for them when nobody else does; nil when none are owed
}

// A call is a request in flight.
type call struct {
	id       uint64
	spec     Call
	deadline time.Time
	wake     chan struct{} // the answer is here, or it is this call's turn to read
	gone     chan struct{} // closed when nobody waits any more; for calls with Notes
	waiting  bool          // it may be given the reading
	lead     bool          // it was
	answered bool
	res      Response
	err      error
}

// NewClient makes a Client of a connection, which it owns from now on. A connection
// without deadlines (see net.Conn) costs two goroutines and its bytes are copied once
// more; its Close must end a blocked Read.
func NewClient(conn io.ReadWriteCloser, opts *ClientOptions) *Client {
	c := &Client{failed: make(chan struct{}), calls: make(map[uint64]*call), nextID: 1}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.MaxFrame <= 0 {
		c.opts.MaxFrame = DefaultMaxFrame
	}
	if c.opts.Logger == nil {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	c.send.Store(DefaultMaxFrame)
	dl, ok := conn.(deadliner)
	if !ok || dl.SetReadDeadline(time.Time{}) != nil || dl.SetWriteDeadline(time.Time{}) != nil {
		conn, dl = c.withDeadlines(conn)
	}
	c.conn, c.dl = conn, dl
	c.r = newReader(conn, c.opts.MaxFrame)
	c.w = newWriter(conn, 0, func() {})
	return c
}

// withDeadlines puts a pipe that has deadlines before a connection that has none.
func (c *Client) withDeadlines(conn io.ReadWriteCloser) (io.ReadWriteCloser, deadliner) {
	near, far := net.Pipe()
	c.bg.Go(func() {
		_, _ = io.Copy(far, conn)
		_ = far.Close()
	})
	c.bg.Go(func() {
		_, _ = io.Copy(conn, far)
		_ = conn.Close()
	})
	return near, near
}

// AllowRaw lets frames in both directions carry payloads, as the other end agreed.
func (c *Client) AllowRaw() { c.raw.Store(true) }

// LimitFrames sets the largest line or payload that the other end takes.
func (c *Client) LimitFrames(n int64) { c.send.Store(n) }

// Err is why the connection is of no use any more, or nil.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and every call on it, and returns after the Client's own
// goroutines have. It may be called more than once.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	c.bg.Wait()
	return nil
}

// fail ends the connection with the first cause.
func (c *Client) fail(cause error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = cause
		close(c.failed)
	}
	c.mu.Unlock()
	c.w.fail(cause)
	_ = c.conn.Close()
}

// lose ends the connection for a fault of the other end's.
func (c *Client) lose(cause error) error {
	c.fail(fmt.Errorf("%w: %w", ErrLost, cause))
	return c.Err()
}

// Do performs one request. When ctx ends, Do returns its error at once and a late answer
// is dropped; the other end is not told (see Post). An error response is an *Error. Before
// a connection without deadlines stands a pipe, so that this holds there too.
func (c *Client) Do(ctx context.Context, spec Call) (Response, error) {
	if err := ctx.Err(); err != nil {
		return Response{}, err
	}
	if spec.Raw != nil && !c.raw.Load() {
		return Response{}, fmt.Errorf("%w: %w", ErrEncode, errRaw)
	}
	cl, err := c.register(spec)
	if err != nil {
		return Response{}, err
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, c.interrupt)()
	}
	if err := c.transmit(ctx, cl.deadline, cl.id, spec); err != nil {
		c.abandon(cl, !errors.Is(err, ErrEncode) && !errors.Is(err, errUnsent))
		return Response{ID: cl.id}, err
	}
	if spec.Sent != nil {
		spec.Sent(cl.id)
	}
	res, err := c.await(ctx, cl)
	res.ID = cl.id
	return res, err
}

// interrupt ends a read and a write under way, so that their callers look whether their
// own time has come. It may come late: others who are interrupted go on.
func (c *Client) interrupt() {
	_ = c.dl.SetReadDeadline(past)
	c.w.interrupt()
}

func (c *Client) register(spec Call) (*call, error) {
	cl := &call{spec: spec, wake: make(chan struct{}, 1)}
	if spec.Notes != nil {
		cl.gone = make(chan struct{})
	}
	if spec.Timeout > 0 {
		cl.deadline = time.Now().Add(spec.Timeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	cl.id = c.nextID
	c.nextID++
	c.calls[cl.id] = cl
	return cl, nil
}

// transmit encodes and sends a request.
func (c *Client) transmit(ctx context.Context, deadline time.Time, id uint64, spec Call) error {
	enc := c.enc.get()
	defer c.enc.put(enc)
	head, err := enc.request(&id, spec.Method, spec.Params, spec.Raw)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEncode, err)
	}
	if _, given := spec.Params.(json.RawMessage); !given && altered(head) {
		return fmt.Errorf("%w: a string is not UTF-8", ErrEncode)
	}
	if n, limit := max(len(head)-1, len(spec.Raw)), c.send.Load(); int64(n) > limit {
		return fmt.Errorf("%w: %w", ErrEncode, errTooLarge("a request", n, limit))
	}
	if c.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		c.opts.Logger.DebugContext(ctx, "rpc request", "method", spec.Method, "id", id)
		c.opts.Logger.Log(ctx, LevelTrace, "rpc request body", "id", id, "body", string(head[:len(head)-1]))
	}
	err = c.w.write(ctx, deadline, head, spec.Raw, wait)
	if err != nil && !errors.Is(err, errEnded) {
		err = c.lose(fmt.Errorf("write: %w", err))
	}
	return err
}

// Post sends a request that nobody waits for and whose answer is dropped. It never
// blocks: while the other end takes nothing a bounded number is kept.
func (c *Client) Post(method string, params any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.posts) >= maxPosts {
		return
	}
	c.posts = append(c.posts, Call{Method: method, Params: params})
	if !c.posting {
		c.posting = true
		c.bg.Go(c.postAll)
	}
}

// postAll sends what Post keeps. Only the connection's end stops a write.
func (c *Client) postAll() {
	for {
		c.mu.Lock()
		if len(c.posts) == 0 || c.err != nil {
			c.posting = false
			c.mu.Unlock()
			return
		}
		spec := c.posts[0]
		c.posts = c.posts[1:]
		id := c.nextID
		c.nextID++
		c.oweLocked() // before it is sent: the answer may be read at once
		c.mu.Unlock()
		if err := c.transmit(context.Background(), time.Time{}, id, spec); err != nil {
			c.opts.Logger.Debug("rpc request not sent", "method", spec.Method, "error", err)
			c.mu.Lock()
			c.owed = max(c.owed-1, 0) // whoever reads is not told: only a reader may do that
			c.mu.Unlock()
		}
	}
}
