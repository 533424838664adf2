package plugin_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"airlock/internal/guest/guesttest"
	"airlock/internal/tool"
	"airlock/internal/tool/plugin"
)

// machine is a guest agent of its own, in this process, as a sandbox would be.
func machine(t testing.TB) *tool.Machine {
	t.Helper()
	client := guesttest.Client(t)
	return &tool.Machine{
		Client: client, Where: tool.InSandbox, WorkDir: t.TempDir(),
		Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "LC_ALL": "C", "SECRET": "geheim", "WANTED": "this one"},
	}
}

const simple = `name: probe
version: "1"
description: Does what the test says.
executable: probe
timeout: 2m
%s
actions:
  - name: go
    description: Goes.
    risk: read-only
    schema: {type: object}
`

// probe loads one plugin whose executable is script, and whose manifest has extra lines.
func probe(t testing.TB, extra, script string, opts *plugin.Options) tool.Tool {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "probe.yaml"), fmt.Sprintf(simple, extra), 0o644)
	write(t, filepath.Join(dir, "probe"), script, 0o755)
	tools, problems := plugin.Load([]string{dir}, opts)
	if len(tools) != 1 || len(problems) != 0 {
		t.Fatalf("Load: %d tools, problems %v", len(tools), problems)
	}
	return tools[0]
}

func write(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// A process that another test starts meanwhile would have the file open for writing, and
	// until it is another program nobody could execute it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

// goCall is the call of probe.
func goCall() tool.Call { return tool.Call{Tool: "probe", Action: "go", Args: []byte("{}")} }

// logged is a logger and what it took.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var buf bytes.Buffer
	h := slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return buf.Write(p)
	}), nil)
	return slog.New(h), func() string {
		mu.Lock()
		defer mu.Unlock()
		return buf.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// wantIn complains of what text does not have.
func wantIn(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s = %q, want %q in it", what, text, want)
		}
	}
}
