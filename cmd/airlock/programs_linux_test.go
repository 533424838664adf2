package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// made are the folders that the tests have made for all of them.
var made struct{ programs, root string }

// programs is a folder with airlock and airlock-agent, built as `make build` does it: the
// test's own binary, which may hold cgo and the race detector, cannot be the engine.
var programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("AIRLOCK_TEST_PROGRAMS"); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "airlock-programs-")
	if err != nil {
		return "", err
	}
	made.programs = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"airlock", "airlock-engine", "airlock-agent"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "airlock/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

// root holds the tests' folders. It does not lie in /tmp, where whatever is outside a
// working folder counts as noise, and an ordinary user can reach it.
var root = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("AIRLOCK_TEST_ROOT"); dir != "" {
		return dir, nil
	}
	parent := "/opt"
	if os.Geteuid() != 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		parent = home
	}
	dir, err := os.MkdirTemp(parent, "airlock-test-")
	if err != nil {
		return "", err
	}
	made.root = dir
	return dir, os.Chmod(dir, 0o755)
})

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range []string{made.programs, made.root} {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// slots bounds how many tests have sandboxes at once.
var slots = make(chan struct{}, 3)

func takeSlot() (free func()) {
	slots <- struct{}{}
	return func() { <-slots }
}

// writeProgram writes a program. While it is open, nobody forks: a child that has not started its own program yet
// would hold it open for writing, and for that long it could not be started.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// folder is a fresh folder below root, gone with the test.
func folder(t *testing.T) string {
	t.Helper()
	parent, err := root()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "t-") //nolint:usetesting // not in /tmp: see root
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
