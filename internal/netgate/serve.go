package netgate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
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
	At       time.Time      // when it was asked for
	Kind     string         // KindHTTP …; "": nobody could tell
	Host     string         // as it was asked for; may hold anything
	Port     int            // 0: none was understood
	Addr     netip.AddrPort // that it was connected to
	Allowed  bool
	Rule     string        // the rule that let it out, or the name of the one that refused it
	Why      string        // of one that was refused, or failed: a sentence
	Status   int           // of KindHTTP: the answer's
	Secrets  []string      // names of those that were put in
	Sent     int64         // bytes from the sandbox; of KindHTTP, bodies alone
	Received int64         // bytes to the sandbox
	Duration time.Duration //
	Dropped  int           // so many Events before this one were too many to tell
}

// Serve is the gate: it works until ctx ends or the sandbox is gone, and then leaves nothing behind. Its error is nil when ctx
// ended.
func Serve(ctx context.Context, o *Options) error {
	return errors.New("not there yet")
}
