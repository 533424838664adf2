package setup_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/tool/bridge/setup"
)

// A world is a home with a workspace, and an environment.
type world struct {
	home, workspace, file string
	env                   map[string]string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{home: home, workspace: filepath.Join(home, "adk-workspace"), file: filepath.Join(home, "c.yaml"), env: map[string]string{}}
	for _, dir := range []string{w.workspace, filepath.Join(home, "bin")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.env["PATH"] = "relative:" + filepath.Join(home, "none") + ":" + filepath.Join(home, "bin")
	return w
}

func (w *world) getenv(name string) string { return w.env[name] }

func (w *world) parse(text string) (*setup.File, error) {
	return setup.Parse(w.file, []byte(text), w.getenv, w.home)
}

// put writes a file below the home, and the folders that it is in.
func (w *world) put(t testing.TB, name string, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// standard is what holds where nothing is said.
func (w *world) standard() *setup.File {
	return &setup.File{
		Path:      w.file,
		Workspace: w.workspace,
		Logging:   setup.Logging{File: filepath.Join(w.home, ".gemini/bridge.log"), Level: "INFO", Rotate: true, MaxBytes: 10485760, Backups: 5},
		Security:  setup.Security{Validate: true, Sanitize: setup.Strip, MaxParam: 10000, MaxParams: 1048576},
		Metrics:   setup.Metrics{Collect: true, Retention: 720 * time.Hour},
		Parallel:  8,
	}
}

func TestWhatHoldsForAll(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		env        map[string]string
		want       func(w *world, f *setup.File)
	}{
		{"nothing said is the defaults", "", nil, func(*world, *setup.File) {}},
		{"no agents", "agents: {}\n", nil, func(_ *world, f *setup.File) { f.Agents = []setup.Agent{} }},
		{"all of it", `
workspace: {path: bin}
logging:
  file: ~/logs/b.log
  level: debug
  rotation: {enabled: false, max_bytes: 1m, backup_count: 2}
security: {validate_inputs: false, sanitize_inputs: refuse, max_param_length: 50, max_total_length: 1000}
performance: {collect_metrics: false, metrics_retention_days: 7, max_parallel: 2}
`, nil, func(w *world, f *setup.File) {
			f.Workspace = filepath.Join(w.home, "bin")
			f.Logging = setup.Logging{File: filepath.Join(w.home, "logs/b.log"), Level: "DEBUG", MaxBytes: 1 << 20, Backups: 2}
			f.Security = setup.Security{Sanitize: setup.Refuse, MaxParam: 50, MaxParams: 1000}
			f.Metrics = setup.Metrics{Retention: 168 * time.Hour}
			f.Parallel = 2
		}},
		{"the environment is over the file", "workspace: {path: ~/none}\nlogging: {file: /x/y.log, level: ERROR}\n", map[string]string{
			"ADK_WORKSPACE": "~/bin", "BRIDGE_LOG_FILE": "/z.log", "BRIDGE_LOG_LEVEL": "warning",
		}, func(w *world, f *setup.File) {
			f.Workspace = filepath.Join(w.home, "bin")
			f.Logging.File, f.Logging.Level = "/z.log", "WARNING"
		}},
		{"an empty variable says nothing", "workspace: {path: ~/bin/../bin/}\n", map[string]string{"ADK_WORKSPACE": "", "BRIDGE_LOG_LEVEL": ""}, func(w *world, f *setup.File) {
			f.Workspace = filepath.Join(w.home, "bin")
		}},
		{"the truth values of the original's reader", "logging: {rotation: {enabled: no}}\nsecurity: {sanitize_inputs: yes}\nperformance: {collect_metrics: Off}\n", nil, func(_ *world, f *setup.File) {
			f.Logging.Rotate, f.Metrics.Collect = false, false
		}},
		{"true is strip", "security: {sanitize_inputs: true}\n", nil, func(*world, *setup.File) {}},
		{"false is off", "security: {sanitize_inputs: false}\n", nil, func(_ *world, f *setup.File) { f.Security.Sanitize = setup.Off }},
		{"off is off", "security: {sanitize_inputs: off}\n", nil, func(_ *world, f *setup.File) { f.Security.Sanitize = setup.Off }},
		{"no bytes are no rotation", "logging: {rotation: {max_bytes: 0}}\n", nil, func(_ *world, f *setup.File) { f.Logging.Rotate, f.Logging.MaxBytes = false, 0 }},
		{"no backups are none either", "logging: {rotation: {backup_count: 0}}\n", nil, func(_ *world, f *setup.File) { f.Logging.Rotate, f.Logging.Backups = false, 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			maps.Copy(w.env, tt.env)
			got, err := w.parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			want := w.standard()
			tt.want(w, want)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("Parse (-want +got):\n%s", d)
			}
		})
	}
}

