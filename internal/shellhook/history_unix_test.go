//go:build unix

package shellhook_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/shellhook"
)

const token = "0123456789abcdef"

func TestAddHistoryRefuses(t *testing.T) {
	t.Parallel()
	pid := strconv.Itoa(os.Getpid())
	name := "history-" + pid + "-" + token
	for _, tt := range []struct {
		name     string
		file     string // AIRLOCK_SHELL_HISTORY
		pid      string
		commands []string
		prepare  func(dir, file string) error
		hook     bool // the error is ErrNoHook
	}{
		{name: "no hook", hook: true},
		{name: "a path", file: "../" + name, pid: pid, hook: true},
		{name: "another file", file: ".bashrc", pid: pid, hook: true},
		{name: "a token with a path", file: "history-" + pid + "-../../../../../x", pid: pid, hook: true},
		{name: "another shell's process", file: name, pid: "1", hook: true},
		{name: "a NUL", file: name, pid: pid, commands: []string{"a\x00b"}},
		{name: "a command that is too long", file: name, pid: pid, commands: []string{strings.Repeat("a", 33<<10)}},
		{name: "too many commands", file: name, pid: pid, commands: make([]string, 101)},
		{name: "a folder that others may use", file: name, pid: pid, prepare: func(dir, _ string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
		}},
		{name: "a folder that is a link", file: name, pid: pid, prepare: func(dir, _ string) error {
			return errors.Join(os.Mkdir(dir+"2", 0o700), os.Symlink(dir+"2", dir))
		}},
		{name: "a link", file: name, pid: pid, prepare: func(dir, file string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/x", nil, 0o600), os.Symlink(dir+"/x", file))
		}},
		{name: "a second name of another file", file: name, pid: pid, prepare: func(dir, file string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/x", nil, 0o600), os.Link(dir+"/x", file))
		}},
		{name: "a pipe", file: name, pid: pid, prepare: func(dir, file string) error {
			return errors.Join(os.Mkdir(dir, 0o700), exec.Command("mkfifo", "-m", "600", file).Run())
		}},
		{name: "a file that others may read", file: name, pid: pid, prepare: func(dir, file string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o644))
		}},
		{name: "a file that was never taken", file: name, pid: pid, prepare: func(dir, file string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, make([]byte, 1<<20), 0o600))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := t.TempDir()
			dir := filepath.Join(run, "airlock")
			if tt.prepare != nil {
				if err := tt.prepare(dir, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.commands == nil {
				tt.commands = []string{"echo x"}
			}
			err := shellhook.AddHistory(environ(map[string]string{
				"XDG_RUNTIME_DIR": run, "AIRLOCK_SHELL_HISTORY": tt.file, "AIRLOCK_SHELL_PID": tt.pid,
			}), tt.commands)
			if err == nil || errors.Is(err, shellhook.ErrNoHook) != tt.hook {
				t.Errorf("AddHistory: err = %v, want ErrNoHook: %t", err, tt.hook)
			}
			if st, err := os.Stat(filepath.Join(dir, "x")); err == nil && st.Size() > 0 {
				t.Error("another file was written to")
			}
		})
	}
}

// TestAddHistorySweeps: what shells that have ended left behind goes.
func TestAddHistorySweeps(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	dir := filepath.Join(run, "airlock")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const ended = "999999999" // no system counts as far: the number of one that has ended could be another's already
	old := filepath.Join(dir, "history-"+ended+"-"+token)
	other := filepath.Join(dir, "notes")
	writeFile(t, old, "x")
	writeFile(t, other, "x")
	name := "history-" + strconv.Itoa(os.Getpid()) + "-" + token
	err := shellhook.AddHistory(environ(map[string]string{
		"XDG_RUNTIME_DIR": run, "AIRLOCK_SHELL_HISTORY": name, "AIRLOCK_SHELL_PID": strconv.Itoa(os.Getpid()),
	}), []string{"echo 'é'\n", ""})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, name))
	if want := `echo \0047\0303\0251\0047\0012` + "\n"; err != nil || string(got) != want {
		t.Errorf("the file holds %q, %v, want %q", got, err, want)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an ended shell's file is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("another file: %v", err)
	}
}

