package host_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox/host"
)

// program builds the guest agent, once.
var program = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("AIRLOCK_TEST_PROGRAMS"); dir != "" {
		return filepath.Join(dir, "airlock-agent"), nil
	}
	dir, err := os.MkdirTemp("", "airlock-host-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "airlock-agent")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "airlock/cmd/airlock-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(text))
	}
	return path, nil
})

var built string

func TestMain(m *testing.M) {
	if os.Getenv("HOST_TEST_PARENT") != "" {
		parent()
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

func start(t *testing.T) *host.Agent {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	a, err := host.Start(t.Context(), &host.Options{Agent: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: err = %v", err)
		}
	})
	return a
}

func TestItRunsOnTheHostAsWhoStartedIt(t *testing.T) {
	a := start(t)
	dir := t.TempDir()
	res, err := a.Client().Run(t.Context(), agent.ExecParams{Argv: []string{"sh", "-c", "id -u; echo made >f"}, ExecOptions: agent.ExecOptions{Cwd: dir}}, nil)
	if err != nil || res.ExitCode != 0 || strings.TrimSpace(res.Stdout) != strconv.Itoa(os.Getuid()) {
		t.Errorf("Run = %+v, %v", res, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(data) != "made\n" {
		t.Errorf("f = %q, %v", data, err)
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); runs(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// runs reports whether a process is there and has not ended, collected or not.
func runs(pid int) bool {
	state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// sleeper starts a command that leaves a child of its own session behind, and gives both.
const sleeper = "setsid sleep 1000 & echo $! $$; wait"

func pids(t *testing.T, line string) []int {
	t.Helper()
	var out []int
	for f := range strings.FieldsSeq(line) {
		n, err := strconv.Atoi(f)
		if err != nil || n <= 1 {
			t.Fatalf("%q are no process IDs", line)
		}
		out = append(out, n)
	}
	return out
}

func TestCloseEndsWhatRuns(t *testing.T) {
	a := start(t)
	printed := make(chan string, 1)
	p, err := a.Client().Start(t.Context(), agent.ExecParams{Argv: []string{"sh", "-c", sleeper}}, &agent.Streams{Stdout: lines(printed)})
	if err != nil {
		t.Fatal(err)
	}
	left := pids(t, <-printed)
	if err := a.Close(); err != nil {
		t.Errorf("Close: err = %v", err)
	}
	if _, err := p.Wait(); err == nil {
		t.Error("the command went well")
	}
	for _, pid := range left {
		gone(t, pid)
	}
	if err := a.Close(); err != nil {
		t.Errorf("Close again: err = %v", err)
	}
}

// lines hands on what is written.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// parent is a process that starts an agent and a command on it, and waits to be killed.
func parent() {
	a, err := host.Start(context.Background(), &host.Options{Agent: os.Getenv("HOST_TEST_PARENT")})
	if err == nil {
		_, err = a.Client().Run(context.Background(), agent.ExecParams{Argv: []string{"sh", "-c", sleeper}}, &agent.Streams{Stdout: os.Stdout})
	}
	panic(err)
}

func TestEverythingEndsWhenItsProcessIsKilled(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOST_TEST_PARENT="+path)
	printed := make(chan string, 1)
	cmd.Stdout = lines(printed)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := pids(t, <-printed)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for _, pid := range left {
		gone(t, pid)
	}
}

// orphan starts a process that is nobody's child here any more.
func orphan(t *testing.T, env string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
	cmd.Env = append(os.Environ(), env)
	line, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid := pids(t, string(line))[0]
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// TestEverythingEndsWhenTheAgentIsKilled, by the machine that is short of memory, or by what
// it runs.
func TestEverythingEndsWhenTheAgentIsKilled(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	other := start(t) // another's commands are its own
	theirs := make(chan string, 1)
	running, err := other.Client().Start(t.Context(), agent.ExecParams{Argv: []string{"sh", "-c", "echo $$; exec sleep 1000"}, ExecOptions: agent.ExecOptions{EndRest: true}}, &agent.Streams{Stdout: lines(theirs)})
	if err != nil {
		t.Fatal(err)
	}
	kept := pids(t, <-theirs)[0]
	a, err := host.Start(t.Context(), &host.Options{Agent: path})
	if err != nil {
		t.Fatal(err)
	}
	stranger := orphan(t, agent.EnvExec+"=1-0123456789abcdef")
	printed := make(chan string, 1)
	const script = `setsid sleep 1000 & one=$!
env -i setsid sleep 1000 & two=$!
setsid sh -c 'trap "" TERM; sleep 1000; sleep 1000' & three=$!
echo $$ $one $two $three $PPID; wait`
	_, err = a.Client().Start(t.Context(), agent.ExecParams{Argv: []string{"sh", "-c", script}, ExecOptions: agent.ExecOptions{EndRest: true}}, &agent.Streams{Stdout: lines(printed)})
	if err != nil {
		t.Fatal(err)
	}
	left := pids(t, <-printed)
	if err := syscall.Kill(left[len(left)-1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, pid := range left {
		gone(t, pid)
	}
	if err := a.Close(); err == nil {
		t.Error("Close: err = nil, and the agent was killed")
	}
	if !runs(kept) {
		t.Error("another agent's command was ended")
	}
	if !runs(stranger) {
		t.Error("what an agent in a program of another name runs was ended")
	}
	running.Cancel()
}

func TestAProgramThatIsNoAgentIsSaidSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if a, err := host.Start(ctx, &host.Options{Agent: "/bin/false"}); err == nil {
		t.Errorf("Start = %v, and /bin/false is no agent", a)
	}
	if _, err := host.Start(ctx, &host.Options{Agent: "/nonexistent/agent"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start: err = %v, want %v", err, os.ErrNotExist)
	}
}
