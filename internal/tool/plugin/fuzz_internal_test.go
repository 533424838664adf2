package plugin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/changes"
	"airlock/internal/tool"
)

// FuzzManifest holds for every manifest: it is a tool that the registry takes, or a
// Problem that can be shown.
func FuzzManifest(f *testing.F) {
	for _, path := range []string{"todo", "lines"} {
		data, err := os.ReadFile(filepath.Join("../../../examples/plugins", path, "plugin.yaml"))
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
		m, problem := parseManifest(data, func(name string) ([]byte, error) {
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
		if m.executable != filepath.Base(m.executable) || strings.HasPrefix(m.executable, ".") || strings.HasPrefix(m.executable, "-") {
			t.Errorf("the executable is %q", m.executable)
		}
		p := newPlugin(m, "/dir", "/dir/plugin.yaml", slog.New(slog.DiscardHandler))
		if p.timeout <= 0 || p.timeout > maxTimeout || p.maxOutput < leastMaxOutput || p.maxOutput > mostMaxOutput {
			t.Errorf("timeout %s, max_output %d", p.timeout, p.maxOutput)
		}
		for _, a := range p.info.Actions {
			if p.host && slices.Index(tool.Risks, a.Risk) < slices.Index(tool.Risks, tool.RiskUnknown) {
				t.Errorf("on the host, and only %q", a.Risk)
			}
		}
		if r, err := tool.NewRegistry(p); err == nil && len(r.List()) != 1 {
			t.Error("the registry does not list it")
		}
	})
}

// FuzzAnswer holds for everything that an executable can print: it is an answer with
// the envelope's promises, or an error.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"ok":true,"stdout":"a","stderr":"b","meta":{"exit_code":1,"duration_ms":2,"x":[1,2.5,null,{"y":"z"}]}}`,
		`{"ok":false,"stderr":"gone","meta":{"error_code":"NOT_FOUND"}}`, `{"ok":false,"meta":{"error_code":42}}`,
		`{"ok":true,"ok":true}`, `{"ok":true}}`, `{"ok":true,"meta":{"a":1e999}}`, `{"ok":true,"stdout":"\ud800"}`, `{`, `[]`, ``, "\x00", `{"a" 1}`, `{1:2}`, `{"ok":true,}`,
		`{"ok":true,"meta":` + strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 51),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := parseAnswer(data)
		if err != nil {
			return
		}
		code := res.Code()
		if res.OK != (code == "") || !res.OK && !slices.Contains(tool.ErrorCodes, code) {
			t.Errorf("ok %v with code %q", res.OK, code)
		}
		if _, given := res.Meta[tool.MetaDurationMS]; given || res.Meta == nil {
			t.Errorf("meta = %v", res.Meta)
		}
		if n, given := res.Meta[tool.MetaExitCode]; given {
			if _, ok := n.(int); !ok {
				t.Errorf("exit_code is a %T", n)
			}
		}
		text, err := json.Marshal(res)
		if err != nil {
			t.Fatalf("an answer that cannot be written: %v", err)
		}
		again, err := parseAnswer(text)
		if err != nil {
			if len(text) > len(data) { // escapes can make it too long
				return
			}
			t.Fatalf("%s is not read again: %v", text, err)
		}
		if text2, err := json.Marshal(again); err != nil || string(text2) != string(text) {
			t.Errorf("%s is read again as %s (%v)", text, text2, err)
		}
	})
}
