package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/agent"
)

// each runs a test against the real guest agent, over each kind of connection.
func each(t *testing.T, test func(t *testing.T, c *agent.Client)) {
	t.Run("with raw frames", func(t *testing.T) { test(t, guestClient(t, nil)) })
	t.Run("with base64", func(t *testing.T) { test(t, guestClient(t, &agent.Options{NoRaw: true})) })
	t.Run("over a connection without deadlines", func(t *testing.T) {
		near, far := sockets(t)
		guestOn(t, far)
		c := agent.NewClient(struct{ io.ReadWriteCloser }{near}, nil)
		t.Cleanup(func() { _ = c.Close() })
		test(t, c)
	})
}

func TestTheOriginalMethods(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		ctx, dir := t.Context(), t.TempDir()
		if err := c.Ping(ctx); err != nil {
			t.Error(err)
		}
		if res, err := c.Exec(ctx, "echo out; echo err >&2; exit 3"); err != nil || res.ExitCode != 3 || res.Stdout != "out\n" || res.Stderr != "err\n" {
			t.Errorf("Exec = %+v, %v", res, err)
		}
		if res, err := c.ExecCode(ctx, "sh", "echo $((6*7))"); err != nil || res.Stdout != "42\n" || !res.Success() {
			t.Errorf("ExecCode = %+v, %v", res, err)
		}
		if res, err := c.ExecCode(ctx, "cobol", "x"); err != nil || res.ExitCode != -1 || res.Stderr != "unsupported language: cobol" {
			t.Errorf("ExecCode = %+v, %v", res, err)
		}
		path := filepath.Join(dir, "f")
		if err := c.WriteFile(ctx, path, "Hello, <World>!\n"); err != nil {
			t.Error(err)
		}
		if got, err := c.ReadFile(ctx, path); err != nil || got != "Hello, <World>!\n" {
			t.Errorf("ReadFile = %q, %v", got, err)
		}
		if got, err := c.ListDir(ctx, dir); err != nil || len(got) != 1 || got[0] != (agent.FileEntry{Name: "f", Size: 16}) {
			t.Errorf("ListDir = %+v, %v", got, err)
		}
		if got, err := c.ListDir(ctx, t.TempDir()); err != nil || len(got) != 0 {
			t.Errorf("ListDir of an empty folder = %+v, %v", got, err)
		}
		var failed *agent.RPCError
		if _, err := c.ReadFile(ctx, filepath.Join(dir, "none")); !errors.As(err, &failed) {
			t.Errorf("ReadFile of no file: %v, want an *RPCError", err)
		}
		if err := c.Call(ctx, "unknown", agent.Empty{}, nil); !errors.As(err, &failed) || failed.Code != -32601 || failed.Message != "method not found: unknown" {
			t.Errorf("Call: %v, want method not found", err)
		}
	})
}

func TestFileMethods(t *testing.T) {
	c, ctx, dir := guestClient(t, nil), t.Context(), t.TempDir()
	if err := c.Mkdir(ctx, agent.MkdirParams{Path: filepath.Join(dir, "a/b"), Parents: true}); err != nil {
		t.Error(err)
	}
	if err := c.Rename(ctx, filepath.Join(dir, "a/b"), filepath.Join(dir, "c")); err != nil {
		t.Error(err)
	}
	if got, err := c.Stat(ctx, filepath.Join(dir, "c"), false); err != nil || got.Type != "dir" || got.Name != "c" {
		t.Errorf("Stat = %+v, %v", got, err)
	}
	if err := c.Remove(ctx, dir, true); err != nil {
		t.Error(err)
	}
	var failed *agent.RPCError
	if _, err := c.Stat(ctx, dir, false); !errors.As(err, &failed) {
		t.Errorf("Stat of what was removed: %v", err)
	}
}

