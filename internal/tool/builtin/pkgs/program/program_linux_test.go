package program_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/program"
)

// newMachine is the real guest agent in this process.
func newMachine(t *testing.T) *tool.Machine {
	t.Helper()
	g, err := guest.New(nil)
	if err != nil {
		t.Fatalf("guest.New: %v", err)
	}
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(context.Background(), far)
	}()
	c := agent.NewClient(near, nil)
	t.Cleanup(func() {
		c.Close()
		<-served
		g.Close()
	})
	return &tool.Machine{Client: c, Env: map[string]string{"HOME": "/nowhere", "PATH": "/evil", "LC_ALL": "de_DE.UTF-8"}}
}

func script(text string) []string { return []string{"/bin/sh", "-c", text} }

func TestAProgramGetsTheMachinesEnvironmentButTheSystemsPath(t *testing.T) {
	m := newMachine(t)
	t.Setenv("AIRLOCK_SECRET", "of the agent's")
	res, err := program.Run(t.Context(), m, program.Command{Argv: []string{"/usr/bin/env"}, Env: map[string]string{"DEBIAN_FRONTEND": "noninteractive"}})
	if err != nil || !res.Success() {
		t.Fatalf("Run: %+v, %v", res, err)
	}
	for _, want := range []string{"HOME=/nowhere\n", "PATH=" + program.Path + "\n", "LC_ALL=C\n", "DEBIAN_FRONTEND=noninteractive\n"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("the environment is %q, want %q in it", res.Stdout, want)
		}
	}
	if strings.Contains(res.Stdout, "AIRLOCK_SECRET") || strings.Contains(res.Stdout, "/evil") {
		t.Errorf("the environment is %q", res.Stdout)
	}
	if m.Env["PATH"] != "/evil" {
		t.Errorf("the machine's own environment was changed to %v", m.Env)
	}
	if res, err := program.Run(t.Context(), m, program.Command{Argv: script("pwd; cat")}); err != nil || res.Stdout != "/\n" {
		t.Errorf("Run: %+v, %v; want the root folder, and nothing on stdin", res, err)
	}
}

func TestWhatCannotBeStartedSaysSo(t *testing.T) {
	res, err := program.Run(t.Context(), newMachine(t), program.Command{Argv: []string{"/no/such"}})
	if err != nil || res.NotStarted != "not_found" || !strings.Contains(res.Stderr, "/no/such") {
		t.Errorf("Run: %+v, %v", res, err)
	}
}

func TestOutputIsBoundedAndWholeForWhoWatches(t *testing.T) {
	m := newMachine(t)
	var watched bytes.Buffer
	m.Stdout = &watched
	long := script("head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377' >&2")
	res, err := program.Run(t.Context(), m, program.Command{Argv: long, Live: true})
	if err != nil || !res.Cut || len(res.Stdout) != agent.MaxOutput+len(agent.TruncatedMarker) || watched.Len() != 3000000 {
		t.Errorf("Run: %d bytes, cut %v, %d watched, %v", len(res.Stdout), res.Cut, watched.Len(), err)
	}
	if res.Stderr != "\uFFFD" {
		t.Errorf("stderr = %q, want text", res.Stderr)
	}
	watched.Reset()
	if _, err := program.Run(t.Context(), m, program.Command{Argv: script("echo quiet")}); err != nil || watched.Len() != 0 {
		t.Errorf("Run: %q was watched, %v", watched.String(), err)
	}
}

func TestAFrontEndThatWentAwayEndsNoInstallation(t *testing.T) {
	m := newMachine(t)
	gone, w := io.Pipe()
	gone.Close()
	m.Stdout = w
	done := filepath.Join(t.TempDir(), "done")
	res, err := program.Run(t.Context(), m, program.Command{Argv: script("echo one; echo two; : >" + done), Live: true})
	if err != nil || res.Stdout != "one\ntwo\n" {
		t.Errorf("Run: %+v, %v", res, err)
	}
	if _, err := os.Stat(done); err != nil {
		t.Errorf("it was not run to its end: %v", err)
	}
}

// started runs a script in the background, and cancels it once it has written a line.
func started(t *testing.T, text string) (time.Duration, error) {
	t.Helper()
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var canceled time.Time
	m.Stdout = writer(func(p []byte) (int, error) {
		canceled = time.Now()
		cancel()
		return len(p), nil
	})
	_, err := program.Run(ctx, m, program.Command{Argv: script(text), Live: true})
	return time.Since(canceled), err
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestACanceledProgramMayTidyUp(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	_, err := started(t, "trap 'rm "+lock+"; exit 1' TERM; : >"+lock+"; echo ready; sleep 1000 & wait")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want canceled", err)
	}
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its lock is there still: %v", err)
	}
}

func TestACanceledProgramThatDoesNotListenIsKilled(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	took, err := started(t, "trap '' TERM; echo $$ >"+pids+"; sleep 1000 & echo $! >>"+pids+"; echo ready; wait")
	if !errors.Is(err, context.Canceled) || took > time.Minute {
		t.Errorf("Run: %v after %v, want canceled soon", err, took)
	}
	list, err := os.ReadFile(pids)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	for pid := range strings.FieldsSeq(string(list)) {
		if !gone(t, pid) {
			t.Errorf("process %s runs on", pid)
		}
	}
}

// gone reports whether a process has ended, or does soon: one that was killed takes its
// time on a busy machine.
func gone(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	for {
		ended, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
		if !errors.Is(err, unix.EINTR) {
			return ended == 1
		}
	}
}

func TestOnlyTheSystemsProgramsAreFound(t *testing.T) {
	m := newMachine(t)
	if path, err := program.Find(t.Context(), m, "sh"); err != nil || path != "/usr/bin/sh" && path != "/bin/sh" {
		t.Errorf("Find: %q, %v", path, err)
	}
	for _, name := range []string{"no-such-program", "../../etc/passwd"} { // the second is there, and no program
		if path, err := program.Find(t.Context(), m, name); err != nil || path != "" {
			t.Errorf("Find(%q): %q, %v", name, path, err)
		}
	}
	m.Client.Close()
	if path, err := program.Find(t.Context(), m, "sh"); err == nil {
		t.Errorf("Find: %q of a machine that does not answer", path)
	}
	if _, err := program.Exists(t.Context(), m, "/"); err == nil {
		t.Error("Exists: there is an answer of a machine that does not answer")
	}
}

func TestFailuresHaveACode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want tool.ErrorCode
	}{
		{context.DeadlineExceeded, tool.Timeout}, {context.Canceled, tool.IOError}, {agent.ErrConnectionLost, tool.IOError},
	} {
		res := program.Failure(c.err, "install x", "; look")
		if res.OK || res.Code() != c.want || !strings.HasPrefix(res.Stderr, "install x: ") {
			t.Errorf("Failure(%v): %+v", c.err, res)
		}
	}
}
