package guest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
)

const (
	restPoll   = time.Millisecond // the first wait for what is left; each is twice the one before
	maxEnviron = 256 << 10        // bytes of a process's environment that are looked through

	// looks is how often nothing must be seen to be believed, where processes came or went
	// while it was looked. A look is not of one moment: a process that forks while it lasts,
	// and ends before its own turn comes, takes its child out of sight. The next look sees
	// the child.
	looks = 3

	// beingStarted is how long a look waits for a process whose environment cannot be read because another
	// program is just being put in its place. One without any environment looks the same.
	beingStarted = 100 * time.Millisecond
)

// newMark is a variable that no other command has. It begins with the agent's number, by which one that was killed can be
// told from others of the machine by who has to end what it left.
func newMark() string {
	return fmt.Sprintf("%s=%d-%016x%016x", agent.EnvExec, os.Getpid(), rand.Uint64(), rand.Uint64())
}

// finishRest ends what the command left running, where that was asked for: politely, then
// after a grace period for good. The command itself has ended. What its outputs still
// have from its own time is taken; what others print from now on is not.
func (p *process) finishRest() {
	if !p.endRest {
		return
	}
	for _, pump := range p.pumps {
		if pump.exact {
			pump.settle()
		}
	}
	told := map[int]bool{}
	wait := restPoll
	for deadline := time.Now().Add(time.Duration(p.grace.Load())); time.Now().Before(deadline); wait *= 2 {
		left := p.left()
		if len(left) == 0 {
			return
		}
		if len(told) == 0 {
			p.known() // what they print when they are told is none of the command's
		}
		for _, pid := range left {
			if !told[pid] {
				told[pid] = true
				_ = unix.Kill(pid, p.polite())
				_ = unix.Kill(pid, unix.SIGCONT)
			}
		}
		time.Sleep(min(wait, time.Until(deadline)))
	}
	p.group.freeze()
	for deadline := time.Now().Add(walkLimit); time.Now().Before(deadline); time.Sleep(killPoll) {
		left := p.left()
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	p.group.kill()
}

// knowing is how long it may take to find out how much of an output is the command's own: a
// client that reads nothing holds it up, and a busy machine.
const knowing = 2 * time.Second

// known waits until that is known of all outputs.
func (p *process) known() {
	timer := time.NewTimer(knowing)
	defer timer.Stop()
	for _, pump := range p.pumps {
		if !pump.exact {
			continue
		}
		select {
		case <-pump.known:
		case <-timer.C:
			return
		}
	}
}

// left are the processes that the command left behind: those of its session and of its
// control group, those that have its mark in their environment, and what descends from any
// of them. A process that left the session and wiped its environment too is found only
// while no other command runs.
func (p *process) left() []int {
	for range looks {
		if p.a.reaper.childless() {
			return nil // orphans would be the agent's children
		}
		left, still := p.look()
		if len(left) > 0 || still {
			return left
		}
	}
	return nil
}

// look looks once for what is left. still says that none but commands of the agent's came
// or went meanwhile: then nothing was out of sight.
func (p *process) look() (left []int, still bool) {
	commands := p.a.reaper.commands()
	before := processes()
	since := p.since()
	defer func() { still = still && p.a.reaper.same(before, processes(), commands) }()
	still = true
	all := map[int]procStat{}
	for _, pid := range before {
		if pid <= since {
			continue
		}
		if stat, ok := readStat(pid); ok && stat.state != 'Z' {
			all[pid] = stat
		}
	}
	session := p.pid
	if !p.a.reaper.owns(p.child) {
		session = -1 // another command has the number by now
	}
	ours := p.group.members()
	var open []int // whose origin is to be looked up
	for pid, stat := range all {
		switch {
		case ours[pid]:
		case stat.session == session:
			ours[pid] = true
		case stat.session == 0: // the kernel's own
		case p.a.reaper.orphan(pid, stat.parent):
			open = append(open, pid)
		}
	}
	alone := p.a.reaper.alone() && !p.a.keeps.Load()
	deadline := time.Now().Add(beingStarted)
	for _, pid := range open {
		if alone {
			ours[pid] = true // whatever it has done to its environment: nobody else has left any
			continue
		}
		is, known := marked(pid, p.mark)
		for !known && isThere(pid) && time.Now().Before(deadline) {
			time.Sleep(restPoll / 10)
			is, known = marked(pid, p.mark)
		}
		switch {
		case is:
			ours[pid] = true
		case !known:
			still = false
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, stat := range all {
			if !ours[pid] && ours[stat.parent] {
				ours[pid], grown = true, true
			}
		}
	}
	for pid := range ours {
		if _, alive := all[pid]; alive {
			left = append(left, pid)
		}
	}
	return left, still
}

// recent is how long numbers of processes are believed to be given in order: the smallest
// cycle has 32,768 of them.
const recent = 2 * time.Second

// since is the number of a process that is older than all that the command has started, so
// that most of a machine's processes need not be looked at; 0 where there is none to name.
func (p *process) since() int {
	if time.Since(p.started) > recent {
		return 0
	}
	data, err := os.ReadFile("/proc/loadavg") // its last field is the last number that was given
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) == 0 {
		return 0
	}
	if last, err := strconv.Atoi(fields[len(fields)-1]); err != nil || last < p.pid {
		return 0 // they began anew
	}
	return p.pid
}

// marked reports whether a process was started with this variable; known is false where it
// has ended or is just being started, and nobody can tell.
func marked(pid int, variable string) (is, known bool) {
	for size := 8 << 10; ; size *= 4 {
		data, err := environ(pid, size)
		switch {
		case err != nil:
			// Another user's could not be signalled either.
			return false, !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH)
		case len(data) == size && size < maxEnviron:
			continue
		}
		return bytes.Contains(append([]byte{0}, data...), []byte("\x00"+variable+"\x00")), len(data) > 0
	}
}

