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
)

// endLeft ends what an agent has left that was killed, and could not do so itself: its
// commands have a mark, and are no agent's any more. What has wiped its environment
// is found where it descends from one that has not.
func endLeft(since uint64) {
	for range sweeps {
		left := leftBehind(since)
		if len(left) == 0 {
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

// leftBehind are the processes that were started since then, have a mark of an agent's
// command or descend from one that has, and have no agent above them.
func leftBehind(since uint64) []int {
	all := processes()
	agents := map[int]bool{os.Getpid(): true} // what is below this process is its own affair
	ours := map[int]bool{}
	for pid, p := range all {
		switch {
		case isAgent(pid):
			agents[pid] = true
		case p.started >= since && marked(pid):
			ours[pid] = true
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
	var left []int
	for pid, p := range all {
		if !p.zombie && p.started >= since && under(pid, ours) && !under(pid, agents) {
			left = append(left, pid)
		}
	}
	return left
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

// marked reports whether a process is of a command of an agent's, and not of the one that
// this process is of itself.
func marked(pid int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	buf := make([]byte, maxEnviron)
	n := 0
	for n < len(buf) {
		more, err := f.Read(buf[n:])
		n += more
		if err != nil || more == 0 {
			break
		}
	}
	const name = agent.EnvExec + "="
	for v := range bytes.SplitSeq(buf[:n], []byte{0}) {
		if mark, ok := bytes.CutPrefix(v, []byte(name)); ok {
			return string(mark) != os.Getenv(agent.EnvExec)
		}
	}
	return false
}

// startOf is when a process was started; the end of time where that is not known.
func startOf(pid int) uint64 {
	if p, ok := look(pid); ok {
		return p.started
	}
	return 1<<64 - 1
}
