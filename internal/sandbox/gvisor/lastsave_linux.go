package gvisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	gsandbox "gvisor.dev/gvisor/runsc/sandbox"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

// checkpoint saves the sandbox into dir. The engine counts who has frozen it: afterwards it goes on, or
// stays paused, whatever came of it.
func (l *last) checkpoint(dir string) error {
	l.ops.Lock()
	defer l.ops.Unlock()
	err := l.k.c.Checkpoint(l.k.conf, dir, gsandbox.CheckpointOpts{Resume: true, ExcludeCommittedZeroPages: true})
	if err != nil {
		return fmt.Errorf("%w: %s", sandbox.ErrNotSaved, firstLine(err.Error()))
	}
	data, err := json.Marshal(saved{Engine: engineVersion(), Agents: l.plan.Agents, Started: l.started()})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, savedName), data, 0o600)
}

// status says how the sandbox is. The guest is asked only while it can answer.
func (l *last) status() (*sandbox.Status, error) {
	s := &sandbox.Status{State: sandbox.Ready, Memory: -1, CPU: -1, Processes: -1, Disk: -1, Commands: -1}
	l.mu.Lock()
	s.Calls, s.Gate = l.calls, l.gate
	lastCall := l.lastCall
	l.mu.Unlock()
	paused := l.paused.Load()
	l.ops.Lock()
	ev, err := l.k.c.Event()
	l.ops.Unlock()
	if err == nil {
		s.Processes = int64(ev.Event.Data.Pids.Current) - 1
	}
	s.PIDs = []int{os.Getpid(), int(l.k.c.GoferPid.Load()), l.k.pid}
	s.Memory, s.CPU = usage(s.PIDs, l.k.plan.Cgroup)
	s.Disk = filestoreSize(l.k.pid, l.k.plan.Dir)
	if paused {
		s.State = sandbox.Paused
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	running, ended, err := l.commands(ctx)
	if err != nil {
		return s, nil //nolint:nilerr // a guest that does not answer is a figure that cannot be had
	}
	s.Commands = running
	if s.Calls == 0 && running == 0 {
		s.Idle = max(time.Since(quietSince(lastCall, ended)), 1)
	}
	return s, nil
}

// filestoreSize is what the upper layer's content takes on disk: an unlinked file that the
// monitor has open.
func filestoreSize(pid int, dir string) int64 {
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(fds)
	if err != nil {
		return -1
	}
	var size int64
	for _, e := range entries {
		name := filepath.Join(fds, e.Name())
		target, err := os.Readlink(name)
		if err != nil || !strings.HasPrefix(target, dir+"/") || !strings.Contains(target, "filestore") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(name, &st) == nil {
			size = max(size, st.Blocks*512) // the same file may be open twice
		}
	}
	return size
}

// How long a gate may take to be ready, and between its starts.
const (
	gateTime  = 5 * time.Second
	gatePause = 500 * time.Millisecond
)

// startGate starts the network's gate and waits until it is ready; from then on it is kept running.
func (l *last) startGate(ctx context.Context) error {
	cmd, ready, err := l.runGate(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.gate = ready
	l.mu.Unlock()
	go l.keepGate(cmd)
	return nil
}

// keepGate starts the gate again whenever it ends while the sandbox lives.
func (l *last) keepGate(cmd *exec.Cmd) {
	for {
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // that it ended is what counts
			close(ended)
		}()
		select {
		case <-ended:
		case <-l.over:
			_ = cmd.Process.Kill()
			<-ended
			return
		}
		for cmd = nil; cmd == nil; {
			select {
			case <-l.over:
				return
			case <-time.After(gatePause):
			}
			again, ready, err := l.runGate(context.Background())
			if err != nil {
				fmt.Fprintln(l.k.log, "start the network's gate again:", err)
				continue
			}
			l.mu.Lock()
			l.gate = ready
			l.mu.Unlock()
			cmd = again
		}
	}
}

// runGate starts the gate once. Its standard input is a connection to this keeper, whose requests
// are no calls; all else that it needs to know is in its input.
func (l *last) runGate(ctx context.Context) (*exec.Cmd, json.RawMessage, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "gate's connection")
	defer theirs.Close()
	conn, err := unixConn(pair[0])
	if err != nil {
		return nil, nil, err
	}
	in, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	defer in.Close()
	stdout, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close(), inW.Close())
	}
	defer outW.Close()
	var said bytes.Buffer
	cmd := &exec.Cmd{
		Path: l.plan.Gate[0], Args: l.plan.Gate, Dir: "/", Env: launch.Environ(),
		Stdin: theirs, Stdout: outW, Stderr: &bounded{Buffer: &said, left: maxLog}, ExtraFiles: []*os.File{in},
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the network's gate: %w", err), conn.Close(), inW.Close(), stdout.Close())
	}
	go func() {
		defer conn.Close()
		l.watchers(conn)
	}()
	go func() {
		defer inW.Close()
		_, _ = inW.Write(l.plan.GateInput) // one that does not read it says so by ending
	}()
	outW.Close()
	line := make(chan []byte, 1)
	go func() {
		r := bufio.NewReaderSize(stdout, maxLog)
		text, err := r.ReadSlice('\n')
		if err == nil {
			line <- bytes.Clone(text)
		}
		close(line)
		_, _ = r.WriteTo(io.Discard) // it has nothing more to say
		stdout.Close()
	}()
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	select {
	case text, ok := <-line:
		if ok && json.Valid(text) {
			return cmd, bytes.TrimSpace(text), nil
		}
	case <-ctx.Done():
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil, nil, fmt.Errorf("the network's gate did not become ready: %s", lastLine(said.String()))
}

// bounded keeps the first bytes of what is written to it.
type bounded struct {
	*bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}

// unixConn makes a connection of a socket.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// notSaved is the keeper's error that a state cannot be saved, here.
func notSaved(text string) error {
	return fmt.Errorf("%w%s", sandbox.ErrNotSaved, strings.TrimPrefix(text, sandbox.ErrNotSaved.Error()))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSuffix(strings.TrimSpace(line), ":")
}
