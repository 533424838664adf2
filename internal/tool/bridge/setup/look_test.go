package setup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/tool/bridge/setup"
)

func TestLook(t *testing.T) {
	w := newWorld(t)
	w.put(t, "adk-workspace/a.py", 0o600, "")
	w.put(t, "adk-workspace/run", 0o700, "")
	w.put(t, "bin/python3", 0o755, "")
	w.put(t, "out/a.py", 0o600, "")
	w.put(t, "out/run", 0o700, "")
	w.link(t, "adk-workspace/venv/bin/python", "bin/python3")
	w.link(t, "adk-workspace/dangling", "none")
	w.link(t, "adk-workspace/link.py", "out/a.py")
	w.link(t, "adk-workspace/inside.py", "adk-workspace/a.py")
	w.link(t, "adk-workspace/out", "out")
	w.link(t, "adk-workspace/self", "adk-workspace")
	w.link(t, "adk-workspace/loop", "adk-workspace/loop")
	w.link(t, "away", "adk-workspace")

	var notFound *setup.NotFoundError
	var outside *setup.OutsideError
	for _, tt := range []struct {
		name, entry, want string
		as                any
	}{
		{"a script for Python", "path: a.py", "", nil},
		{"a program", "path: run", "", nil},
		{"an interpreter that is a link out of the workspace, as environments have it", "path: a.py, python: venv/bin/python", "", nil},
		{"a script by a link that stays inside", "path: inside.py", "", nil},
		{"an interpreter by a link that stays inside", "path: a.py, command: self/run", "", nil},
		{"a script outside that is named absolutely", "path: $HOME/out/a.py", "", nil},
		{"an interpreter outside that is named absolutely", "path: a.py, command: $HOME/out/run", "", nil},
		{"the workspace by another name", "path: $HOME/away/a.py", "", nil},

		{"no script", "path: none.py", "Agent not found: $WS/none.py", &notFound},
		{"a link to nothing", "path: dangling", "Agent not found: $WS/dangling", &notFound},
		{"no interpreter", "path: a.py, python: none/bin/python", "Python interpreter not found: $WS/none/bin/python", &notFound},
		{"no interpreter where Python's name stands alone", "path: a.py, python: python3", "Python interpreter not found: $WS/python3; for that of PATH write python: $HOME/bin/python3", &notFound},
		{"no command", "path: a.py, command: none", "Interpreter not found: $WS/none", &notFound},
		{"no command, but one of PATH", "path: a.py, command: python3", "Interpreter not found: $WS/python3; for that of PATH write command: $HOME/bin/python3", &notFound},
		{"a command that is a link to nothing", "command: dangling", "Interpreter not found: $WS/dangling", &notFound},
		{"no script, for an interpreter that is not there either", "path: none.py, python: none", "Agent not found: $WS/none.py", &notFound},

		{"a script by a link out of the workspace", "path: link.py", "Agent outside of the workspace: $WS/link.py; name it absolutely or move it there", &outside},
		{"a script in a folder that is one", "path: out/a.py", "Agent outside of the workspace: $WS/out/a.py", &outside},
		{"the same, named absolutely", "path: $WS/out/a.py", "Agent outside of the workspace: $WS/out/a.py", &outside},
		{"an interpreter in a folder that is one", "path: a.py, python: out/run", "Agent outside of the workspace: $WS/out/run", &outside},

		{"a loop of links", "path: loop", "look for the agent: ", nil},
		{"a folder", "path: venv", "$WS/venv is no regular file", nil},
		{"a folder for an interpreter", "path: venv, python: venv/bin/python", "$WS/venv is no regular file", nil},
		{"an interpreter that is a folder", "path: a.py, python: venv", "$WS/venv is no regular file", nil},
		{"a device", "path: /dev/null", "/dev/null is no regular file", nil},
		{"a script that is not executable", "path: $HOME/c.txt", "$HOME/c.txt is not executable; chmod +x it, or name its interpreter with command", nil},
		{"an interpreter that is not", "path: run, command: a.py", "$WS/a.py is not executable", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.put(t, "c.txt", 0o600, "")
			fill := strings.NewReplacer("$HOME", w.home, "$WS", w.workspace)
			f, err := w.parse("agents:\n  x: {" + fill.Replace(tt.entry) + "}\n")
			if err != nil {
				t.Fatal(err)
			}
			err = f.Agents[0].Look(f.Workspace)
			if want := fill.Replace(tt.want); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Look: err = %v, want %q", err, want)
			}
			if tt.as != nil && !errors.As(err, tt.as) {
				t.Errorf("Look: err is a %T", err)
			}
		})
	}
}

func (w *world) link(t *testing.T, name, to string) {
	t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.home, to), path); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutAPythonTheCallSaysSo(t *testing.T) {
	w := newWorld(t)
	w.put(t, "adk-workspace/a.py", 0o600, "")
	w.put(t, "bin/python3", 0o644, "not executable")
	f, err := w.parse("agents: {x: {path: a.py}}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Agents[0].Interpreter; got != "/usr/bin/python3" {
		t.Errorf("Interpreter = %q", got)
	}
}
