package plugin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/tool"
	"airlock/internal/tool/plugin"
)

const examples = "../../../examples/plugins"

// A block is a piece of code in docs/plugins.md.
type block struct {
	line       int
	info, text string
}

func blocks(t *testing.T) []block {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	inside, n := false, 0
	for line := range strings.Lines(string(doc)) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && !inside:
			all = append(all, block{line: n, info: fence})
			inside = true
		case isFence:
			inside = false
		case inside:
			all[len(all)-1].text += line
		}
	}
	return all
}

// install copies the examples, and what the document has of a plugin, to a folder.
func install(t *testing.T, all []block) *tool.Registry {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3, which two of the examples are written in")
	}
	dir := t.TempDir()
	for _, path := range []string{"todo/plugin.yaml", "todo/todo", "lines/plugin.yaml", "lines/lines"} {
		data, err := os.ReadFile(filepath.Join(examples, path))
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(examples, path))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, path), string(data), st.Mode().Perm()&^0o022)
	}
	for _, b := range all {
		kind, path, _ := strings.Cut(b.info, " ")
		switch kind {
		case "yaml":
			write(t, filepath.Join(dir, path), b.text, 0o644)
		case "python", "sh":
			write(t, filepath.Join(dir, path), b.text, 0o755)
		}
	}
	tools, problems := plugin.Load([]string{dir}, nil)
	for i := range problems {
		t.Error(&problems[i])
	}
	r, err := tool.NewRegistry(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// work fills the machine's working folder with what the document's examples are about.
func work(t *testing.T, m *tool.Machine) {
	t.Helper()
	for path, text := range map[string]string{
		"a.txt": "one\ntwo\n", "sub/b.txt": "one\n",
		"sub/c.py": "# TODO: mend this\nx = 1  # FIXME and this\n",
		"sub/d.go": "package d // the word todo alone is nothing\n",
		"sub/bin":  "# TODO\x00", "node_modules/e.js": "// TODO not ours\n",
	} {
		write(t, filepath.Join(m.WorkDir, path), text, 0o644)
	}
	if err := os.Symlink(m.WorkDir, filepath.Join(m.WorkDir, "sub", "round")); err != nil {
		t.Fatal(err)
	}
}

// TestTheDocumentsExamples makes every call of docs/plugins.md, of the plugins that it
// shows and of those in examples.
func TestTheDocumentsExamples(t *testing.T) {
	all := blocks(t)
	r, m := install(t, all), machine(t)
	work(t, m)
	seen := 0
	for i, b := range all {
		if b.info != "json call" {
			continue
		}
		seen++
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			if i+1 == len(all) || all[i+1].info != "json answer" {
				t.Fatal("a call without an answer")
			}
			call, err := tool.DecodeCall(strings.NewReader(b.text))
			if err != nil {
				t.Fatal(err)
			}
			res := r.Invoke(t.Context(), m, call)
			delete(res.Meta, tool.MetaDurationMS)
			got, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, all[i+1].text), parsed(t, string(got))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if seen < 6 {
		t.Errorf("the document has %d calls", seen)
	}
}

func parsed(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func TestTheDocumentsRefusedAnswersAreRefused(t *testing.T) {
	seen := 0
	for _, b := range blocks(t) {
		if b.info != "json refused" {
			continue
		}
		for line := range strings.Lines(b.text) {
			seen++
			p := probe(t, "", sh("cat <<'END'\n"+line+"END\n"), nil)
			if res := p.Invoke(t.Context(), machine(t), goCall()); res.Code() != tool.ParseError {
				t.Errorf("%s: code %q, want %q", line, res.Code(), tool.ParseError)
			}
		}
	}
	if seen < 8 {
		t.Errorf("the document has %d refused answers", seen)
	}
}

func TestTheExamplesRefuseWhatIsHostile(t *testing.T) {
	r, m := install(t, blocks(t)), machine(t)
	work(t, m)
	m.Env["PATH"] = os.Getenv("PATH")
	for _, tt := range []struct {
		name, tool, action, args string
		code                     tool.ErrorCode
		says                     string
	}{
		{"a shell line for a name", "lines", "count", `{"files":["a.txt;touch pwned"]}`, tool.InvalidArgs, "files"},
		{"a command substitution", "lines", "count", `{"files":["$(touch pwned)"]}`, tool.InvalidArgs, "files"},
		{"a quote in a name", "lines", "count", `{"files":["a\".txt"]}`, tool.InvalidArgs, "files"},
		{"a line feed in a name", "lines", "count", `{"files":["a.txt\n"]}`, tool.InvalidArgs, "files"},
		{"an option for a name", "lines", "count", `{"files":["--files0-from=/etc/passwd"]}`, tool.InvalidArgs, "files"},
		{"a pattern for a name", "lines", "count", `{"files":["*"]}`, tool.InvalidArgs, "files"},
		{"no files", "lines", "count", `{"files":[]}`, tool.InvalidArgs, "files"},
		{"a name written with escapes is the same name", "lines", "count", `{"files":["a\u002etxt"]}`, "", ""},
		{"a folder for a file", "lines", "count", `{"files":["sub"]}`, tool.InvalidArgs, "not a file"},
		{"a folder that is not there", "todo", "list", `{"path":"no"}`, tool.NotFound, "no such file or folder"},
		{"a link out of the tree", "todo", "list", `{"path":"sub/round"}`, tool.InvalidArgs, "neither a file nor a folder"},
		{"a device", "todo", "count", `{"path":"/dev/zero"}`, tool.InvalidArgs, "neither a file nor a folder"},
		{"too many wanted", "todo", "list", `{"max":1000000}`, tool.InvalidArgs, "max"},
		{"an argument that there is not", "todo", "list", `{"cmd":"id"}`, tool.InvalidArgs, "cmd"},
		{"a NUL in a path", "todo", "list", `{"path":"a\u0000b"}`, tool.InvalidArgs, "NUL"},
		{"a word that no comment holds", "todo", "count", `{"path":"sub/d.go"}`, "", ""},
		{"one file", "todo", "list", `{"path":"sub/c.py"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := r.Invoke(t.Context(), m, tool.Call{Tool: tt.tool, Action: tt.action, Args: []byte(tt.args)})
			if res.Code() != tt.code || res.OK != (tt.code == "") {
				t.Errorf("Invoke: ok %v, code %q, stderr %q, want %q", res.OK, res.Code(), res.Stderr, tt.code)
			}
			wantIn(t, "Stderr", res.Stderr, tt.says)
		})
	}
	if _, err := os.Stat(filepath.Join(m.WorkDir, "pwned")); err == nil {
		t.Error("a name was run")
	}
}

// TestLinesTrustsNoSchema gives the shell example what a schema would have kept from it.
func TestLinesTrustsNoSchema(t *testing.T) {
	all := blocks(t)
	r, m := install(t, all), machine(t)
	work(t, m)
	lines, _ := r.Lookup("lines")
	for _, args := range []string{
		`{"files":["a.txt;touch pwned"]}`, `{"files":["$(touch pwned)"]}`, `{"files":["a.txt\",\"x"]}`, `{"files":["-c"]}`, `{"files":["a b"]}`, `{"files":["\\"]}`,
		`{"files":["a\nb"]}`, `{"files":[]}`, `{"files":"a.txt"}`, `{"files":["a.txt"],"x":1}`, `{}`, `{"files":["é"]}`,
	} {
		res := lines.Invoke(t.Context(), m, tool.Call{Tool: "lines", Action: "count", Args: []byte(args)})
		if res.Code() != tool.InvalidArgs {
			t.Errorf("%s: ok %v, code %q, stderr %q, want %q", args, res.OK, res.Code(), res.Stderr, tool.InvalidArgs)
		}
	}
	if _, err := os.Stat(filepath.Join(m.WorkDir, "pwned")); err == nil {
		t.Error("a name was run")
	}
}
