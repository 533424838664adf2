package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// lasting is a place with a sandbox that lasts, which ends with the test.
func lasting(t *testing.T, flags ...string) (p *place, id string) {
	t.Helper()
	p = newPlace(t)
	out, err := p.command(t, append([]string{"sandbox", "create"}, flags...)...).Output()
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() { // the test's own context has ended
		cmd := p.command(t)
		rm := exec.CommandContext(context.WithoutCancel(t.Context()), cmd.Path, "sandbox", "rm", "--all", "--discard")
		rm.Dir, rm.Env = cmd.Dir, cmd.Env
		if out, err := rm.CombinedOutput(); err != nil {
			t.Errorf("rm: %v\n%s", err, out)
		}
	})
	return p, strings.TrimSpace(string(out))
}

// says runs airlock in a place, and gives what it printed.
func (p *place) says(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.command(t, args...).Output()
	if err != nil {
		t.Fatalf("airlock %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	c := start(t, p.command(t, "sandbox", "exec", id, "--", "sh", "-c", `tty; stty size; echo $TERM; while read line; do stty size; done; exit 5`))
	c.wait(t, `/dev/pts/\d+\r\n31 97\r\nxterm\r\n`)
	if err := pty.Setsize(c.tty, &pty.Winsize{Rows: 44, Cols: 122}); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(c.String(), "44 122") { // the size comes a moment after the keys
		n := strings.Count(c.String(), "\n")
		c.types("x\r")
		c.lines(n + 2)
	}
	c.types("\x04")
	c.ends(5)
}

func TestWhoSaysOtherwiseHasNoTerminal(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	c := start(t, p.command(t, "sandbox", "exec", "--tty=false", id, "--", "sh", "-c", `test -t 0 || echo no terminal; cat`))
	c.wait(t, "no terminal")
	c.types("fed\n\x04")
	c.wait(t, `fed\r\nfed`)
	c.ends(0)
	c = start(t, p.command(t, "sandbox", "exec", "--tty=false", "--stdin=false", id, "--", "sh", "-c", `cat; echo no input`))
	c.wait(t, "no input")
	c.ends(0)
	c = start(t, p.command(t, "sandbox", "exec", "--json", id, "--", "sh", "-c", `test -t 1 || echo no terminal`))
	c.wait(t, `"stdout":"no terminal\\n"`)
	c.ends(0)
}

func TestControlCInASandboxThatLasts(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	write(t, p, "lines", "ready\n")
	c := start(t, p.command(t, "sandbox", "exec", id, "--", "cat", filepath.Join(p.work, "lines"), "-"))
	c.wait(t, "ready")
	c.types("\x03")
	c.ends(130)
	if got := p.says(t, "sandbox", "ps", "-q", id); got != "" {
		t.Errorf("what was interrupted still runs: %q", got)
	}
}

// TestSignalsToAnExec: the first is the command's, the second ends it, and what asks
// airlock to end asks the command.
func TestSignalsToAnExec(t *testing.T) {
	const stubborn = `trap "echo caught" INT; echo ready; while :; do sleep 0.05; done`
	for _, tt := range []struct {
		name    string
		script  string
		signals []syscall.Signal
		want    int
	}{
		{"one interrupt is the command's", `trap "exit 7" INT; echo ready; while :; do sleep 0.05; done`, []syscall.Signal{syscall.SIGINT}, 7},
		{"two end it", stubborn, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 137},
		{"a request to terminate is handed on", `echo ready; exec sleep 1000`, []syscall.Signal{syscall.SIGTERM}, 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, id := lasting(t)
			cmd := p.command(t, "sandbox", "exec", id, "--", "sh", "-c", tt.script)
			var out buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out.wait(t, "ready")
			for i, s := range tt.signals {
				if i > 0 {
					out.wait(t, "caught")
				}
				_ = cmd.Process.Signal(s)
			}
			if got := exitCode(cmd.Wait()); got != tt.want {
				t.Errorf("exit code = %d, want %d\n%s", got, tt.want, out.String())
			}
			if got := p.says(t, "sandbox", "exec", id, "--", "echo", "goes on"); got != "goes on" {
				t.Errorf("the sandbox says %q", got)
			}
		})
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	cmd := p.command(t, "sandbox", "shell", id)
	cmd.Env = append(cmd.Env, "SHELL=/bin/sh")
	c := start(t, cmd)
	c.wait(t, `[#$] $`)
	c.types("echo $SHELL; pwd; exit 3\r")
	c.wait(t, `\n/bin/sh\r\n`+p.work+`\r\n`)
	c.ends(3)

	// One that is not there, and no terminal: commands come from standard input.
	cmd = p.command(t, "sandbox", "shell", id)
	cmd.Env = append(cmd.Env, "SHELL=/no/such/shell")
	cmd.Stdin = strings.NewReader("echo $SHELL | sed 's/.*bash/bash/'; exit 4\n")
	out, err := cmd.Output()
	if exitCode(err) != 4 || string(out) != "bash\n" {
		t.Errorf("the shell ended with %v and said %q", err, out)
	}
}

// TestTheSandboxEndsUnderATerminal: the terminal comes back.
func TestTheSandboxEndsUnderATerminal(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	c := start(t, p.command(t, "sandbox", "exec", id, "--", "sh", "-c", "echo ready; sleep 1000"))
	c.wait(t, "ready")
	p.says(t, "sandbox", "rm", id)
	c.ends(125)
	c.wait(t, "sandbox "+id+" has ended: it was removed")
}

func TestAttachToATerminal(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	name := p.says(t, "sandbox", "exec", "-d", "-i", "-t", id, "--", "sh", "-c", `echo ready; while read line; do echo "got $line"; test "$line" = end && exit 6; done`)
	c := start(t, p.command(t, "sandbox", "attach", "-i", id, name))
	c.wait(t, "ready")
	c.types("one\r")
	c.wait(t, "got one")
	c.types("\x10\x11") // Ctrl-P Ctrl-Q
	c.wait(t, "let go of "+name+", which goes on")
	c.ends(0)

	c = start(t, p.command(t, "sandbox", "attach", id, name)) // without input, Ctrl-C lets go
	c.wait(t, `(?s)ready.*got one`)
	c.types("\x03")
	c.ends(130)

	c = start(t, p.command(t, "sandbox", "attach", "-i", id, name))
	c.wait(t, "got one")
	c.types("end\r")
	c.wait(t, "got end")
	c.ends(6)
}

func TestRmAsks(t *testing.T) {
	for _, tt := range []struct {
		name, key, want string
		made            bool
	}{
		{"c lets out", "c\n", "committed 1 change", true},
		{"x throws away", "x\n", "", false},
		{"k keeps", "k\n", "kept as", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, id := lasting(t)
			p.says(t, "sandbox", "exec", id, "--", "touch", "made")
			c := start(t, p.command(t, "sandbox", "rm", id))
			c.wait(t, `(?s)Changed in .*made.*`+question)
			c.types(tt.key)
			c.wait(t, tt.want)
			c.ends(0)
			if _, err := os.Stat(filepath.Join(p.work, "made")); (err == nil) != tt.made {
				t.Errorf("made: err = %v, want it there: %t", err, tt.made)
			}
		})
	}
	t.Run("nothing to decide is not asked about", func(t *testing.T) {
		t.Parallel()
		p, id := lasting(t)
		c := start(t, p.command(t, "sandbox", "rm", id))
		c.ends(0)
	})
}

func TestStatsGoOnUntilControlC(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	c := start(t, p.command(t, "sandbox", "stats", "-f"))
	c.wait(t, id+` +ready +\S+M +\d+\.\d%`)
	c.types("\x03")
	c.ends(130)
	cmd := p.command(t, "sandbox", "logs", "-f", id)
	c = start(t, cmd)
	p.says(t, "sandbox", "exec", "-d", id, "--", "sh", "-c", `printf 'late\nhalf'; sleep 1000`)
	c.wait(t, `p\d+ \| late`)
	c.types("\x03")
	c.ends(130)
	c.wait(t, `p\d+ \| half`)
}

// TestAnInterruptedQuestionLeavesTheSandbox: as it was, and running.
func TestAnInterruptedQuestionLeavesTheSandbox(t *testing.T) {
	t.Parallel()
	p, id := lasting(t)
	p.says(t, "sandbox", "exec", id, "--", "touch", "made")
	c := start(t, p.command(t, "sandbox", "rm", id))
	c.wait(t, question)
	c.types("\x03")
	c.ends(130)
	if got := p.says(t, "sandbox", "exec", id, "--", "ls"); got != "made" {
		t.Errorf("the sandbox has %q, want made", got)
	}
}
