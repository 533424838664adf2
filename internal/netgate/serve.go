package netgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// ErrGone is what Options.Connect wraps when there will be no sandbox any more. Serve then ends.
var ErrGone = errors.New("the sandbox has ended")

// Options are Serve's.
type Options struct {
	// Connect makes a connection of its own to the guest agent. Required; safe for concurrent use. It may wait
	// while the sandbox is paused. When it has failed for half a minute, or with ErrGone, the sandbox is taken to have ended.
	Connect func(ctx context.Context) (net.Conn, error)

	Config Config

	// Ready is called once: with the ports that are published when the gate works, or with why it does not.
	Ready func(published []Publish, err error)

	// Record takes what was let out and what was refused, one Event at a time.
	Record func(Event)

	// Address is where the proxy listens inside; "" is ProxyAddress, which Env names.
	Address string

	Resolver Resolver // nil: the system's
	// Dial connects to an address that was judged. Nil: the system's.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Own are addresses of this machine. Nil: asked of the system.
	Own func() ([]netip.Addr, error)

	Logger *slog.Logger // nil discards
}

// A Resolver finds a name's addresses. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Kinds of Events.
const (
	KindHTTP    = "http"    // a request in plain HTTP
	KindConnect = "connect" // a tunnel, asked for with CONNECT
	KindSOCKS   = "socks"   // a tunnel, asked for with SOCKS5
)

// An Event is a connection that was let out, when it is over, or one that was refused. It holds neither paths nor headers.
type Event struct {
	At       time.Time      `json:"at"`             // when it was asked for
	Kind     string         `json:"kind,omitempty"` // KindHTTP …; "": nobody could tell
	Host     string         `json:"host,omitempty"` // as it was asked for; may hold anything
	Port     int            `json:"port,omitempty"` // 0: none was understood
	Addr     netip.AddrPort `json:"addr,omitzero"`  // that it was connected to
	Allowed  bool           `json:"allowed"`
	Rule     string         `json:"rule,omitempty"`   // the rule that let it out, or the name of the one that refused it
	Why      string         `json:"why,omitempty"`    // of one that was refused, or failed: a sentence
	Status   int            `json:"status,omitempty"` // of KindHTTP: the answer's
	Secrets  []string       `json:"filled,omitempty"` // names of those that were put in
	Sent     int64          `json:"sent"`             // bytes from the sandbox; of KindHTTP, bodies alone
	Received int64          `json:"received"`         // bytes to the sandbox
	Duration time.Duration  `json:"duration_ns"`
	Dropped  int            `json:"dropped,omitempty"` // so many Events before this one were too many to tell
}

// Serve is the gate: it works until ctx ends or the sandbox is gone, and then leaves nothing behind. Its error is nil when ctx
// ended.
func Serve(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := cmp.Or(o.Logger, discard())
	in := &inside{connect: o.Connect, address: cmp.Or(o.Address, ProxyAddress)}
	published, err := open(ctx, o, in, log)
	if o.Ready != nil {
		if err != nil {
			o.Ready(nil, err)
		} else {
			o.Ready(published.published(), nil)
		}
	}
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	working.Go(func() { published.serve(ctx) })
	if len(o.Config.Allow) > 0 {
		events := newRecorder(o.Record, time.Now)
		defer events.close()
		p := newProxy(o, events)
		working.Go(func() { p.run(ctx) })
		doors := &doors{inside: in, log: log, serve: p.serve, gone: cancel}
		for range pending {
			working.Go(func() { doors.keep(ctx) })
		}
	}
	<-ctx.Done()
	working.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, ErrGone) {
		return cause
	}
	return nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open opens ports on both sides, or none.
func open(ctx context.Context, o *Options, in *inside, log *slog.Logger) (*ports, error) {
	if err := o.Config.Check(); err != nil {
		return nil, err
	}
	failed := func(to Publish, err error) {
		log.DebugContext(ctx, "nobody took a connection inside", "port", to.Port, "error", err)
	}
	published, err := listenPorts(ctx, o.Config.Publish, in, failed)
	if err != nil || len(o.Config.Allow) == 0 {
		return published, err
	}
	if err := in.listen(ctx); err != nil {
		published.close()
		return nil, fmt.Errorf("network: the proxy cannot be offered inside: %w", err)
	}
	return published, nil
}

const (
	pending   = 8 // accepts that wait for somebody inside
	goneAfter = 30 * time.Second
	firstWait = 50 * time.Millisecond // after an accept that failed
	mostWait  = 2 * time.Second
)

// doors wait for somebody inside to connect, and survive a sandbox that cannot be reached for a while.
type doors struct {
	inside *inside
	log    *slog.Logger
	serve  func(ctx context.Context, conn net.Conn)
	gone   context.CancelCauseFunc

	mu      sync.Mutex
	failing time.Time // since when the guest agent has not answered; zero: it does
}

// keep keeps one door.
func (d *doors) keep(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	pause := firstWait
	for ctx.Err() == nil {
		conn, err := d.inside.accept(ctx)
		if err == nil {
			d.answered()
			pause = firstWait
			serving.Go(func() { d.serve(ctx, conn) })
			continue
		}
		if !d.again(ctx, err, pause) {
			return
		}
		pause = min(2*pause, mostWait)
	}
}

func (d *doors) answered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = time.Time{}
}

// again listens anew after an accept that failed, and reports whether to go on.
func (d *doors) again(ctx context.Context, err error, pause time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	d.log.DebugContext(ctx, "the connection to the sandbox was cut", "error", err)
	if errors.Is(err, ErrGone) {
		d.gone(err)
		return false
	}
	if !wait(ctx, pause) {
		return false
	}
	if err = d.inside.listen(ctx); err == nil {
		d.answered()
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing.IsZero() {
		d.failing = time.Now()
	}
	if errors.Is(err, ErrGone) || time.Since(d.failing) > goneAfter {
		d.gone(fmt.Errorf("%w: %w", ErrGone, err))
		return false
	}
	return true
}
