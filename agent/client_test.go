package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"airlock/agent"
	"airlock/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A reply is what a scripted guest says to a request; "" is nothing. %d in it stands for the id.
type reply func(method string, params json.RawMessage) string

// scripted is a guest that answers each request with what the script says, byte for byte.
func scripted(t *testing.T, conn net.Conn, script reply) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var req struct {
				ID     uint64
				Method string
				Params json.RawMessage
			}
			if json.Unmarshal(line, &req) != nil {
				return
			}
			answer := strings.ReplaceAll(script(req.Method, req.Params), "%d", fmt.Sprint(req.ID))
			if answer == "hang up" {
				return
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
}

// against makes a Client of a scripted guest.
func against(t *testing.T, opts *agent.Options, script reply) *agent.Client {
	t.Helper()
	near, far := net.Pipe()
	scripted(t, far, script)
	c := agent.NewClient(near, opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// always is a guest that says one thing.
func always(answer string) reply {
	return func(string, json.RawMessage) string { return answer }
}

// result is a guest whose every result is this.
func result(r string) reply { return always(`{"jsonrpc":"2.0","id":%d,"result":` + r + "}\n") }

func TestAnswersThatEndOneCall(t *testing.T) {
	type op = func(ctx context.Context, c *agent.Client) error
	doPing := func(ctx context.Context, c *agent.Client) error { return c.Ping(ctx) }
	exec := func(ctx context.Context, c *agent.Client) error { _, err := c.Exec(ctx, "true"); return err }
	read := func(ctx context.Context, c *agent.Client) error { _, err := c.ReadFile(ctx, "/f"); return err }
	list := func(ctx context.Context, c *agent.Client) error { _, err := c.ListDir(ctx, "/"); return err }
	write := func(ctx context.Context, c *agent.Client) error { return c.WriteFile(ctx, "/f", "") }
	tests := []struct {
		name   string
		answer reply
		op     op
		want   error
		text   string
	}{
		{"an error of the guest's", always(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"method not found: ping","data":null}}` + "\n"), doPing, &agent.RPCError{}, "ping: method not found: ping (code -32601)"},
		{"an error and a result", always(`{"jsonrpc":"2.0","id":%d,"result":{"pong":true},"error":{"code":1,"message":"no"}}` + "\n"), doPing, &agent.RPCError{}, "ping: no (code 1)"},
		{"an error that is a string", always(`{"jsonrpc":"2.0","id":%d,"error":"no"}` + "\n"), doPing, agent.ErrJSON, ""},
		{"no result", always(`{"jsonrpc":"2.0","id":%d}` + "\n"), doPing, agent.ErrMissingResult, "ping: missing result in response (code -1)"},
		{"an error that is null, and no result", always(`{"jsonrpc":"2.0","id":%d,"error":null}` + "\n"), doPing, agent.ErrMissingResult, ""},
		{"an error without an id, with one call in flight", always(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}` + "\n"), doPing, &agent.RPCError{}, "ping: parse error (code -32700)"},
		{"a ping without a pong", result(`{}`), doPing, agent.ErrJSON, ""},
		{"a ping whose pong is false", result(`{"pong":false}`), doPing, agent.ErrJSON, ""},
		{"a ping that is null", result(`null`), doPing, agent.ErrJSON, ""},
		{"a ping that is a number", result(`5`), doPing, agent.ErrJSON, ""},
		{"an exec without output", result(`{"exit_code":0}`), exec, agent.ErrJSON, ""},
		{"an exec whose code is a string", result(`{"exit_code":"0","stdout":"","stderr":""}`), exec, agent.ErrJSON, ""},
		{"an exec that is an array", result(`[]`), exec, agent.ErrJSON, ""},
		{"a file without content", result(`{}`), read, agent.ErrJSON, ""},
		{"a file whose content is null", result(`{"content":null}`), read, agent.ErrJSON, ""},
		{"a folder without entries", result(`{}`), list, agent.ErrJSON, ""},
		{"an entry that climbs out", result(`{"entries":[{"name":"../x","is_dir":false,"size":1}]}`), list, agent.ErrJSON, ""},
		{"an entry without a name", result(`{"entries":[{"is_dir":false,"size":1}]}`), list, agent.ErrJSON, ""},
		{"an entry of negative size", result(`{"entries":[{"name":"x","is_dir":false,"size":-1}]}`), list, agent.ErrJSON, ""},
		{"a write that did not succeed", result(`{"success":false}`), write, nil, "write_file: the guest says that it was not done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := tt.answer
			healthy := false
			c := against(t, nil, func(m string, p json.RawMessage) string {
				if healthy {
					return `{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}` + "\n"
				}
				return answer(m, p)
			})
			err := tt.op(t.Context(), c)
			var e *agent.RPCError
			switch _, isRPC := errors.AsType[*agent.RPCError](tt.want); {
			case err == nil:
				t.Fatal("no error")
			case isRPC && !errors.As(err, &e):
				t.Errorf("err = %v, want an *RPCError", err)
			case !isRPC && tt.want != nil && !errors.Is(err, tt.want):
				t.Errorf("err = %v, want %v", err, tt.want)
			case tt.text != "" && err.Error() != tt.text:
				t.Errorf("err = %q, want %q", err, tt.text)
			case errors.Is(err, agent.ErrConnectionLost):
				t.Errorf("err = %v: the connection was lost", err)
			}
			healthy = true
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("ping afterwards: %v", err)
			}
		})
	}
}

