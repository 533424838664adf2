//go:build unix

package shellhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"airlock/internal/shellhook"
)

// TestMain is the tests, or the airlock that the tests' shells start: it writes what it was
// told into a file, or leaves commands for the history.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name != "airlock" && name != "ai" {
		os.Exit(m.Run())
	}
	if err := probe(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// told is what a probe was told.
type told struct {
	Args    []string
	Env     []string // Airlock's own variables
	Last    shellhook.Last
	History string // the error of leaving commands
}

func probe(args []string) error {
	out := told{Args: args, Last: shellhook.ReadPatiently(context.Background(), os.Getenv)}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "AIRLOCK_") {
			out.Env = append(out.Env, v)
		}
	}
	home := os.Getenv("HOME")
	if len(args) > 1 && args[0] == "leave" {
		var raw [][]byte
		data, err := os.ReadFile(filepath.Join(home, args[1]))
		if err := errors.Join(err, json.Unmarshal(data, &raw)); err != nil {
			return err
		}
		var commands []string
		for _, c := range raw {
			commands = append(commands, string(c))
		}
		if err := shellhook.AddHistory(os.Getenv, commands); err != nil {
			out.History = err.Error()
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	temp := filepath.Join(home, "told.tmp")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(home, "told")); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "fail" {
		return errors.New("as told")
	}
	return nil
}

// A session is an interactive shell with the hook.
type session struct {
	t     *testing.T
	home  string
	input io.Writer
	cmd   *exec.Cmd

	mu  sync.Mutex
	out strings.Builder
}

// setup says how to start a shell.
type setup struct {
	shell  string
	before string // in its settings, before the hook
	after  string // and after it
	args   []string
	pipe   bool // its input is a pipe, no terminal
	bare   bool // without the hook
	env    []string
}

// start starts a shell with settings of its own.
func start(t *testing.T, s *setup) *session {
	t.Helper()
	path, err := exec.LookPath(s.shell)
	if err != nil {
		t.Skipf("there is no %s here: %v", s.shell, err)
	}
	home := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "it's $(here)", "airlock")
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.Symlink(exe, program)); err != nil {
		t.Fatal(err)
	}
	runtime := filepath.Join(home, "run")
	hook, err := shellhook.Script(s.shell, program, &shellhook.Options{Environ: func(name string) string {
		return map[string]string{"XDG_RUNTIME_DIR": runtime}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	load := `eval "$(cat "$HOME/hook")"`
	if s.shell == "fish" {
		load = `cat $HOME/hook | source`
	}
	if s.bare {
		load = ""
	}
	if s.shell == "fish" {
		// Where it has none, fish makes completions in the background, and goes on with that when it has ended.
		if err := os.MkdirAll(filepath.Join(home, "fish", "generated_completions"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	settings := filepath.Join(home, map[string]string{"bash": "rc", "zsh": ".zshrc", "fish": "fish/config.fish"}[s.shell])
	err = errors.Join(os.MkdirAll(filepath.Dir(settings), 0o755), os.MkdirAll(runtime, 0o700),
		os.WriteFile(filepath.Join(home, "hook"), []byte(hook), 0o600),
		os.WriteFile(settings, []byte(s.before+"\n"+load+"\n"+s.after+"\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{"bash": {"--rcfile", settings, "-i"}, "zsh": {"-d", "-i"}, "fish": {"-i"}}[s.shell]
	cmd := exec.CommandContext(t.Context(), path, append(s.args, args...)...)
	cmd.Dir = home
	cmd.Env = append([]string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "LANG=C.UTF-8", "XDG_RUNTIME_DIR=" + runtime,
		"ZDOTDIR=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home,
	}, s.env...)
	x := &session{t: t, home: home, cmd: cmd}
	var read io.Reader
	if s.pipe {
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		x.input, cmd.Stdout, cmd.Stderr = in, x, x
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); x.end(nil) })
		return x
	}
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	x.input, read = tty, tty
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(x, read) // ends with an error when the terminal is gone
	}()
	t.Cleanup(func() { tty.Close(); x.end(done) })
	return x
}

// end waits for the shell's end, which its input's end brings.
func (x *session) end(done chan struct{}) {
	timer := time.AfterFunc(time.Minute, func() { _ = x.cmd.Process.Kill() })
	_ = x.cmd.Wait() // a hang-up's code
	timer.Stop()
	if done != nil {
		<-done
	}
	if x.t.Failed() {
		x.t.Logf("the terminal shows:\n%q", x.text())
	}
}

func (x *session) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.Write(p)
}

func (x *session) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

// types types lines, each ended by Enter.
func (x *session) types(lines ...string) {
	x.t.Helper()
	for _, line := range lines {
		x.raw(line + "\n")
	}
}

func (x *session) raw(s string) {
	x.t.Helper()
	if _, err := io.WriteString(x.input, s); err != nil {
		x.t.Fatalf("type: %v", err)
	}
}

// until waits for a condition, which the shell brings about.
func (x *session) until(what string, cond func() bool) {
	x.t.Helper()
	for range 6000 {
		if cond() {
			return
		}
		time.Sleep(10 * time.Millisecond) // a real shell: there is nothing to be told by
	}
	x.t.Fatalf("waited in vain for %s", what)
}

// shows waits for a text on the terminal, after what is there already.
func (x *session) shows(text string) {
	x.t.Helper()
	x.until(text, func() bool { return strings.Contains(x.text(), text) })
}

// ask types a line that calls airlock, and gives what airlock was told.
func (x *session) ask(line string) told {
	x.t.Helper()
	x.types(line)
	var out told
	x.until("what airlock was told by "+line, func() bool { return x.told(&out) })
	if err := os.Remove(filepath.Join(x.home, "told")); err != nil {
		x.t.Fatal(err)
	}
	return out
}

// told reports whether airlock has been told, and what.
func (x *session) told(out *told) bool {
	data, err := os.ReadFile(filepath.Join(x.home, "told"))
	return err == nil && json.Unmarshal(data, out) == nil
}

// expect asks, and checks the last command and its exit code; -1 for none.
func (x *session) expect(why, command string, code int) {
	x.t.Helper()
	got := x.ask("airlock ai fix").Last
	gotCode := -1
	if got.ExitCode != nil {
		gotCode = *got.ExitCode
	}
	if got.Command != command || gotCode != code {
		x.t.Errorf("%s: last = %q, %d, want %q, %d", why, got.Command, gotCode, command, code)
	}
}
