package builtin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/tool"
)

func TestRunSaysWhatBecameOfTheCommand(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		line, stdout, stderr string
		exit                 int
		signal               string
	}{
		"it went well":                          {"echo hello; echo oops >&2", "hello\n", "oops\n", 0, ""},
		"it failed":                             {"exit 3", "", "", 3, ""},
		"it is not there":                       {"no-such-program-at-all 2>/dev/null", "", "", 127, ""},
		"it cannot be run":                      {"/etc/passwd 2>/dev/null", "", "", 126, ""},
		"it killed itself":                      {"kill -KILL $$", "", "", 137, "SIGKILL"},
		"its child was killed":                  {"exec 2>/dev/null; sh -c 'kill -TERM $$'; exit $?", "", "", 143, ""},
		"it is a line of bash":                  {"a=(1 2 3); echo ${#a[@]} <(:) | cut -c1", "3\n", "", 0, ""},
		"it begins with a dash":                 {"-x 2>/dev/null || echo no", "no\n", "", 0, ""},
		"it looks like options and a command":   {"-c 'echo a trap' 2>/dev/null || echo no", "no\n", "", 0, ""},
		"it reads":                              {"wc -c", "0\n", "", 0, ""},
		"its input is nothing at all":           {"readlink /proc/self/fd/0", "/dev/null\n", "", 0, ""},
		"it has lines":                          {"echo a\necho b\n", "a\nb\n", "", 0, ""},
		"it writes what is no text":             {`printf 'a\377b'`, "a�b", "", 0, ""},
		"it is in no terminal":                  {"echo $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $DEBIAN_FRONTEND; test -t 1", "cat cat 0 noninteractive\n", "", 1, ""},
		"nothing of this process's environment": {"echo ${AIRLOCK_TEST_SECRET-none}", "none\n", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AIRLOCK_TEST_SECRET", "secret")
			res := w.run(c.line)
			if !res.OK || res.Stdout != c.stdout || res.Stderr != c.stderr || res.Meta["exit_code"] != c.exit {
				t.Errorf("%+v", res)
			}
			if got, _ := res.Meta["signal"].(string); got != c.signal {
				t.Errorf("signal %q, want %q", got, c.signal)
			}
		})
	}
}

func TestRunInTheFolderThatIsNamed(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.dir, "file"), "")
	for name, c := range map[string]struct {
		dir, want string
		code      tool.ErrorCode
	}{
		"none":          {"", w.dir, ""},
		"relative":      {"a/b", w.dir + "/a/b", ""},
		"absolute":      {"/", "/", ""},
		"above":         {"a/..", w.dir, ""},
		"absent":        {"nowhere", "nowhere does not exist", tool.NotFound},
		"of a person":   {"~/x", "no shell expands ~", tool.NotFound},
		"a file":        {"file", "is no folder", tool.InvalidArgs},
		"below a file":  {"file/x", "does not exist", tool.NotFound},
		"named emptily": {"\x00", "working_directory", tool.InvalidArgs},
	} {
		t.Run(name, func(t *testing.T) {
			args := map[string]any{"command": "pwd -P"}
			if c.dir != "" {
				args["working_directory"] = c.dir
			}
			w := *w
			w.t = t
			res := w.call("cmd.run", args)
			if c.code != "" {
				w.wantCode(res, c.code, c.want)
				return
			}
			if want, _ := filepath.EvalSymlinks(c.want); res.Stdout != want+"\n" {
				t.Errorf("%+v, want %s", res, want)
			}
		})
	}
}

// limits are for commands that are to have begun before they are ended: where one has not, on a
// machine that is busy, the next is tried.
var limits = []time.Duration{500 * time.Millisecond, 5 * time.Second, 30 * time.Second}

