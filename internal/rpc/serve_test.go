package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/rpc"
)

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestHandshake(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"a handshake is answered with its port", "CONNECT 52", "OK 52"},
		{"the largest port is a port", "CONNECT 4294967295\r", "OK 4294967295"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, nil)
			if got := c.roundTrip(tt.line); got != tt.want {
				t.Errorf("answer = %q, want %q", got, tt.want)
			}
			c.alive()
		})
	}
	for _, tt := range []struct{ name, line string }{
		{"no port", "CONNECT"},
		{"an empty port", "CONNECT "},
		{"a port that is no number", "CONNECT x"},
		{"a port above 32 bits", "CONNECT 4294967296"},
		{"something behind the port", "CONNECT 52 52"},
		{"another word", "CONNECTED 52"},
	} {
		t.Run(tt.name+" ends the connection with an error", func(t *testing.T) {
			c := serve(t, nil)
			if got := c.roundTrip(tt.line); !strings.Contains(got, `"id":null,"error":{"code":-32600`) {
				t.Errorf("answer = %q, want an error", got)
			}
			c.closed()
			var e *rpc.Error
			if err := c.ended(); !errors.As(err, &e) {
				t.Errorf("Serve: err = %v, want an *Error", err)
			}
		})
	}
}

// closed fails unless the server has closed the connection.
func (c *client) closed() {
	c.t.Helper()
	if line, err := c.in.ReadString('\n'); !errors.Is(err, io.EOF) {
		c.t.Fatalf("after the end: %q, %v, want EOF", line, err)
	}
}

func TestAPingIsAnsweredWhileAnotherRequestRuns(t *testing.T) {
	c := serve(t, nil)
	c.send(`{"jsonrpc":"2.0","id":10,"method":"wait"}` + "\n")
	c.alive()
	if got, want := c.roundTrip(`{"jsonrpc":"2.0","id":10,"method":"ping"}`), `{"jsonrpc":"2.0","id":10,"error":{"code":-32600,"message":"invalid request: a request with this id is in flight"}}`; got != want {
		t.Errorf("an id in flight: %s, want %s", got, want)
	}
	c.send(`{"jsonrpc":"2.0","id":11,"method":"cancel","params":{"id":10}}` + "\n")
	got := []string{c.recv(), c.recv()}
	want := []string{`{"jsonrpc":"2.0","id":11,"result":{"canceled":true}}`, `{"jsonrpc":"2.0","id":10,"result":{"canceled":true}}`}
	if got[0] != want[0] && got[1] != want[0] || got[0] != want[1] && got[1] != want[1] {
		t.Errorf("answers: %q, want %q", got, want)
	}
	if got, want := c.roundTrip(`{"jsonrpc":"2.0","id":12,"method":"cancel","params":{"id":10}}`), `{"jsonrpc":"2.0","id":12,"result":{"canceled":false}}`; got != want {
		t.Errorf("cancel of what has ended: %s, want %s", got, want)
	}
}