// TestTmux: what the last command wrote is had from a real tmux.
func TestTmux(t *testing.T) {
	t.Parallel()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skipf("there is no tmux here: %v", err)
	}
	x := start(t, &setup{shell: "bash", before: `PS1='\w $ '; unset HISTFILE`}) // one that ends writes no file into a folder that goes
	socket := filepath.Join(x.home, "s")
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), tmux, append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Env, cmd.Dir = x.cmd.Env, x.home
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		cmd := exec.Command(tmux, "-S", socket, "kill-server")
		_ = cmd.Run()
	})
	run("new-session", "-d", "-x", "60", "-y", "20", "bash --rcfile $HOME/rc -i")
	inside, err := strconv.Atoi(strings.TrimSpace(run("display-message", "-p", "#{pane_pid}")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the server is ended: the shell is gone then
		_ = syscall.Kill(inside, syscall.SIGKILL)
		for end := time.Now().Add(time.Minute); syscall.Kill(inside, 0) == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
	})
	command := "sh -c 'for i in $(seq 30); do echo line $i $(seq -s, 30); done; echo boom >&2; exit 3'"
	run("send-keys", "-l", command)
	run("send-keys", "Enter")
	x.until("the command's output", func() bool { return strings.Contains(run("capture-pane", "-p"), "\nboom\n~ $") })
	run("send-keys", "airlock ai fix", "Enter")
	var got told
	x.until("what airlock was told", func() bool { return x.told(&got) })
	if got.Last.Source != "tmux" || got.Last.Command != command {
		t.Fatalf("told %+v", got)
	}
	if !strings.HasPrefix(got.Last.Stderr, "line 1 1,2,3") || !strings.HasSuffix(got.Last.Stderr, "\nboom") || strings.Count(got.Last.Stderr, "\n") != 30 {
		t.Errorf("the output is %q", got.Last.Stderr)
	}
}

// TestTerminalsThatDoNotAnswer: a program in the place of a terminal's own that hangs,
// floods or is not where PATH says absolutely costs a bounded time, and gives nothing.
func TestTerminalsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, program, path, pane string
		want                      string
		hurry                     bool // it has no more time than it has for a person
	}{
		{"it hangs, and its child too", "sleep 1000 & sleep 1000", "", "%1", "", true},
		{"it floods", "while :; do echo 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; done", "", "%1", "", true},
		{"it fails", "echo '$ make'; echo boom; echo '$ ai fix'; exit 1", "", "%1", "", false},
		{"it answers", "echo '$ make'; echo boom; echo '$ ai fix'", "", "%1", "boom", false},
		{"the folder is not absolute", "echo '$ make'; echo boom; echo '$ ai fix'", ".", "%1", "", false},
		{"the pane is no pane", "echo '$ make'; echo boom; echo '$ ai fix'", "", "%1;kill-server", "", false},
		{"it is given no other variables", `test -z "$AIRLOCK_LAST_COMMAND$SECRET" && echo '$ make'; echo boom; echo '$ ai fix'`, "", "%1", "boom", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeProgram(t, filepath.Join(dir, "tmux"), "#!/bin/sh\n"+tt.program+"\n")
			path := tt.path
			if path == "" {
				path = dir + ":/usr/bin:/bin"
			}
			read := shellhook.ReadPatiently
			if tt.hurry {
				read = shellhook.Read
			}
			got := read(t.Context(), environ(map[string]string{
				"AIRLOCK_SHELL": "bash", "AIRLOCK_LAST_COMMAND": "make", "AIRLOCK_LAST_EXIT_CODE": "2", "SECRET": "x",
				"TMUX": "/tmp/x,1,0", "TMUX_PANE": tt.pane, "PATH": path,
			}))
			if got.Command != "make" || got.Stderr != tt.want {
				t.Errorf("Read = %+v, want the output %q", got, tt.want)
			}
		})
	}
}
