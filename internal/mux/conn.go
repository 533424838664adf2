package mux

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A Conn is one connection. It is a net.Conn, safe for concurrent use. Once the stream has ended,
// what had come is still read; of one that was cut off, nothing is.
type Conn struct {
	s  *session
	id uint32

	// All of these are guarded by the session's lock.
	readable   sync.Cond
	came       [][]byte // in pieces of pieceSize, not read yet
	taken      int      // of the first of them
	held       int      // bytes in all of them that are not read
	unreturned uint32   // bytes read for which the sender was given nothing back
	credit     uint32   // bytes that may be sent
	fin        bool     // the other side sends no more
	gone       bool     // the other side reads no more
	refused    bool
	finished   bool // this side sends no more
	closed     bool
	readBy     deadline
	writeBy    deadline
}

var _ net.Conn = (*Conn)(nil)

// takeLocked does what a frame for the connection says.
func (c *Conn) takeLocked(f frame) error {
	switch f.kind {
	case kindData:
		if c.fin || c.held+int(c.unreturned)+len(f.payload) > window {
			return errFrame
		}
		c.appendLocked(f.payload)
	case kindCredit:
		if c.credit+f.n > window {
			return errFrame
		}
		c.credit += f.n
		c.s.room.Broadcast()
		return nil
	case kindFin:
		c.fin = true
	case kindClose:
		c.fin, c.gone = true, true
		c.s.room.Broadcast()
	case kindRefuse:
		c.fin, c.gone, c.refused = true, true, true
		c.s.room.Broadcast()
	}
	c.readable.Broadcast()
	return nil
}

// pieceSize is how much is kept of what came in one piece of memory.
const pieceSize = 16 << 10

// appendLocked keeps what came.
func (c *Conn) appendLocked(p []byte) {
	c.held += len(p)
	for len(p) > 0 {
		last := len(c.came) - 1
		if last < 0 || len(c.came[last]) == cap(c.came[last]) {
			c.came = append(c.came, newPiece(len(p)))
			last++
		}
		piece := c.came[last]
		n := min(len(p), cap(piece)-len(piece))
		c.came[last] = append(piece, p[:n]...)
		p = p[n:]
	}
}

// readLocked takes what came, and gives it back to the sender.
func (c *Conn) readLocked(p []byte) int {
	n := 0
	for n < len(p) && len(c.came) > 0 {
		first := c.came[0]
		got := copy(p[n:], first[c.taken:])
		n += got
		c.taken += got
		if c.taken < len(first) {
			break
		}
		oldPiece(first)
		c.came[0] = nil
		c.came, c.taken = c.came[1:], 0
	}
	if len(c.came) == 0 {
		c.came = nil
	}
	c.held -= n
	c.unreturned += uint32(n)
	if c.unreturned >= giveBack && !c.fin {
		c.s.sendLocked(kindCredit, c.id, c.unreturned, nil)
		c.unreturned = 0
	}
	return n
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for {
		if c.closed {
			return 0, net.ErrClosed
		}
		if err := c.readBy.err(); err != nil {
			return 0, err
		}
		if errors.Is(c.s.err, ErrCut) {
			return 0, c.s.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if c.held > 0 {
			return c.readLocked(p), nil
		}
		switch {
		case c.refused:
			return 0, ErrRefused
		case c.fin:
			return 0, io.EOF
		case c.s.err != nil:
			return 0, c.s.err
		}
		c.readable.Wait()
	}
}

// Write implements net.Conn. It returns when p is queued.
func (c *Conn) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	sent := 0
	for {
		if err := c.writableLocked(); err != nil {
			return sent, err
		}
		if sent == len(p) {
			return sent, nil
		}
		n := min(len(p)-sent, maxPayload, int(c.credit))
		if n == 0 || len(c.s.queue) >= outLimit {
			c.s.room.Wait()
			continue
		}
		c.s.sendLocked(kindData, c.id, 0, p[sent:sent+n])
		c.credit -= uint32(n)
		sent += n
	}
}

// writableLocked is why nothing can be sent.
func (c *Conn) writableLocked() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.s.err != nil:
		return c.s.err
	case c.refused:
		return ErrRefused
	case c.finished, c.gone:
		return syscall.EPIPE
	}
	return c.writeBy.err()
}

// CloseWrite ends what this side sends: the other side reads to its end.
func (c *Conn) CloseWrite() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if !c.finished {
		c.finished = true
		c.s.sendLocked(kindFin, c.id, 0, nil)
		c.s.room.Broadcast()
	}
	return nil
}

// Close ends the connection and every Read and Write of it. What was written before still
// arrives. It does not block, and may be called twice.
func (c *Conn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed, c.came, c.taken, c.held = true, nil, 0, 0
	delete(c.s.conns, c.id)
	if !c.refused {
		c.s.sendLocked(kindClose, c.id, 0, nil)
	}
	c.readBy.stop()
	c.writeBy.stop()
	c.readable.Broadcast()
	c.s.room.Broadcast()
	return nil
}

// Cut reports whether the connection was cut off: its host did not close it, but there is another
// host now, which does not know of it.
func (c *Conn) Cut() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return errors.Is(c.s.err, ErrCut)
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readBy, &c.readable, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeBy, &c.s.room, t) }

func (c *Conn) setDeadline(d *deadline, waiters *sync.Cond, t time.Time) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	d.set(t, func() {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		waiters.Broadcast()
	})
	waiters.Broadcast()
	return nil
}
