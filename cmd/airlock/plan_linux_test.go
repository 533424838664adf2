package main_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writePlan writes a plan of commands, with the IDs a, b and so on, into the place.
func writePlan(t *testing.T, p *place, commands ...string) string {
	t.Helper()
	type step map[string]any
	var steps []step
	for i, c := range commands {
		steps = append(steps, step{"id": string(rune('a' + i)), "description": "step", "shell_command": c})
	}
	data, err := json.Marshal(map[string]any{"kind": "command_sequence", "summary": "a test", "steps": steps})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(p.work, "plan.json")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

const approval = `Let it run\? .*`

func TestDirectStepsAreApprovedOnTheTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plan := writePlan(t, p, "echo one", "echo two >two", "rm two", "echo three >three")
	c := start(t, p.command(t, "plan", "run", "--direct", plan))
	// What only reads is not asked about; what writes is, and y lets it.
	c.wait(t, `(?s)\$ echo one.*one.*echo two >two.*`+approval)
	c.types("y\r")
	// What destroys wants the word: y is not enough.
	c.wait(t, `(?s)rm two.*Type yes in full.*`)
	c.types("y\r")
	c.wait(t, `(?s)Type yes in full.*Type yes in full.*`)
	c.types("yes\r")
	c.wait(t, `(?s)echo three >three.*`+approval)
	c.types("\r") // the default is no
	c.wait(t, `\[r\]etry  \[e\]dit  \[s\]kip  \[q\] stop \? $`)
	c.types("q\r")
	c.ends(126)
	if _, err := os.Stat(filepath.Join(p.work, "two")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("two: err = %v, want it gone: its deletion was approved", err)
	}
	if _, err := os.Stat(filepath.Join(p.work, "three")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("three: err = %v, want none: it was not approved", err)
	}
}

func TestWhatWasTypedBeforeAnApprovalIsNoAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pipe := filepath.Join(p.work, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	both, err := os.OpenFile(pipe, os.O_RDWR, 0) // who opens both ends waits for nobody
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	plan := writePlan(t, p, "head -n 1 pipe", "echo x >made")
	c := start(t, p.command(t, "plan", "run", "--direct", plan))
	c.wait(t, `\$ head -n 1 pipe`)
	c.types("yes\ry\ryes\r")
	c.wait(t, `yes\s+y\s+yes\s`) // the terminal holds them, or has given them to the step's
	if _, err := both.WriteString("go on\n"); err != nil {
		t.Fatal(err)
	}
	c.wait(t, `(?s)echo x >made.*`+approval)
	c.types("\x03")
	c.wait(t, `stop \? $`)
	c.types("q\r")
	c.ends(126)
	if _, err := os.Stat(filepath.Join(p.work, "made")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made: err = %v, want none", err)
	}
}

func TestAPlanOnTheTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plan := writePlan(t, p, "echo hello <NAME> >greeting", "cat none", "cat greeting")
	c := start(t, p.command(t, "plan", "run", plan))
	c.wait(t, `NAME = $`)
	c.types("a $(touch x)\r")
	c.wait(t, `stop \? $`)
	c.types("e\r")
	c.wait(t, `now  $`)
	c.types("echo mended\r")
	c.wait(t, `(?s)mended.*hello a \$\(touch x\).*\+hello a.*`+question)
	c.types("c\r")
	c.ends(0)
	if data, err := os.ReadFile(filepath.Join(p.work, "greeting")); err != nil || string(data) != "hello a $(touch x)\n" {
		t.Errorf("greeting = %q, %v", data, err)
	}
}

// TestAKilledPlanGoesOn kills airlock in a step on the host, sees that nothing of it runs
// on, and goes on with the plan.
func TestAKilledPlanGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plan := writePlan(t, p, "ls", "echo $$; sleep 1000", "pwd")
	policy := filepath.Join(p.home, ".config", "airlock", "policy.yaml")
	if err := os.MkdirAll(filepath.Dir(policy), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policy, []byte("version: 1\nrules:\n- name: sleep\n  verdict: allow\n  why: it waits\n  program: sleep\n  risk: [read-only, unknown]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := p.command(t, "plan", "run", "--direct", plan)
	var out buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, `(?s)sleep 1000.*\n(\d+)\n`)
	pid := lastNumber(t, out.String())
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the step's shell %d still runs", pid)
		}
	}
	cmd = p.command(t, "plan", "resume")
	text, err := cmd.CombinedOutput()
	if exitCode(err) != 1 || !strings.Contains(string(text), "--interrupted again, or --interrupted done") {
		t.Errorf("plan resume = %v\n%s", err, text)
	}
	cmd = p.command(t, "plan", "resume", "--interrupted", "done", "--json")
	text, err = cmd.Output()
	var got struct {
		Success bool
		Steps   []struct{ ID, Status, Stdout string }
	}
	if err := errors.Join(err, json.Unmarshal(text, &got)); err != nil {
		t.Fatalf("plan resume: %v\n%s", err, text)
	}
	if !got.Success || len(got.Steps) != 3 || got.Steps[1].Status != "skipped" || got.Steps[2].Stdout != p.work+"\n" {
		t.Errorf("plan resume = %+v", got)
	}
}

func lastNumber(t *testing.T, text string) int {
	t.Helper()
	lines := strings.Fields(text)
	n := 0
	for _, r := range lines[len(lines)-1] {
		n = n*10 + int(r-'0')
	}
	if n <= 1 {
		t.Fatalf("no process ID at the end of %q", text)
	}
	return n
}

// TestATerminatedPlanAsksNobody: what was changed until then is kept.
func TestATerminatedPlanAsksNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.command(t, "plan", "run", writePlan(t, p, "echo x >made", "echo ready; exec sleep 600")))
	c.wait(t, `ready\r\n`)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.ends(143)
	if got := p.changes(t); !strings.Contains(got, "kept") {
		t.Errorf("airlock changes says %q, want what the first step did to be kept", got)
	}
}
