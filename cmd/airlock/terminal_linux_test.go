package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// console is a terminal with a program on it.
type console struct {
	buffer
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the keyboard's and the screen's side
	side *os.File // the program's
	old  unix.Termios
	read chan struct{}
}

// start runs a program on a terminal of its own.
func start(t *testing.T, cmd *exec.Cmd) *console {
	t.Helper()
	tty, side, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, cmd: cmd, tty: tty, side: side, read: make(chan struct{})}
	t.Cleanup(func() {
		side.Close()
		tty.Close()
		<-c.read
	})
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 31, Cols: 97}); err != nil {
		t.Fatal(err)
	}
	c.old = *c.modes()
	if cmd.Stdin == nil {
		cmd.Stdin = side
	}
	if cmd.Stdout == nil {
		cmd.Stdout = side
	}
	if cmd.Stderr == nil {
		cmd.Stderr = side
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			_, _ = c.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *console) modes() *unix.Termios {
	c.t.Helper()
	m, err := unix.IoctlGetTermios(int(c.side.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// types types text.
func (c *console) types(text string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// holds waits until the terminal holds so many keys that nobody has read.
func (c *console) holds(keys int) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		n, err := unix.IoctlGetInt(int(c.side.Fd()), unix.TIOCINQ)
		switch {
		case err != nil:
			c.t.Fatal(err)
		case n >= keys:
			return
		case time.Now().After(end):
			c.t.Fatalf("the terminal holds %d keys, want %d; it shows:\n%s", n, keys, c.String())
		}
	}
}

// lines waits until so many lines were shown.
func (c *console) lines(n int) {
	c.t.Helper()
	for end := time.Now().Add(patience); strings.Count(c.String(), "\n") < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("waited in vain for line %d in:\n%s", n, c.String())
		}
	}
}

// settle waits until all that was written to the terminal is there to be looked at: what a program wrote last may
// arrive after its end.
func (c *console) settle() {
	c.t.Helper()
	const mark = "\x00" // which no program writes
	if _, err := c.side.WriteString(mark); err != nil {
		c.t.Fatal(err)
	}
	c.wait(c.t, mark)
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.ReplaceAll(c.buf.String(), mark, "")
	c.buf.Reset()
	c.buf.WriteString(text)
}

// ends waits for the program's end with this code, and for the terminal to be as before.
func (c *console) ends(code int) {
	c.t.Helper()
	err := c.cmd.Wait()
	c.settle()
	if got := exitCode(err); got != code {
		c.t.Errorf("exit code = %d, want %d; the terminal shows:\n%s", got, code, c.String())
	}
	if now := *c.modes(); now != c.old {
		c.t.Errorf("the terminal's modes are %+v, want %+v", now, c.old)
	}
}

const question = `\[c\]ommit  \[d\]iff  \[k\]eep  \[x\] discard \? $`

func TestTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.command(t, "run", "--", "sh", "-c", `tty; stty size; test -t 1 && echo "out on terminal"; while read line; do stty size; done; exit 5`))
	c.wait(t, `/dev/pts/\d+\r\n31 97\r\nout on terminal\r\n`)
	if err := pty.Setsize(c.tty, &pty.Winsize{Rows: 44, Cols: 122}); err != nil {
		t.Fatal(err)
	}
	// The size comes a moment after the keys.
	for !strings.Contains(c.String(), "44 122") {
		n := strings.Count(c.String(), "\n")
		c.types("x\r")
		c.lines(n + 2)
	}
	c.types("\x04")
	c.ends(5)
}