func TestAnswersThatEndTheConnection(t *testing.T) {
	tests := []struct {
		name, answer string
		malformed    bool
	}{
		{"the end of the stream", "hang up", false},
		{"half a line and the end", `{"jsonrpc":`, false},
		{"no JSON", "hello\n", true},
		{"an empty line", "\n", true},
		{"an array", "[]\n", true},
		{"an answer to a call that was never made", `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n", true},
		{"an answer to call zero", `{"jsonrpc":"2.0","id":0,"result":{}}` + "\n", true},
		{"an id that is a string", `{"jsonrpc":"2.0","id":"1","result":{}}` + "\n", true},
		{"an id that is a float", `{"jsonrpc":"2.0","id":1.0,"result":{}}` + "\n", true},
		{"no id", `{"jsonrpc":"2.0","result":{}}` + "\n", true},
		{"a result twice", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}` + "\n", true},
		{"a request", `{"jsonrpc":"2.0","id":1,"method":"exec","params":{}}` + "\n", true},
		{"a payload that was not agreed", `{"jsonrpc":"2.0","id":1,"result":{},"raw":3}` + "\nabc", true},
		{"a million brackets", strings.Repeat("[", 1_000_000) + "\n", true},
		{"a line above the limit", strings.Repeat("x", 1<<20), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := against(t, &agent.Options{MaxFrame: 64 << 10}, func(string, json.RawMessage) string {
				return tt.answer
			})
			if tt.name == "half a line and the end" {
				time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() })
				if err := c.Ping(t.Context()); !errors.Is(err, agent.ErrClosed) {
					t.Errorf("ping: %v, want %v", err, agent.ErrClosed)
				}
				return
			}
			err := c.Ping(t.Context())
			if !errors.Is(err, agent.ErrConnectionLost) || errors.Is(err, agent.ErrJSON) != tt.malformed {
				t.Errorf("ping: err = %v, want a lost connection, malformed: %v", err, tt.malformed)
			}
			if err := c.Ping(t.Context()); !errors.Is(err, agent.ErrConnectionLost) {
				t.Errorf("ping afterwards: err = %v, want %v", err, agent.ErrConnectionLost)
			}
		})
	}
}

func TestNotificationsOfAHostileGuestAreDropped(t *testing.T) {
	c := against(t, nil, always(
		`{"jsonrpc":"2.0","method":"output","params":{"id":1,"stream":"stdout","data":"eA=="}}`+"\n"+
			`{"jsonrpc":"2.0","method":"output","params":{"id":99,"stream":"stdout","data":"eA=="}}`+"\n"+
			`{"jsonrpc":"2.0","method":"output","params":[]}`+"\n"+
			`{"jsonrpc":"2.0","method":"output"}`+"\n"+
			`{"jsonrpc":"2.0","method":"reboot","params":{"id":1}}`+"\n"+
			`{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}`+"\n"))
	for range 3 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCallLimits(t *testing.T) {
	silent := always("")
	t.Run("a call ends after thirty seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			c := against(t, &agent.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, silent)
			start := time.Now()
			_, err := c.Exec(t.Context(), "secret")
			if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
				t.Errorf("it took %v", took)
			}
			var e *agent.RPCError
			if !errors.Is(err, agent.ErrResponseTimeout) || !errors.As(err, &e) || e.Code != -1 || e.Message != "response timeout" {
				t.Errorf("err = %v, want code -1, response timeout", err)
			}
			if !strings.Contains(log.String(), "rpc timeout") || strings.Contains(log.String(), "secret") {
				t.Errorf("log: %s", log.String())
			}
		})
	})
	t.Run("a deadline of the caller's replaces it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := against(t, nil, silent)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start := time.Now()
			if err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v, want %v", err, context.DeadlineExceeded)
			}
			if took := time.Since(start); took != time.Hour {
				t.Errorf("it took %v", took)
			}
		})
	})
	t.Run("a negative limit is none, as is a command's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := against(t, &agent.Options{CallTimeout: -1}, silent)
			d := against(t, nil, silent)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Hour, cancel)
			start := time.Now()
			if err := c.Ping(ctx); !errors.Is(err, context.Canceled) || time.Since(start) != time.Hour {
				t.Errorf("ping: err = %v after %v", err, time.Since(start))
			}
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Hour, cancel)
			start = time.Now()
			if _, err := d.Run(ctx, agent.ExecParams{Cmd: "x"}, nil); !errors.Is(err, context.Canceled) || time.Since(start) != time.Hour {
				t.Errorf("run: err = %v after %v", err, time.Since(start))
			}
		})
	})
	t.Run("every call of many has its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := against(t, nil, silent)
			start := time.Now()
			var wg sync.WaitGroup
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				wg.Go(func() {
					defer cancel()
					if err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("ping %d: %v", i, err)
					}
					if took := time.Since(start); took != time.Duration(i+1)*time.Second {
						t.Errorf("ping %d took %v", i, took)
					}
				})
			}
			wg.Wait()
		})
	})
}

