//go:build unix

package diagnose_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/tool/bridge/diagnose"
)

// one is a configuration with one script.
const one = "\n  a: {path: a.sh}\n"

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		agents string
		make   func(w *world)
		want   []string
	}{
		"a Python that is new enough": {"\n  a: {path: a.py, python: py}\n", func(w *world) { w.python("ws/py", "Python 3.8.0") }, []string{"python: ok: DIR/ws/py: Python 3.8.0 (a)"}},
		"one that is too old":         {"\n  a: {path: a.py, python: py}\n", func(w *world) { w.python("ws/py", "Python 3.7.17") }, []string{"python: error: DIR/ws/py: it is Python 3.7; agents need 3.8 or newer", "entries of a"}},
		"one of the last century":     {"\n  a: {path: a.py, python: py}\n", func(w *world) { w.python("ws/py", "Python 2.7.18") }, []string{"python: error: DIR/ws/py: it is Python 2.7"}},
		"one that is none":            {"\n  a: {path: a.py, python: py}\n", func(w *world) { w.python("ws/py", "Lua 5.4") }, []string{"python: error: DIR/ws/py: it is no Python 3", "Lua 5.4"}},
		"one that fails": {
			"\n  a: {path: a.py, python: py}\n", func(w *world) {
				w.file("ws/py", "#!/bin/sh\necho 'Error: broken\x1b[2J' >&2\necho more >&2\nexit 1\n", 0o755)
			},
			[]string{"python: error: DIR/ws/py: it does not say its version: Error: broken", `\x1b[2J`},
		},
		"a virtual environment that is not there": {"\n  a: {path: a.py, python: env/bin/python}\n", func(*world) {}, []string{"python: error: DIR/ws/env/bin/python: Python interpreter not found", "→ make the virtual environment: python3 -m venv DIR/ws/env"}},
		"the first python3 of PATH":               {"\n  a: {path: a.py}\n", func(w *world) { w.python("bin/python3", "Python 3.12.1") }, []string{"python: ok: DIR/bin/python3: Python 3.12.1 (a)"}},

		"an interpreter that is not there":  {"\n  a: {path: a.js, command: tool}\n", func(*world) {}, []string{"dependencies: error: DIR/ws/tool: Interpreter not found", "install it"}},
		"one that PATH has":                 {"\n  a: {path: a.js, command: tool}\n", func(w *world) { w.file("bin/tool", "#!/bin/sh\n", 0o755) }, []string{"dependencies: error: DIR/ws/tool", "→ write command: DIR/bin/tool in the entries of a"}},
		"an interpreter that cannot be run": {"\n  a: {path: a.js, command: tool}\n", func(w *world) { w.file("ws/tool", "", 0o644) }, []string{"dependencies: error: DIR/ws/tool", "not executable"}},
		"requirements that cannot be read": {"\n  a: {path: a.py, python: py}\n", func(w *world) {
			w.python("ws/py", "Python 3.9.0")
			w.file("ws/requirements.txt", strings.Repeat("a\n", 200_000), 0o644)
		}, []string{"dependencies: warning: DIR/ws/requirements.txt: it cannot be read: it is too large"}},

		"a script that is not there":                         {one, func(*world) {}, []string{"files: error: a: Agent not found: DIR/ws/a.sh", "entry a (line 4)"}},
		"one that cannot be executed":                        {one, func(w *world) { w.file("ws/a.sh", "#!/bin/sh\n", 0o644) }, []string{"files: error: a: DIR/ws/a.sh is not executable", "→ chmod +x DIR/ws/a.sh (--fix does it)"}},
		"one without a first line":                           {one, func(w *world) { w.file("ws/a.sh", "echo\n", 0o755) }, []string{"files: warning: a: DIR/ws/a.sh has no line #!"}},
		"one with Windows' line ends":                        {one, func(w *world) { w.file("ws/a.sh", "#!/bin/sh\r\necho\r\n", 0o755) }, []string{"files: error: a: DIR/ws/a.sh has Windows' line ends", "dos2unix"}},
		"one whose interpreter is not there":                 {one, func(w *world) { w.file("ws/a.sh", "#!/no/such/sh -e\n", 0o755) }, []string{"files: error: a: DIR/ws/a.sh begins with #!/no/such/sh, which is not there"}},
		"one that leads out of the workspace":                {one, func(w *world) { must(w.t, os.Symlink("/bin/sh", w.at("ws/a.sh"))) }, []string{"files: error: a: Agent outside of the workspace: DIR/ws/a.sh"}},
		"one that is a pipe":                                 {"\n  a: {path: a.py, python: py}\n", func(w *world) { w.python("ws/py", "Python 3.9.0"); must(w.t, syscall.Mkfifo(w.at("ws/a.py"), 0o600)) }, []string{"files: error: a: ", "no regular file"}},
		"one that everybody may write":                       {one, func(w *world) { w.file("ws/a.sh", "#!/bin/sh\n", 0o757) }, []string{"files: warning: a: everybody can write to DIR/ws/a.sh (mode 0757), and it is run with your rights", "→ chmod o-w DIR/ws/a.sh (--fix does it)"}},
		"one in a folder that everybody may write":           {"\n  a: {path: x/a.sh}\n", func(w *world) { w.file("ws/x/a.sh", "#!/bin/sh\n", 0o755); must(w.t, os.Chmod(w.at("ws/x"), 0o777)) }, []string{"files: warning: a: everybody can replace it", "DIR/ws/x (mode 0777)", "→ chmod o-w DIR/ws/x"}},
		"a log that others may read":                         {one, func(w *world) { w.file("log/bridge.log", "", 0o644) }, []string{"files: warning: log: others may read DIR/log/bridge.log (mode 0644)", "→ chmod 600 DIR/log/bridge.log"}},
		"a log that is a folder":                             {one, func(w *world) { must(w.t, os.MkdirAll(w.at("log/bridge.log"), 0o700)) }, []string{"files: warning: log: the bridge's log DIR/log/bridge.log: it is no regular file"}},
		"a log whose folder is to be made":                   {one, func(*world) {}, []string{"files: info: log: its folder DIR/log is made with the first line"}},
		"metrics that are damaged":                           {one, func(w *world) { w.file("state/bridge.db", strings.Repeat("no database\n", 500), 0o600) }, []string{"files: error: metrics: ", "→ airlock bridge diagnose --fix moves it aside"}},
		"a workspace that everybody may write":               {one, func(w *world) { must(w.t, os.Chmod(w.at("ws"), 0o777)) }, []string{"workspace: warning: DIR/ws: everybody can write to it (mode 0777)"}},
		"a module in the workspace that hides one of Python": {"\n  a: {path: a.py, python: py}\n", func(w *world) { w.python("ws/py", "Python 3.9.0"); w.file("ws/json.py", "", 0o644) }, []string{"workspace: warning: DIR/ws/json.py: each agent imports it"}},
		"no agent": {" {}\n", func(*world) {}, []string{"workspace: warning: DIR/ws: no agent is configured"}},

		"no Gemini CLI":        {one, func(*world) {}, []string{"gemini: info: gemini: PATH has no Gemini CLI", "npm install"}},
		"a Gemini CLI":         {one, func(w *world) { w.file("bin/gemini", "#!/bin/sh\necho 0.9.1\n", 0o755) }, []string{"gemini: ok: DIR/bin/gemini: version 0.9.1"}},
		"one that is not well": {one, func(w *world) { w.file("bin/gemini", "#!/bin/sh\nexit 3\n", 0o755) }, []string{"gemini: warning: DIR/bin/gemini: it does not say its version: exit status 3"}},

		"a variable that is set":  {"\n  a: {path: a.sh, env: [TOKEN]}\n", func(w *world) { w.env = append(w.env, "TOKEN=hunter2hunter2é") }, []string{"environment: ok: TOKEN: set, 15 characters (a)"}},
		"one that is empty":       {"\n  a: {path: a.sh, env: [TOKEN]}\n", func(w *world) { w.env = append(w.env, "TOKEN=") }, []string{"environment: warning: TOKEN: set, but empty (a)"}},
		"one that is not":         {"\n  a: {path: a.sh, env: [TOKEN]}\n", func(*world) {}, []string{"environment: warning: TOKEN: not set (a)"}},
		"one of two keys that is": {"\n  a: {path: a.sh, env: [GEMINI_API_KEY, GOOGLE_API_KEY]}\n", func(w *world) { w.env = append(w.env, "GOOGLE_API_KEY=x") }, []string{"environment: info: GEMINI_API_KEY: not set, but the other one"}},
		"one that a script asks for": {"\n  a: {path: a.sh, env: [X]}\n", func(w *world) {
			w.env = append(w.env, "MY_ID=1", "PATIENCE=9")
			w.file("ws/a.sh", "#!/bin/sh\n# patience\ncurl $MY_ID\n", 0o755)
		}, []string{"environment: warning: a: its script names MY_ID, set here and not handed on → write in its entry env: [X, MY_ID]"}},
		"one where env has values": {"\n  a: {path: a.sh, env: {X: y}}\n", func(w *world) {
			w.env = append(w.env, "B_TOKEN=1", "A_TOKEN=1")
			w.file("ws/a.sh", "#!/bin/sh\n# A_TOKEN and B_TOKEN\n", 0o755)
		}, []string{"environment: warning: a: its script names A_TOKEN, B_TOKEN", "env A_TOKEN: null, B_TOKEN: null"}},

		"an interpreter that does not run": {"\n  a: {path: a.py, python: py}\n", func(w *world) {
			w.file("ws/py", "#!/bin/sh\n[ $1 = --version ] && echo Python 3.9.0 && exit\necho 43\n", 0o755)
		}, []string{"smoke tests: error: DIR/ws/py: it was to print 42, and printed \"43\""}},
		"a shell script that is no program":    {"\n  a: {path: a.sh, command: /bin/sh}\n", func(w *world) { w.file("ws/a.sh", "if then\n", 0o644) }, []string{"smoke tests: error: a: DIR/ws/a.sh is no program that /bin/sh can read"}},
		"one that is run by its first line":    {one, func(w *world) { w.file("ws/a.sh", "#!/bin/sh\nif then\n", 0o755) }, []string{"smoke tests: error: a: DIR/ws/a.sh is no program that /bin/sh can read"}},
		"one whose first line has env find it": {one, func(w *world) { w.file("ws/a.sh", "#!/usr/bin/env sh\nif then\n", 0o755) }, []string{"smoke tests: error: a: DIR/ws/a.sh is no program that /"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.agents)
			c.make(w)
			for i := range c.want {
				c.want[i] = strings.ReplaceAll(c.want[i], "DIR", w.dir)
			}
			has(t, w.run(), c.want...)
		})
	}
}

