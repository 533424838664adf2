package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"airlock/agent"
	"airlock/internal/event"
	"airlock/internal/guest/guesttest"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/acp"
	"airlock/internal/tool/bridge/proc"
)

var testAgent string // the program, built once

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "testagent")
	if err != nil {
		panic(err)
	}
	testAgent = filepath.Join(dir, "testagent")
	if _, err := os.Stat("testagent/main.go"); err != nil { // so that a cached result is not taken after a change
		panic(err)
	}
	if out, err := exec.Command("go", "build", "-o", testAgent, "./testagent").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// guestAgent is a guest agent of its own, in this process.
func guestAgent(t testing.TB) *agent.Client {
	t.Helper()
	return guesttest.Client(t)
}

// A world is what a session meets: a place where the agent runs, and a way back.
type world struct {
	t       testing.TB
	run     *proc.Run
	session *acp.Session
	back    *back
}

// newWorld runs the agent with args on one guest, with another as the sandbox.
func newWorld(t testing.TB, args ...string) *world {
	t.Helper()
	workspace := t.TempDir()
	client := guestAgent(t)
	b := &back{refuse: map[string]bool{}, sandbox: &tool.Machine{
		Client: guestAgent(t), Where: tool.InSandbox, WorkDir: workspace, Env: map[string]string{"PATH": os.Getenv("PATH"), "LC_ALL": "C"},
	}}
	return &world{
		t: t, back: b,
		run: &proc.Run{
			Client: client, Limit: 5 * time.Minute, MaxOutput: 8 << 20,
			Params: agent.ExecParams{Argv: append([]string{testAgent}, args...), ExecOptions: agent.ExecOptions{
				Cwd: workspace, ClearEnv: true, Env: map[string]string{"PATH": os.Getenv("PATH")},
			}},
		},
		session: &acp.Session{Tool: "probe", Call: "c1", Workspace: workspace, Where: tool.OnHost, Back: b},
	}
}

// script is a world whose agent plays a script of lines.
func script(t testing.TB, lines ...string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, "raw", file)
}

// An answer is the document, read.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Result struct {
		Text       string `json:"text"`
		StopReason string `json:"stop_reason"`
		ToolCalls  []struct {
			Title, Kind, Status string
			Locations           []struct{ Path string }
		} `json:"tool_calls"`
		Truncated bool `json:"truncated"`
		Left      int  `json:"tool_calls_left"`
	} `json:"result"`
}

// do makes the call. An answer with status "" is none.
func (w *world) do(ctx context.Context, prompt ...string) (proc.Outcome, answer) {
	w.t.Helper()
	w.session.Prompt = strings.Join(prompt, "\n")
	out, document := acp.Do(ctx, w.run, w.session)
	var a answer
	if document != nil {
		if err := json.Unmarshal(document, &a); err != nil {
			w.t.Fatalf("the document %s: %v", document, err)
		}
	}
	return out, a
}

// text makes a call that is to be answered, and returns the text.
func (w *world) text(prompt ...string) string {
	w.t.Helper()
	out, a := w.do(w.t.Context(), prompt...)
	if a.Status != "success" {
		w.t.Fatalf("the answer is %+v, want a success (outcome %+v)", a, out)
	}
	return a.Result.Text
}

// A back lets all calls pass but those whose text holds a word of refuse.
type back struct {
	sandbox *tool.Machine

	mu     sync.Mutex
	refuse map[string]bool
	wait   chan struct{} // admissions wait for it, or for the end
	asked  []string
	done   []tool.Result
	events []event.Event
	seen   chan struct{} // closed at the first admission; may be nil
}

func (b *back) Call(context.Context, tool.Call) tool.Result { return tool.Fail(tool.IOError, "unused") }

func (b *back) Admit(ctx context.Context, where tool.Where, call tool.Call) (func(tool.Result), error) {
	text := where.String() + " " + call.Tool + " " + string(call.Args)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, text)
	if b.seen != nil && len(b.asked) == 1 {
		close(b.seen)
	}
	if b.wait != nil {
		b.mu.Unlock()
		select {
		case <-b.wait:
		case <-ctx.Done():
		}
		b.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	for word := range b.refuse {
		if strings.Contains(text, word) {
			return nil, &tool.RefusedError{Judgement: tool.Judgement{Rule: "test", Why: "it holds " + word}}
		}
	}
	return func(res tool.Result) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.done = append(b.done, res)
	}, nil
}

func (b *back) Sandbox(context.Context) (*tool.Machine, error) {
	if b.sandbox == nil {
		return nil, errors.New("no sandbox today")
	}
	return b.sandbox, nil
}

func (b *back) Ask(context.Context, *tool.Prompt) (string, error) { return "", tool.ErrNobody }

func (b *back) Publish(e event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// what are the calls that were admitted or not, and how many have their result.
func (b *back) what() (asked []string, done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.asked...), len(b.done)
}

func wantIn(t testing.TB, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s = %q, want %q in it", what, text, want)
		}
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
