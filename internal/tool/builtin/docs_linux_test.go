package builtin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
	"airlock/internal/tool/builtin/pkgs"
	"airlock/internal/tool/builtin/svcs"
)

// like reports whether got is what want says, in which "…" stands for anything.
func like(want, got any) bool {
	switch want := want.(type) {
	case string:
		if want == "…" {
			return true
		}
		text, ok := got.(string)
		return ok && likeText(strings.Split(want, "…"), text)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !like(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok || len(object) != len(want) {
			return false
		}
		for name := range want {
			if value, has := object[name]; !has || !like(want[name], value) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, got)
}

// likeText reports whether text is made of the parts, in order, with anything between.
func likeText(parts []string, text string) bool {
	if len(parts) == 1 {
		return text == parts[0]
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		if _, text, ok = strings.Cut(text, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, last)
}

// exchange makes a call as it came from outside and compares what comes back.
func (w *world) exchange(request, response string) {
	w.t.Helper()
	call, err := tool.DecodeCall(strings.NewReader(request))
	if err != nil {
		w.t.Fatalf("%s: %v", request, err)
	}
	text, err := json.Marshal(w.registry.Invoke(w.t.Context(), w.m, call))
	if err != nil {
		w.t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal([]byte(response), &want); err != nil {
		w.t.Fatalf("%s: %v", response, err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		w.t.Fatal(err)
	}
	if !like(want, got) {
		w.t.Errorf("%s\n got %s\nwant %s", request, text, response)
	}
}

func TestTheToolsDocumentsExamples(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	write(t, filepath.Join(w.dir, "nginx.conf"), "worker_processes auto;\n")
	parts := strings.Split(string(doc), "```json ")[1:]
	if len(parts) < 26 || len(parts)%2 != 0 {
		t.Fatalf("docs/tools.md has %d blocks", len(parts))
	}
	for i := 0; i < len(parts); i += 2 {
		request, ok1 := strings.CutPrefix(parts[i], "request\n")
		response, ok2 := strings.CutPrefix(parts[i+1], "response\n")
		if !ok1 || !ok2 {
			t.Fatalf("block %d is not a request with a response: %q", i+1, parts[i])
		}
		request, _, _ = strings.Cut(request, "```")
		response, _, _ = strings.Cut(response, "```")
		w.exchange(request, response)
	}
	all, err := tool.NewRegistry(slices.Concat(builtin.Tools(), pkgs.Tools(), svcs.Tools())...)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all.List() {
		if !strings.Contains(string(doc), "\n## "+info.Name+"\n") {
			t.Errorf("docs/tools.md does not describe %s", info.Name)
		}
	}
}

// The specification's own examples, with its paths below a folder of the test's.
func TestTheSpecificationsExamples(t *testing.T) {
	names, err := filepath.Glob("testdata/spec/*.json")
	if err != nil || len(names) < 4 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			w := newWorld(t)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var example struct {
				Files             map[string]string
				Request, Response json.RawMessage
			}
			if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "$ROOT", w.dir)), &example); err != nil {
				t.Fatal(err)
			}
			for file, content := range example.Files {
				file = filepath.Join(w.dir, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, file, content)
			}
			w.exchange(string(example.Request), string(example.Response))
		})
	}
}