func TestTransfers(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		ctx, dir := t.Context(), t.TempDir()
		for _, size := range []int{0, 1, 5000, 1 << 20, 1<<20 + 1, 7<<20 + 12345} {
			content := make([]byte, size)
			_, _ = rand.Read(content)
			path := filepath.Join(dir, fmt.Sprint(size))
			if n, err := c.WriteFileFrom(ctx, path, bytes.NewReader(content), 0o640); err != nil || n != int64(size) {
				t.Fatalf("WriteFileFrom of %d bytes = %d, %v", size, n, err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("the file of %d bytes: err = %v, %d bytes", size, err, len(got))
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
				t.Errorf("the file's mode: %v, %v", info.Mode(), err)
			}
			var got bytes.Buffer
			if n, err := c.ReadFileTo(ctx, path, &got); err != nil || n != int64(size) || !bytes.Equal(got.Bytes(), content) {
				t.Errorf("ReadFileTo of %d bytes = %d, %v", size, n, err)
			}
		}
		path := filepath.Join(dir, "readonly")
		if _, err := c.WriteFileFrom(ctx, path, bytes.NewReader(make([]byte, 3<<20)), 0o400); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o400 || info.Size() != 3<<20 {
			t.Errorf("the read-only file: %v, %v", info, err)
		}
		var failed *agent.RPCError
		if _, err := c.ReadFileTo(ctx, filepath.Join(dir, "none"), io.Discard); !errors.As(err, &failed) {
			t.Errorf("ReadFileTo of no file: %v", err)
		}
		if _, err := c.WriteFileFrom(ctx, filepath.Join(dir, "none", "f"), strings.NewReader("x"), 0); !errors.As(err, &failed) {
			t.Errorf("WriteFileFrom into no folder: %v", err)
		}
		if _, err := c.WriteFileFrom(ctx, path, &broken{n: 5 << 20}, 0); !errors.Is(err, errBroken) {
			t.Errorf("WriteFileFrom of a broken reader: %v", err)
		}
		if _, err := c.ReadFileTo(ctx, filepath.Join(dir, fmt.Sprint(7<<20+12345)), &broken{n: 2 << 20}); !errors.Is(err, errBroken) {
			t.Errorf("ReadFileTo a broken writer: %v", err)
		}
		if got, err := c.ReadFileTo(ctx, "/proc/self/status", io.Discard); err != nil || got == 0 {
			t.Errorf("ReadFileTo of a file that says it is empty = %d, %v", got, err)
		}
		if err := c.Ping(ctx); err != nil {
			t.Errorf("ping afterwards: %v", err)
		}
	})
}

var errBroken = errors.New("broken")

// broken works for n bytes.
type broken struct{ n int }

func (b *broken) Read(p []byte) (int, error) {
	if b.n == 0 {
		return 0, errBroken
	}
	n := min(len(p), b.n)
	b.n -= n
	return n, nil
}

func (b *broken) Write(p []byte) (int, error) { return b.Read(p) }

func TestACommandWithLiveStreams(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		var out, errs bytes.Buffer
		in := strings.Repeat("line of input\n", 50_000)
		res, err := c.Run(t.Context(), agent.ExecParams{
			Argv:        []string{"sh", "-c", `cat; echo "$WHO" >&2; exit 7`},
			ExecOptions: agent.ExecOptions{Env: map[string]string{"WHO": "me"}},
		}, &agent.Streams{Stdin: strings.NewReader(in), Stdout: &out, Stderr: &errs})
		if err != nil || res.ExitCode != 7 || errs.String() != "me\n" {
			t.Errorf("Run = %+v, %v, stderr %q", res, err, errs.String())
		}
		if out.String() != in {
			t.Errorf("cat gave %d bytes of %d", out.Len(), len(in))
		}
	})
}

func TestAProcessIsSteered(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		ctx := t.Context()
		t.Run("by input and its end", func(t *testing.T) {
			var out syncBuffer
			p, err := c.Start(ctx, agent.ExecParams{Cmd: "cat", ExecOptions: agent.ExecOptions{Input: true}}, &agent.Streams{Stdout: &out})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := p.Input(ctx, []byte("abc\n")); err != nil {
					t.Error(err)
				}
			}
			if err := p.CloseInput(ctx); err != nil {
				t.Error(err)
			}
			if res, err := p.Wait(); err != nil || res.ExitCode != 0 || out.String() != "abc\nabc\nabc\n" {
				t.Errorf("Wait = %+v, %v, %q", res, err, out.String())
			}
			if err := p.Input(ctx, []byte("x")); err == nil {
				t.Error("Input after CloseInput: no error")
			}
		})
		t.Run("by a signal", func(t *testing.T) {
			p, err := c.Start(ctx, agent.ExecParams{Cmd: "echo up; sleep 1000"}, &agent.Streams{Stdout: &signaller{t: t}})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Signal(ctx, "SIGTERM"); err != nil {
				t.Error(err)
			}
			if res, err := p.Wait(); err != nil || res.ExitCode != -1 || res.Signal != "SIGTERM" {
				t.Errorf("Wait = %+v, %v", res, err)
			}
		})
		t.Run("by a terminal's size", func(t *testing.T) {
			var out syncBuffer
			p, err := c.Start(ctx, agent.ExecParams{
				Cmd:         "stty size; read x; stty size",
				ExecOptions: agent.ExecOptions{TTY: &agent.TTY{Rows: 24, Cols: 80}, Input: true},
			}, &agent.Streams{Stdout: &out})
			if err != nil {
				t.Fatal(err)
			}
			out.waitFor(t, "24 80")
			if err := p.Resize(ctx, agent.TTY{Rows: 50, Cols: 132}); err != nil {
				t.Error(err)
			}
			if err := p.Input(ctx, []byte("\n")); err != nil {
				t.Error(err)
			}
			if res, err := p.Wait(); err != nil || res.ExitCode != 0 || !strings.Contains(out.String(), "50 132") {
				t.Errorf("Wait = %+v, %v, %q", res, err, out.String())
			}
		})
		t.Run("by its context", func(t *testing.T) {
			ctx, cancel := context.WithCancel(ctx)
			pid := filepath.Join(t.TempDir(), "pid")
			var out syncBuffer
			p, err := c.Start(ctx, agent.ExecParams{Cmd: "echo $$ >" + pid + "; echo up; exec sleep 1000"}, &agent.Streams{Stdout: &out})
			if err != nil {
				t.Fatal(err)
			}
			out.waitFor(t, "up")
			cancel()
			if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %v, want %v", err, context.Canceled)
			}
			text, _ := os.ReadFile(pid)
			gone := "/proc/" + strings.TrimSpace(string(text))
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if _, err := os.Stat(gone); err != nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the command goes on")
				}
			}
		})
		t.Run("by a writer that fails", func(t *testing.T) {
			if _, err := c.Run(ctx, agent.ExecParams{Cmd: "yes"}, &agent.Streams{Stdout: &broken{n: 100 << 10}}); !errors.Is(err, errBroken) {
				t.Errorf("Run: %v, want %v", err, errBroken)
			}
		})
		if err := c.Ping(ctx); err != nil {
			t.Errorf("ping afterwards: %v", err)
		}
	})
}

