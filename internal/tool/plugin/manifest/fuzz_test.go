package manifest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/plugin/manifest"
)

// FuzzManifest holds for every manifest: it is a tool that the registry takes, or a
// Problem that can be shown.
func FuzzManifest(f *testing.F) {
	for _, path := range []string{"todo", "lines"} {
		data, err := os.ReadFile(filepath.Join("../../../../examples/plugins", path, "plugin.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	const head = "name: a.b\nversion: 1\ndescription: d\nexecutable: ./x\n"
	for _, text := range []string{
		"", "a: &a [*a]\n", "? [a]\n: b\n", "{a: {b: [}}", "- - - a", "a: |\n  b\n c", "%YAML 1.2\n---\n", "<<: {a: b}", "!!binary x", "\"\\x00\": 1",
		head + "actions: [{name: a, description: d, schema: {type: object, properties: {p: {type: string}}}, paths: [p], risk: unknown}]\nrun: host\nneeds: [network]\nenv: [A]\ntimeout: 5s\nmax_output: 2MiB\n",
		head + "actions: [{name: a, description: d, schema: s.json}]\n",
		head + "actions: [{name: a, description: d, schema: {type: object, $ref: '#'}}]\n",
		head + "actions: [{name: a, description: d, schema: {type: object, patternProperties: {'(a*)*b': {multipleOf: 0}}}}]\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, problem := manifest.Parse(data, func(name string) ([]byte, error) {
			if name != filepath.Base(name) || strings.HasPrefix(name, "-") {
				t.Errorf("the file %q is read", name)
			}
			if name != "s.json" {
				return nil, errors.New("not there")
			}
			return []byte(`{"type":"object"}`), nil
		})
		if problem != nil {
			if text := problem.Error(); text != changes.Printable(text) || problem.Text == "" {
				t.Errorf("a problem that cannot be shown: %q", text)
			}
			return
		}
		if m.Executable != filepath.Base(m.Executable) || strings.HasPrefix(m.Executable, ".") || strings.HasPrefix(m.Executable, "-") {
			t.Errorf("the executable is %q", m.Executable)
		}
		if m.Timeout <= 0 || m.Timeout > time.Hour || m.MaxOutput < 1<<10 || m.MaxOutput > 8<<20 {
			t.Errorf("timeout %s, max_output %d", m.Timeout, m.MaxOutput)
		}
		if len(m.Actions) == 0 || len(m.Actions) != len(m.ActionsAt) {
			t.Errorf("%d actions in %d places", len(m.Actions), len(m.ActionsAt))
		}
		for _, a := range m.Actions {
			if m.Host && (a.Place != tool.HostOnly || slices.Index(tool.Risks, a.Risk) < slices.Index(tool.Risks, tool.RiskUnknown)) {
				t.Errorf("on the host, with place %q and risk %q", a.Place, a.Risk)
			}
		}
		// The registry says no to some of these, but never fails at them.
		if r, err := tool.NewRegistry(described{tool.Info{Name: m.Name, Kind: tool.Plugin, Actions: m.Actions}}); err == nil && len(r.List()) != 1 {
			t.Error("the registry does not list it")
		}
	})
}

// described is a tool that is only asked what it is.
type described struct{ info tool.Info }

func (d described) Info() *tool.Info { return &d.info }

func (described) Invoke(context.Context, *tool.Machine, tool.Call) tool.Result {
	return tool.Fail(tool.IOError, "it is only described")
}
