package gvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTicks is how many of the system's ticks of processor time are a second: the same on every
// architecture that the engine runs on.
const clockTicks = 100

// usage is what processes and those below them take of memory, each page that is shared counted in
// parts, and have taken of processor time. What runs inside are threads and children of
// the monitor.
func usage(pids []int) (memory int64, cpu time.Duration) {
	for _, pid := range descendants(pids) {
		dir := "/proc/" + strconv.Itoa(pid)
		memory += kilobytes(dir+"/smaps_rollup", "Pss:")
		data, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything.
		f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(f) > 14 {
			for _, s := range f[11:15] { // its own, and of children that have ended
				n, _ := strconv.ParseInt(s, 10, 64)
				cpu += time.Duration(n) * time.Second / clockTicks
			}
		}
	}
	return memory, cpu
}

// descendants are processes and all below them.
func descendants(pids []int) []int {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return pids
	}
	children := map[int][]int{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || len(f) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		children[parent] = append(children[parent], pid)
	}
	seen, all := map[int]bool{}, []int(nil)
	for queue := pids; len(queue) > 0; queue = queue[1:] {
		if pid := queue[0]; pid > 0 && !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
			queue = append(queue, children[pid]...)
		}
	}
	return all
}