// signaller is a writer that takes anything.
type signaller struct{ t *testing.T }

func (s *signaller) Write(p []byte) (int, error) { return len(p), nil }

// syncBuffer is a buffer that a test looks into while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) waitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(b.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in %q", text, b.String())
		}
	}
}

func TestManyCallsSideBySide(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		ctx := t.Context()
		big := filepath.Join(t.TempDir(), "big")
		if err := os.WriteFile(big, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for range 20 {
					if err := c.Ping(ctx); err != nil {
						t.Errorf("ping: %v", err)
					}
				}
			})
			wg.Go(func() {
				want := fmt.Sprint(i, "\n")
				if res, err := c.Exec(ctx, fmt.Sprint("echo ", i)); err != nil || res.Stdout != want {
					t.Errorf("exec %d = %+v, %v", i, res, err)
				}
			})
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
				defer cancel()
				_, _ = c.ReadFileTo(ctx, big, io.Discard)
			})
			wg.Go(func() {
				var out bytes.Buffer
				if res, err := c.Run(ctx, agent.ExecParams{Cmd: "seq 1000"}, &agent.Streams{Stdout: &out}); err != nil || out.Len() != 3893 {
					t.Errorf("seq = %+v, %v, %d bytes", res, err, out.Len())
				}
			})
		}
		wg.Wait()
	})
}

func TestAnOldGuest(t *testing.T) {
	var asked []string
	c := against(t, nil, func(method string, params json.RawMessage) string {
		asked = append(asked, method)
		switch method {
		case agent.MethodExec:
			return `{"jsonrpc":"2.0","id":%d,"result":{"exit_code":0,"stdout":"x","stderr":""}}` + "\n"
		case agent.MethodReadFile:
			return `{"jsonrpc":"2.0","id":%d,"result":{"content":"text"}}` + "\n"
		case agent.MethodWriteFile:
			return `{"jsonrpc":"2.0","id":%d,"result":{"success":true}}` + "\n"
		}
		return `{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"method not found: ` + method + `"}}` + "\n"
	})
	ctx := t.Context()
	if res, err := c.Run(ctx, agent.ExecParams{Cmd: "echo"}, nil); err != nil || res.Stdout != "x" {
		t.Errorf("Run = %+v, %v", res, err)
	}
	var out bytes.Buffer
	if n, err := c.ReadFileTo(ctx, "/f", &out); err != nil || n != 4 || out.String() != "text" {
		t.Errorf("ReadFileTo = %d, %v, %q", n, err, out.String())
	}
	if n, err := c.WriteFileFrom(ctx, "/f", strings.NewReader("text"), 0); err != nil || n != 4 {
		t.Errorf("WriteFileFrom = %d, %v", n, err)
	}
	if hello, err := c.Hello(ctx); err != nil || hello.Protocol != "1.0" || len(hello.Capabilities) != 0 {
		t.Errorf("Hello = %+v, %v", hello, err)
	}
	sent := len(asked)
	for name, err := range map[string]error{
		"argv":   second(c.Run(ctx, agent.ExecParams{Argv: []string{"true"}}, nil)),
		"stream": second(c.Run(ctx, agent.ExecParams{Cmd: "true"}, &agent.Streams{})),
		"tty":    second(c.Run(ctx, agent.ExecParams{Cmd: "true", ExecOptions: agent.ExecOptions{TTY: &agent.TTY{}}}, nil)),
		"rest":   second(c.Run(ctx, agent.ExecParams{Cmd: "true", ExecOptions: agent.ExecOptions{EndRest: true}}, nil)),
		"stat":   second(c.Stat(ctx, "/", false)),
		"remove": c.Remove(ctx, "/f", false),
		"mode":   second(c.WriteFileFrom(ctx, "/f", strings.NewReader(""), 0o600)),
	} {
		if !errors.Is(err, agent.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", name, err, agent.ErrUnsupported)
		}
	}
	if len(asked) != sent {
		t.Errorf("the guest was asked %q all the same", asked[sent:])
	}
}

func second[T any](_ T, err error) error { return err }
