package material_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/material"
)

// write makes files below a folder; a name's folders too.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func gather(t *testing.T, opts *material.Options) *material.Gathered {
	t.Helper()
	got, err := material.Gather(context.Background(), opts)
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	return got
}

func names(pieces []planner.Piece) string {
	var out []string
	for _, p := range pieces {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestGatherTellsOfTheMachineAndOfTheLastCommand(t *testing.T) {
	dir, code := t.TempDir(), 2
	got := gather(t, &material.Options{
		WorkDir: dir, LastCommand: "make deploy PASSWORD=hunter22", LastExitCode: &code,
		LastStderr: "\x1b[31mError:\x1b[0m missing \x1b]8;;http://x\x07libfoo\x1b]8;;\x07\a\r\n",
	})
	c := got.Context
	if len(strings.Fields(c.OS)) < 2 || c.CWD != dir || c.User == "" {
		t.Errorf("Context = %+v", c)
	}
	if c.LastCommand != "make deploy PASSWORD=[redacted:password]" || *c.LastExitCode != 2 || c.LastStderr != "Error: missing libfoo\n" {
		t.Errorf("last: %q, %d, %q", c.LastCommand, *c.LastExitCode, c.LastStderr)
	}
	if c = gather(t, nil).Context; c.LastCommand != "" || c.LastExitCode != nil || c.LastStderr != "" || c.CWD == "" {
		t.Errorf("without options: %+v", c)
	}
}

func TestGatherIncludesFilesAndPatterns(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.go": "package a", "b/c.go": "package c", "b/d/e.go": "package e", "b/x.txt": "x", ".git/z.go": "no", "node_modules/m/i.go": "no",
		".env": "SESSION=Tq8vZr1LmW\n",
	})
	got := gather(t, &material.Options{WorkDir: dir, Include: []string{"b/x.txt", "**/*.go", "./b/../a.go", ".env"}, Pipe: strings.NewReader("diff Tq8vZr1LmW")})
	if want := "b/x.txt a.go b/c.go b/d/e.go .env what was piped in"; names(got.Pieces) != want {
		t.Errorf("pieces %q, want %q; notes %q", names(got.Pieces), want, got.Notes)
	}
	if text := got.Pieces[4].Text; text != "SESSION=[redacted:env]\n" {
		t.Errorf(".env is sent as %q", text)
	}
	if text := got.Pieces[5].Text; text != "diff [redacted:env]" {
		t.Errorf("the pipe is sent as %q", text)
	}
}
