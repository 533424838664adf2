package setup_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"airlock/internal/tool/bridge/setup"
	"airlock/internal/yamlfile"
)

func TestTheDocumentedFile(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/bridge.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("there is no example")
	}
	for _, b := range blocks {
		if _, err := newWorld(t).parse(string(b[1])); err != nil {
			t.Errorf("%s\n%v", b[1], err)
		}
	}
}

func FuzzParse(f *testing.F) {
	w := newWorld(f)
	for _, text := range []string{
		"", "agents: {x: {path: ../a}}\n", "workspace: {path: .}\nagents:\n  a:\n    path: /b/../../c\n    args: {z: --z}\n    env: {A: 1, B: ~}\n",
		"agents: {x: {kind: acp, command: [a, b]}}", "agents: {x: {path: a.py, schema: {type: object}, defaults: {a: [1, {b: 2.50}]}, timeout: 3}}",
		"agents: {watch_collect: {path: a, env: [A], sandbox: airlock, network: host}}", "security: {sanitize_inputs: off}", "a: &a [*a]", "- - -", "{", "logging: {file: ~/x, rotation: {enabled: no}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := w.parse(string(text))
		if err != nil {
			if file != nil || !yamlfile.Visible(err.Error()) {
				t.Errorf("Parse = %+v and %q", file, err)
			}
			return
		}
		if !filepath.IsAbs(file.Workspace) || !filepath.IsAbs(file.Logging.File) || file.Parallel < 1 || file.Security.MaxParam < 1 || file.Security.MaxParams < 1 {
			t.Errorf("Parse = %+v", file)
		}
		for _, a := range file.Agents {
			checkAgent(t, &a)
		}
	})
}

// checkAgent checks what others rely on.
func checkAgent(t *testing.T, a *setup.Agent) {
	t.Helper()
	if len(a.Argv) == 0 || !filepath.IsAbs(a.Argv[0]) || filepath.Clean(a.Argv[0]) != a.Argv[0] || a.Timeout <= 0 || a.MaxOutput <= 0 || a.Line < 1 || a.Column < 1 {
		t.Errorf("agent %+v", a)
	}
	if a.HostNetwork && !a.Sandbox || a.Kind == setup.ACP && (a.Script != "" || a.Retries != 0) || a.Kind == setup.Script && a.Protocol == "" {
		t.Errorf("agent %+v", a)
	}
	for _, word := range a.Argv {
		if strings.ContainsRune(word, 0) {
			t.Errorf("Argv %q", a.Argv)
		}
	}
	for name, value := range a.Defaults {
		if !json.Valid(value) {
			t.Errorf("default %q: %q is no JSON", name, value)
		}
	}
	if a.Schema != nil && !json.Valid(a.Schema) {
		t.Errorf("schema %q is no JSON", a.Schema)
	}
}

func BenchmarkParse(b *testing.B) {
	w := newWorld(b)
	w.put(b, "bin/python3", 0o755, "")
	text := []byte(`workspace:
  path: ~/adk-workspace
logging:
  file: ~/.gemini/bridge.log
  level: INFO
  rotation: {enabled: true, max_bytes: 10485760, backup_count: 5}
security:
  validate_inputs: true
  sanitize_inputs: strip
performance:
  collect_metrics: true
agents:
  label_github_issue:
    path: agents/label/main.py
    python: adk-env/bin/python
    description: Labels an issue
    timeout: 300
  watch_collect:
    path: agents/watch/main.py
    python: adk-env/bin/python
    description: Collects what is new
    timeout: 600
    defaults:
      sources: [github, pypi, npm]
  other:
    path: agents/other.py
    args: {a: --a, b: --b}
    schema: {type: object, properties: {a: {type: string}}}
    env: [GITHUB_TOKEN]
    retries: 1
`)
	for b.Loop() {
		if _, err := setup.Parse(w.file, text, w.getenv, w.home); err != nil {
			b.Fatal(err)
		}
	}
}