func TestAConfigurationThatIsNotRight(t *testing.T) {
	w := newWorld(t, one)
	w.file("config.yaml", "workspace: {path: ws}\nagent: {}\n", 0o644)
	findings := w.run()
	has(t, findings, "configuration: error: ", "config.yaml:2")
	if !diagnose.Failed(findings) {
		t.Error("nothing failed")
	}
	findings = diagnose.Run(t.Context(), &diagnose.Options{})
	only(t, findings, diagnose.Configuration)
}

func TestAllIsWell(t *testing.T) {
	w := newWorld(t, "\n  a: {path: a.py, python: py}\n  b: {path: b.sh}\n")
	w.python("ws/py", "Python 3.11.7")
	w.file("ws/a.py", "print(1)\n", 0o644)
	w.file("ws/b.sh", "#!/bin/sh\necho 1\n", 0o755)
	w.file("ws/requirements.txt", "requests\n", 0o644)
	findings := w.run()
	for _, section := range []string{diagnose.Configuration, diagnose.Python, diagnose.Dependencies, diagnose.Files, diagnose.Workspace, diagnose.Gemini, diagnose.Environment, diagnose.Smoke} {
		only(t, findings, section)
	}
	has(t, findings, "smoke tests: ok: b: its script can be read")
	if diagnose.Failed(findings) {
		t.Error("it failed")
	}
	if w.exists("log") || w.exists("state") {
		t.Error("something was made")
	}
}

