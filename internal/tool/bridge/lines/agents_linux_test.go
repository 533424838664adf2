package lines_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/event"
	"airlock/internal/tool"
)

// interpreter finds the program that runs a kind of script.
func interpreter(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here: %v", name, err)
	}
	return path
}

// The same agent in three languages.
func TestAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ program, script string }{
		{"python3", "agent.py"}, {"node", "agent.js"}, {"sh", "agent.sh"},
	} {
		script, err := filepath.Abs(filepath.Join("testdata", c.script))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			program := interpreter(t, c.program)
			b := &back{
				call: func(_ context.Context, c tool.Call) tool.Result {
					return tool.Result{OK: true, Stdout: "content of " + string(c.Args), Meta: tool.Meta{"duration_ms": 1}}
				},
				ask: func(_ context.Context, p *tool.Prompt) (string, error) { return p.Choices[0], nil },
			}
			if c.program == "sh" { // which knows no escapes
				b.call = func(context.Context, tool.Call) tool.Result { return tool.Result{OK: true, Stdout: "content"} }
			}
			got := w.run(t.Context(), t, setting{args: `{"path":"a.txt","note":"one: ä"}`, back: b}, program, script)
			got.wantOut(t, 0, "", got.final)
			var answer map[string]any
			if err := json.Unmarshal([]byte(got.final), &answer); err != nil {
				t.Fatalf("final %q: %v; stderr %s", got.final, err, got.Stderr)
			}
			var args struct{ Path string }
			if len(b.calls) != 1 || json.Unmarshal(b.calls[0].Args, &args) != nil || args.Path != "a.txt" {
				t.Errorf("calls %+v, want one with the path", b.calls)
			}
			content := "content"
			if c.program != "sh" {
				content = "content of " + string(b.calls[0].Args)
			}
			if diff := cmp.Diff(map[string]any{
				"status": "success", "content": content, "ids": []any{"one", 2.0}, "answer": "yes", "call": "c1", "note": "one: ä",
			}, answer); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]tool.Prompt{{Tool: "probe", Question: "Go on?", Choices: []string{"yes", "no"}, Default: "no"}}, b.asked); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			if len(b.events) != 2 || b.events[0].(event.Progress).Message != "looking" || !strings.Contains(string(b.events[1].(event.Partial).Data), "found") {
				t.Errorf("events %+v, want progress and a part", b.events)
			}
		})
		t.Run(c.script+" in the grace", func(t *testing.T) {
			t.Parallel()
			program := interpreter(t, c.program)
			// Its time passes once it waits: it may be long in starting.
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b := &back{tell: func(event.Event) { cancel(nil) }}
			got := w.run(deadlined{ctx}, t, setting{args: `{"wait":true}`, back: b, grace: notSoon}, program, script)
			got.wantOut(t, 0, "", got.final)
			var answer struct{ Told struct{ Type, Reason string } }
			if err := json.Unmarshal([]byte(got.final), &answer); err != nil || answer.Told.Type != "cancel" || answer.Told.Reason != "timeout" {
				t.Errorf("final %q (%v), want what it was told; stderr %s", got.final, err, got.Stderr)
			}
		})
	}
}

// A deadlined context, when it is canceled, ends as though its deadline had passed.
type deadlined struct {
	context.Context //nolint:containedctx // it is a context
}

func (d deadlined) Err() error {
	if d.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// The agent of docs/bridge.md does what is said there.
func TestTheAgentOfTheManual(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "python3")
	page, err := os.ReadFile("../../../../docs/bridge.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```python agent\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/bridge.md has no agent of protocol 1.1")
	}
	w := newWorld(t)
	agent := w.write(t, "agent.py", string(found[1]))
	b := &back{
		call: func(_ context.Context, c tool.Call) tool.Result {
			return tool.Result{OK: true, Stdout: "first\nsecond\n"}
		},
		ask: func(context.Context, *tool.Prompt) (string, error) { return "yes", nil },
	}
	got := w.run(t.Context(), t, setting{args: `{"files":["a.txt","b.txt"]}`, back: b}, python, agent)
	got.wantOut(t, 0, "", `{"status": "success", "lines": {"a.txt": 2, "b.txt": 2}}`)
	if len(b.calls) != 2 || b.calls[0].Tool != "fs.read_file" || string(b.calls[1].Args) != `{"path": "b.txt"}` {
		t.Errorf("calls %+v, want two of fs.read_file", b.calls)
	}
	got = w.run(t.Context(), t, setting{args: `{"files":["a.txt","b.txt"]}`}, python, agent)
	got.wantOut(t, 0, "", `{"status": "error", "error": "there is nobody to ask"}`)
}
