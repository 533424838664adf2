package guest

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

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

// A reaper starts processes and collects them, in one goroutine for all of them; with all set it collects every
// other child of this process too, which is what PID 1 and a subreaper must do.
//
// With all set it waits in the kernel for whatever ends, and SIGCHLD means nothing: a fork bomb's orphans come by the
// hundred a second, and a signal for each would leave the agent no time for anything else. Otherwise, in a program that has
// children of its own, it looks at its children on each SIGCHLD.
//
// The goroutine runs while somebody holds the reaper (acquire, release).
type reaper struct {
	all   bool
	drown func() // called while orphans flood it; may be nil

	mu        sync.Mutex
	children  map[int]*child
	flooded   bool                    // more orphans end than are collected
	starting  int                     // starts under way, whose pid is not known yet
	unclaimed map[int]unix.WaitStatus // with starting > 0: children that ended and are nobody's, perhaps theirs
	holders   int
	signals   chan os.Signal // without all
	stopped   chan struct{}
	born      chan struct{} // with all: has one when there may be children again
}

// How long a reaper lets orphans be that end one after the other, before it collects them together; and how many
// it then collects at most, so that others get their turn with it. Under a fork bomb more end than it could collect.
const (
	orphanPause    = time.Millisecond
	orphanPauseMax = 50 * time.Millisecond
	orphansAtOnce  = 32
)

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
	r.stopped = make(chan struct{})
	if r.all {
		r.born = make(chan struct{}, 1) // its own: one that has been stopped may take what is in it
		go r.runAll(r.born, r.stopped)
		return
	}
	r.signals = make(chan os.Signal, 1)
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
	if r.all {
		// It may be in the kernel until a child ends; it collects nothing more then.
		close(stopped)
		r.mu.Unlock()
		return
	}
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

// runAll waits for any child and collects what has ended, until stopped is closed.
func (r *reaper) runAll(born, stopped <-chan struct{}) {
	pause, flooded := time.Duration(0), time.Time{}
	for {
		begun := time.Now()
		// Looked at only, so that collect knows of all that are being started.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if time.Since(begun) > orphanPauseMax {
			pause = 0 // they do not come one after the other
		}
		select {
		case <-stopped:
			return
		default:
		}
		switch {
		case err == nil:
			ours := r.collect()
			flooded = r.flood(flooded)
			if ours {
				pause = 0
				continue
			}
			pause = min(max(2*pause, orphanPause), orphanPauseMax)
			time.Sleep(pause)
		case errors.Is(err, unix.ECHILD):
			select {
			case <-born:
			case <-stopped:
				return
			}
		case errors.Is(err, unix.EINTR):
		default: // the call is not to be had
			r.collect()
			time.Sleep(orphanPauseMax)
		}
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
		r.children[pid] = c
		if status, ok := r.unclaimed[pid]; ok && noChild(pid) {
			r.endLocked(c, status)
		} else {
			// It may have ended before it was in the table; or what had its number before has.
			r.waitLocked(c)
		}
		select {
		case r.born <- struct{}{}:
		default:
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
	case pid == c.pid && !ended(status):
	case pid == c.pid:
		r.endLocked(c, status)
	case errors.Is(err, unix.ECHILD):
		// Somebody else collected it; how it ended is not known.
		r.endLocked(c, unix.WaitStatus(unix.SIGKILL))
	}
}

// noChild reports that this process has no child of that number, running or ended.
func noChild(pid int) bool {
	err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, unix.ECHILD)
}

func (r *reaper) endLocked(c *child, status unix.WaitStatus) {
	delete(r.children, c.pid)
	c.status = status
	close(c.done)
}

// collect collects what has ended, and reports whether there was anything but orphans.
func (r *reaper) collect() (ours bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.collectLocked()
}

func (r *reaper) collectLocked() (ours bool) {
	if !r.all {
		for _, c := range r.children {
			r.waitLocked(c)
		}
		return true
	}
	if r.flooded {
		// The kernel gives whichever it likes, out of thousands.
		before := len(r.children)
		for _, c := range r.children {
			r.waitLocked(c)
		}
		ours = len(r.children) < before
	}
	orphans := 0
	defer func() { r.flooded = orphans == orphansAtOnce }()
	for orphans < orphansAtOnce && len(r.unclaimed) < maxUnclaimed {
		var status unix.WaitStatus
		pid, err := wait4(-1, &status)
		if pid <= 0 || err != nil {
			return ours
		}
		if !ended(status) {
			orphans++ // no more than another's end
			continue
		}
		if c, ok := r.children[pid]; ok {
			ours = true
			r.endLocked(c, status)
			continue
		}
		orphans++
		if r.starting > 0 {
			r.unclaimed[pid] = status
		}
	}
	return ours
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

// ended tells an end from a stop. Of a child that had itself traced by its parent, which any may do, stops are told
// to those who did not ask for them, too; nobody lets it go on, but it can be killed.
func ended(status unix.WaitStatus) bool { return status.Exited() || status.Signaled() }

func wait4(pid int, status *unix.WaitStatus) (int, error) {
	for {
		got, err := unix.Wait4(pid, status, unix.WNOHANG, nil)
		if err != unix.EINTR {
			return got, err
		}
	}
}