func TestRunEndsTheWholeGroupAtItsTimeLimit(t *testing.T) {
	w := newWorld(t)
	pids := filepath.Join(w.dir, "pids")
	started := time.Now()
	for _, limit := range limits {
		pids = filepath.Join(t.TempDir(), "pids")
		res := w.call("cmd.run", map[string]any{
			"command":    "echo before; (sleep 600 & echo $! >>" + pids + "; setsid sleep 600 & echo $! >>" + pids + "; wait) & echo $$ >>" + pids + "; wait",
			"timeout_ms": limit.Milliseconds(),
		})
		if text, _ := os.ReadFile(pids); bytes.Count(text, []byte("\n")) < 3 && limit < limits[len(limits)-1] {
			continue
		}
		w.wantCode(res, tool.Timeout, "did not end within "+limit.String())
		if res.Stdout != "before\n" || res.Meta["exit_code"] != 124 {
			t.Errorf("%+v", res)
		}
		break
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	// The one in a session of its own cannot be found again without a control group.
	wantGone(t, pids, 3, 2)
}

func TestRunEndsTheWholeGroupWhenItIsCanceled(t *testing.T) {
	w := newWorld(t)
	pids := filepath.Join(w.dir, "pids")
	ctx, cancel := context.WithCancel(t.Context())
	w.m.Stdout = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("ready")) {
			cancel()
		}
		return len(p), nil
	})
	res := w.callContext(ctx, "cmd.run", map[string]any{
		"command": "(trap '' TERM HUP; sleep 600 & echo $! >>" + pids + "; wait) & echo $! >>" + pids + "; echo $$ >>" + pids + "; while ! test \"$(wc -l <" + pids + ")\" = 3; do :; done; echo ready; wait",
	})
	w.wantCode(res, tool.IOError, "canceled")
	if res.Stdout != "ready\n" {
		t.Errorf("what it wrote is lost: %+v", res)
	}
	wantGone(t, pids, 3, 3)
}

func TestRunIsEndedByTheMachinesTime(t *testing.T) {
	w := newWorld(t)
	var res tool.Result
	for _, w.m.MaxTime = range limits {
		res = w.call("cmd.run", map[string]any{"command": "echo begun; sleep 600", "timeout_ms": 500_000})
		w.wantCode(res, tool.Timeout, "did not end within")
		if res.Stdout != "" {
			break
		}
	}
	if res.Stdout != "begun\n" || res.Meta["exit_code"] != 124 {
		t.Errorf("%+v", res)
	}
}

func TestRunDoesNotWaitForWhatIsLeftInTheBackground(t *testing.T) {
	w := newWorld(t)
	pids := filepath.Join(w.dir, "pids")
	started := time.Now()
	res := w.run("sleep 600 & echo $! >" + pids + "; echo done")
	if took := time.Since(started); took > time.Minute || !res.OK || res.Stdout != "done\n" {
		t.Errorf("%+v after %s", res, took)
	}
	pid := readPids(t, pids, 1)[0]
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestRunBoundsWhatItKeeps(t *testing.T) {
	w := newWorld(t)
	var streamed int
	w.m.Stdout = writerFunc(func(p []byte) (int, error) {
		streamed += len(p)
		return len(p), nil
	})
	res := w.run("head -c 5000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/urandom >&2")
	if !res.OK || !strings.HasSuffix(res.Stdout, agent.TruncatedMarker) || len(res.Stdout) != agent.MaxOutput+len(agent.TruncatedMarker) {
		t.Errorf("ok %v, stdout of %d bytes", res.OK, len(res.Stdout))
	}
	if len(res.Stderr) > agent.MaxOutput+len(agent.TruncatedMarker) {
		t.Errorf("stderr of %d bytes", len(res.Stderr))
	}
	if streamed != 5000000 {
		t.Errorf("streamed %d bytes", streamed)
	}
}

func TestRunIsEndedWhenItsOutputCannotBeHandedOn(t *testing.T) {
	w := newWorld(t)
	w.m.Stdout = writerFunc(func([]byte) (int, error) { return 0, errors.New("the reader went away") })
	w.wantCode(w.run("yes"), tool.IOError, "the reader went away")
}

func TestRunTakesInputAndSignals(t *testing.T) {
	w := newWorld(t)
	w.m.Stdin = strings.NewReader("one\ntwo\n")
	if res := w.run("cat; echo end"); res.Stdout != "one\ntwo\nend\n" {
		t.Errorf("%+v", res)
	}
	signals := make(chan string, 1)
	w.m.Stdin, w.m.Signals = nil, signals
	w.m.Stdout = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("ready")) {
			signals <- "SIGINT"
		}
		return len(p), nil
	})
	if res := w.run("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done"); res.Stdout != "ready\ncaught\n" || res.Meta["exit_code"] != 5 {
		t.Errorf("%+v", res)
	}
	close(signals)
	w.m.Stdout = nil
	if res := w.run("echo closed"); res.Stdout != "closed\n" {
		t.Errorf("%+v", res)
	}
}