func TestTheEndOfTheClientCancelsItsRequests(t *testing.T) {
	for name, end := range map[string]func(c net.Conn){
		"it closes":                  func(c net.Conn) { _ = c.Close() },
		"it half-closes":             func(c net.Conn) { _ = c.(*net.UnixConn).CloseWrite() },
		"it leaves half a line":      func(c net.Conn) { _, _ = io.WriteString(c, `{"json`); _ = c.Close() },
		"it is deaf and half-closes": func(c net.Conn) { _ = c.(*net.UnixConn).CloseRead(); _ = c.(*net.UnixConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, nil)
			for i := range 300 { // some run and some wait
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`+"\n", 1000+i))
			}
			c.alive()
			end(c.conn)
			if err := c.ended(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Logf("Serve: %v", err)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	near, far := pair(t)
	defer near.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rpc.Serve(ctx, far, standard(), nil) }()
	_, _ = io.WriteString(near, `{"jsonrpc":"2.0","id":1,"method":"wait"}`+"\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: err = %v, want %v", err, context.Canceled)
	}
}

func TestALineWithoutAnEnd(t *testing.T) {
	c := serve(t, &rpc.ServerOptions{MaxFrame: 1000})
	c.send(strings.Repeat(" ", 1000-len(ping)) + ping + "\n")
	if got := c.recv(); !strings.Contains(got, "pong") {
		t.Fatalf("a line as long as the limit: %s", got)
	}
	c.send(strings.Repeat("x", 1002))
	if got := c.recv(); !strings.Contains(got, `"id":null,"error":{"code":-32600,"message":"frame exceeds the limit of 1000 bytes"`) {
		t.Errorf("answer = %s, want an error", got)
	}
	c.closed()
	if err := c.ended(); err == nil || !strings.Contains(err.Error(), "frame exceeds the limit") {
		t.Errorf("Serve: err = %v, want that the frame exceeds the limit", err)
	}
}

func TestMemoryIsBoundedByWhatArrived(t *testing.T) {
	c := serve(t, nil)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // encoding/json keeps its buffer over one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c.alive()
	before := heap()
	c.roundTrip(`{"jsonrpc":"2.0","id":1,"method":"allow"}`)
	big := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"s":"%s"}}`, strings.Repeat("x", 8<<20))
	for range 3 {
		if got := c.roundTrip(big); len(got) < 8<<20 {
			t.Fatalf("echo of %d bytes came back as %d", len(big), len(got))
		}
	}
	for range 1000 {
		c.alive()
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes over 1,000 calls", before, after)
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"echo","raw":67108864}` + "\n" + "only these")
	time.Sleep(10 * time.Millisecond)
	if after := heap(); after > before+8<<20 {
		t.Errorf("a payload that did not come took %d bytes", after-before)
	}
}

func TestRawFrames(t *testing.T) {
	c := serve(t, &rpc.ServerOptions{MaxFrame: 1 << 20})
	if got, want := c.roundTrip(`{"jsonrpc":"2.0","id":1,"method":"allow"}`), `{"jsonrpc":"2.0","id":1,"result":{"raw":true}}`; got != want {
		t.Fatalf("allow: %s, want %s", got, want)
	}
	for _, size := range []int{0, 1, 5, 1 << 10, 1 << 20} {
		payload := bytes.Repeat([]byte("\n{}x"), size/4+1)[:size]
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"echo","raw":%d}`+"\n%s", size, payload))
		if got, want := c.recv(), fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"result":{"params":null},"raw":%d}`, size); got != want {
			t.Fatalf("echo: %s, want %s", got, want)
		}
		back := make([]byte, size)
		if _, err := io.ReadFull(c.in, back); err != nil || !bytes.Equal(back, payload) {
			t.Fatalf("payload of %d bytes: err = %v, equal = %v", size, err, bytes.Equal(back, payload))
		}
	}
	c.send(`{"jsonrpc":"1.0","id":3,"method":"echo","raw":5}` + "\n" + "\n\n{}\n")
	if got := c.recv(); !strings.Contains(got, `"id":3,"error":{"code":-32600`) {
		t.Errorf("a wrong version with a payload: %s", got)
	}
	c.alive() // the payload was passed over
}

func TestBrokenRawFramesEndTheConnection(t *testing.T) {
	for _, tt := range []struct{ name, line string }{
		{"a payload above the limit", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":1048577}`},
		{"a payload above 64 bits", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":18446744073709551616}`},
		{"a payload of less than nothing", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":-1}`},
		{"a payload of null", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":null}`},
		{"a payload in a string", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":"5"}`},
		{"two payloads", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":5,"raw":7}`},
		{"a line that may have had a payload", `{"jsonrpc":"2.0","id":2,"method":"echo","raw":5`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, &rpc.ServerOptions{MaxFrame: 1 << 20})
			c.roundTrip(`{"jsonrpc":"2.0","id":1,"method":"allow"}`)
			c.send(tt.line + "\n" + ping + "\n")
			if got := c.recv(); !strings.Contains(got, `"error":{"code":-32`) {
				t.Errorf("answer = %s, want an error", got)
			}
			c.closed()
			_ = c.conn.Close()
			var e *rpc.Error
			if err := c.ended(); !errors.As(err, &e) {
				t.Errorf("Serve: err = %v, want an *Error", err)
			}
		})
	}
}

func TestNotificationsPrecedeTheAnswer(t *testing.T) {
	c := serve(t, nil)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"count"}` + "\n")
	for i := range 100 {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"tick","params":{"id":1,"n":%d}}`, i)
		if got := c.recv(); got != want {
			t.Fatalf("notification %d: %s, want %s", i, got, want)
		}
	}
	if got, want := c.recv(), `{"jsonrpc":"2.0","id":1,"result":{"ticks":100}}`; got != want {
		t.Errorf("answer: %s, want %s", got, want)
	}
}

func TestASessionIsTheConnections(t *testing.T) {
	a, b := serve(t, nil), serve(t, nil)
	const line = `{"jsonrpc":"2.0","id":1,"method":"session"}`
	a.roundTrip(line)
	if got, want := a.roundTrip(line), `{"jsonrpc":"2.0","id":1,"result":{"n":2}}`; got != want {
		t.Errorf("second call: %s, want %s", got, want)
	}
	if got, want := b.roundTrip(line), `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`; got != want {
		t.Errorf("another connection: %s, want %s", got, want)
	}
}

