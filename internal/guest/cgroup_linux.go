package guest

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/fastsys"
)

const (
	cgroupRoot     = "/sys/fs/cgroup"
	removeTries    = 6 // of a control group whose last process is just going
	removeFirst    = time.Millisecond
	removeLast     = 32 * time.Millisecond
	cgroupV2Magic  = unix.CGROUP2_SUPER_MAGIC
	maxKeptCgroups = 1024
)

// cgroups make a control group for each command that has a limit of processes. A
// command that cannot be limited is not started: there is no fallback.
//
// Version 2 (the unified hierarchy) starts the child inside its group. Version 1, which
// gVisor also has, knows no such start. But there a thread can be moved by itself, and a
// child is born where the thread is that forks: so the thread goes in, forks, and goes
// back. The child is never outside its group, and no helper program is needed.
type cgroups struct {
	log *slog.Logger

	mu   sync.Mutex
	home string    // where groups are made, once one was; "": not known
	v2   bool      // what is there is version 2
	made uint64    // for names
	mark string    // of the names: another agent of this process, or an earlier process of this number, may have left groups
	live []*cgroup // of commands that run
	busy []*cgroup // could not be removed yet: background children are in them
}

// A cgroup is one command's. A nil cgroup is no limit.
type cgroup struct {
	dir  string
	home string // version 1: the folder of the agent's own group
	max  int64

	stifled atomic.Bool // see stifle
	killed  atomic.Bool // its processes are being ended, and may start none again
}

func newCgroups(log *slog.Logger) *cgroups {
	return &cgroups{log: log, mark: fmt.Sprintf("airlock-%d-%08x-", os.Getpid(), rand.Uint32())}
}

// create makes a group for at most limit processes.
func (c *cgroups) create(limit int64) (*cgroup, error) {
	c.sweep()
	dir, home, v2, err := c.place()
	if err != nil {
		return nil, err
	}
	g := &cgroup{dir: dir, max: limit}
	if !v2 {
		g.home = home
	}
	if !v2 {
		limit++ // the thread that forks counts while it is inside
	}
	if err := g.limit(limit); err != nil {
		return nil, errors.Join(fmt.Errorf("set the limit: %w", err), os.Remove(g.dir))
	}
	c.mu.Lock()
	c.live = append(c.live, g)
	c.mu.Unlock()
	return g, nil
}

// place makes the folder of a group. Where groups are made is looked up once, and again when that place is gone.
func (c *cgroups) place() (dir, home string, v2 bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) >= maxKeptCgroups {
		return "", "", false, fmt.Errorf("%d control groups are still in use by background processes", maxKeptCgroups)
	}
	for known := c.home != ""; ; known = false {
		if !known {
			if c.home, c.v2, err = pidsHome(); err != nil {
				return "", "", false, err
			}
		}
		c.made++
		dir = c.home + "/" + c.mark + strconv.FormatUint(c.made, 10)
		err = fastsys.Mkdirat(unix.AT_FDCWD, dir, 0o700)
		if err == nil {
			return dir, c.home, c.v2, nil
		}
		if !known {
			c.home = ""
			return "", "", false, fmt.Errorf("make a control group for the limit: mkdir %s: %w", dir, err)
		}
	}
}

// pidsHome is the folder of the control group that this process is in, in the
// hierarchy that limits processes.
func pidsHome() (dir string, v2 bool, err error) {
	base, v2 := filepath.Join(cgroupRoot, "pids"), false
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &fs); err == nil && fs.Type == cgroupV2Magic {
		base, v2 = cgroupRoot, true
	} else if _, err := os.Stat(filepath.Join(base, "tasks")); err != nil {
		return "", false, fmt.Errorf("no control groups that limit processes: %s is not version 2 and %s is not version 1", cgroupRoot, base)
	}
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false, err
	}
	// In a container the path may be the host's and not exist below the mount: the
	// mount's own root is the place then.
	dir = filepath.Join(base, ownGroup(string(data), v2))
	if _, err := os.Stat(dir); err != nil {
		dir = base
	}
	// Version 2 hands controllers down only from groups without processes, and from the
	// root, where a sandbox's agent may work.
	if v2 && handDown(dir) != nil && handDown(base) == nil {
		dir = base
	}
	return dir, v2, nil
}

// handDown lets the groups below dir limit processes. Where it cannot, their pids.max is
// missing, and that error says what matters.
func handDown(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+pids"), 0)
}

// ownGroup finds the path of this process's group in /proc/self/cgroup: lines of
// hierarchy, controllers and path, with "0::PATH" for version 2.
func ownGroup(table string, v2 bool) string {
	for line := range strings.Lines(table) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if v2 && fields[1] == "" || !v2 && hasController(fields[1], "pids") {
			return filepath.Clean("/" + fields[2])
		}
	}
	return "/"
}