// environ reads up to size bytes of a process's environment, with one read: a process that another program takes the
// place of meanwhile has no more of it for a second one, which looks as if the first had been all.
func environ(pid, size int) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, size)
	n, err := unix.Read(fd, data)
	return data[:max(n, 0)], err
}

// isThere reports whether a process is there and has not ended.
func isThere(pid int) bool {
	stat, ok := readStat(pid)
	return ok && stat.state != 'Z'
}

// members are the processes in the group.
func (g *cgroup) members() map[int]bool {
	pids := map[int]bool{}
	if g == nil {
		return pids
	}
	data, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	for field := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
			pids[pid] = true
		}
	}
	return pids
}

// childless reports that this process has no children, running or not, and that every
// orphan would be one: so that no command has left anything.
func (r *reaper) childless() bool {
	if !r.all {
		return false
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, unix.ECHILD)
}

// alone reports that no command runs, and that what was left by one is a child of this
// process; as PID 1 it would have others' as well.
func (r *reaper) alone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all && os.Getpid() != 1 && len(r.children) == 0 && r.starting == 0
}

// commands are the processes that run commands now.
func (r *reaper) commands() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make(map[int]bool, len(r.children))
	for pid := range r.children {
		pids[pid] = true
	}
	return pids
}

// same reports whether the processes before are those after, but for commands: then, and
// those that run now.
func (r *reaper) same(before, after []int, commands map[int]bool) bool {
	now := r.commands()
	there := make(map[int]bool, len(before))
	for _, pid := range before {
		there[pid] = true
	}
	for _, pid := range after {
		if !there[pid] && !now[pid] {
			return false
		}
		delete(there, pid)
	}
	for pid := range there {
		if !commands[pid] {
			return false
		}
	}
	return true
}

// orphan reports whether a process may be what a command of this agent left behind: all
// that is known is that it is no command that runs.
func (r *reaper) orphan(pid, parent int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, command := r.children[pid]; command {
		return false
	}
	return !r.all || parent == os.Getpid()
}