func TestTooManyRequests(t *testing.T) {
	c := serve(t, &rpc.ServerOptions{MaxInFlight: 4})
	for i := range 30 { // 4 run, 16 wait, 10 are refused
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`+"\n", 100+i))
	}
	for i := range 10 {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"too many requests in flight"}}`, 120+i)
		if got := c.recv(); got != want {
			t.Fatalf("answer: %s, want %s", got, want)
		}
	}
	c.alive()
	for i := range 20 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"cancel","params":{"id":%d}}`+"\n", 100+i))
	}
	for range 40 {
		if got := c.recv(); !strings.Contains(got, `{"canceled":true}`) {
			t.Fatalf("answer: %s, want a cancellation", got)
		}
	}
	c.alive()
}

func TestManyPipelinedRequestsAreAllAnswered(t *testing.T) {
	c := serve(t, nil)
	const n = 5000
	go func() {
		for i := range n {
			_, _ = fmt.Fprintf(c.conn, `{"jsonrpc":"2.0","id":%d,"method":"echo","params":[%d]}`+"\n", i, i)
		}
	}()
	seen := make(map[string]bool)
	for range n {
		seen[c.recv()] = true
	}
	for i := range n {
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"params":[%d]}}`, i, i); !seen[want] {
			t.Fatalf("no answer %s", want)
		}
	}
}

func TestAClientThatTakesNothingIsDropped(t *testing.T) {
	for name, as := range map[string]func(net.Conn) io.ReadWriteCloser{
		"with deadlines":    func(c net.Conn) io.ReadWriteCloser { return c },
		"without deadlines": func(c net.Conn) io.ReadWriteCloser { return struct{ io.ReadWriteCloser }{c} },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			defer near.Close()
			done := make(chan error, 1)
			go func() {
				done <- rpc.Serve(context.Background(), as(far), standard(), &rpc.ServerOptions{WriteTimeout: 50 * time.Millisecond})
			}()
			big := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"s":"%s"}}`, strings.Repeat("x", 4<<20))
			_, _ = io.WriteString(near, big+"\n")
			if err := <-done; err == nil || !strings.Contains(err.Error(), "takes nothing") {
				t.Errorf("Serve: err = %v, want that the other end takes nothing", err)
			}
		})
	}
}

func TestAStreamMayBePausedLongerThanTheWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- rpc.Serve(context.Background(), far, standard(), &rpc.ServerOptions{WriteTimeout: time.Second})
		}()
		_, _ = io.WriteString(near, `{"jsonrpc":"2.0","id":1,"method":"count"}`+"\n")
		time.Sleep(time.Hour)
		buf := make([]byte, 1<<20)
		n, _ := io.ReadAtLeast(near, buf, 5000)
		if !strings.HasPrefix(string(buf[:n]), `{"jsonrpc":"2.0","method":"tick","params":{"id":1,"n":0}}`) {
			t.Errorf("after the pause: %.80s", buf[:n])
		}
		_ = near.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestAServerFinishesWhatWasAskedForAClientThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := methods{"nap": func(ctx context.Context, _ rpc.Peer, _ *rpc.Request) (any, error) {
			select {
			case <-time.After(5 * time.Second):
				return "rested", nil
			case <-ctx.Done():
				return "woken", nil
			}
		}}
		start := time.Now()
		for _, tt := range []struct {
			name, want string
			gone       func() bool
		}{
			{"an end-of-file is the client's end where nothing else tells", "woken", nil},
			{"a client that still reads is answered", "rested", func() bool { return false }},
			{"a client that is gone for good is not waited for", "woken", func() bool { return time.Since(start) > time.Second }},
		} {
			start = time.Now()
			conn := &script{in: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"nap"}` + "\n")}
			if err := rpc.Serve(context.Background(), conn, h, &rpc.ServerOptions{Gone: tt.gone}); err != nil {
				t.Errorf("Serve: %v", err)
			}
			// A request whose connection ended before it began is not begun.
			if got := conn.out.String(); got != fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%q}`+"\n", tt.want) && !(tt.gone == nil && got == "") {
				t.Errorf("%s: %q, want %s", tt.name, got, tt.want)
			}
		}
	})
}

// script is a connection without deadlines: a pipe in, and a buffer out.
type script struct {
	in  io.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *script) Close() error                { return nil }

func TestAPanicIsLoggedWithoutItsText(t *testing.T) {
	var log bytes.Buffer
	conn := &script{in: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"panic"}` + "\n")}
	opts := &rpc.ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil)), Gone: func() bool { return false }}
	if err := rpc.Serve(t.Context(), conn, standard(), opts); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "handler panicked") || strings.Contains(got, "secret") {
		t.Errorf("log = %q", got)
	}
}
