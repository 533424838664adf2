package agent_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"airlock/agent"
	"airlock/internal/guest/guesttest"
)

// echoServer answers each connection with what it says, when that has ended, behind a greeting.
func echoServer(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, "hello\n")
				said, _ := io.ReadAll(conn)
				_, _ = conn.Write(said)
			}()
		}
	}()
	return l.Addr().String()
}

func TestATunnelCarriesBothWaysAndEachEnd(t *testing.T) {
	for name, connect := range map[string]agent.Connector{
		"over a socket": guesttest.Connector(t, nil),
		"over one of many connections on one stream": muxConnector(t),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tunnel, err := agent.Dial(t.Context(), conn, agent.DialParams{Network: "tcp", Address: echoServer(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer tunnel.Close()
			said := strings.Repeat("something to say ", 100_000)
			go func() {
				_, _ = io.WriteString(tunnel, said)
				_ = tunnel.(interface{ CloseWrite() error }).CloseWrite()
			}()
			heard, err := io.ReadAll(tunnel)
			if err != nil || string(heard) != "hello\n"+said {
				t.Errorf("heard %d bytes, %v; said %d", len(heard), err, len(said))
			}
		})
	}
}

func TestWhatCannotBeDialed(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	for name, test := range map[string]struct {
		params agent.DialParams
		want   string
	}{
		"a port that nobody listens on":   {agent.DialParams{Network: "tcp", Address: "127.0.0.1:1"}, "connection refused"},
		"an address that is not inside":   {agent.DialParams{Network: "tcp", Address: "192.0.2.1:80"}, "no address on the loopback"},
		"a name":                          {agent.DialParams{Network: "tcp", Address: "localhost:80"}, "no address on the loopback"},
		"an unspecified address":          {agent.DialParams{Network: "tcp", Address: "0.0.0.0:80"}, "no address on the loopback"},
		"a socket that is not there":      {agent.DialParams{Network: "unix", Address: "/none/at/all"}, "no such file"},
		"a socket's path that is not one": {agent.DialParams{Network: "unix", Address: "@abstract"}, "no absolute path"},
		"another kind of network":         {agent.DialParams{Network: "udp", Address: "127.0.0.1:53"}, `neither "tcp" nor "unix"`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = agent.Dial(t.Context(), conn, test.params)
			var failed *agent.RPCError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Dial: err = %v, want %q", err, test.want)
			}
		})
	}
}

func TestWhoConnectsInsideIsAccepted(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := agent.NewClient(conn, nil)
	defer client.Close()
	address, err := client.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Listen(t.Context(), address); err != nil || again != address {
		t.Errorf("Listen again: %q, %v, want %q", again, err, address)
	}
	if _, err := client.Listen(t.Context(), "0.0.0.0:0"); err == nil {
		t.Error("Listen on every address: no error")
	}
	type end struct {
		conn net.Conn
		peer string
		err  error
	}
	accepted := make(chan end)
	go func() {
		conn, err := connect(t.Context())
		if err == nil {
			var e end
			e.conn, e.peer, e.err = agent.Accept(t.Context(), conn, address)
			accepted <- e
			return
		}
		accepted <- end{err: err}
	}()
	var d net.Dialer
	inside, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	got := <-accepted
	if got.err != nil || got.peer != inside.LocalAddr().String() {
		t.Fatalf("Accept: peer %q, %v, want %s", got.peer, got.err, inside.LocalAddr())
	}
	defer got.conn.Close()
	if _, err := io.WriteString(inside, "from inside"); err != nil {
		t.Fatal(err)
	}
	inside.Close()
	if heard, err := io.ReadAll(got.conn); err != nil || string(heard) != "from inside" {
		t.Errorf("heard %q, %v", heard, err)
	}
}

func TestAnAcceptThatNobodyWaitsForLeavesTheNextConnectionToOthers(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := agent.NewClient(conn, nil)
	defer client.Close()
	address, err := client.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		waiting, err := connect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, _, err := agent.Accept(ctx, waiting, address)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("Accept: err = %v, want %v", err, context.Canceled)
		}
	}
	taken := make(chan error)
	go func() {
		waiting, err := connect(t.Context())
		if err == nil {
			_, _, err = agent.Accept(t.Context(), waiting, address)
		}
		taken <- err
	}()
	var d net.Dialer
	inside, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	if err := <-taken; err != nil {
		t.Errorf("Accept: %v", err)
	}
	unknown, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := agent.Accept(t.Context(), unknown, "127.0.0.1:9"); err == nil || !strings.Contains(err.Error(), "listen first") {
		t.Errorf("Accept without Listen: err = %v", err)
	}
}
