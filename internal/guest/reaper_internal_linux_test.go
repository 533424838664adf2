package guest

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAnOrphansEndIsNotTakenForThatOfWhatHasItsNumberNow: numbers come back while commands are always being started.
func TestAnOrphansEndIsNotTakenForThatOfWhatHasItsNumberNow(t *testing.T) {
	r := newReaper(false)
	r.starting = 1 // another's start that never ends, so that nothing is forgotten
	attr := &syscall.ProcAttr{Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true}}
	first, err := r.start("/bin/true", []string{"true"}, attr)
	if err != nil {
		t.Fatal(err)
	}
	for pid := first.pid; pid < first.pid+1<<12; pid++ {
		r.unclaimed[pid] = unix.WaitStatus(7 << 8)
	}
	c, err := r.start("/bin/sleep", []string{"sleep", "300"}, attr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(c.pid, unix.SIGKILL)
		_, _ = unix.Wait4(c.pid, nil, 0, nil)
		_, _ = unix.Wait4(first.pid, nil, 0, nil)
	}()
	if _, ok := r.unclaimed[c.pid]; !ok {
		t.Skipf("the process has number %d, which does not follow on %d", c.pid, first.pid)
	}
	select {
	case <-c.done:
		t.Errorf("it passes for ended, with %d", c.status.ExitStatus())
	default:
	}
}
