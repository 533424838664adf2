package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/sandbox/gvisor/launch"
)

// A real program in the engine's place: it writes down that it was started, and waits for the end of its control socket.
const engine = `#!/bin/sh
echo "$$" >>"${0%/*}/started"
echo ready
head -c 1 <&3 >/dev/null
echo gone >>"${0%/*}/gone"
`

// Under the program's own name the test is a program that takes a keeper, of the engine that TAKE names, and leaves.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "airlock" {
		os.Exit(m.Run())
	}
	if path := os.Getenv("TAKE"); path != "" {
		k, err := launch.Take(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		buf := make([]byte, 6)
		n, err := k.Out.Read(buf)
		fmt.Println(k.Process.Pid, string(buf[:n]), err)
	}
	launch.End()
	os.Exit(0)
}

// folder is an empty one. It stays until the engines have ended that were started in it: they write there last.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { gone(t, lines(t, filepath.Join(dir, "started"))) })
	return dir
}

// airlock makes a folder with this program as airlock and an engine beside it.
func airlock(t *testing.T) (dir string) {
	t.Helper()
	dir = folder(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(exe, filepath.Join(dir, "airlock")); err != nil {
		data, err := os.ReadFile(exe)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "airlock"), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"airlock-engine", "another"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(engine), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func start(t *testing.T, dir, take string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "airlock"), args...)
	cmd.Env = append(os.Environ(), "TAKE="+take, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

func TestAKeeperIsStartedAheadForACommandThatNeedsOne(t *testing.T) {
	dir := airlock(t)
	said := start(t, dir, filepath.Join(dir, "airlock-engine"), "run", "true")
	started := lines(t, filepath.Join(dir, "started"))
	if len(started) != 1 || !strings.HasPrefix(said, started[0]+" ready") {
		t.Errorf("started: %q, taken: %q; want one, and that", started, said)
	}
}

func TestAKeeperOfAnotherEngineIsNotTaken(t *testing.T) {
	dir := airlock(t)
	other := filepath.Join(folder(t), "engine")
	if err := os.WriteFile(other, []byte(engine), 0o755); err != nil {
		t.Fatal(err)
	}
	said := start(t, dir, other, "run", "true")
	if started := lines(t, filepath.Join(filepath.Dir(other), "started")); len(started) != 1 || !strings.HasPrefix(said, started[0]+" ready") {
		t.Errorf("started: %q, taken: %q", started, said)
	}
	gone(t, lines(t, filepath.Join(dir, "started")))
}

func TestAKeeperThatNobodyTakesEnds(t *testing.T) {
	dir := airlock(t)
	start(t, dir, "", "run", "true")
	gone(t, lines(t, filepath.Join(dir, "started"))) // it may have been ended before it wrote
}

func TestAKeeperThatHasEndedMeanwhileIsNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho $$ >>\"${0%/*}/started\"\nexec head -c 1 <&3 >/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	launch.Ahead(path)
	defer launch.End()
	var first string
	for end := time.Now().Add(time.Minute); first == ""; time.Sleep(time.Millisecond) {
		if pids := lines(t, filepath.Join(filepath.Dir(path), "started")); len(pids) == 1 {
			first = pids[0]
		} else if time.Now().After(end) {
			t.Fatal("none was started")
		}
	}
	pid, err := strconv.Atoi(first)
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err == nil { // looked at only
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := launch.Take(path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.End()
	if k.Process.Pid == pid {
		t.Error("the one that has ended was taken")
	}
}

func TestOtherCommandsStartNone(t *testing.T) {
	for _, args := range [][]string{{}, {"run"}, {"log", "run"}, {"--help"}, {"doctor"}} {
		dir := airlock(t)
		said := start(t, dir, filepath.Join(dir, "another"), args...)
		started := lines(t, filepath.Join(dir, "started"))
		if len(started) != 1 || !strings.HasPrefix(said, started[0]) { // the one that was asked for
			t.Errorf("airlock %v: started: %q, taken: %q", args, started, said)
		}
	}
}

func gone(t *testing.T, pids []string) {
	t.Helper()
	for _, pid := range pids {
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			stat, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			if err != nil || len(stat) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("process %s is still there", pid)
			}
		}
	}
}

func TestAKeeperEndsWithItsControlSocket(t *testing.T) {
	dir := airlock(t)
	k, err := launch.Start(filepath.Join(dir, "airlock-engine"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.End()
	buf := make([]byte, 6)
	if n, err := k.Out.Read(buf); string(buf[:n]) != "ready\n" {
		t.Fatalf("it says %q, %v", buf[:n], err)
	}
	// Nothing else of this process is its: neither files nor the terminal's session.
	if sid, err := unix.Getsid(k.Process.Pid); sid != k.Process.Pid {
		t.Errorf("session %d, %v, of process %d", sid, err, k.Process.Pid)
	}
	k.Control.Close()
	if _, err := k.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, filepath.Join(dir, "gone")); len(got) != 1 {
		t.Errorf("gone = %q", got)
	}
}

func TestWhatAKeeperSaidBeforeItEndedIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no memory >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	k, err := launch.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.End()
	if _, err := k.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if said := k.Said(); said != "no memory\n" {
		t.Errorf("Said = %q", said)
	}
}

func TestAnEngineThatIsNotThereIsNamed(t *testing.T) {
	_, err := launch.Start(filepath.Join(t.TempDir(), "missing"))
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("Start = %v", err)
	}
}
