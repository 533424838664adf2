package netgate

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// A handover is a listener whose connections somebody else accepted.
type handover struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), ended: make(chan struct{})}
}

// hand gives a connection to whoever accepts, and reports whether somebody did.
func (h *handover) hand(ctx context.Context, conn net.Conn) bool {
	select {
	case h.conns <- conn:
		return true
	case <-h.ended:
	case <-ctx.Done():
	}
	return false
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.ended:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error {
	h.once.Do(func() { close(h.ended) })
	return nil
}

// Addr is where the proxy listens inside.
func (h *handover) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(ProxyAddress))
}