func hasController(list, name string) bool {
	for have := range strings.SplitSeq(list, ",") {
		if have == name {
			return true
		}
	}
	return false
}

func (g *cgroup) limit(n int64) error {
	return put(g.dir+"/pids.max", n)
}

// enter calls start, which forks with sys, so that the child is born in the group.
func (g *cgroup) enter(sys *syscall.SysProcAttr, start func() error) error {
	switch {
	case g == nil:
		return start()
	case g.home == "":
		fd, err := fastsys.Openat(unix.AT_FDCWD, g.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", g.dir, err)
		}
		defer fastsys.Close(fd)
		sys.UseCgroupFD, sys.CgroupFD = true, fd
		return start()
	}
	runtime.LockOSThread()
	if err := moveThread(g.dir); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the control group: %w", err)
	}
	err := start()
	if back := moveThread(g.home); back != nil {
		// The thread stays locked, and so ends with this goroutine instead of running
		// others inside the group.
		return errors.Join(err, fmt.Errorf("leave the control group: %w", back))
	}
	runtime.UnlockOSThread()
	return errors.Join(err, g.limit(g.max))
}

// moveThread puts the calling thread into the version 1 group in dir.
func moveThread(dir string) error {
	return put(dir+"/tasks", int64(unix.Gettid()))
}

// put writes a number to a file of a control group.
func put(path string, n int64) error {
	fd, err := fastsys.Openat(unix.AT_FDCWD, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = fastsys.Write(fd, strconv.AppendInt(nil, n, 10))
		_ = fastsys.Close(fd) // what was written counts
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// freeze keeps the group's processes from making more: a fork bomb that is being killed
// would otherwise outrun its killer.
func (g *cgroup) freeze() {
	if g != nil {
		_ = g.limit(0)
	}
}

// kill ends every process in the group, whatever session it moved to.
func (g *cgroup) kill() {
	if g == nil {
		return
	}
	g.killed.Store(true)
	for deadline := time.Now().Add(walkLimit); time.Now().Before(deadline); {
		data, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		if err != nil || len(data) == 0 {
			return
		}
		found := false
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
				found = unix.Kill(pid, unix.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
		time.Sleep(killPoll)
	}
}

// remove removes g. Where processes are in it still it is tried again later, with
// every new group and at the end.
func (c *cgroups) remove(g *cgroup) {
	if g == nil {
		return
	}
	c.mu.Lock()
	c.live = slices.DeleteFunc(c.live, func(other *cgroup) bool { return other == g })
	c.mu.Unlock()
	wait := removeFirst
	for range removeTries {
		if gone(g.dir) {
			return
		}
		data, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		if err == nil && len(data) > 0 {
			break // somebody lives there
		}
		time.Sleep(wait)
		wait *= 2
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = append(c.busy, g)
}

// sweep removes the groups that are empty by now.
func (c *cgroups) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var still []*cgroup
	for _, g := range c.busy {
		if !gone(g.dir) && !g.haunted() {
			still = append(still, g)
		}
	}
	c.busy = still
	if len(still) > 0 {
		c.log.Debug("control groups are still in use", "groups", len(still))
	}
}

// settle removes the groups whose processes have just been ended: those have yet to be
// collected, which takes its time on a busy machine. Outside of a sandbox nobody would ever remove them.
func (c *cgroups) settle() {
	begun := time.Now()
	for wait := removeFirst; ; wait = min(2*wait, removeLast) {
		c.sweep()
		c.mu.Lock()
		left := slices.Clone(c.busy)
		c.mu.Unlock()
		limit := walkLimit
		if slices.ContainsFunc(left, (*cgroup).inhabited) {
			limit = 2 * removeLast // somebody lives there, and may do so for long
		}
		if len(left) == 0 || time.Since(begun) >= limit {
			return
		}
		time.Sleep(wait)
	}
}

// inhabited reports whether a process of the group has not ended.
func (g *cgroup) inhabited() bool {
	for pid := range g.members() {
		if isThere(pid) {
			return true
		}
	}
	return false
}

// haunted reports that the group cannot be removed although nobody is in it: gVisor goes
// on listing processes whose start the limit prevented. Such a group is given up.
func (g *cgroup) haunted() bool {
	data, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil {
		return false
	}
	for pid := range strings.FieldsSeq(string(data)) {
		if _, err := os.Lstat(filepath.Join("/proc", pid)); err == nil {
			return false
		}
	}
	return !gone(g.dir)
}

func gone(dir string) bool {
	err := unix.Rmdir(dir)
	return err == nil || err == unix.ENOENT
}
