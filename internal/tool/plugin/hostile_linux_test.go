package plugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/tool"
)

// pid reads a process's number that a script wrote into the working folder.
func pid(t *testing.T, m *tool.Machine, file string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.WorkDir, file))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || n < 2 {
		t.Fatalf("%s holds %q", file, data)
	}
	return n
}

// gone reports whether a process is, or is about to be: what was killed takes its time on a
// busy machine, and may still be waiting for whoever collects it.
func gone(n int) bool {
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	return ends(fd) == nil
}

// ends waits until a process has ended.
func ends(fd int) error {
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
		switch {
		case errors.Is(err, unix.EINTR): // as by the runtime's own signals
		case err == nil && ready != 1:
			return errors.New("it goes on")
		default:
			return err
		}
	}
}

// reap ends a process that a test lets live on, and waits until it is gone: before that
// its control group cannot be removed.
func reap(t *testing.T, n int) {
	t.Helper()
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	cmd, err := os.ReadFile("/proc/" + strconv.Itoa(n) + "/cmdline")
	if err == nil && len(cmd) > 0 && !strings.Contains(string(cmd), "sleep") && !strings.Contains(string(cmd), "probe") {
		return // it is gone, and another has its number
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err := ends(fd); err != nil {
		t.Errorf("process %d does not end: %v", n, err)
	}
}

func TestAChildInTheBackgroundDoesNotHoldTheAnswer(t *testing.T) {
	m := machine(t)
	p := probe(t, "", sh(`sleep 300 & echo $! >child; echo '{"ok":true,"stdout":"done"}'`), nil)
	begin := time.Now()
	res := p.Invoke(t.Context(), m, goCall())
	reap(t, pid(t, m, "child"))
	if !res.OK || res.Stdout != "done" {
		t.Errorf("Invoke: ok %v, stdout %q, stderr %q", res.OK, res.Stdout, res.Stderr)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("the answer took %s", took)
	}
}

func TestAChildThatWritesAfterTheAnswerDoesNotHoldIt(t *testing.T) {
	m := machine(t)
	p := probe(t, "", sh(`(while :; do echo noise || exit; done) & echo $! >child; echo '{"ok":true}'`), nil)
	begin := time.Now()
	res := p.Invoke(t.Context(), m, goCall())
	reap(t, pid(t, m, "child"))
	if code := res.Code(); code != tool.ParseError && code != tool.IOError {
		t.Errorf("Invoke: ok %v, code %q: what the child wrote was taken for an answer", res.OK, code)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("the answer took %s", took)
	}
}

// limited reports whether commands can be held in a control group here.
func limited(t *testing.T, m *tool.Machine) bool {
	t.Helper()
	params := agent.ExecParams{Argv: []string{"/bin/true"}, ExecOptions: agent.ExecOptions{MaxProcs: 8}}
	res, err := m.Client.Run(t.Context(), params, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Success()
}

func TestWhatIsTooSlowIsEndedWithItsChildren(t *testing.T) {
	for _, tt := range []struct {
		name, start string
		groups      bool // only a control group can tell whose it is
	}{
		{"a child of its group", "sleep 300 & echo $! >child", false},
		{"a child that is deaf", "sh -c 'trap \"\" TERM HUP INT; echo $$ >child; exec sleep 300' &", false},
		{"a child with a session of its own", "setsid sh -c 'echo $$ >child; exec sleep 300' &", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := machine(t)
			if tt.groups && !limited(t, m) {
				t.Skip("no control groups that a command can be held in: its sandbox's end is this child's")
			}
			for _, limit := range []string{"1s", "10s", "60s"} { // more where a busy machine has not come to the child
				p := probeWith(t, "timeout: "+limit, sh(tt.start+"\nwhile [ ! -s child ]; do sleep 0.01; done; exec sleep 300"))
				res := p.Invoke(t.Context(), m, goCall())
				if res.Code() != tool.Timeout {
					t.Errorf("code = %q (%s), want %q", res.Code(), res.Stderr, tool.Timeout)
				}
				if text, err := os.ReadFile(filepath.Join(m.WorkDir, "child")); err == nil && len(text) > 0 {
					break
				}
			}
			if n := pid(t, m, "child"); !gone(n) {
				reap(t, n)
				t.Errorf("process %d lives on", n)
			}
		})
	}
}

func TestAForkBombIsBounded(t *testing.T) {
	m := machine(t)
	if !limited(t, m) {
		t.Skip("no control groups that a command can be held in: the sandbox's own limit holds")
	}
	// No real one: where the limit fails, it ends at 700 by itself.
	p := probeWith(t, "timeout: 20s", sh("i=0; while [ $i -lt 700 ]; do sleep 300 & echo $! >>children; i=$((i+1)); done"))
	res := p.Invoke(t.Context(), m, goCall())
	if res.OK {
		t.Error("the bomb is a success")
	}
	data, err := os.ReadFile(filepath.Join(m.WorkDir, "children"))
	if err != nil {
		t.Fatal(err)
	}
	children := strings.Fields(string(data))
	for _, child := range children {
		if n, err := strconv.Atoi(child); err == nil && n > 1 {
			reap(t, n)
		}
	}
	if n := len(children); n > 512 {
		t.Errorf("it made %d processes, want 512 at most", n)
	}
}

func TestCallsSideBySide(t *testing.T) {
	m := machine(t)
	p := probe(t, "", "#!/bin/sh\nread -r call\nprintf '{\"ok\":true,\"stdout\":\"%s\"}' \"${call##*:}\"\n", nil)
	answers := make(chan string)
	for i := range 8 {
		go func() {
			call := goCall()
			call.Args = []byte(`{"n":` + strconv.Itoa(i) + `}`)
			answers <- strconv.Itoa(i) + "}}=" + p.Invoke(t.Context(), m, call).Stdout
		}()
	}
	for range 8 {
		want, got, _ := strings.Cut(<-answers, "=")
		if got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	}
}
