package netgate_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/internal/netgate"
)

func portOf(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// roundTrip sends data and its end, and reads what comes back to the end.
func roundTrip(t testing.TB, address string, data []byte) ([]byte, error) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	defer sending.Wait()
	return io.ReadAll(conn)
}

func TestAPublishedPort(t *testing.T) {
	inside := portOf(t, echo(t))
	w := setup(t, "", func(o *netgate.Options) { o.Config.Publish = []netgate.Publish{{Port: inside}} })
	if len(w.ports) != 1 || w.ports[0].HostPort == 0 || w.ports[0].Port != inside {
		t.Fatalf("published %+v", w.ports)
	}
	data := make([]byte, 1<<20)
	rand.Read(data)
	hosts := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		_ = l.Close()
		hosts = append(hosts, "::1")
	}
	var calling sync.WaitGroup
	for _, host := range hosts {
		for range 20 {
			calling.Go(func() {
				got, err := roundTrip(t, net.JoinHostPort(host, strconv.Itoa(w.ports[0].HostPort)), data)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes came back, %v", host, len(got), err)
				}
			})
		}
	}
	calling.Wait()
}

func TestAPublishedPortThatNobodyListensOnInside(t *testing.T) {
	inside := portOf(t, refusing(t))
	w := setup(t, "", func(o *netgate.Options) { o.Config.Publish = []netgate.Publish{{Port: inside}} })
	if got, err := roundTrip(t, fmt.Sprintf("127.0.0.1:%d", w.ports[0].HostPort), []byte("x")); len(got) > 0 {
		t.Errorf("came back: %q, %v", got, err)
	}
}

func TestAPortThatIsInUseIsSaid(t *testing.T) {
	l := listen(t)
	defer l.Close()
	port := portOf(t, l.Addr().String())
	var said error
	err := netgate.Serve(t.Context(), &netgate.Options{
		Connect: guestAgent(t),
		Config:  netgate.Config{Publish: []netgate.Publish{{Port: 80}, {Port: 8080, HostPort: port}}},
		Ready:   func(_ []netgate.Publish, err error) { said = err },
	})
	want := fmt.Sprintf("publish 8080: port %d of this machine is in use; choose another (8080:HOSTPORT), or any (8080:0)", port)
	if err == nil || err.Error() != want || said == nil || said.Error() != want {
		t.Errorf("Serve: %v, and said %v, want %s", err, said, want)
	}
}

func TestForwarding(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ports := make(chan []netgate.Publish, 1)
	failed := make(chan error, 1)
	ended := make(chan error, 1)
	opts := &netgate.ForwardOptions{
		Connect: guestAgent(t),
		Publish: []netgate.Publish{{Port: portOf(t, echo(t))}, {Port: portOf(t, refusing(t))}},
		Ready:   func(p []netgate.Publish) { ports <- p },
		Failed:  func(_ netgate.Publish, err error) { failed <- err },
	}
	go func() { ended <- netgate.Forward(ctx, opts) }()
	p := <-ports
	if got, err := roundTrip(t, fmt.Sprintf("127.0.0.1:%d", p[0].HostPort), []byte("ping")); string(got) != "ping" {
		t.Errorf("came back: %q, %v", got, err)
	}
	_, _ = roundTrip(t, fmt.Sprintf("127.0.0.1:%d", p[1].HostPort), []byte("ping"))
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "dial") {
		t.Errorf("failed with %v", err)
	}
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", p[0].HostPort))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Forward: %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived what forwarded it")
	}
}