// TestControlCIsTheCommands: one Ctrl-C, typed once, is enough. What is interrupted is
// cat, which says that it is ready itself, and waits with the usual disposition of SIGINT.
// sh -c 'echo ready; sleep 1000' is no test of a terminal: dash catches SIGINT, and its
// handler runs, and does nothing, in the child that it has vforked and that is not
// sleep yet. A Ctrl-C that comes just then is lost, in a sandbox or out of it.
func TestControlCIsTheCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	write(t, p, "lines", "ready\n")
	c := start(t, p.command(t, "run", "--", "sh", "-c", `trap "echo caught" INT; cat lines -; read a; read a; exit 6`))
	c.wait(t, "ready")
	c.types("\x03")
	c.wait(t, "caught")
	c.types("\ra\r")
	c.ends(6)
	for _, args := range [][]string{
		{"cat", "lines", "-"},
		{"sh", "-c", "cat lines - | cat"}, // a shell and what it runs are one group
	} {
		c = start(t, p.command(t, append([]string{"run", "--"}, args...)...))
		c.wait(t, "ready")
		c.types("\x03")
		c.ends(130)
	}
}

// TestTerminateOnATerminal: a signal from elsewhere ends the command, and the terminal
// comes back.
func TestTerminateOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.command(t, "run", "--", "sh", "-c", `echo ready; sleep 1000`))
	c.wait(t, "ready")
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.ends(143)
}

func TestQuestion(t *testing.T) {
	const change = `echo new > a; rm -r d; printf "half a line"; exit 4`
	for _, tt := range []struct {
		name    string
		keys    []string // each typed when the question is there
		between []string // what stands on the terminal after each
		want    string   // what airlock changes knows then
		content string
	}{
		{"c commits, though the command failed", []string{"c\n"}, []string{`committed 3 changes`}, "committed", "new\n"},
		{"d shows, and x throws away", []string{"d\n", "x\n"}, []string{`(?s)-old\S*\r\n.*\+new\S*\r\n.*` + question, `airlock: discarded`}, "No change sets", "old\n"},
		{"k keeps", []string{"k\n"}, []string{`kept as`}, "kept", "old\n"},
		{"words do, in capitals too", []string{"KEEP\n"}, []string{`kept as`}, "kept", "old\n"},
		{"an end of the input keeps", []string{"\x04"}, []string{`kept as`}, "kept", "old\n"},
		{"Ctrl-C keeps", []string{"\x03"}, []string{`kept as`}, "kept", "old\n"},
		{"silence and y are no answers", []string{"\n", "y\n", "k\n"}, []string{`\? \r\n.*` + question, `(?s)c lets the changes out.*` + question, `kept as`}, "kept", "old\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			write(t, p, "a", "old\n")
			write(t, p, "d/f", "f\n")
			c := start(t, p.command(t, "run", "--", "sh", "-c", change))
			c.wait(t, `(?s)half a line.*\r\n.*Changed in .*M.* .*a.*D.*d/.*D.*d/f.*`+question)
			for i, keys := range tt.keys {
				c.types(keys)
				c.wait(t, tt.between[i])
			}
			c.ends(4)
			if got := p.changes(t); !strings.Contains(got, tt.want) {
				t.Errorf("airlock changes = %q, want %q", got, tt.want)
			}
			if got, _ := os.ReadFile(filepath.Join(p.work, "a")); string(got) != tt.content {
				t.Errorf("a holds %q, want %q", got, tt.content)
			}
		})
	}
}

func write(t *testing.T, p *place, name, text string) {
	t.Helper()
	path := filepath.Join(p.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNothingToAsk: what no commit would let out is not asked about.
func TestNothingToAsk(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.command(t, "run", "--", "true"))
	c.ends(0)
	if c.String() != "" {
		t.Errorf("the terminal shows %q, want nothing", c.String())
	}
	c = start(t, p.command(t, "run", "--", "sh", "-c", "echo x > /tmp/noise"))
	c.ends(0)
	if c.String() != "" {
		t.Errorf("the terminal shows %q, want nothing", c.String())
	}
	c = start(t, p.command(t, "run", "--", "sh", "-c", "echo x > ~/outside"))
	c.ends(0)
	c.wait(t, `nothing changed in the working folder, but 1 change elsewhere(?s).*kept as`)
}

// TestKeysBeforeTheQuestion: what was typed for the command, or before the question was
// seen, does not answer it; and what is typed after a command's end is still there for
// whoever reads next.
func TestKeysBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.command(t, "run", "--", "sh", "-c", "echo x > a; echo ready; read line"))
	c.wait(t, "ready")
	c.types("c\rc\nc\n") // the first line ends the command
	c.wait(t, question)
	c.types("x\n")
	c.ends(0)
	c.wait(t, "discarded")

	shell := exec.CommandContext(t.Context(), "sh", "-c", `"$0" run --keep -- touch b; read line; echo "the shell read $line"`, p.command(t).Path)
	shell.Dir, shell.Env = p.work, p.command(t).Env
	c = start(t, shell)
	c.wait(t, "kept as")
	c.types("all of it\n")
	c.wait(t, "the shell read all of it")
	c.ends(0)
}

