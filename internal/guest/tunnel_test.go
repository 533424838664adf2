//go:build linux

package guest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/guest/guesttest"
)

// sleeper listens on a socket and takes no connection.
func sleeper(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestThereIsALimitToListeners(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := agent.NewClient(conn, nil)
	defer client.Close()
	last := ""
	for i := range 65 {
		address, err := client.Listen(t.Context(), "127.0.0.1:0")
		if (err != nil) != (i == 64) || err != nil && !strings.Contains(err.Error(), "64 ports are listened on already") {
			t.Fatalf("Listen %d: %q, %v", i, address, err)
		}
		if err == nil {
			last = address
		}
	}
	if again, err := client.Listen(t.Context(), last); err != nil || again != last {
		t.Errorf("one that is open: %q, %v", again, err)
	}
}

func TestListenersEndWithTheAgent(t *testing.T) {
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- g.Serve(t.Context(), far) }()
	client := agent.NewClient(near, nil)
	// An address that nobody else listens on who could be given the port afterwards.
	address, err := client.Listen(t.Context(), "127.83.19.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// One that waits for somebody who accepts it must not hold up the end.
	var d net.Dialer
	inside, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	client.Close()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err) // whichever of the two ended it first
	}
	if conn, err := d.DialContext(t.Context(), "tcp", address); err == nil {
		conn.Close()
		t.Error("somebody listens still")
	}
}

func TestThereIsALimitToTunnels(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	address := sleeper(t)
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	dial := func() error {
		conn, err := connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tunnel, err := agent.Dial(t.Context(), conn, agent.DialParams{Network: "tcp", Address: address})
		if err == nil {
			open = append(open, tunnel)
		}
		return err
	}
	for i := range 512 {
		if err := dial(); err != nil {
			t.Fatalf("tunnel %d: %v", i, err)
		}
	}
	if err := dial(); err == nil || !strings.Contains(err.Error(), "512 tunnels are open already") {
		t.Fatalf("one more: err = %v", err)
	}
	open[0].Close()
	deadline := time.Now().Add(patience)
	for dial() != nil {
		if time.Now().After(deadline) {
			t.Fatal("the place of a tunnel that has ended is not given to another")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestATunnelEndsWithEitherEnd(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connect := guesttest.Connector(t, nil)
	for name, end := range map[string]func(tunnel net.Conn, inside *net.TCPConn) net.Conn{
		"the one outside": func(tunnel net.Conn, inside *net.TCPConn) net.Conn {
			tunnel.Close()
			return inside
		},
		"the one inside": func(tunnel net.Conn, inside *net.TCPConn) net.Conn {
			inside.Close()
			return tunnel
		},
		"the one inside, at once": func(tunnel net.Conn, inside *net.TCPConn) net.Conn {
			_ = inside.SetLinger(0)
			inside.Close()
			return tunnel
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tunnel, err := agent.Dial(t.Context(), conn, agent.DialParams{Network: "tcp", Address: l.Addr().String()})
			if err != nil {
				t.Fatal(err)
			}
			defer tunnel.Close()
			inside, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer inside.Close()
			left := end(tunnel, inside.(*net.TCPConn))
			_ = left.SetReadDeadline(time.Now().Add(patience))
			if n, err := left.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("the other end: %d, %v", n, err)
			}
		})
	}
}

func TestWhatIsSentAheadBelongsToTheTunnel(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := guesttest.Connector(t, nil)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const like = `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"
	if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":1,"method":"dial","params":{"network":"unix","address":%q}}`+"\n"+like, l.Addr()); err != nil {
		t.Fatal(err)
	}
	inside, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	if got, err := bufio.NewReader(inside).ReadString('\n'); err != nil || got != like {
		t.Errorf("inside came %q, %v", got, err)
	}
}

func TestWhoFilesOfAnArchiveBelongTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "file"), []byte("x"), 0o4755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(from, "file"), 12345, 54321); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		opts     *guest.Options
		owner    bool
		uid, gid uint32
	}{
		"to the agent":                {nil, false, 0, 0},
		"to whom new files belong to": {&guest.Options{User: "7:8"}, false, 7, 8},
		"to the tar's own":            {&guest.Options{User: "7:8"}, true, 12345, 54321},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			connect := agent.Connector(guesttest.Connector(t, test.opts))
			if _, err := agent.CopyIn(t.Context(), connect, from+"/.", to, &agent.CopyOptions{Owner: test.owner}); err != nil {
				t.Fatal(err)
			}
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(to, "file"), &st); err != nil || st.Uid != test.uid || st.Gid != test.gid {
				t.Errorf("it belongs to %d:%d, %v", st.Uid, st.Gid, err)
			}
		})
	}
}

func TestAnArchiveOfWhatATarDoesNotCarryIsRefused(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	for path, want := range map[string]string{"/dev/null": "is a device", "/no/such/thing": "no such file", "": "is empty"} {
		conn, err := connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.Pack(t.Context(), conn, agent.PackParams{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Pack(%q): err = %v, want %q", path, err, want)
		}
	}
}

func TestAnAgentThatEndsCutsItsStreams(t *testing.T) {
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- g.Serve(context.Background(), far) }()
	tunnel, err := agent.Dial(t.Context(), near, agent.DialParams{Network: "tcp", Address: sleeper(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: err = %v, want %v", err, context.Canceled)
	}
	if _, err := tunnel.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read: err = %v, want %v", err, io.EOF)
	}
}