func TestRunOnATerminal(t *testing.T) {
	w := newWorld(t)
	w.m.TTY = &agent.TTY{Rows: 7, Cols: 33}
	w.m.Env["TERM"] = "dumb"
	res := w.run("test -t 0 && test -t 1 && stty size && echo ${PAGER-none}")
	if res.Stdout != "7 33\r\nnone\r\n" || res.Meta["exit_code"] != 0 {
		t.Errorf("%+v", res)
	}
}

func TestRunWithoutBash(t *testing.T) {
	w := newWorld(t)
	bin := t.TempDir()
	for _, program := range []string{"sh", "cat"} {
		if err := os.Symlink(filepath.Join("/bin", program), filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	w.m.Env["PATH"] = bin
	if res := w.run(`echo "${BASH_VERSION-no bash}"`); res.Stdout != "no bash\n" {
		t.Errorf("%+v", res)
	}
	w.m.Stdin = strings.NewReader("all of it\n")
	if res := w.run("cat"); res.Stdout != "all of it\n" {
		t.Errorf("%+v", res)
	}
	w.m.Stdin = nil
	w.m.Env["PATH"] = t.TempDir()
	res := w.run("echo")
	w.wantCode(res, tool.NotFound, "sh: not found")
	if res.Meta["exit_code"] != 127 {
		t.Errorf("%+v", res)
	}
}

func TestRunDoesNoMoreThanItsLineSays(t *testing.T) {
	w := newWorld(t)
	evil := filepath.Join(w.dir, "evil")
	write(t, evil, "echo evil\n")
	maps.Copy(w.m.Env, map[string]string{
		"BASH_ENV": evil, "ENV": evil, "BASH_FUNC_ls%%": "() { echo evil; }", "SHELLOPTS": "xtrace", "BASHOPTS": "extglob",
	})
	write(t, filepath.Join(w.dir, ".bashrc"), "echo evil\n")
	write(t, filepath.Join(w.dir, ".profile"), "echo evil\n")
	if res := w.run("ls -d /; echo $0"); res.Stdout != "/\nbash\n" || res.Stderr != "" {
		t.Errorf("%+v", res)
	}
}

func TestRunRefusesALineThatTheKernelWouldNotTake(t *testing.T) {
	w := newWorld(t)
	longest := "echo " + strings.Repeat("x", 131071-5)
	if res := w.run(longest); !res.OK || len(res.Stdout) != 131071-5+1 {
		t.Errorf("ok %v, %d bytes: %s", res.OK, len(res.Stdout), res.Stderr)
	}
	w.wantCode(w.run("echo "+strings.Repeat("é", 100_000)), tool.InvalidArgs, "131071")
}

func TestRunOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	w.m.User = "no-such-user"
	w.wantCode(w.run("id"), tool.IOError, "no such user")
	if os.Getuid() != 0 {
		t.Skip("only root can run a command as somebody else")
	}
	w.m.User, w.m.WorkDir = "65534:65534", "/"
	if res := w.run("id -u"); res.Stdout != "65534\n" {
		t.Errorf("%+v", res)
	}
	locked := filepath.Join(w.dir, "locked")
	if err := os.Mkdir(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	w.wantCode(w.call("cmd.run", map[string]any{"command": "pwd", "working_directory": locked}), tool.PermissionDenied, "permission denied")
}

func TestRunOfAMachineThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.m.Client.Close()
	w.wantCode(w.run("echo"), tool.IOError)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var _ io.Writer = writerFunc(nil)

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readPids(t *testing.T, file string, n int) []int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid < 2 {
			t.Fatalf("%q is no process", word)
		}
		pids = append(pids, pid)
	}
	if len(pids) != n {
		t.Fatalf("%d processes in %q, want %d", len(pids), text, n)
	}
	return pids
}

// ended reports whether a process has ended, or does soon: what was killed takes its time
// on a busy machine, and may still be waiting for whoever collects it.
func ended(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if !errors.Is(err, unix.EINTR) { // as by the runtime's own signals
			return n == 1
		}
	}
}

// wantGone fails the test where more than n-gone of the n processes in a file are alive.
func wantGone(t *testing.T, file string, n, gone int) {
	t.Helper()
	pids := readPids(t, file, n)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		left := slices.DeleteFunc(slices.Clone(pids), ended)
		if pids = left; len(pids) <= n-gone {
			break
		}
	}
	alive := []string{}
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		alive = append(alive, string(stat))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(alive) > n-gone {
		t.Errorf("still there: %q", alive)
	}
}
