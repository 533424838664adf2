package netgate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	helloTimeout = 30 * time.Second // from the first byte of a TLS handshake to the end of the client's hello
	maxHello     = 128 << 10
)

// A greeting looks at the first bytes that a client sends through a tunnel. Where they are TLS, the server that
// they name must be let out: one address often serves hosts of many people.
// Nothing else in a tunnel is looked at.
type greeting struct {
	net.Conn
	check func(serverName string) error

	seen    bool
	first   []byte
	refused error // why it was closed
}

func (g *greeting) Read(p []byte) (int, error) {
	if !g.seen {
		if err := g.look(len(p)); err != nil {
			return 0, err
		}
	}
	if len(g.first) > 0 {
		n := copy(p, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	if g.refused != nil {
		return 0, g.refused
	}
	return g.Conn.Read(p)
}

// CloseWrite ends one direction where the connection can.
func (g *greeting) CloseWrite() error { return closeWrite(g.Conn) }

// look reads the client's hello, or whatever else comes first. Half a hello goes nowhere.
func (g *greeting) look(size int) error {
	buf := make([]byte, max(size, 2))
	n, err := g.Conn.Read(buf)
	if n == 0 {
		return err
	}
	g.seen, g.first = true, buf[:n]
	// A record of any version of TLS. One that is not of the handshake cannot come first, but some servers pass over it,
	// and take the hello behind it.
	if buf[0] < 20 || buf[0] > 24 || n > 1 && buf[1] != 3 {
		return nil
	}
	_ = g.SetReadDeadline(time.Now().Add(helloTimeout))
	name, read, err := serverName(io.MultiReader(bytes.NewReader(g.first), g.Conn))
	_ = g.SetReadDeadline(time.Time{})
	if err == nil && name != "" {
		err = g.check(name)
	}
	if err != nil {
		g.first, g.refused = nil, err
		return err
	}
	g.first = read
	return nil
}

var errHello = errors.New("what begins as TLS does not go on as such")

// serverName reads a TLS client's hello and gives the server that it names, "" for none, and all that was read.
func serverName(r io.Reader) (name string, read []byte, err error) {
	var buf bytes.Buffer
	seen := false
	server := tls.Server(helloReader{r: io.TeeReader(io.LimitReader(r, maxHello), &buf)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			name, seen = info.ServerName, true
			return nil, errHello // that is all
		},
	})
	err = server.HandshakeContext(context.Background()) // bounded by r
	switch {
	case seen:
		return name, buf.Bytes(), nil
	case isTimeout(err):
		return "", nil, fmt.Errorf("%w: it did not come in time", errHello)
	}
	return "", nil, errHello
}

// A helloReader is a connection that is only read.
type helloReader struct{ r io.Reader }

func (h helloReader) Read(p []byte) (int, error)     { return h.r.Read(p) }
func (helloReader) Write(p []byte) (int, error)      { return len(p), nil }
func (helloReader) Close() error                     { return nil }
func (helloReader) LocalAddr() net.Addr              { return nil }
func (helloReader) RemoteAddr() net.Addr             { return nil }
func (helloReader) SetDeadline(time.Time) error      { return nil }
func (helloReader) SetReadDeadline(time.Time) error  { return nil }
func (helloReader) SetWriteDeadline(time.Time) error { return nil }
