package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/leaktest"
	"airlock/internal/rpc"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long what ought to come may take on a slow machine.
const patience = 2 * time.Minute

// methods is a small real handler.
type methods map[string]func(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error)

func (m methods) Handle(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	f := m[req.Method]
	if f == nil {
		return nil, rpc.Errorf(rpc.CodeMethodNotFound, "method not found: %s", req.Method)
	}
	return f(ctx, peer, req)
}

// standard are the methods the tests call.
func standard() methods {
	type object = map[string]any
	return methods{
		"ping": func(context.Context, rpc.Peer, *rpc.Request) (any, error) {
			return struct {
				Pong bool `json:"pong"`
			}{true}, nil
		},
		"echo": func(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
			return rpc.Reply{Result: object{"params": req.Params}, Raw: req.Raw}, nil
		},
		"wait": func(ctx context.Context, _ rpc.Peer, _ *rpc.Request) (any, error) {
			<-ctx.Done()
			return object{"canceled": true}, nil
		},
		"cancel": func(_ context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
			var p struct{ ID uint64 }
			if err := json.Unmarshal(req.Params, &p); err != nil {
				return nil, rpc.Errorf(rpc.CodeInvalidParams, "%v", err)
			}
			return object{"canceled": peer.Cancel(p.ID)}, nil
		},
		"allow": func(_ context.Context, peer rpc.Peer, _ *rpc.Request) (any, error) {
			peer.AllowRaw()
			return object{"raw": peer.RawAllowed()}, nil
		},
		"panic": func(context.Context, rpc.Peer, *rpc.Request) (any, error) { panic("secret") },
		"fail":  func(context.Context, rpc.Peer, *rpc.Request) (any, error) { return nil, errors.New("it failed") },
		"unmarshalable": func(context.Context, rpc.Peer, *rpc.Request) (any, error) {
			return func() {}, nil
		},
		"count": func(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
			for i := range 100 {
				if err := peer.Notify(ctx, "tick", object{"id": req.ID, "n": i}, nil); err != nil {
					return nil, err
				}
			}
			return object{"ticks": 100}, nil
		},
		"session": func(_ context.Context, peer rpc.Peer, _ *rpc.Request) (any, error) {
			n, _ := peer.Session().(int)
			peer.SetSession(n + 1)
			return object{"n": n + 1}, nil
		},
	}
}

func inline(m string) bool { return m == "ping" || m == "cancel" || m == "allow" || m == "session" }

// client is a connection to a server, as a person with netcat has one.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	done chan error // Serve's
}

// pair returns the ends of a Unix socket connection.
func pair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(accepted)
			return
		}
		accepted <- c
	}()
	client, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return client, <-accepted
}

func serve(t *testing.T, opts *rpc.ServerOptions) *client {
	t.Helper()
	if opts == nil {
		opts = &rpc.ServerOptions{}
	}
	opts.Inline = inline
	near, far := pair(t)
	c := &client{t: t, conn: near, in: bufio.NewReader(near), done: make(chan error, 1)}
	go func() { c.done <- rpc.Serve(t.Context(), far, standard(), opts) }()
	t.Cleanup(func() {
		_ = near.Close()
		if c.done != nil {
			if err := <-c.done; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Serve: %v", err)
			}
		}
	})
	_ = near.SetDeadline(time.Now().Add(patience))
	return c
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatalf("send %.80q: %v", s, err)
	}
}

func (c *client) recv() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatalf("recv: %v, after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c *client) roundTrip(s string) string {
	c.t.Helper()
	c.send(s + "\n")
	return c.recv()
}

// alive fails unless the connection still answers.
func (c *client) alive() {
	c.t.Helper()
	const want = `{"jsonrpc":"2.0","id":99,"result":{"pong":true}}`
	if got := c.roundTrip(`{"jsonrpc":"2.0","id":99,"method":"ping"}`); got != want {
		c.t.Fatalf("ping afterwards: %s, want %s", got, want)
	}
}

// ended returns Serve's error.
func (c *client) ended() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		c.done = nil
		return err
	case <-time.After(patience):
		c.t.Fatal("Serve did not return")
		return nil
	}
}

