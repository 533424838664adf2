package gvisor

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Memory and processor time are held by a control group of the host where one can be
// had. Without one, memory is watched by the keeper and processors are counted out by
// affinity. The number of processes is held inside, by the sandbox's own pids
// controller, which counts the guest's processes. Root inside could lift that limit, so
// for root there is an outer wall: the host's controller, which counts the engine's
// threads as well and is set so wide that it is not met before the inner one.

// What the host counts for a sandbox of so many processes, generously: the engine's own
// threads, and those that run a guest's process. Measured: 327 for 200 processes.
const (
	engineThreads   = 512
	threadsAProcess = 8
)

// cgroupOf names a sandbox's control group. It has no parent of Airlock's own, which
// would have to be removed while another sandbox makes it.
func cgroupOf(id string) string { return "/airlock-" + id }

// limit writes the limits into the spec, and names the control group to make.
func (b *box) limit(spec *specs.Spec) string {
	l := b.spec.Limits
	if l.Memory <= 0 && l.CPUs <= 0 && l.Procs <= 0 {
		return ""
	}
	if !cgroupsWritable() {
		return ""
	}
	res := &specs.LinuxResources{}
	if l.Memory > 0 {
		res.Memory = &specs.LinuxMemory{Limit: &l.Memory}
	}
	if l.CPUs > 0 {
		period := uint64(100_000)
		quota := max(int64(l.CPUs*float64(period)), 1000)
		res.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	if l.Procs > 0 {
		res.Pids = &specs.LinuxPids{Limit: engineThreads + threadsAProcess*l.Procs}
	}
	path := cgroupOf(b.spec.ID)
	spec.Linux.Resources = res
	spec.Linux.CgroupsPath = path
	return path
}

// cgroupsWritable reports whether this process may make control groups.
func cgroupsWritable() bool {
	if os.Geteuid() != 0 {
		return false
	}
	for _, dir := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			return unix.Access(dir, unix.W_OK) == nil
		}
	}
	return false
}

// holdSwap has the group's memory limit hold with swap: the system counts that apart, so that a sandbox beyond
// its limit would fill the machine's swap before it is ended. The first version of control groups
// bounds both together, and never below the limit itself; 0 takes that off.
func holdSwap(path string, limit int64) {
	both := "-1"
	if limit > 0 {
		both = strconv.FormatInt(limit, 10)
	}
	for file, text := range map[string]string{
		filepath.Join("/sys/fs/cgroup/memory", path, "memory.memsw.limit_in_bytes"): both,
		filepath.Join("/sys/fs/cgroup", path, "memory.swap.max"):                    "0",
		filepath.Join("/sys/fs/cgroup/unified", path, "memory.swap.max"):            "0",
	} {
		// A system that does not count swap has no such file.
		_ = os.WriteFile(file, []byte(text), 0)
	}
}

// oomKills reads how often the kernel has ended a process of the group for want of
// memory, under either version of cgroups.
func oomKills(path string) int64 {
	for _, file := range []string{
		filepath.Join("/sys/fs/cgroup/memory", path, "memory.oom_control"),
		filepath.Join("/sys/fs/cgroup", path, "memory.events"),
		filepath.Join("/sys/fs/cgroup/unified", path, "memory.events"),
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				return n
			}
		}
	}
	return 0
}

// pinCPUs gives the calling process, and what it starts, as many processors as the
// limit rounded up, and says what that means.
func pinCPUs(cpus float64) (string, error) {
	n := int(math.Ceil(cpus))
	var have, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return "", fmt.Errorf("read the processor affinity: %w", err)
	}
	left := n
	for cpu := 0; cpu < 1024 && left > 0; cpu++ {
		if have.IsSet(cpu) {
			want.Set(cpu)
			left--
		}
	}
	note := fmt.Sprintf("--cpus %g is held as %d whole processor(s): no control group can be made here", cpus, n)
	if n >= runtime.NumCPU() {
		return note, nil
	}
	// The calling thread alone: the keeper starts the engine from it.
	if err := setAffinityAll(&want); err != nil {
		return "", fmt.Errorf("set the processor affinity: %w", err)
	}
	return note, nil
}

// setAffinityAll sets the affinity of every thread of this process, so that whichever
// of them starts the engine hands it on.
func setAffinityAll(set *unix.CPUSet) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
			return err
		}
	}
	return nil
}
