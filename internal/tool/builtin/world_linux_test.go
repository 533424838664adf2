package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"airlock/internal/guest/guesttest"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
)

// A world is a Machine with the real guest agent, and the registry of the tools.
type world struct {
	t        testing.TB
	m        *tool.Machine
	registry *tool.Registry
	dir      string // the working folder
}

func newWorld(t testing.TB) *world {
	t.Helper()
	client := guesttest.Client(t)
	registry, err := tool.NewRegistry(builtin.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &world{t, &tool.Machine{
		Client: client, WorkDir: dir, Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir},
	}, registry, dir}
}

// call makes a call as every surface does, through the registry.
func (w *world) call(name string, args map[string]any) tool.Result {
	w.t.Helper()
	return w.callContext(w.t.Context(), name, args)
}

func (w *world) callContext(ctx context.Context, name string, args map[string]any) tool.Result {
	w.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.registry.Invoke(ctx, w.m, tool.Call{Tool: name, Args: text})
}

// run runs a shell line.
func (w *world) run(line string) tool.Result {
	w.t.Helper()
	return w.call("cmd.run", map[string]any{"command": line})
}

// wantCode fails the test unless res has the code, "" meaning that it went well, and its
// stderr has the words.
func (w *world) wantCode(res tool.Result, code tool.ErrorCode, words ...string) {
	w.t.Helper()
	if res.Code() != code || res.OK != (code == "") {
		w.t.Errorf("ok %v, code %q, stderr %q; want code %q", res.OK, res.Code(), res.Stderr, code)
	}
	for _, word := range words {
		if !strings.Contains(res.Stderr, word) {
			w.t.Errorf("stderr %q, want %q in it", res.Stderr, word)
		}
	}
}
