package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
)

const (
	sweeps     = 50
	sweepPause = 10 * time.Millisecond
	maxEnviron = 256 << 10 // bytes of a process's environment that are looked through
	kernel     = 2         // the parent of the kernel's own
)

// endLeft ends what an agent has left that was killed, and could not do so itself: its
// commands have a mark of its own, and are no agent's any more. What has wiped its environment
// is found where it descends from one that has not.
func endLeft(agentPID int, since uint64) {
	for range sweeps {
		left, sure := leftBehind(agentPID, since)
		if len(left) == 0 && sure {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(sweepPause)
	}
}

// A process is one as /proc tells of it.
type process struct {
	parent  int
	started uint64 // ticks since the machine's start
	zombie  bool
}

// leftBehind are the processes that were started since then, have a mark of the agent's
// commands or descend from one that has, and have no agent above them. It is not sure where another program was just
// being put in a process's place, so that nobody can tell; one without any environment looks the same.
func leftBehind(agentPID int, since uint64) (left []int, sure bool) {
	all, sure := processes(), true
	agents := map[int]bool{os.Getpid(): true} // what is below this process is its own affair
	ours := map[int]bool{}
	for pid, p := range all {
		switch {
		case isAgent(pid):
			agents[pid] = true
		case p.started < since || p.zombie || p.parent == kernel:
		default:
			is, known := marked(pid, agentPID)
			if is {
				ours[pid] = true
			}
			sure = sure && known
		}
	}
	under := func(pid int, those map[int]bool) bool {
		for n := 0; pid > 0 && n < len(all); n++ {
			if those[pid] {
				return true
			}
			pid = all[pid].parent
		}
		return false
	}
	for pid, p := range all {
		if !p.zombie && p.started >= since && under(pid, ours) && !under(pid, agents) {
			left = append(left, pid)
		}
	}
	return left, sure
}

func processes() map[int]process {
	all := map[int]process{}
	names, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if p, ok := look(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// look reads what is to be known of a process.
func look(pid int) (process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	_, text, ok := bytes.Cut(text[max(bytes.LastIndexByte(text, ')'), 0):], []byte(") ")) // its name may hold anything
	fields := bytes.Fields(text)
	if !ok || len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return process{}, false
	}
	started, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{parent, started, fields[0][0] == 'Z'}, err == nil
}

// isAgent reports whether a process is a guest agent.
func isAgent(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && string(name) == agentName
}

// marked reports whether a process is of a command of the agent's. Its environment is read with one read: a process that
// another program takes the place of meanwhile has no more of it for a second one.
func marked(pid, agentPID int) (is, known bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, true // it has ended, or is another user's
	}
	defer unix.Close(fd)
	buf := make([]byte, maxEnviron)
	n, err := unix.Read(fd, buf)
	mark := fmt.Appendf(nil, "\x00%s=%d-", agent.EnvExec, agentPID)
	return bytes.Contains(append([]byte{0}, buf[:max(n, 0)]...), mark), n > 0 || err != nil
}

// startOf is when a process was started; the end of time where that is not known.
func startOf(pid int) uint64 {
	if p, ok := look(pid); ok {
		return p.started
	}
	return 1<<64 - 1
}
