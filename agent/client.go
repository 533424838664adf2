package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"airlock/internal/rpc"
)

// Defaults of Options.
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultRetryInterval  = 100 * time.Millisecond
	DefaultCallTimeout    = 30 * time.Second
)

// LevelTrace is the log level, below debug, of whole requests and answers. They hold
// commands, file content and what a command was given as secrets.
const LevelTrace = rpc.LevelTrace

// Options are a Client's settings. The zero value of each field is its default.
type Options struct {
	// Dial makes a connection to the guest agent, or to a host socket that forwards to
	// it; nil dials the Unix socket that Connect names.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)

	// NoHandshake leaves out "CONNECT <port>", for a socket that is the agent's own.
	NoHandshake bool
	// Port is what the handshake asks for; 0 is GuestPort.
	Port uint32

	ConnectTimeout time.Duration // of Connect with all its attempts; 0 is 10 s
	RetryInterval  time.Duration // between two attempts; 0 is 100 ms

	// CallTimeout bounds a call whose context has no deadline; 0 is 30 s, negative is
	// never. It may end a call up to a second late. Run, RunCode, Start and StartCode are
	// not bound by it: a command takes as long as its context and TimeoutMS let it.
	CallTimeout time.Duration

	// MaxFrame limits a line, and a raw payload, from the guest, in bytes; 0 is
	// DefaultMaxFrame. A guest that sends more loses the connection.
	MaxFrame int64

	// NoRaw keeps raw frames off the connection, for transports that must carry text;
	// file content and output then travel as base64.
	NoRaw bool

	// Name is the client's name and version, for the guest's log.
	Name string

	// Logger takes what happens, at these levels: info: connected; warn: not connected
	// in time, a call's limit passed; debug: method, id and outcome of each call, paths,
	// and the length of commands and code; LevelTrace: everything, with secrets. nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Port == 0 {
		d.Port = GuestPort
	}
	if d.ConnectTimeout <= 0 {
		d.ConnectTimeout = DefaultConnectTimeout
	}
	if d.RetryInterval <= 0 {
		d.RetryInterval = DefaultRetryInterval
	}
	if d.CallTimeout == 0 {
		d.CallTimeout = DefaultCallTimeout
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// A Client speaks to one guest agent over one connection. It is safe for concurrent use;
// calls run side by side. It trusts nothing that the guest sends: a message that the
// protocol does not allow ends the connection or the call, with an error.
//
// A context that ends ends the call at once, and the guest is told to stop the work. Once
// the connection is lost, every call fails with ErrConnectionLost; a Client does not
// connect again.
type Client struct {
	opts Options
	log  *slog.Logger
	rpc  *rpc.Client
	work sync.WaitGroup // goroutines of processes

	helloTurn chan struct{} // held by whoever says hello

	mu     sync.Mutex
	closed bool
	hello  *HelloResult // once it is known
}

// NewClient makes a Client of a connection to a guest agent, such as a vsock connection
// or the standard streams of a process, and owns it from now on. It makes no handshake
// (see Handshake) and sends nothing yet. conn.Close must end a Read or Write that blocks; a
// conn with the deadlines of net.Conn is faster than one without.
func NewClient(conn io.ReadWriteCloser, opts *Options) *Client {
	o := opts.withDefaults()
	return &Client{
		opts:      o,
		log:       o.Logger,
		helloTurn: make(chan struct{}, 1),
		rpc: rpc.NewClient(conn, &rpc.ClientOptions{
			MaxFrame:     o.MaxFrame,
			Notification: notification,
			Logger:       o.Logger,
		}),
	}
}

// Close ends the connection, and with it every call and the commands they run. It returns
// after the Client's last goroutine has ended, and so waits for a Write to a Streams that is
// under way; it does not wait for a Read of a Streams.Stdin, whose goroutine ends with that
// Read. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := c.rpc.Close()
	c.work.Wait()
	return err
}

// Call makes one request and decodes its result into result, unless that is nil. It is
// for methods that have no method of their own here. params is marshalled to a JSON
// object or array; nil sends none. The errors are those of this package's variables,
// *RPCError, and ctx's.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	res, err := c.do(ctx, rpc.Call{Method: method, Params: params, Timeout: c.callTimeout(ctx)})
	if err != nil {
		return err
	}
	return decode(method, res.Result, result)
}

// callTimeout is the limit for a call that has none in its context.
func (c *Client) callTimeout(ctx context.Context) time.Duration {
	if _, ok := ctx.Deadline(); ok || c.opts.CallTimeout < 0 {
		return 0
	}
	return c.opts.CallTimeout
}

// do makes one request, logs it, and has the guest stop work that nobody waits for.
func (c *Client) do(ctx context.Context, spec rpc.Call) (rpc.Response, error) {
	res, err := c.rpc.Do(ctx, spec)
	if err == nil {
		if c.log.Enabled(ctx, slog.LevelDebug) {
			c.log.DebugContext(ctx, "rpc success", "method", spec.Method, "id", res.ID)
		}
		return res, nil
	}
	if res.ID != 0 && (errors.Is(err, rpc.ErrTimeout) || ctx.Err() != nil) {
		c.cancel(res.ID)
	}
	err = callError(ctx, spec.Method, err)
	var failed *RPCError
	switch {
	case errors.Is(err, ErrResponseTimeout):
		c.log.WarnContext(ctx, "rpc timeout", "method", spec.Method, "id", res.ID, "timeout", spec.Timeout)
	case errors.As(err, &failed):
		c.log.DebugContext(ctx, "rpc error", "method", spec.Method, "id", res.ID, "code", failed.Code, "message", failed.Message)
	default:
		c.log.DebugContext(ctx, "rpc failed", "method", spec.Method, "id", res.ID, "error", err)
	}
	return res, err
}

// cancel tells the guest to stop the work of a request. A guest of protocol 1.0 that did
// not say so yet answers that it knows no such method, which is dropped.
func (c *Client) cancel(id uint64) {
	c.mu.Lock()
	known := c.hello
	c.mu.Unlock()
	if known == nil || known.Has(CapCancel) {
		c.rpc.Post(MethodCancel, CancelParams{ID: id})
	}
}

// decode reads a result of the guest's.
func decode(method string, data json.RawMessage, result any) error {
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return fmt.Errorf("%s: %w: %w", method, ErrJSON, err)
	}
	return nil
}
