package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"airlock/agent"
)

// host is a host's socket: it answers each connection's first line with the next of its
// answers (the last for ever), and then, after an OK, pings.
type host struct {
	mu      sync.Mutex
	answers []string
	heard   []string
	wg      sync.WaitGroup
}

func (h *host) dial(context.Context) (io.ReadWriteCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	answer := h.answers[0]
	if len(h.answers) > 1 {
		h.answers = h.answers[1:]
	}
	if answer == "refused" {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	if answer == "deaf" {
		_ = far.Close()
		return near, nil
	}
	h.wg.Go(func() {
		defer far.Close()
		in := bufio.NewReader(far)
		line, _ := in.ReadString('\n')
		h.mu.Lock()
		h.heard = append(h.heard, line)
		h.mu.Unlock()
		if _, err := io.WriteString(far, answer); err != nil {
			return
		}
		for answer != "" {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			_, _ = io.WriteString(far, `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`+"\n")
		}
		_, _ = in.ReadByte()
	})
	return near, nil
}

func TestConnect(t *testing.T) {
	tests := []struct {
		name    string
		answers []string
		after   time.Duration // until it is connected
		err     string        // of the TimeoutError
	}{
		{"an agent that answers", []string{"OK 52\n"}, 0, ""},
		{"a host that answers with a port of its own", []string{"OK 1073741824\r\n"}, 0, ""},
		{"an agent that is there at the third attempt", []string{"refused", "refused", "OK 52\n"}, 200 * time.Millisecond, ""},
		{"a guest that does not listen yet ends the connection", []string{"deaf", "OK 52\n"}, 100 * time.Millisecond, ""},
		{"a guest that does not answer yet is given up after half a second", []string{"", "OK 52\n"}, 600 * time.Millisecond, ""},
		{"no socket", []string{"refused"}, 0, "agent timeout after 10s: socket connect failed: connection refused"},
		{"a closed socket", []string{"deaf"}, 0, "agent timeout after 10s: handshake write failed: io: read/write on closed pipe"},
		{"another answer", []string{"ERR \x1bno\n"}, 0, "agent timeout after 10s: handshake failed: ERR ?no"},
		{"an OK without a port", []string{"OK\n"}, 0, "agent timeout after 10s: handshake failed: OK"},
		{"an OK with more", []string{"OK 52 x\n"}, 0, "agent timeout after 10s: handshake failed: OK 52 x"},
		{"an answer without an end", []string{strings.Repeat("x", 1000)}, 0, "agent timeout after 10s: handshake failed: " + strings.Repeat("x", 128) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{answers: tt.answers}
				defer h.wg.Wait()
				var log bytes.Buffer
				start := time.Now()
				c, err := agent.Connect(t.Context(), "v.sock", &agent.Options{
					Dial:   h.dial,
					Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: agent.LevelTrace})),
				})
				took := time.Since(start)
				if tt.err == "" {
					if err != nil {
						t.Fatalf("Connect: %v", err)
					}
					defer c.Close()
					if took != tt.after {
						t.Errorf("it took %v, want %v", took, tt.after)
					}
					if err := c.Ping(t.Context()); err != nil {
						t.Errorf("ping: %v", err)
					}
					if got := h.heard[len(h.heard)-1]; got != "CONNECT 52\n" {
						t.Errorf("the handshake was %q", got)
					}
					if !strings.Contains(log.String(), "level=INFO") {
						t.Errorf("log: %s", log.String())
					}
					return
				}
				var timeout *agent.TimeoutError
				if !errors.As(err, &timeout) || timeout.After != 10*time.Second || !errors.Is(err, agent.ErrConnection) || err.Error() != tt.err {
					t.Errorf("Connect: err = %v, want %s", err, tt.err)
				}
				if took != 10*time.Second {
					t.Errorf("it took %v, want 10s", took)
				}
				if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "level=DEBUG-4") {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		h := &host{answers: []string{"refused"}}
		_, err := agent.Connect(ctx, "v.sock", &agent.Options{Dial: h.dial})
		var timeout *agent.TimeoutError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, agent.ErrConnection) || errors.As(err, &timeout) {
			t.Errorf("Connect: err = %v, want the context's", err)
		}
	})
}

func TestConnectToAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.sock")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		line, _ := in.ReadString('\n')
		heard <- line
		_, _ = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`+"\n")
		_, _ = in.ReadByte()
	}()
	c, err := agent.Connect(t.Context(), path, &agent.Options{NoHandshake: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := <-heard, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`+"\n"; got != want {
		t.Errorf("the first line was %q, want %q", got, want)
	}
}

func TestConnectWithoutASocket(t *testing.T) {
	_, err := agent.Connect(t.Context(), filepath.Join(t.TempDir(), "none"), &agent.Options{ConnectTimeout: 20 * time.Millisecond, RetryInterval: time.Millisecond})
	if err == nil || !strings.HasPrefix(err.Error(), "agent timeout after 20ms: socket connect failed: ") {
		t.Errorf("Connect: err = %v", err)
	}
}
