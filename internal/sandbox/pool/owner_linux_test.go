package pool_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/pool"
)

// own says its name and waits for its end.
func own(dir string) {
	o, err := pool.NewOwner(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(o.Name())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed, or the test is
	os.Exit(0)
}

func lives(t *testing.T, dir, name string, want bool) {
	t.Helper()
	got, err := pool.Lives(dir, name)
	if err != nil || got != want {
		t.Errorf("Lives(%q) = %v, %v, want %v", name, got, err, want)
	}
}

func TestAnOwnerLivesUntilItIsClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	o, err := pool.NewOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pool.NewOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lives(t, dir, o.Name(), true)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	lives(t, dir, o.Name(), false)
	lives(t, dir, other.Name(), true)
}

func TestAnOwnerThatIsKilledDoesNotLive(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerMode+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	name := strings.TrimSpace(line)
	if err != nil || !sandbox.ValidID(name) {
		t.Fatalf("the owner says %q, err = %v", line, err)
	}
	lives(t, dir, name, true)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	lives(t, dir, name, false)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("its file is still there: %v, %v", left, err)
	}
}

func TestWhatIsNoOwnersNameLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "../outside", "/" + outside, "x\x00y", strings.Repeat("a", 17), sandbox.NewID()} {
		lives(t, dir, name, false)
	}
	link := sandbox.NewID()
	if err := os.Symlink(outside, filepath.Join(dir, "pool-"+link)); err != nil {
		t.Fatal(err)
	}
	if alive, err := pool.Lives(dir, link); err == nil {
		t.Errorf("Lives followed a link: %v", alive)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what the link led to is gone: %v", err)
	}
}