func TestEnvelope(t *testing.T) {
	c := serve(t, nil)
	failure := func(id string, code int, msg string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, msg)
	}
	const idBad = "invalid request: id must be an unsigned 64-bit integer"
	tests := []struct{ name, line, want string }{
		{"a request is answered", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`},
		{"the largest id comes back exactly", `{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}`, `{"jsonrpc":"2.0","id":18446744073709551615,"result":{"pong":true}}`},
		{"an id of zero is an id", `{"jsonrpc":"2.0","id":0,"method":"ping"}`, `{"jsonrpc":"2.0","id":0,"result":{"pong":true}}`},
		{"a carriage return before the newline is let pass", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r", `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`},
		{"space around tokens and an unknown member are let pass", ` { "x" : [ ] , "jsonrpc" : "2.0" , "id" : 1 , "method" : "ping" } `, `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`},
		{"an empty line is ignored", "\n\r\n \n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`},
		{"a name may be written with escapes", `{"jsonrpc":"2\u002e0","\u0069d":1,"method":"p\u0069ng"}`, `{"jsonrpc":"2.0","id":1,"result":{"pong":true}}`},
		{"params that are null are absent", `{"jsonrpc":"2.0","id":1,"method":"echo","params":null}`, `{"jsonrpc":"2.0","id":1,"result":{"params":null}}`},
		{"params may be an array", `{"jsonrpc":"2.0","id":1,"method":"echo","params":[1, 2]}`, `{"jsonrpc":"2.0","id":1,"result":{"params":[1,2]}}`},
		{"params arrive byte for byte", `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":"<é>\u0041","n":1e400}}`, `{"jsonrpc":"2.0","id":1,"result":{"params":{"a":"<é>\u0041","n":1e400}}}`},

		{"params may not be a string", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}`, failure("1", -32600, "invalid request: params must be an object or an array")},
		{"params may not be a number", `{"jsonrpc":"2.0","id":1,"method":"ping","params":0}`, failure("1", -32600, "invalid request: params must be an object or an array")},
		{"an id written as a float is refused", `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`, failure("null", -32600, idBad)},
		{"an id with an exponent is refused", `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, failure("null", -32600, idBad)},
		{"a negative id is refused", `{"jsonrpc":"2.0","id":-1,"method":"ping"}`, failure("null", -32600, idBad)},
		{"an id one above the largest is refused", `{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}`, failure("null", -32600, idBad)},
		{"an id that is a string is refused", `{"jsonrpc":"2.0","id":"1","method":"ping"}`, failure("null", -32600, idBad)},
		{"an id that is null is refused", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, failure("null", -32600, idBad)},
		{"an id that is true is refused", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, failure("null", -32600, idBad)},
		{"an id that is an object is refused", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, failure("null", -32600, idBad)},
		{"a request without an id is refused", `{"jsonrpc":"2.0","method":"ping"}`, failure("null", -32600, idBad)},
		{"a wrong version is refused with the id", `{"jsonrpc":"1.0","id":5,"method":"ping"}`, failure("5", -32600, `invalid request: jsonrpc must be "2.0"`)},
		{"a version that is a number is refused with the id", `{"jsonrpc":2.0,"id":5,"method":"ping"}`, failure("5", -32600, `invalid request: jsonrpc must be "2.0"`)},
		{"no version is refused with the id", `{"id":5,"method":"ping"}`, failure("5", -32600, `invalid request: jsonrpc must be "2.0"`)},
		{"no method is refused with the id", `{"jsonrpc":"2.0","id":5}`, failure("5", -32600, "invalid request: method must be a string")},
		{"a method that is no string is refused with the id", `{"jsonrpc":"2.0","id":5,"method":7}`, failure("5", -32600, "invalid request: method must be a string")},
		{"names are case sensitive", `{"jsonrpc":"2.0","ID":5,"method":"ping"}`, failure("null", -32600, idBad)},
		{"a member twice is refused", `{"jsonrpc":"2.0","id":5,"method":"ping","method":"fail"}`, failure("5", -32600, "invalid request: a member comes twice")},
		{"an id twice is refused without an id", `{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}`, failure("null", -32600, "invalid request: a member comes twice")},
		{"a batch is refused", `[{"jsonrpc":"2.0","id":5,"method":"ping"}]`, failure("null", -32600, "invalid request: batches are not supported: send one object a line")},
		{"a bare string is refused", `"ping"`, failure("null", -32600, "invalid request: a request is an object")},
		{"a bare null is refused", `null`, failure("null", -32600, "invalid request: a request is an object")},
		{"a payload that was not agreed is refused", `{"jsonrpc":"2.0","id":5,"method":"ping","raw":3}`, failure("5", -32600, "invalid request: raw payloads were not agreed on this connection")},
		{"an unknown method is not found", `{"jsonrpc":"2.0","id":7,"method":"unknown","params":{}}`, failure("7", -32601, "method not found: unknown")},
		{"an endless method is not found, in short", `{"jsonrpc":"2.0","id":7,"method":"` + strings.Repeat("m", 1<<20) + `"}`, failure("7", -32601, "method not found: "+strings.Repeat("m", 32)+"…")},

		{"text that is no JSON", `hello`, failure("null", -32700, "parse error: invalid JSON")},
		{"an object cut short", `{"jsonrpc":"2.0","id":5,"method":"ping"`, failure("null", -32700, "parse error: invalid JSON")},
		{"two objects on a line", `{"jsonrpc":"2.0","id":5,"method":"ping"}{}`, failure("null", -32700, "parse error: invalid JSON")},
		{"a handshake that is not the first line", `CONNECT 52`, failure("null", -32700, "parse error: invalid JSON")},
		{"a comma too many", `{"jsonrpc":"2.0","id":5,"method":"ping",}`, failure("null", -32700, "parse error: invalid JSON")},
		{"a byte that is not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"params\":{\"p\":\"\xff\"}}", failure("null", -32700, "parse error: invalid JSON: not UTF-8")},
		{"half a surrogate pair", `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"p":"\udcff"}}`, failure("null", -32700, "parse error: invalid JSON: a string has half of a surrogate pair")},
		{"a million brackets", strings.Repeat("[", 1_000_000), failure("null", -32700, "parse error: invalid JSON: nested too deep")},
		{"a zero byte", "\x00", failure("null", -32700, "parse error: invalid JSON")},

		{"a handler that panics is an internal error without its text", `{"jsonrpc":"2.0","id":8,"method":"panic"}`, failure("8", -32603, "internal error")},
		{"a handler's plain error is an internal error", `{"jsonrpc":"2.0","id":8,"method":"fail"}`, failure("8", -32603, "it failed")},
		{"a result that is no JSON is an internal error", `{"jsonrpc":"2.0","id":8,"method":"unmarshalable"}`, failure("8", -32603, "encode the result: json: unsupported type: func()")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := *c
			c.t = t
			if got := c.roundTrip(tt.line); got != tt.want {
				t.Errorf("answer:\n%s, want\n%s", got, tt.want)
			}
			c.alive()
		})
	}
}
