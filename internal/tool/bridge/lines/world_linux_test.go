package lines_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
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
	"airlock/internal/tool/bridge/lines"
	"airlock/internal/tool/bridge/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a guest agent of its own, in this process, and a folder.
type world struct {
	client *agent.Client
	dir    string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	client := guesttest.Client(t)
	return &world{client, t.TempDir()}
}

// A said is what came of a run.
type said struct {
	proc.Outcome
	final string
	err   error
}

// A setting is what a run has beside its script.
type setting struct {
	args  string        // "" is none
	limit time.Duration // 0: more than any test takes
	most  int64         // of output; 0: 1 MiB
	back  tool.Back
	grace time.Duration // 0: that of every call
	errs  io.Writer     // takes its stderr; may be nil
}

// sh runs a script of sh's as an agent.
func (w *world) sh(t testing.TB, script string, set setting) said {
	t.Helper()
	return w.run(t.Context(), t, set, "/bin/sh", w.write(t, "agent.sh", script))
}

// run runs a program as an agent.
func (w *world) run(ctx context.Context, t testing.TB, set setting, argv ...string) said {
	t.Helper()
	r := w.process(set, argv...)
	s := &lines.Session{Tool: "probe", Call: "c1", Attempt: 1, Args: json.RawMessage(set.args), Back: set.back, Document: document}
	out, final, err := lines.Do(ctx, r, s)
	return said{out, string(final), err}
}

// process is a program that is to be run as an agent.
func (w *world) process(set setting, argv ...string) *proc.Run {
	r := &proc.Run{
		Client: w.client,
		Params: agent.ExecParams{Argv: argv, ExecOptions: agent.ExecOptions{
			Cwd: w.dir, ClearEnv: true, Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "LC_ALL": "C.UTF-8"},
		}},
		Limit: set.limit, MaxOutput: set.most, Grace: set.grace, Stderr: set.errs,
	}
	if r.Limit == 0 {
		r.Limit = 5 * time.Minute
	}
	if r.MaxOutput == 0 {
		r.MaxOutput = 1 << 20
	}
	return r
}

// A watcher is told that something was written.
type watcher func()

func (f watcher) Write(data []byte) (int, error) {
	f()
	return len(data), nil
}

// write writes a file into a folder of its own.
func (w *world) write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// document is that of a result whose meta has an outcome.
func document(res tool.Result) json.RawMessage {
	if long, ok := res.Meta["document"].(json.RawMessage); ok {
		return long
	}
	if res.Meta["outcome"] != nil {
		return json.RawMessage(res.Stdout)
	}
	return nil
}

// A back is a small one that does what the test says.
type back struct {
	call func(ctx context.Context, c tool.Call) tool.Result
	ask  func(ctx context.Context, p *tool.Prompt) (string, error)
	tell func(e event.Event) // told of each event, after it was kept

	mu     sync.Mutex
	calls  []tool.Call
	asked  []tool.Prompt
	events []event.Event
}

func (b *back) Call(ctx context.Context, c tool.Call) tool.Result {
	b.mu.Lock()
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	if b.call == nil {
		return tool.Result{OK: true, Stdout: "done", Meta: tool.Meta{"n": 1}}
	}
	return b.call(ctx, c)
}

func (b *back) Ask(ctx context.Context, p *tool.Prompt) (string, error) {
	b.mu.Lock()
	b.asked = append(b.asked, *p)
	b.mu.Unlock()
	if b.ask == nil {
		return "", tool.ErrNobody
	}
	return b.ask(ctx, p)
}

func (b *back) Publish(e event.Event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	if b.tell != nil {
		b.tell(e)
	}
}

func (b *back) Admit(context.Context, tool.Where, tool.Call) (func(tool.Result), error) {
	return nil, tool.ErrNobody
}

func (b *back) Sandbox(context.Context) (*tool.Machine, error) { return nil, tool.ErrNobody }

// wantOut complains unless the run ended by itself with code and printed stdout.
func (s said) wantOut(t testing.TB, code int, stdout, final string) {
	t.Helper()
	if s.Err != nil || s.err != nil || s.TimedOut || s.Canceled || s.TooMuch || s.Result.ExitCode != code {
		t.Errorf("Do: %+v, error %v; want exit code %d and nothing else", s.Outcome, s.err, code)
	}
	if string(s.Stdout) != stdout {
		t.Errorf("Do: stdout = %q, want %q", s.Stdout, stdout)
	}
	if s.final != final {
		t.Errorf("Do: final = %q, want %q", s.final, final)
	}
}

// wantIn complains of what text does not have.
func wantIn(t testing.TB, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s = %q, want %q in it", what, text, want)
		}
	}
}
