package rpc_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/rpc"
)

// streaming are methods that may make a stream: one that says what it hears in capitals, one that
// refuses, one that waits for its context.
func streaming(served, ended chan<- struct{}) methods {
	m := standard()
	m["stream"] = func(context.Context, rpc.Peer, *rpc.Request) (any, error) {
		return &rpc.Stream{Result: "go", Serve: func(_ context.Context, conn *rpc.Conn) {
			served <- struct{}{}
			heard, _ := io.ReadAll(io.LimitReader(conn, 6))
			_, _ = io.WriteString(conn, strings.ToUpper(string(heard)))
		}}, nil
	}
	m["refuse"] = func(context.Context, rpc.Peer, *rpc.Request) (any, error) {
		return nil, rpc.Errorf(rpc.CodeInternal, "no")
	}
	m["never"] = func(ctx context.Context, _ rpc.Peer, _ *rpc.Request) (any, error) {
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	}
	return m
}

// streamPair is a connection of the kind to a server with streaming methods.
func streamPair(t *testing.T, kind string, gone func() bool) (near net.Conn, served, ended chan struct{}) {
	t.Helper()
	var far net.Conn
	if kind == "pipe" {
		near, far = net.Pipe()
	} else {
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var d net.Dialer
		if near, err = d.DialContext(t.Context(), "unix", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if far, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	served, ended = make(chan struct{}, 1), make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = rpc.Serve(context.Background(), far, streaming(served, ended), &rpc.ServerOptions{
			Gone: gone,
			Last: func(method string) bool { return method == "stream" || method == "refuse" || method == "never" },
		})
	}()
	t.Cleanup(func() {
		near.Close()
		<-done
	})
	_ = near.SetDeadline(time.Now().Add(patience))
	return near, served, ended
}

func TestAConnectionBecomesAStream(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":1,"method":"stream"}` + "\n"
	const ok = `{"jsonrpc":"2.0","id":1,"result":"go"}` + "\n"
	for _, kind := range []string{"pipe", "socket"} {
		for name, test := range map[string]struct {
			send []string // with a wait for the answer's line between them
			want string
		}{
			"one byte after the other": {[]string{ask, "hello\n"}, ok + "HELLO\n"},
			"with bytes read ahead":    {[]string{ask + "hel", "lo\n"}, ok + "HELLO\n"},
			"bytes that look like a request": {
				[]string{ask + `{"json`}, ok + `{"JSON`,
			},
			"after another request": {
				[]string{`{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n", ask, "hello\n"},
				`{"jsonrpc":"2.0","id":7,"result":{"pong":true}}` + "\n" + ok + "HELLO\n",
			},
			"after a refusal": {
				[]string{`{"jsonrpc":"2.0","id":7,"method":"refuse"}` + "\n", ask, "hello\n"},
				`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}` + "\n" + ok + "HELLO\n",
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				near, _, _ := streamPair(t, kind, nil)
				in := bufio.NewReader(near)
				var got strings.Builder
				for i, text := range test.send {
					written := make(chan error, 1)
					go func() {
						_, err := io.WriteString(near, text)
						written <- err
					}()
					if i < len(test.send)-1 {
						line, err := in.ReadString('\n')
						if err != nil {
							t.Fatal(err)
						}
						got.WriteString(line)
					}
					if err := <-written; err != nil {
						t.Fatal(err)
					}
				}
				rest, err := io.ReadAll(in)
				if err != nil {
					t.Fatal(err)
				}
				got.Write(rest)
				if got.String() != test.want {
					t.Errorf("got %q, want %q", got.String(), test.want)
				}
			})
		}
	}
}

func TestAClientThatGoesAwayCancelsARequestForAStream(t *testing.T) {
	for name, gone := range map[string]func() bool{"as its end of file": nil, "as somebody is asked": func() bool { return true }} {
		t.Run(name, func(t *testing.T) {
			near, _, ended := streamPair(t, "socket", gone)
			if _, err := io.WriteString(near, `{"jsonrpc":"2.0","id":1,"method":"never"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			near.Close()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the request goes on")
			}
		})
	}
}

func TestAStreamIsTheOnlyRequest(t *testing.T) {
	near, served, _ := streamPair(t, "socket", nil)
	in := bufio.NewReader(near)
	for _, step := range [][2]string{
		{`{"jsonrpc":"2.0","id":1,"method":"wait"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"stream"}`, `"id":2,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":3,"method":"cancel","params":{"id":1}}`, `{"canceled":true}`},
		{"", `{"canceled":true}`},
		{`{"jsonrpc":"2.0","id":4,"method":"stream"}`, `"id":4,"result":"go"`},
	} {
		if step[0] != "" {
			if _, err := io.WriteString(near, step[0]+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		line, err := in.ReadString('\n')
		if err != nil || !strings.Contains(line, step[1]) {
			t.Fatalf("%s: %s, %v, want %s", step[0], line, err, step[1])
		}
	}
	<-served
}

// TestWhatHasBeenAnsweredKeepsNoStreamFromBeginning: who answered may be slow to be done with it, and its client knows nothing of that.
func TestWhatHasBeenAnsweredKeepsNoStreamFromBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served, done := make(chan struct{}, 1), make(chan struct{})
		m := streaming(served, nil)
		m["linger"] = func(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
			req.Sent = func() { time.Sleep(time.Minute) }
			return "answered", nil
		}
		near, far := net.Pipe()
		go func() {
			defer close(done)
			_ = rpc.Serve(context.Background(), far, m, &rpc.ServerOptions{Last: func(method string) bool { return method == "stream" }})
		}()
		in := bufio.NewReader(near)
		for _, step := range [][2]string{{"linger", "answered"}, {"stream", "go"}} {
			if _, err := io.WriteString(near, `{"jsonrpc":"2.0","id":1,"method":"`+step[0]+`"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			want := `{"jsonrpc":"2.0","id":1,"result":"` + step[1] + `"}` + "\n"
			if line, err := in.ReadString('\n'); err != nil || line != want {
				t.Errorf("%s: %s, %v, want %s", step[0], line, err, want)
			}
		}
		near.Close()
		<-done
	})
}
