package netgate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/internal/netgate"
)

func TestMoreConnectionsThanThereMayBe(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, hello))
	var held []net.Conn
	hold := func() { // it says enough to be somebody
		conn := w.inside()
		fmt.Fprint(conn, "GET http://exam")
		held = append(held, conn)
	}
	for range 256 {
		hold()
	}
	for { // those that are held may not have been taken yet, so this may still be let in
		res, body := w.say("GET http://example.com/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if res.StatusCode == http.StatusForbidden && res.Header.Get("X-Airlock-Rule") == netgate.TooMany && strings.HasPrefix(body, "airlock: too many") {
			break
		}
		if res.StatusCode != http.StatusOK {
			t.Fatalf("answer = %s %q", res.Status, body)
		}
		hold() // in the place of one that was too many itself while this one was there
	}
	for w.next().Rule != netgate.TooMany {
	}
	conn := w.inside()
	fmt.Fprint(conn, "\x05\x01\x00")
	if _, err := io.ReadFull(conn, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "\x05\x01\x00\x01\x01\x01\x01\x01\x00\x50")
	reply := make([]byte, 10)
	if _, err := io.ReadFull(conn, reply); err != nil || reply[1] != 2 {
		t.Errorf("SOCKS5's reply = %v, %v, want not allowed", reply, err)
	}
	for _, conn := range held {
		conn.Close()
	}
	for { // while they are still being let go of, even those that are told so may be too many
		res, _, err := w.ask("GET http://example.com/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if err == nil && res.StatusCode == http.StatusOK {
			break
		}
	}
}

func TestARefusalIsReadBehindABodyThatNobodyReads(t *testing.T) {
	w := setup(t, "example.com")
	conn := w.inside()
	go func() {
		fmt.Fprintf(conn, "POST http://example.net/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 8<<20)
		_, _ = conn.Write(make([]byte, 8<<20))
	}()
	if res, body := answer(t, bufio.NewReader(conn), http.MethodPost); res.StatusCode != http.StatusForbidden || !strings.Contains(body, "example.net") {
		t.Errorf("answer = %s %q", res.Status, body)
	}
}

func TestWhoGoesAwayInTheMiddle(t *testing.T) {
	w := setup(t, "example.com:*")
	asked, left := make(chan struct{}, 1), make(chan struct{}, 1)
	w.host("example.com", "203.0.113.1", 80, site(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	conn := w.inside()
	fmt.Fprint(conn, "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asked
	conn.Close()
	<-left // the host is told that nobody waits any more
	if e := w.next(); !e.Allowed || e.Why == "" {
		t.Errorf("recorded %+v", e)
	}
	for _, half := range []string{"", "G", "GET http://example.com/", "CONNECT ", "\x05", "\x05\x01\x00\x05\x01", "\x04"} {
		conn := w.inside()
		_, _ = io.WriteString(conn, half)
		conn.Close()
	}
	if e := w.next(); e.Kind != netgate.KindSOCKS { // SOCKS4 alone said what it is
		t.Errorf("recorded %+v", e)
	}
}

// cutter is a way to the guest agent that can be cut.
type cutter struct {
	connect func(context.Context) (net.Conn, error)
	down    atomic.Bool
	cause   error

	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) Connect(ctx context.Context) (net.Conn, error) {
	if c.down.Load() {
		return nil, c.cause
	}
	conn, err := c.connect(ctx)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

func TestAGateSurvivesThatItsWayInIsCut(t *testing.T) {
	c := &cutter{connect: guestAgent(t), cause: errors.New("not now")}
	w := setup(t, "example.com", func(o *netgate.Options) { o.Connect = c.Connect })
	w.host("example.com", "203.0.113.1", 80, site(t, hello))
	for range 3 {
		c.down.Store(true)
		c.cut()
		c.down.Store(false)
		for { // what was handed over just when the way was cut is lost
			res, err := w.client().Get("http://example.com/")
			if err != nil {
				if t.Context().Err() != nil {
					t.Fatal(err)
				}
				continue
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Fatalf("answer = %s", res.Status)
			}
			break
		}
	}
}

func TestAGateEndsWithItsSandbox(t *testing.T) {
	c := &cutter{connect: guestAgent(t), cause: fmt.Errorf("no keeper: %w", netgate.ErrGone)}
	ready, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- netgate.Serve(t.Context(), &netgate.Options{
			Connect: c.Connect, Address: freeAddress(t),
			Config: netgate.Config{Allow: netgate.Rules{{Host: "example.com"}}},
			Ready:  func(_ []netgate.Publish, err error) { ready <- err },
		})
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	c.down.Store(true)
	c.cut()
	select {
	case err := <-ended:
		if !errors.Is(err, netgate.ErrGone) {
			t.Errorf("Serve: %v, want %v", err, netgate.ErrGone)
		}
	case <-time.After(patience):
		t.Fatal("the gate outlived its sandbox")
	}
}

func TestAGateThatCannotBeOfferedSaysSo(t *testing.T) {
	l := listen(t)
	defer l.Close()
	for _, o := range []*netgate.Options{
		{Connect: guestAgent(t), Address: l.Addr().String()},
		{Connect: func(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }},
	} {
		o.Config.Allow = netgate.Rules{{Host: "example.com"}}
		var said error
		o.Ready = func(_ []netgate.Publish, err error) { said = err }
		if err := netgate.Serve(t.Context(), o); err == nil || said == nil || !strings.HasPrefix(said.Error(), "network: the proxy cannot be offered inside: ") {
			t.Errorf("Serve: %v, and said %v", err, said)
		}
	}
}

func TestAConfigThatNobodyChecked(t *testing.T) {
	held := netgate.Held{Name: "KEY", Hosts: []string{"a.example"}, Placeholder: netgate.NewPlaceholder(), Value: "v"}
	change := func(f func(*netgate.Held)) netgate.Config {
		h := held
		f(&h)
		return netgate.Config{Secrets: []netgate.Held{h}}
	}
	for name, config := range map[string]netgate.Config{
		"a host that is none":        {Allow: netgate.Rules{{Host: "a b"}}},
		"a host in another spelling": {Allow: netgate.Rules{{Host: "A.example"}}},
		"a port that is none":        {Allow: netgate.Rules{{Host: "a.example", Port: 70000}}},
		"the whole machine":          {Allow: netgate.Rules{{Host: "localhost"}}},
		"no port":                    {Publish: []netgate.Publish{{}}},
		"a placeholder of its own":   change(func(h *netgate.Held) { h.Placeholder = "airlock_secret_x" }),
		"none":                       change(func(h *netgate.Held) { h.Placeholder = "" }),
		"a value with lines":         change(func(h *netgate.Held) { h.Value = "a\r\nX: b" }),
		"a secret for nobody":        change(func(h *netgate.Held) { h.Hosts = nil }),
		"a secret for everybody":     change(func(h *netgate.Held) { h.Hosts = []string{"*"} }),
	} {
		if err := netgate.Serve(t.Context(), &netgate.Options{Connect: guestAgent(t), Config: config}); err == nil || strings.Contains(err.Error(), "X: b") {
			t.Errorf("%s: Serve: %v, want an error", name, err)
		}
	}
}
