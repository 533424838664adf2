package gate_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/gate"
	"airlock/internal/tool"
)

// A world is a home with a project in it, and the policies that hold there.
type world struct {
	t                     *testing.T
	home, project, system string
	opts                  gate.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: top + "/home/you", project: top + "/home/you/src/project", system: top + "/etc/airlock/policy.yaml"}
	for _, dir := range []string{w.project, w.home + "/.config/airlock", top + "/etc/airlock"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.opts = gate.Options{
		System: w.system, User: w.home + "/.config/airlock/policy.yaml", Homes: []string{w.home},
		State: []string{w.home + "/.local/state/airlock"}, HostIdentity: "you@box:0123",
	}
	return w
}

// write writes a file below the home; an absolute path is taken as it is.
func (w *world) write(path, text string) {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.home, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) user(rules string) { w.write(w.opts.User, "version: 1\n"+rules) }

func (w *world) inProject(rules string) {
	w.write(w.project+"/.airlock/policy.yaml", "version: 1\n"+rules)
}

func (w *world) gate() *gate.Gate {
	w.t.Helper()
	g, err := gate.New(&w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// question asks about a line on the host.
func (w *world) question(line string) *tool.Question {
	args, _ := json.Marshal(map[string]string{"command": line})
	return &tool.Question{
		Call:    tool.Call{Tool: "cmd.run", Action: "execute", Args: args},
		Action:  &tool.Action{Name: "execute", Risk: tool.RiskUnknown, Command: "command", Paths: []string{"working_directory"}},
		WorkDir: w.project, Env: map[string]string{"HOME": w.home, "PWD": w.project, "PATH": "/usr/bin:/bin"},
	}
}

// line judges a line on the host, with the policies as they are now.
func (w *world) line(line string) tool.Judgement {
	w.t.Helper()
	return w.gate().Judge(context.Background(), w.question(line))
}

// sandboxed judges a line in a sandbox.
func (w *world) sandboxed(line string) tool.Judgement {
	w.t.Helper()
	q := w.question(line)
	q.Where = tool.InSandbox
	return w.gate().Judge(context.Background(), q)
}

// want compares a judgement's verdict and rule; an empty rule is any.
func want(t *testing.T, what string, j tool.Judgement, verdict tool.Verdict, rule string) {
	t.Helper()
	if j.Verdict != verdict || rule != "" && j.Rule != rule {
		t.Errorf("%s: %s by %q (%s), want %s by %q", what, j.Verdict, j.Rule, j.Why, verdict, rule)
	}
	if j.Rule == "" || j.Why == "" || j.Risk == "" {
		t.Errorf("%s: the judgement is not whole: rule %q, why %q, risk %q", what, j.Rule, j.Why, j.Risk)
	}
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q lacks %q", text, part)
	}
}