func TestALateAnswerIsDropped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	c := against(t, nil, func(method string, _ json.RawMessage) string {
		switch calls++; {
		case method == agent.MethodCancel:
			return `{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"method not found: cancel"}}` + "\n"
		case calls == 1:
			cancel()
			return ""
		}
		return `{"jsonrpc":"2.0","id":1,"result":{"late":true}}` + "\n" + `{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}` + "\n"
	})
	if err := c.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("ping: %v, want %v", err, context.Canceled)
	}
	for range 3 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAGuestThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // nobody reads from far
		c := agent.NewClient(near, nil)
		if err := c.Ping(t.Context()); !errors.Is(err, agent.ErrResponseTimeout) {
			t.Errorf("ping: %v, want %v", err, agent.ErrResponseTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := c.Ping(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ping: %v, want %v", err, context.Canceled)
		}
		// What was begun is completed when the guest takes it: the stream is whole.
		scripted(t, far, result(`{"pong":true}`))
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("ping of the guest that woke: %v", err)
		}
		_ = c.Close()
	})
}

func TestCloseEndsCalls(t *testing.T) {
	c := against(t, nil, always(""))
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- c.Ping(context.Background()) }()
	}
	time.Sleep(10 * time.Millisecond)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, agent.ErrClosed) {
			t.Errorf("ping: %v, want %v", err, agent.ErrClosed)
		}
	}
	if _, err := c.Start(t.Context(), agent.ExecParams{Cmd: "x"}, nil); !errors.Is(err, agent.ErrClosed) {
		t.Errorf("Start: %v, want %v", err, agent.ErrClosed)
	}
}

func TestTextThatIsNotUTF8IsNotSentChanged(t *testing.T) {
	c := against(t, nil, func(method string, params json.RawMessage) string {
		if method != agent.MethodPing {
			t.Errorf("the guest was asked: %s %s", method, params)
		}
		return `{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}` + "\n"
	})
	if _, err := c.Exec(t.Context(), "rm a\xff"); !errors.Is(err, agent.ErrJSON) {
		t.Errorf("Exec: %v, want %v", err, agent.ErrJSON)
	}
	if err := c.WriteFile(t.Context(), "/f", "\xff"); !errors.Is(err, agent.ErrJSON) {
		t.Errorf("WriteFile: %v, want %v", err, agent.ErrJSON)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLevels holds the log against the table of what is logged at which level.
func TestLevels(t *testing.T) {
	var log bytes.Buffer
	h := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: agent.LevelTrace})
	c := against(t, &agent.Options{Logger: slog.New(h)}, result(`{"exit_code":0,"stdout":"output text","stderr":""}`))
	if _, err := c.Exec(t.Context(), "command text"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ level, msg string }{
		{"DEBUG", "guest operation"},
		{"DEBUG", "rpc request"},
		{"DEBUG", "rpc success"},
		{"DEBUG-4", "rpc request body"},
		{"DEBUG-4", "rpc response body"},
	} {
		if !strings.Contains(log.String(), fmt.Sprintf("level=%s msg=%q", want.level, want.msg)) {
			t.Errorf("no %s %q in:\n%s", want.level, want.msg, log.String())
		}
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, " text") && !strings.Contains(line, "level=DEBUG-4") {
			t.Errorf("content above trace: %s", line)
		}
	}
}
