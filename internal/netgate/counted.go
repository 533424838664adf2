package netgate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// A counted counts what an exchange moves.
type counted struct {
	http.ResponseWriter
	control        *http.ResponseController
	status         int
	taken          bool // by Hijack
	sent, received atomic.Int64
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counted) WriteHeader(status int) {
	if status >= http.StatusOK {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.received.Add(int64(n))
	return n, err
}

// Hijack is for requests that become something else, such as a WebSocket.
func (c *counted) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := c.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.taken, c.status = true, http.StatusSwitchingProtocols
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	return &hijacked{Conn: conn, first: append([]byte(nil), early...), counts: c}, buffered, nil
}

// A hijacked is the connection of something else. What the server had read already comes first.
type hijacked struct {
	net.Conn
	first  []byte
	counts *counted
}

func (h *hijacked) Read(p []byte) (n int, err error) {
	if len(h.first) > 0 {
		n = copy(p, h.first)
		h.first = h.first[n:]
	} else {
		n, err = h.Conn.Read(p)
	}
	h.counts.sent.Add(int64(n))
	return n, err
}

func (h *hijacked) Write(p []byte) (int, error) {
	n, err := h.Conn.Write(p)
	h.counts.received.Add(int64(n))
	return n, err
}

// CloseWrite ends one direction where the connection can.
func (h *hijacked) CloseWrite() error { return closeWrite(h.Conn) }

// A countedBody is the body of a request.
type countedBody struct {
	io.ReadCloser
	counts *counted
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.counts.sent.Add(int64(n))
	return n, err
}