// raw makes JSON texts of strings.
func raw(values map[string]string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range values {
		out[name] = json.RawMessage(value)
	}
	return out
}

// in is a path in the workspace.
func (w *world) in(name string) string { return filepath.Join(w.workspace, name) }

// complete puts in what most agents have.
func complete(a *setup.Agent) {
	switch a.Protocol {
	case "":
		a.Protocol = "1.0"
	case "-":
		a.Protocol = ""
	}
	if a.Kind == "" {
		a.Kind = setup.Script
	}
	if a.Timeout == 0 {
		a.Timeout = 300 * time.Second
	}
	if a.MaxOutput == 0 {
		a.MaxOutput = 8 << 20
	}
}

// indent puts every line two columns in.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func TestAgents(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       func(w *world) setup.Agent // but for its place
	}{
		{"a script alone", "a.b-c_1: {path: x/a.py}", func(w *world) setup.Agent {
			return setup.Agent{Name: "a.b-c_1", Script: w.in("x/a.py"), Interpreter: w.home + "/bin/python3", Python: true, Argv: []string{w.home + "/bin/python3", w.in("x/a.py")}}
		}},
		{"a script that runs itself", "x: {path: run}", func(w *world) setup.Agent {
			return setup.Agent{Name: "x", Script: w.in("run"), Argv: []string{w.in("run")}}
		}},
		{"with an interpreter of its own", "x: {path: a/../run.py, python: venv/bin/python}", func(w *world) setup.Agent {
			return setup.Agent{Name: "x", Script: w.in("run.py"), Interpreter: w.in("venv/bin/python"), Python: true, Argv: []string{w.in("venv/bin/python"), w.in("run.py")}}
		}},
		{"elsewhere, named absolutely", "x: {path: /opt/x/../y.js, command: [/usr/bin/node, --flag, 1, true, \"\"]}", func(*world) setup.Agent {
			return setup.Agent{Name: "x", Script: "/opt/y.js", Interpreter: "/usr/bin/node", Argv: []string{"/usr/bin/node", "--flag", "1", "true", "", "/opt/y.js"}}
		}},
		{"a command alone", "x: {command: bin/tool}", func(w *world) setup.Agent {
			return setup.Agent{Name: "x", Interpreter: w.in("bin/tool"), Argv: []string{w.in("bin/tool")}}
		}},
		{"a command that PATH has", "x: {command: python3}", func(w *world) setup.Agent {
			return setup.Agent{Name: "x", Interpreter: w.in("python3"), Found: w.home + "/bin/python3", Argv: []string{w.in("python3")}}
		}},
		{"a command that the workspace has", "x: {command: here}", func(w *world) setup.Agent {
			return setup.Agent{Name: "x", Interpreter: w.in("here"), Argv: []string{w.in("here")}}
		}},
		{"all of it", `x:
  path: run
  description: |
    Does this,
    and that.
  kind: script
  args: {z_z: --zz, a: -a, m: --m.m}
  schema:
    type: object
    properties: {z: {type: integer, maximum: 99999999999999999999}}
  defaults: {z_z: {b: [1.50, null]}, a: "no"}
  params: {note: {raw: yes, max_length: 7}, other: {}}
  timeout: 90
  retries: 3
  env: [A_TOKEN, PYTHONPATH]
  sandbox: airlock
  network: host
  protocol: 1.1
  mixed_output: true
  max_output: 512k
`, func(w *world) setup.Agent {
			return setup.Agent{
				Name: "x", Script: w.in("run"), Argv: []string{w.in("run")}, Description: "Does this,\nand that.",
				Args:     []setup.Option{{Param: "z_z", Flag: "--zz"}, {Param: "a", Flag: "-a"}, {Param: "m", Flag: "--m.m"}},
				Schema:   json.RawMessage(`{"type":"object","properties":{"z":{"type":"integer","maximum":99999999999999999999}}}`),
				Defaults: raw(map[string]string{"z_z": `{"b":[1.50,null]}`, "a": `"no"`}),
				Params:   map[string]setup.Rule{"note": {Raw: true, MaxLength: 7}, "other": {}},
				Timeout:  90 * time.Second, Retries: 3, Pass: []string{"A_TOKEN", "PYTHONPATH"},
				Sandbox: true, HostNetwork: true, Protocol: "1.1", Mixed: true, MaxOutput: 512 << 10,
			}
		}},
		{"variables with values", "x: {path: run, timeout: 1.5, protocol: \"1.0\", env: {A: b c, B: 1.50, C: true, D: null, PYTHONPATH: \"\"}}", func(w *world) setup.Agent {
			return setup.Agent{
				Name: "x", Script: w.in("run"), Argv: []string{w.in("run")}, Timeout: 1500 * time.Millisecond,
				Pass: []string{"D"}, Set: map[string]string{"A": "b c", "B": "1.50", "C": "true", "PYTHONPATH": ""},
			}
		}},
		{"a sandbox without a network", "x: {path: run, timeout: 5m, sandbox: airlock, network: none}", func(w *world) setup.Agent {
			return setup.Agent{Name: "x", Script: w.in("run"), Argv: []string{w.in("run")}, Timeout: 5 * time.Minute, Sandbox: true}
		}},
		{"an agent of the protocol for agents", "x: {kind: acp, command: [/usr/bin/gemini, --acp], defaults: {files: [a]}}", func(*world) setup.Agent {
			return setup.Agent{
				Name: "x", Kind: setup.ACP, Protocol: "-", Interpreter: "/usr/bin/gemini", Argv: []string{"/usr/bin/gemini", "--acp"},
				Timeout: 10 * time.Minute, Defaults: raw(map[string]string{"files": `["a"]`}),
			}
		}},
		{"one by a name that the original knew is no script of its", "watch_collect: {kind: acp, command: /usr/bin/gemini, timeout: 1m}", func(*world) setup.Agent {
			return setup.Agent{Name: "watch_collect", Kind: setup.ACP, Protocol: "-", Interpreter: "/usr/bin/gemini", Argv: []string{"/usr/bin/gemini"}, Timeout: time.Minute}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.put(t, "bin/python3", 0o755, "")
			w.put(t, "adk-workspace/here", 0o755, "")
			got, err := w.parse("agents:\n" + indent(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want(w)
			want.Line, want.Column = 2, 3
			complete(&want)
			if d := cmp.Diff([]setup.Agent{want}, got.Agents); d != "" {
				t.Errorf("Parse (-want +got):\n%s", d)
			}
		})
	}
}

func TestTheToolsOfTheOriginal(t *testing.T) {
	w := newWorld(t)
	w.put(t, "bin/python3", 0o755, "")
	f, err := w.parse(`
agents:
  curate_digest: {path: a.py, defaults: {format: plain, more: 1}}
  label_github_issue: {path: a.py}
  watch_collect: {path: a.py, timeout: 7, env: [], args: {x: -x}}
  analyse_watch_report: {path: a.py, defaults: {}}
  other: {path: a.py}
`)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{"GITHUB_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"}
	want := []setup.Agent{
		{Name: "curate_digest", Defaults: raw(map[string]string{"format": `"plain"`, "more": `1`, "output": `"markdown"`}), Timeout: 180 * time.Second, Pass: tokens[1:]},
		{
			Name: "label_github_issue", Defaults: raw(map[string]string{"dry_run": `true`}), Timeout: 300 * time.Second, Pass: tokens,
			Args: []setup.Option{{Param: "issue_number", Flag: "--issue"}, {Param: "repo_name", Flag: "--repo"}, {Param: "dry_run", Flag: "--dry-run"}},
		},
		{
			Name: "watch_collect", Defaults: raw(map[string]string{"sources": `["github","pypi","npm"]`, "output_format": `"markdown"`}), Timeout: 7 * time.Second,
			Args: []setup.Option{{Param: "x", Flag: "-x"}},
		},
		{Name: "analyse_watch_report", Defaults: raw(map[string]string{"format": `"json"`}), Timeout: 300 * time.Second, Pass: tokens[1:]},
		{Name: "other", Timeout: 300 * time.Second},
	}
	python, script := w.home+"/bin/python3", w.in("a.py")
	for i := range want {
		a := &want[i]
		complete(a)
		a.Line, a.Column = 3+i, 3
		a.Script, a.Interpreter, a.Python, a.Argv = script, python, true, []string{python, script}
	}
	if d := cmp.Diff(want, f.Agents); d != "" {
		t.Errorf("Parse (-want +got):\n%s", d)
	}
}
