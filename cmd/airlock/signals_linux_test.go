package main_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// place is where a test runs airlock: a working folder, a home and a state of its own.
type place struct{ work, home, state string }

func newPlace(t *testing.T) *place {
	t.Helper()
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	free := takeSlot()
	t.Cleanup(free)
	dir := folder(t)
	p := &place{filepath.Join(dir, "w"), filepath.Join(dir, "home"), filepath.Join(dir, "state")}
	for _, d := range []string{p.work, p.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if left := leftovers(p.state); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return p
}

// command is airlock with these arguments, which is killed where it does not end.
func (p *place) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "airlock"), args...)
	cmd.WaitDelay = patience // for all that it wrote to be read
	cmd.Dir = p.work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "AIRLOCK_HOME=" + p.state, "TERM=xterm", "PS1=$ "}
	return cmd
}

// changes is what airlock changes says.
func (p *place) changes(t *testing.T) string {
	t.Helper()
	out, err := p.command(t, "changes").CombinedOutput()
	if err != nil {
		t.Fatalf("airlock changes: %v: %s", err, out)
	}
	return string(out)
}

// buffer is what a program has written so far.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// patience is how long anything may take on a machine that is busy with other things.
const patience = 60 * time.Second

// wait waits until what was written matches.
func (b *buffer) wait(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); !re.MatchString(b.String()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %q in:\n%s", pattern, b.String())
		}
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -2
}

// TestSignals sends signals to a run without a terminal.
func TestSignals(t *testing.T) {
	const polite = `echo x > f; echo ready; while :; do sleep 0.1; done`
	const deaf = `trap "echo got it" INT TERM; ` + polite
	for _, tt := range []struct {
		name    string
		flag    string
		script  string
		signals []syscall.Signal
		code    int
		says    string
		kept    bool
	}{
		{"an interrupt is the command's", "--discard", polite, []syscall.Signal{syscall.SIGINT}, 130, "discarded", false},
		{"an interrupted run is decided on as usual", "--keep", polite, []syscall.Signal{syscall.SIGINT}, 130, "kept as", true},
		{"an interrupted run lets nothing out", "--commit", polite, []syscall.Signal{syscall.SIGINT}, 130, "kept as", true},
		{"a command may catch an interrupt", "--commit", `trap "exit 0" INT; ` + polite, []syscall.Signal{syscall.SIGINT}, 0, "committed 1 change", true},
		{"a request to terminate is the command's", "--keep", polite, []syscall.Signal{syscall.SIGTERM}, 143, "kept as", true},
		{"a second interrupt kills", "--keep", deaf, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 137, "kept as", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			cmd := p.command(t, "run", tt.flag, "--", "sh", "-c", tt.script)
			var out buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out.wait(t, "ready")
			for i, sig := range tt.signals {
				if i > 0 {
					out.wait(t, "got it")
				}
				_ = cmd.Process.Signal(sig)
			}
			if got := exitCode(cmd.Wait()); got != tt.code {
				t.Errorf("exit code = %d, want %d", got, tt.code)
			}
			if !strings.Contains(out.String(), tt.says) {
				t.Errorf("airlock said %q, want %q", out.String(), tt.says)
			}
			if got := p.changes(t); (strings.Count(got, "\n") > 1) != tt.kept {
				t.Errorf("airlock changes = %q, kept: want %t", got, tt.kept)
			}
		})
	}
}

// TestThreeInterrupts ends the sandbox where the command cannot be ended.
func TestThreeInterrupts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := p.command(t, "run", "--", "sh", "-c", `trap "" INT TERM; echo ready; while :; do sleep 1; done`)
	var out buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "ready")
	ended := make(chan int, 1)
	go func() { ended <- exitCode(cmd.Wait()) }()
	// Signals that come together are one, so there is some time between them.
	var got int
	for done := false; !done; {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case got = <-ended:
			done = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	if got != 130 && got != 137 {
		t.Errorf("exit code = %d, want 130, or 137 where the second was enough", got)
	}
}

// TestInterruptBeforeTheCommand ends a run whose sandbox is still starting.
func TestInterruptBeforeTheCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for range 5 {
		cmd := p.command(t, "run", "--json", "--", "sleep", "100")
		var out buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if runs, _ := filepath.Glob(filepath.Join(p.state, "run", "*")); len(runs) > 0 {
				break
			}
		}
		_ = cmd.Process.Signal(syscall.SIGINT)
		if got := exitCode(cmd.Wait()); got != 130 {
			t.Errorf("exit code = %d, want 130: %s", got, out.String())
		}
		if !strings.Contains(out.String(), `"exit_code":130`) {
			t.Errorf("airlock said %q, want an object with the exit code", out.String())
		}
	}
}

// TestKilled kills airlock in the middle: nothing is left, and the next run works.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	long := strings.Repeat("/"+strings.Repeat("x", 100), 3)
	for _, state := range []string{p.state, p.state + long} {
		cmd := p.command(t, "run", "-m", "512m", "--keep", "--", "sh", "-c", "echo x > f; echo ready; setsid sleep 1000 & sleep 1000")
		cmd.Env = append(cmd.Env, "AIRLOCK_HOME="+state)
		var out buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.wait(t, "ready")
		runs, err := filepath.Glob(filepath.Join(state, "run", "*"))
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d run folders (%v), want 1", len(runs), err)
		}
		id := filepath.Base(runs[0])
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if left := leftovers(state); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		for _, pattern := range []string{"/sys/fs/cgroup/airlock-" + id, "/sys/fs/cgroup/*/airlock-" + id, "/run/*" + id + "*", "/tmp/*" + id + "*"} {
			left, _ := filepath.Glob(pattern)
			for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				left, _ = filepath.Glob(pattern)
			}
			if len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		}
		cmd = p.command(t, "run", "--", "echo", "well")
		cmd.Env = append(cmd.Env, "AIRLOCK_HOME="+state)
		if got, err := cmd.Output(); err != nil || string(got) != "well\n" {
			t.Errorf("the next run: %q, %v", got, err)
		}
	}
}

// TestOutputIsLive sees output while the command still runs.
func TestOutputIsLive(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := p.command(t, "run", "--", "sh", "-c", "echo first; read line; echo $line")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "first")
	if _, err := io.WriteString(stdin, "second\n"); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "first\nsecond\n" {
		t.Errorf("output = %q, %v", out.String(), err)
	}
}
