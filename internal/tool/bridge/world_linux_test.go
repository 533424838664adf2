package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"airlock/internal/guest/guesttest"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/setup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a bridge over a workspace of its own, with a guest agent in this process for
// the host.
type world struct {
	t       testing.TB
	dir     string // the workspace
	m       *tool.Machine
	tools   *tool.Registry
	metrics *kept
	log     *text
	seconds string // patient's
}

// environ is the bridge's own.
var environ = []string{
	"PATH=" + os.Getenv("PATH"), "HOME=/home/of/test", "LC_ALL=C", "LANG=C.UTF-8", "GITHUB_TOKEN=ghp_0123456789abcdefghij0123456789abcdef",
	"WANTED=this one", "SECRET=geheim", "TMPDIR=/tmp", "=odd", "AIRLOCK_TOOL=forged",
}

// newWorld makes one whose agents are YAML, two spaces in, and whose workspace has these
// scripts, by path.
func newWorld(t testing.TB, agents string, scripts map[string]string) *world {
	t.Helper()
	return newWorldWith(t, "", agents, scripts)
}

// newWorldWith has more top-level YAML.
func newWorldWith(t testing.TB, more, agents string, scripts map[string]string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, script := range scripts {
		write(t, filepath.Join(dir, path), script)
	}
	config := "workspace: {path: " + strconv.Quote(dir) + "}\n" + more + "agents:\n" + agents
	f, err := setup.Parse(filepath.Join(dir, "config.yaml"), []byte(config), func(name string) string {
		if name == "PATH" {
			return os.Getenv("PATH")
		}
		return ""
	}, "/home/of/test")
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	w := &world{t: t, dir: dir, m: host(t, dir), metrics: &kept{}, log: &text{}}
	tools, err := bridge.New(f, &bridge.Options{
		Environ: environ, Metrics: w.metrics,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if w.tools, err = tool.NewRegistry(tools...); err != nil {
		t.Fatal(err)
	}
	return w
}

// host is a guest agent in this process.
func host(t testing.TB, dir string) *tool.Machine {
	t.Helper()
	client := guesttest.Client(t)
	return &tool.Machine{Client: client, Where: tool.OnHost, WorkDir: dir, Env: map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": "/home/of/machine", "LC_TIME": "C", "SECRET": "geheim", "WANTED": "not this one",
	}}
}

// call calls an agent and gives its answer back.
func (w *world) call(name, args string) (tool.Result, string) {
	w.t.Helper()
	return w.callIn(w.t.Context(), name, args)
}

func (w *world) callIn(ctx context.Context, name, args string) (tool.Result, string) {
	w.t.Helper()
	res := w.tools.Invoke(ctx, w.m, tool.Call{Tool: name, Action: bridge.Run, Args: json.RawMessage(args)})
	document := string(bridge.Document(res))
	if !json.Valid([]byte(document)) {
		w.t.Errorf("the document is not JSON: %q", document)
	}
	return res, document
}

// patient makes a world of one agent, it, and calls that. A limit of a second is one that
// passes: where the agent had not got far enough before, as on a machine that is busy, it is
// tried again in a new world, with more seconds.
func patient(t testing.TB, entry string, scripts map[string]string, enough func(w *world, got string) bool) (w *world, res tool.Result, got string) {
	t.Helper()
	for _, seconds := range []string{"1", "10", "60"} {
		w = newWorld(t, strings.ReplaceAll(entry, "timeout: 1", "timeout: "+seconds), scripts)
		w.seconds = seconds
		if res, got = w.call("it", `{}`); !strings.Contains(entry, "timeout: 1") || enough(w, got) {
			break
		}
	}
	return w, res, got
}

// read is a file of the workspace.
func (w *world) read(path string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, path))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

// sh is a shell script.
func sh(line string) string { return "#!/bin/sh\n" + line + "\n" }

// kept are metrics in memory.
type kept struct {
	mu      sync.Mutex
	samples []bridge.Sample
	health  bridge.Health
	err     error
}

func (k *kept) Add(s bridge.Sample) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.samples = append(k.samples, s)
}

func (k *kept) Health(context.Context) (bridge.Health, error) { return k.health, k.err }

// outcomes are those of the samples.
func (k *kept) outcomes() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var words []string
	for _, s := range k.samples {
		words = append(words, s.Agent+" "+s.Outcome)
	}
	return strings.Join(words, ", ")
}

// A text is written by several.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// wantIn complains of what text does not have.
func wantIn(t testing.TB, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s = %q, want %q in it", what, text, want)
		}
	}
}
