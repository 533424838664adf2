package netgate

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A guestConn is a connection that somebody inside opened, whose first bytes have been looked at. Where nobody sets another
// deadline, it fails when nothing went through it for idleTimeout.
type guestConn struct {
	net.Conn
	first []byte // read before Conn is

	once sync.Once
	done chan struct{} // closed when nobody serves it any more

	mu              sync.Mutex
	readBy, writeBy bool // a deadline that somebody set
}

func (c *guestConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	c.extend()
	return c.Conn.Read(p)
}

func (c *guestConn) Write(p []byte) (int, error) {
	c.extend()
	return c.Conn.Write(p)
}

func (c *guestConn) extend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := time.Now().Add(idleTimeout)
	if !c.readBy {
		_ = c.Conn.SetReadDeadline(idle)
	}
	if !c.writeBy {
		_ = c.Conn.SetWriteDeadline(idle)
	}
}

// SetDeadline sets both.
func (c *guestConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets a deadline; zero is the connection's own.
func (c *guestConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readBy = !t.IsZero(); !c.readBy {
		t = time.Now().Add(idleTimeout)
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets a deadline; zero is the connection's own.
func (c *guestConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeBy = !t.IsZero(); !c.writeBy {
		t = time.Now().Add(idleTimeout)
	}
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite ends one direction where the connection can.
func (c *guestConn) CloseWrite() error { return closeWrite(c.Conn) }

// finish tells that nobody serves it any more.
func (c *guestConn) finish() { c.once.Do(func() { close(c.done) }) }

var errNoHalf = errors.New("this connection has no half to close")

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errNoHalf
}

// A farConn is a connection to a host that was judged. It fails when nothing went through it for idleTimeout.
type farConn struct {
	net.Conn
	addr netip.AddrPort
}

func (c *farConn) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(idleTimeout))
	return c.Conn.Read(p)
}

func (c *farConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(idleTimeout))
	return c.Conn.Write(p)
}

// CloseWrite ends one direction where the connection can.
func (c *farConn) CloseWrite() error { return closeWrite(c.Conn) }
