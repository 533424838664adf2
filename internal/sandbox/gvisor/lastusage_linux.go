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

// usage is what the processes of a sandbox take of memory and have taken of processor time. A control group
// has both at hand; without one, all processes of the machine are looked at for those that are
// its: what runs inside are children of the monitor.
func usage(pids []int, cgroup string) (memory int64, cpu time.Duration) {
	keeper := pids[:1] // which is not in the group
	if cgroup != "" {
		memory, cpu = groupMemory(cgroup), groupCPU(cgroup)
		if memory >= 0 && cpu >= 0 {
			return memory + anonymousMemory(keeper[0]), cpu + processCPU(keeper[0])
		}
	}
	memory, cpu = 0, 0
	for _, pid := range descendants(pids) {
		memory += kilobytes("/proc/"+strconv.Itoa(pid)+"/smaps_rollup", "Pss:") // each shared page counted in parts
		cpu += processCPU(pid)
	}
	return memory, cpu
}

// groupMemory is what a control group takes of memory, without what the system would take back
// first; -1 where nobody says.
func groupMemory(path string) int64 {
	used := usedMemory(path)
	if used == 0 {
		return -1
	}
	for file, name := range map[string]string{
		filepath.Join("/sys/fs/cgroup/memory", path, "memory.stat"):  "total_inactive_file",
		filepath.Join("/sys/fs/cgroup", path, "memory.stat"):         "inactive_file",
		filepath.Join("/sys/fs/cgroup/unified", path, "memory.stat"): "inactive_file",
	} {
		if n, ok := groupFigure(file, name); ok {
			return max(used-n, 0)
		}
	}
	return used
}

// groupCPU is the processor time that a control group has taken; -1 where nobody says.
func groupCPU(path string) time.Duration {
	for _, dir := range []string{"cpuacct", "cpu,cpuacct"} {
		data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", dir, path, "cpuacct.usage"))
		if err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			return time.Duration(n)
		}
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if n, ok := groupFigure(filepath.Join(root, path, "cpu.stat"), "usage_usec"); ok {
			return time.Duration(n) * time.Microsecond
		}
	}
	return -1
}

// groupFigure reads a line "NAME N" of a file.
func groupFigure(file, name string) (int64, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// processCPU is the processor time of a process and of children of it that have ended.
func processCPU(pid int) (cpu time.Duration) {
	f := statFields(strconv.Itoa(pid))
	if len(f) < 15 {
		return 0
	}
	for _, s := range f[11:15] {
		n, _ := strconv.ParseInt(s, 10, 64)
		cpu += time.Duration(n) * time.Second / clockTicks
	}
	return cpu
}

// statFields are the fields of a process's stat after its name, which may hold anything.
func statFields(pid string) []string {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	text := string(data)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}

// descendants are processes and all below them.
func descendants(pids []int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return pids
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statFields(e.Name()); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], pid)
		}
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