// TestConflictAtTheQuestion: a commit that is refused keeps the changes.
func TestConflictAtTheQuestion(t *testing.T) {
	for _, tt := range []struct {
		name     string
		exit     string
		wantCode int
	}{{"the code is 1", "0", 1}, {"but the command's own goes before", "7", 7}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			write(t, p, "a", "old\n")
			c := start(t, p.command(t, "run", "--", "sh", "-c", "echo new > a; exit "+tt.exit))
			c.wait(t, question)
			write(t, p, "a", "mine\n")
			c.types("c\n")
			c.ends(tt.wantCode)
			c.wait(t, `(?s)nothing was committed; the changes are kept as.*`+p.work+`/a`)
			if got := p.changes(t); !strings.Contains(got, "kept") {
				t.Errorf("airlock changes = %q, want it kept", got)
			}
		})
	}
}

// TestPipedOutputOnATerminal: there is somebody to ask, but no terminal for the command.
func TestPipedOutputOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := p.command(t, "run", "--", "sh", "-c", "test -t 0 || echo no terminal; echo x > a")
	var out buffer
	cmd.Stdout = &out
	c := start(t, cmd)
	c.wait(t, question)
	c.types("c\n")
	c.ends(0)
	if out.String() != "no terminal\n" {
		t.Errorf("stdout = %q", out.String())
	}
	if _, err := os.Stat(filepath.Join(p.work, "a")); err != nil {
		t.Error(err)
	}
}

// TestFlagsOnATerminal: with a flag, or for a program, nobody is asked.
func TestFlagsOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for flag, want := range map[string]string{"--discard": "discarded", "--keep": "kept as", "--commit": "committed 1 change", "--json": `"state":"discarded"`} {
		c := start(t, p.command(t, "run", flag, "--", "touch", "f"+flag))
		c.ends(0)
		c.wait(t, want)
	}
}

// TestBackgroundJob: a run in the background neither stops for the terminal nor touches it.
func TestBackgroundJob(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	shell := exec.CommandContext(t.Context(), "bash", "-c", `set -m; "$0" run --keep -- sh -c 'cat; echo done > a' & wait $!; echo "code $?"`, p.command(t).Path)
	shell.Dir, shell.Env = p.work, p.command(t).Env
	c := start(t, shell)
	c.wait(t, `kept as(?s).*code 0`)
	c.ends(0)
}

// TestHostileScreen: a program cannot leave the terminal so that the list is not seen.
func TestHostileScreen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.command(t, "run", "--", "sh", "-c", `printf '\033[8m\033[5;6r\033[?1049h'; echo x > a`))
	c.wait(t, question)
	_, after, _ := strings.Cut(c.String(), "\x1b[?1049h")
	list := strings.Index(after, "Changed in")
	for _, want := range []string{"\x1b[0m", "\x1b[r", "\x1b[?1047l", "\x1b(B"} {
		if i := strings.Index(after, want); i < 0 || i > list {
			t.Errorf("%q stands at %d, want it before the list at %d", want, i, list)
		}
	}
	c.types("x\n")
	c.ends(0)
}
