package guest

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnclaimed bounds the statuses kept for children that are being started.
const maxUnclaimed = 1 << 16

// A child is a process that the reaper started. It leads a session and a process group
// of its own, so its pid names all three.
type child struct {
	pid    int
	done   chan struct{} // closed once it was collected
	status unix.WaitStatus
}

// A reaper starts processes and collects them. One goroutine does so, on SIGCHLD, for
// all of them; with all set it collects every other child of this process too, which is
// what PID 1 and a subreaper must do.
//
// The goroutine runs while somebody holds the reaper (acquire, release).
type reaper struct {
	all bool

	mu        sync.Mutex
	children  map[int]*child
	starting  int                     // starts under way, whose pid is not known yet
	unclaimed map[int]unix.WaitStatus // with starting > 0: children that ended and are nobody's, perhaps theirs
	holders   int
	signals   chan os.Signal
	stopped   chan struct{}
}

func newReaper(all bool) *reaper {
	return &reaper{all: all, children: map[int]*child{}, unclaimed: map[int]unix.WaitStatus{}}
}

func (r *reaper) acquire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders++
	if r.holders > 1 {
		return
	}
	r.signals, r.stopped = make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.run(r.signals, r.stopped)
}

func (r *reaper) release() {
	r.mu.Lock()
	r.holders--
	if r.holders > 0 {
		r.mu.Unlock()
		return
	}
	signals, stopped := r.signals, r.stopped
	signal.Stop(signals)
	close(signals) // Stop has returned: nothing sends any more
	r.mu.Unlock()
	<-stopped
}

func (r *reaper) run(signals <-chan os.Signal, stopped chan<- struct{}) {
	defer close(stopped)
	r.collect()
	for range signals {
		r.collect()
	}
}

// start runs a program as the leader of a new session. attr.Sys must say Setsid.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()

	pid, err := syscall.ForkExec(path, argv, attr)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	var c *child
	if err == nil {
		c = &child{pid: pid, done: make(chan struct{})}
		if status, ok := r.unclaimed[pid]; ok {
			c.status = status
			close(c.done)
		} else {
			r.children[pid] = c
			// Its SIGCHLD may have come before it was in the table.
			r.waitLocked(c)
		}
	}
	if r.starting == 0 {
		full := len(r.unclaimed) >= maxUnclaimed
		clear(r.unclaimed)
		if full {
			r.collectLocked()
		}
	}
	return c, err
}

// waitLocked collects c if it has ended.
func (r *reaper) waitLocked(c *child) {
	var status unix.WaitStatus
	pid, err := wait4(c.pid, &status)
	switch {
	case pid == c.pid:
		r.endLocked(c, status)
	case errors.Is(err, unix.ECHILD):
		// Somebody else collected it; how it ended is not known.
		r.endLocked(c, unix.WaitStatus(unix.SIGKILL))
	}
}

func (r *reaper) endLocked(c *child, status unix.WaitStatus) {
	delete(r.children, c.pid)
	c.status = status
	close(c.done)
}

func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collectLocked()
}

func (r *reaper) collectLocked() {
	if !r.all {
		for _, c := range r.children {
			r.waitLocked(c)
		}
		return
	}
	for len(r.unclaimed) < maxUnclaimed {
		var status unix.WaitStatus
		pid, err := wait4(-1, &status)
		if pid <= 0 || err != nil {
			return
		}
		if c, ok := r.children[pid]; ok {
			r.endLocked(c, status)
		} else if r.starting > 0 {
			r.unclaimed[pid] = status
		}
	}
}

// signal signals c's whole process group and reports whether there was somebody to
// take it. Once c is collected its pid may belong to another child, which is left alone.
func (r *reaper) signal(c *child, sig unix.Signal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, ok := r.children[c.pid]; ok && now != c {
		return false
	}
	return unix.Kill(-c.pid, sig) == nil
}

// owns reports whether c's pid may still stand for c's session.
func (r *reaper) owns(c *child) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.children[c.pid]
	return !ok || now == c
}

func wait4(pid int, status *unix.WaitStatus) (int, error) {
	for {
		got, err := unix.Wait4(pid, status, unix.WNOHANG, nil)
		if err != unix.EINTR {
			return got, err
		}
	}
}
