package netgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

const (
	connectTimeout = 10 * time.Second // of a host, all its addresses together
	leastConnect   = 2 * time.Second  // of one address, where there are more
)

// An unreachable is a host that is let out and could not be connected to.
type unreachable struct {
	why     string
	timeout bool
	refused bool
}

func (e *unreachable) Error() string { return e.why }

// A dialer connects to addresses that were judged.
type dialer func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

func systemDial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// connect tries the addresses of a Verdict that allows, one after the other. Its error is an *unreachable, or ctx's.
func (d dialer) connect(ctx context.Context, v Verdict) (net.Conn, netip.AddrPort, error) {
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	failed := &unreachable{why: v.Host + " has no address that may be connected to"}
	for i, addr := range v.Addrs {
		conn, err := d.one(limited, addr, len(v.Addrs)-i)
		if err == nil {
			return conn, addr, nil
		}
		if ctx.Err() != nil {
			return nil, addr, ctx.Err()
		}
		if failed = explain(v.Host, addr, err); limited.Err() != nil {
			break
		}
	}
	return nil, netip.AddrPort{}, failed
}

// one gives an address its part of the time that is left.
func (d dialer) one(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	end, _ := ctx.Deadline()
	part := time.Until(end) / time.Duration(left)
	ctx, cancel := context.WithTimeout(ctx, max(part, leastConnect))
	defer cancel()
	return d(ctx, addr)
}

func explain(host string, addr netip.AddrPort, err error) *unreachable {
	at := addr.String()
	if host != addr.Addr().String() {
		at = fmt.Sprintf("%s (%s)", host, addr)
	}
	switch {
	case isTimeout(err):
		return &unreachable{why: at + " did not answer in time", timeout: true}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &unreachable{why: at + " refused the connection", refused: true}
	}
	return &unreachable{why: at + " cannot be reached"}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isCut reports whether a connection just ended.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