// TestARealPython asks one what it has, and has it read scripts.
func TestARealPython(t *testing.T) {
	python := real(t, "python3")
	w := newWorld(t, "\n  good: {path: good.py, python: "+python+"}\n  bad: {path: bad.py, python: "+python+"}\n")
	w.env[0] += ":" + os.Getenv("PATH")
	w.file("ws/good.py", "import json\nopen('DIR/ran', 'w')\n", 0o644)
	w.file("ws/bad.py", "print(1)\nprint(\n", 0o644)
	w.file("ws/requirements.txt", "airlock-no-such-package>=1 # really\nAirlock.No_Other[x]; python_version < '3'\nhere==1\n-r other.txt\n", 0o644)
	w.file("ws/here-1.0.dist-info/METADATA", "Name: here\nVersion: 1.0\n", 0o644)
	w.file("ws/json.py", "open('DIR/ran', 'w')\n", 0o644) // what lies in the workspace is not run by looking
	findings := w.run()
	has(t, findings, "python: ok: "+python)
	has(t, findings, "dependencies: error: ", "requirements.txt: "+python+" does not have airlock-no-such-package →", "-m pip install -r ")
	has(t, findings, "dependencies: info: ", "such as -r and URLs")
	has(t, findings, "smoke tests: ok: good")
	has(t, findings, "smoke tests: error: bad: ", "bad.py is no program", "line ")
	if w.exists("ran") {
		t.Error("something of an agent was run")
	}
}

