//go:build linux

package guest_test

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// program builds airlock-agent as it is released, once.
var program = sync.OnceValues(func() (string, error) {
	dir := buildDir
	if err := os.Chmod(dir, 0o755); err != nil { // other users run it too
		return "", err
	}
	path := filepath.Join(dir, "airlock-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "airlock/cmd/airlock-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func binary(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A guestProcess is the real program.
type guestProcess struct {
	*exec.Cmd
	t      testing.TB
	stderr *safeBuffer
	exited chan struct{}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// launch starts cmd and sees to its end.
func launch(t testing.TB, cmd *exec.Cmd) *guestProcess {
	t.Helper()
	p := &guestProcess{Cmd: cmd, t: t, stderr: &safeBuffer{}, exited: make(chan struct{})}
	cmd.Stderr = p.stderr
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		// One that is killed ends nothing of what it runs.
		_ = cmd.Process.Signal(unix.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(patience):
			t.Error("the agent did not end when it was told to")
			_ = cmd.Process.Kill()
		}
		<-p.exited
		if t.Failed() {
			t.Logf("the agent said: %s", p.stderr)
		}
	})
	return p
}

// ends waits for the exit code.
func (p *guestProcess) ends() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("the agent did not end")
		return -1
	}
}

// rss is the resident memory in bytes.
func (p *guestProcess) rss() int {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				p.t.Fatal(err)
			}
			return n << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// onSocket starts the agent on a Unix socket and waits until it listens.
func onSocket(t testing.TB, path string) *guestProcess {
	t.Helper()
	p := launch(t, exec.Command(binary(t), "--listen", "unix:"+path))
	eventually(t, "the agent to listen", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	return p
}

// dial speaks to a socket.
func dial(t testing.TB, path string) *wire {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	w := speak(t, conn)
	t.Cleanup(w.close)
	return w
}

// A pipes is the two ends of a process's stdio as one connection.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error {
	p.WriteCloser.Close()
	return p.ReadCloser.Close()
}

// onStdio starts cmd, an agent on its stdio.
func onStdio(t testing.TB, cmd *exec.Cmd) (*guestProcess, *wire) {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	p := launch(t, cmd)
	theirIn.Close()
	theirOut.Close()
	w := speak(t, pipes{out, in})
	t.Cleanup(w.close)
	return p, w
}

// signalSet is one of the sets of signals that the system tells of a process.
func signalSet(t testing.TB, status, name string) uint64 {
	t.Helper()
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, name+":"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("no %s in %q", name, status)
	return 0
}

func TestCommandsHaveEverySignalByDefault(t *testing.T) {
	p, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
	status := w.exec(object{"argv": []string{"cat", "/proc/self/status"}}).Stdout
	// The first two realtime signals are the C library's own, where a program has one: nobody sends them.
	const library = 1<<31 | 1<<32
	if ignored, caught, blocked := signalSet(t, status, "SigIgn")&^library, signalSet(t, status, "SigCgt"), signalSet(t, status, "SigBlk"); ignored != 0 || caught != 0 || blocked != 0 {
		t.Errorf("a command ignores %x, catches %x and blocks %x", ignored, caught, blocked)
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if n := bits.OnesCount64(signalSet(t, string(own), "SigCgt")); n > 20 {
		t.Errorf("the agent handles %d signals, each of which costs every command a system call", n)
	}
}
