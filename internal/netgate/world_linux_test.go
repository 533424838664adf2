package netgate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/guest/guesttest"
	"airlock/internal/netgate"
)

// A world is a sandbox with a gate, and an internet of its own: names lead to public addresses, and those to servers of
// the test.
type world struct {
	t     testing.TB
	proxy string // address of the proxy, as somebody inside sees it

	mu      sync.Mutex
	names   map[string][]string   // what a name leads to
	hosts   map[string]string     // servers: from what they are asked for by to where they are
	dialed  []string              // what was connected to
	events  chan netgate.Event    //
	ports   []netgate.Publish     // that are published
	flip    map[string][][]string // what a name leads to, one answer after the other
	lookups int
}

func (w *world) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	found := w.names[host]
	if answers := w.flip[host]; len(answers) > 0 {
		found, w.flip[host] = answers[0], append(answers[1:], answers[0])
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, text := range found {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

func (w *world) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, addr.String())
	to, ok := w.hosts[addr.String()]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no such machine in this world")}
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to)
}

func (w *world) connections() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

// host gives a server a name, an address and a port in the world.
func (w *world) host(name, addr string, port int, at string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name != "" && !slices.Contains(w.names[name], addr) {
		w.names[name] = append(w.names[name], addr)
	}
	w.hosts[netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()] = at
}

// next is the next thing that was recorded.
func (w *world) next() netgate.Event {
	w.t.Helper()
	select {
	case e := <-w.events:
		return e
	case <-time.After(patience):
		w.t.Fatal("nothing was recorded")
		return netgate.Event{}
	}
}

// patience is how long what must come may take, on a machine that others want, too.
const patience = 2 * time.Minute

// client is a client inside that keeps no connections.
func (w *world) client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: w.proxy}),
		DisableKeepAlives: true,
	}}
}

// inside connects to the proxy as somebody inside does.
func (w *world) inside() net.Conn {
	w.t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(w.t.Context(), "tcp", w.proxy)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// say sends bytes to the proxy and reads the answer as HTTP's.
func (w *world) say(text string) (reply, string) {
	w.t.Helper()
	head, body, err := w.ask(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return head, body
}

// ask is say where there may be no answer.
func (w *world) ask(text string) (reply, string, error) {
	w.t.Helper()
	conn := w.inside()
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return reply{}, "", err
	}
	return readAnswer(bufio.NewReader(conn), http.MethodGet)
}

// A reply is the head of an answer.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

func answer(t testing.TB, r *bufio.Reader, method string) (reply, string) {
	t.Helper()
	head, body, err := readAnswer(r, method)
	if err != nil {
		t.Fatal(err)
	}
	return head, body
}

func readAnswer(r *bufio.Reader, method string) (reply, string, error) {
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return reply{}, "", err
	}
	defer res.Body.Close()
	head := reply{res.StatusCode, res.Status, res.Header}
	if method == http.MethodConnect && res.StatusCode == http.StatusOK {
		return head, "", nil
	}
	body, err := io.ReadAll(res.Body)
	return head, string(body), err
}

// setup makes a gate with what --net allow= says.
func setup(t testing.TB, allow string, change ...func(*netgate.Options)) *world {
	t.Helper()
	w := &world{
		t: t, names: map[string][]string{}, hosts: map[string]string{}, flip: map[string][][]string{},
		events: make(chan netgate.Event, 10000),
	}
	o := &netgate.Options{
		Connect:  guestAgent(t),
		Record:   func(e netgate.Event) { w.events <- e },
		Resolver: w, Dial: w.dial,
		Own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("203.0.113.200")}, nil },
	}
	if allow != "" {
		rules, err := netgate.ParseAllow(allow)
		if err != nil {
			t.Fatal(err)
		}
		o.Config.Allow = rules
	}
	w.proxy = freeAddress(t)
	o.Address = w.proxy
	for _, f := range change {
		f(o)
	}
	w.start(o)
	return w
}

func (w *world) start(o *netgate.Options) {
	w.t.Helper()
	ready := make(chan error, 1)
	o.Ready = func(ports []netgate.Publish, err error) {
		w.ports = ports
		ready <- err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- netgate.Serve(ctx, o) }()
	w.t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Errorf("Serve: %v", err)
			}
		case <-time.After(patience):
			w.t.Error("Serve did not end")
		}
	})
	select {
	case err := <-ready:
		if err != nil {
			w.t.Fatal(err)
		}
	case <-time.After(patience):
		w.t.Fatal("the gate was not ready")
	}
}

// freeAddress is one that nobody listens at, and that nobody else takes: of the loopback's addresses it is one that only this
// test uses. What connects has 127.0.0.1.
func freeAddress(t testing.TB) string {
	t.Helper()
	l := listenAt(t, fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	defer l.Close()
	return l.Addr().String()
}

// refusing is a port of the loopback that is somebody's who does not listen, so that nobody else can.
func refusing(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return listenAt(t, "127.0.0.1:0")
}

func listenAt(t testing.TB, address string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// guestAgent connects to a guest agent of the test's own. The sandbox's loopback is the machine's.
func guestAgent(t testing.TB) func(context.Context) (net.Conn, error) {
	t.Helper()
	return guesttest.Connector(t, nil)
}