func TestARealNode(t *testing.T) {
	node := real(t, "node")
	w := newWorld(t, "\n  good: {path: good.js, command: "+node+"}\n  bad: {path: bad.js, command: "+node+"}\n")
	w.file("ws/good.js", "require('fs').writeFileSync('DIR/ran', '')\n", 0o644)
	w.file("ws/bad.js", "f(\n", 0o644)
	findings := w.run()
	has(t, findings, "smoke tests: ok: good")
	has(t, findings, "smoke tests: error: bad: ", "SyntaxError")
	if w.exists("ran") {
		t.Error("something of an agent was run")
	}
}

// TestNothingOfAnAgentIsRun: not a program that may be the agent, nor a script while it is
// read, nor, for an agent that is to be in a sandbox, what lies in the workspace.
func TestNothingOfAnAgentIsRun(t *testing.T) {
	w := newWorld(t, `
  itself: {command: agent}
  acp: {kind: acp, command: [agent, --acp]}
  unknown: {path: x.lua, command: agent}
  script: {path: a.sh}
  shell: {path: a.sh, command: /bin/sh}
  boxed: {path: a.py, python: py, sandbox: airlock}
  own: {path: own.sh}
`)
	w.python("ws/py", "Python 3.9.0")
	w.file("ws/agent", "#!/bin/sh\ntouch DIR/ran\n", 0o755)
	w.file("ws/a.sh", "#!/bin/sh\ntouch DIR/ran\n: $(touch DIR/ran)\n", 0o755)
	w.file("ws/own.sh", "#!DIR/ws/bash\n", 0o755)
	w.file("ws/bash", "#!/bin/sh\ntouch DIR/ran\n", 0o755)
	w.file("ws/a.py", "", 0o644)
	w.file("ws/x.lua", "", 0o644)
	findings := w.run()
	has(t, findings, "python: info: "+w.at("ws/py")+": it lies in the workspace and runs only in a sandbox")
	has(t, findings, "smoke tests: ok: shell")
	if w.exists("ran") {
		t.Error("something of an agent was run")
	}
}

// TestValuesAreNotShown: neither those that are handed on nor those that are not, nor what
// an error holds.
func TestValuesAreNotShown(t *testing.T) {
	token := "ghp" + "_" + strings.Repeat("aB3dE6", 6)
	w := newWorld(t, "\n  a: {path: a.py, python: py, env: [GITHUB_TOKEN]}\n")
	w.env = append(w.env, "GITHUB_TOKEN="+token, "OTHER_TOKEN=hunter2")
	w.file("ws/py", "#!/bin/sh\nenv | grep TOKEN >&2\necho "+token+" >&2\nexit 1\n", 0o755)
	w.file("ws/a.py", "OTHER_TOKEN", 0o644)
	findings := w.run()
	has(t, findings, "environment: ok: GITHUB_TOKEN: set, 40 characters")
	has(t, findings, "environment: warning: a: its script names OTHER_TOKEN")
	for i := range findings {
		if l := line(&findings[i]); strings.Contains(l, "aB3d") || strings.Contains(l, "hunter2") {
			t.Errorf("a finding holds a secret: %s", l)
		}
	}
}

func TestItIsStopped(t *testing.T) {
	w := newWorld(t, "\n  a: {path: a.py, python: py}\n")
	w.python("ws/py", "Python 3.9.0")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	file, err := w.load()
	must(t, err)
	findings := diagnose.Run(ctx, &diagnose.Options{Path: w.at("config.yaml"), File: file, Env: w.env})
	has(t, findings, "configuration: error: diagnose: it was stopped")
	if w.exists("ran") || !diagnose.Failed(findings) {
		t.Error("it went on")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "ws")); err != nil {
		t.Error(err)
	}
}
