package gvisor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/sandbox/gvisor/launch"
	"airlock/internal/sandbox/sandboxtest"
)

// The engine cannot be the test's own binary, which may hold cgo and the race detector:
// it is built once, as `make build` does it.
var programs = sync.OnceValues(func() (string, error) {
	dir := os.Getenv("AIRLOCK_TEST_PROGRAMS")
	if dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "airlock-programs-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"airlock", "airlock-agent"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "airlock/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	if dir := os.Getenv("AIRLOCK_TEST_OWNER"); dir != "" {
		owner(dir)
		return
	}
	code := m.Run()
	if dir, err := programs(); err == nil && os.Getenv("AIRLOCK_TEST_PROGRAMS") == "" {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func newDriver(t *testing.T, state string) sandbox.Driver {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return driverIn(dir, state)
}

func driverIn(programs, state string) *gvisor.Driver {
	return gvisor.New(&gvisor.Options{
		StateDir: state,
		Engine:   func(context.Context) (string, error) { return filepath.Join(programs, "airlock"), nil },
		Agent:    filepath.Join(programs, "airlock-agent"),
	})
}

func TestDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	sandboxtest.Run(t, &sandboxtest.Options{New: newDriver, Leftovers: leftovers})
}

// TestDriverAsOrdinaryUser runs the suite as nobody when it is root that runs the tests.
func TestDriverAsOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	if os.Geteuid() != 0 {
		t.Skip("TestDriver has run as an ordinary user")
	}
	if underRace {
		t.Skip("it runs without the race detector")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	// The test's binary lies in a folder that is root's alone.
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "airlock-nobody-") //nolint:usetesting // T.TempDir lies in a folder that is root's alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	exe := filepath.Join(home, "test")
	if err := os.WriteFile(exe, data, 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^(TestDriver|TestLasting|TestOwnerKilled)$", "-test.v", "-test.timeout=10m")
	cmd.Dir = home
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + home, "AIRLOCK_TEST_PROGRAMS=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the suite as nobody: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Errorf("the suite as nobody skipped something:\n%s", out)
	}
}

// leftovers finds processes that name the state folder or a sandbox of it, mounts,
// control groups and files. What ends may take a moment to be gone.
func leftovers(t *testing.T, state string) []string {
	t.Helper()
	var left []string
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		runs, _ := filepath.Glob(filepath.Join(state, "run", "*"))
		left = append(left, runs...)
		left = append(left, processesOf(state)...)
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, state) {
				left = append(left, "mount "+line)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// patience is how long what was killed may take to be gone where others want the machine, too.
const patience = time.Minute

// processesOf are the processes whose arguments or environment name a folder.
func processesOf(dir string) []string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || e.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if strings.Contains(string(args), dir) {
			found = append(found, e.Name()+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// owner is a process that starts a sandbox, says so, and waits to be killed.
func owner(state string) {
	sb, err := driverIn(os.Getenv("AIRLOCK_TEST_PROGRAMS"), state).Start(context.Background(), &sandbox.Spec{
		WorkDir: "/", Limits: sandbox.Limits{Memory: 512 << 20},
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(sb.ID())
	_, err = sb.Client().Exec(context.Background(), "setsid sleep 1000 & sleep 1000")
	fmt.Println("it was to be killed before this ends:", err)
	os.Exit(1)
}

// TestOwnerKilled kills the process that owns a sandbox, or the sandbox's keeper, or
// both: nothing may be left once somebody has swept.
func TestOwnerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name           string
		owner, keeper  bool
		cleansByItself bool
	}{
		{"the owner alone: the keeper cleans up", true, false, true},
		{"the keeper alone", false, true, false},
		{"both: the next start cleans up", true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{"AIRLOCK_TEST_OWNER=" + state, "AIRLOCK_TEST_PROGRAMS=" + dir, "PATH=/usr/bin:/bin"}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var id string
			if _, err := fmt.Fscan(out, &id); err != nil || !sandbox.ValidID(id) {
				t.Fatalf("the owner said %q, %v", id, err)
			}
			// The system's list is not complete while others of these children come and go.
			var keepers []int
			for end := time.Now().Add(patience); len(keepers) != 1 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				keepers = childrenNamed(cmd.Process.Pid, launch.KeeperName)
			}
			if len(keepers) != 1 {
				t.Fatalf("the owner has %d keepers", len(keepers))
			}
			if tt.owner {
				cmd.Process.Kill()
			}
			if tt.keeper {
				syscall.Kill(keepers[0], syscall.SIGKILL)
			}
			_ = cmd.Wait() // it was killed, or fails because its keeper was
			if !tt.cleansByItself {
				// The system frees the lock of a process a moment after its name is gone.
				swept := false
				for deadline := time.Now().Add(patience); !swept && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
					removed, err := driverIn(dir, state).Sweep(t.Context())
					if err != nil {
						t.Errorf("Sweep: %v", err)
					}
					swept = slices.Contains(removed, "sandbox "+id)
				}
			}
			if left := leftovers(t, state); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			if groups, _ := filepath.Glob("/sys/fs/cgroup/*/airlock-" + id); len(groups) > 0 {
				t.Errorf("control groups left behind: %q", groups)
			}
		})
	}
}

func childrenNamed(parent int, name string) []int {
	var found []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, task := range tasks {
		data, _ := os.ReadFile(task)
		for f := range strings.FieldsSeq(string(data)) {
			args, _ := os.ReadFile("/proc/" + f + "/cmdline")
			if strings.HasPrefix(string(args), name) {
				pid, _ := strconv.Atoi(f)
				found = append(found, pid)
			}
		}
	}
	return found
}

// TestWithoutNamespaces forbids user namespaces inside one of the test's own, where the
// kernel lets it: the error must say what is missing and how to mend it.
func TestWithoutNamespaces(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("there is no unshare to make a machine without user namespaces")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), unshare, "-Ur", "sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" run -- true`, filepath.Join(dir, "airlock"))
	cmd.Env = []string{"AIRLOCK_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "user.max_user_namespaces is 0") || !strings.Contains(string(out), "sysctl -w user.max_user_namespaces") {
		t.Errorf("a run without user namespaces said %q, %v", out, err)
	}
	if strings.Count(string(out), "\n") != 1 {
		t.Errorf("more than one line: %q", out)
	}
}

func TestStartGivenUpLeavesNoControlGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes control groups here")
	}
	state := t.TempDir()
	driver := newDriver(t, state)
	for _, after := range []time.Duration{10, 20, 30, 40, 50} {
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		spec := &sandbox.Spec{ID: sandbox.NewID(), WorkDir: "/", Limits: sandbox.Limits{Memory: 512 << 20, CPUs: 1, Procs: 10}}
		sb, err := driver.Start(ctx, spec)
		cancel()
		if err == nil {
			sb.Close()
		}
		if groups, _ := filepath.Glob("/sys/fs/cgroup/*/airlock-" + spec.ID); len(groups) > 0 {
			t.Errorf("given up after %d ms: control groups left behind: %q", after, groups)
		}
	}
}

func TestLasting(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	sandboxtest.RunLasting(t, &sandboxtest.Options{New: newDriver, Leftovers: leftovers})
}

func TestMisbehaving(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	if underRace {
		t.Skip("it runs without the race detector")
	}
	sandboxtest.RunMisbehaving(t, &sandboxtest.Options{New: newDriver, Leftovers: leftovers})
}
