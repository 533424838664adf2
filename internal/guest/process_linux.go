package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
)

// Why a program was not started, as agent.ExecResult.NotStarted says it.
const (
	notFound      = "not_found"
	notExecutable = "not_executable"
	failed        = "failed"
)

// A startError is why a program was not started.
type startError struct {
	kind string
	err  error
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

func notStarted(kind, format string, args ...any) *startError {
	return &startError{kind: kind, err: fmt.Errorf(format, args...)}
}

const (
	killGrace = 500 * time.Millisecond // between the polite signal and SIGKILL
	killPoll  = 5 * time.Millisecond
	killLimit = 5 * time.Second // after SIGKILL; a process may hang in the kernel
	walkLimit = 2 * time.Second // of looking for what a session or control group still holds
)

// A program is one process to be started, with everything looked up.
type program struct {
	argv     []string
	env      []string
	path     string // PATH for the look-up of argv[0]
	dir      string // "": the agent's
	cred     *syscall.Credential
	uid      int
	code     string // the process finds it behind descriptor 3, unless it is ""
	stdin    string
	input    bool
	tty      *agent.TTY
	maxProcs int64
	mark     string // of its environment, by which is found what it leaves running; "": it is not
	endRest  bool   // what it leaves running ends with it
	helper   bool   // it prepares the call's program: input and signals are not for it
}

// A process is a program that runs.
type process struct {
	*child
	a       *Agent
	stdin   *stdin          // nil: /dev/null
	fed     <-chan struct{} // closed when the request's own stdin was given; nil: there was none
	master  *os.File        // the agent's end of its terminal; nil: none
	held    int             // the command's end of it; -1: none. It is release's to close
	pumps   []*pump
	group   *cgroup      // nil: no limit of processes
	mark    string       // as program's
	endRest bool         // as program's
	grace   atomic.Int64 // nanoseconds between the polite signal and SIGKILL
	started time.Time
}

// start starts p, with its output going to out and errs; a terminal's all goes to out.
func (a *Agent) start(p *program, out, errs sink) (*process, error) {
	file, err := lookPath(p)
	if err != nil {
		return nil, err
	}
	io, err := openStdio(p)
	if err != nil {
		return nil, notStarted(failed, "%w", err)
	}
	defer io.closeTheirs()
	proc := &process{a: a, master: io.master, held: io.held, stdin: io.stdin, mark: p.mark, endRest: p.endRest, started: time.Now()}
	proc.grace.Store(int64(killGrace))
	if !p.endRest {
		a.keeps.Store(true)
	}
	if p.maxProcs > 0 {
		if proc.group, err = a.cgroups.create(p.maxProcs); err != nil {
			io.closeOurs()
			return nil, notStarted(failed, "max_procs %d: %w", p.maxProcs, err)
		}
	}
	attr := &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Files: io.theirs,
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: p.cred},
	}
	if p.tty != nil {
		attr.Sys.Setctty = true // of descriptor 0
	}
	err = proc.group.enter(attr.Sys, func() (err error) {
		proc.child, err = a.reaper.start(file, p.argv, attr)
		return err
	})
	if err != nil {
		if proc.child != nil { // it runs, but not as it was asked to
			a.reaper.signal(proc.child, unix.SIGKILL)
			<-proc.done
			err = notStarted(failed, "max_procs %d: %w", p.maxProcs, err)
		}
		io.closeOurs()
		a.cgroups.remove(proc.group)
		return nil, explainStart(p, file, err)
	}
	sinks := []sink{out, errs}
	for i, f := range io.outputs {
		exact := p.endRest && p.tty == nil
		proc.pumps = append(proc.pumps, a.pump(f, sinks[i], exact))
	}
	if p.stdin != "" {
		proc.fed = proc.stdin.first(p.stdin)
	}
	return proc, nil
}

// lookPath finds the file that argv[0] means, as a shell does.
func lookPath(p *program) (string, error) {
	name := p.argv[0]
	if filepath.Base(name) != name {
		return name, nil // exec says what is wrong with it
	}
	var denied string
	for _, dir := range filepath.SplitList(p.path) {
		if dir == "" {
			dir = "."
		}
		file := filepath.Join(dir, name)
		seen := file
		if !filepath.IsAbs(file) {
			file = "." + string(filepath.Separator) + file
			seen = filepath.Join(p.dir, file)
		}
		var st unix.Stat_t
		if unix.Stat(seen, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if st.Mode&0o111 != 0 {
			return file, nil
		}
		denied = seen
	}
	if denied != "" {
		return "", notStarted(notExecutable, "%s: %s is not executable", name, denied)
	}
	return "", notStarted(notFound, "%s: not found in PATH (%s)", name, p.path)
}

// explainStart says what a start that failed was about. The kernel's answer does not
// tell the folder from the program, so both are looked at.
func explainStart(p *program, file string, err error) error {
	if known := (*startError)(nil); errors.As(err, &known) {
		return known
	}
	seen := file
	if !filepath.IsAbs(file) {
		seen = filepath.Join(p.dir, file)
	}
	var st unix.Stat_t
	missing := unix.Stat(seen, &st) != nil
	if p.dir != "" {
		if why := badFolder(p, err, st.Mode&0o111 == 0o111); why != nil {
			return notStarted(failed, "cwd %s: %w", p.dir, why)
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT) && missing, errors.Is(err, unix.ENOTDIR):
		return notStarted(notFound, "%s: %w", file, err)
	case errors.Is(err, unix.ENOENT):
		return notStarted(notExecutable, "%s: the interpreter that it names does not exist", file)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR):
		return notStarted(notExecutable, "%s: %w", file, err)
	}
	return notStarted(failed, "%s: %w", file, err)
}

// badFolder says what is wrong with p.dir. A permission that another user lacks cannot
// be asked for, but where everybody may run the program it must be the folder's.
func badFolder(p *program, err error, programIsOpen bool) error {
	var st unix.Stat_t
	if err := unix.Stat(p.dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	switch {
	case !errors.Is(err, unix.EACCES):
		return nil
	case p.cred == nil:
		return unix.Access(p.dir, unix.X_OK)
	case programIsOpen:
		return fmt.Errorf("%w for uid %d", err, p.uid)
	}
	return nil
}

// end ends the command's process group and what else is in its session or its control
// group: politely, then after a grace period for good. It returns when the command is
// gone, or after killLimit.
func (p *process) end() {
	p.ask()
	p.group.freeze()
	p.a.reaper.signal(p.child, unix.SIGKILL)
	if p.a.reaper.owns(p.child) {
		killSession(p.pid)
	}
	p.group.kill()
	select {
	case <-p.done:
	case <-time.After(killLimit):
	}
}

// ask asks the command's process group to end, and waits until it has or its grace is over, which
// may be shortened meanwhile.
func (p *process) ask() {
	begun := time.Now()
	if p.grace.Load() < 0 {
		return
	}
	p.a.reaper.signal(p.child, p.polite())
	p.a.reaper.signal(p.child, unix.SIGCONT) // a stopped process takes no signal
	for time.Since(begun) < time.Duration(p.grace.Load()) {
		select {
		case <-p.done:
			// The others of its group have the rest of the grace period.
			if !p.a.reaper.signal(p.child, 0) {
				return
			}
			time.Sleep(killPoll)
		case <-time.After(killPoll):
		}
	}
}

// polite is the signal that asks the command to end.
func (p *process) polite() unix.Signal {
	if p.master != nil {
		return unix.SIGHUP // what a terminal's end means; shells ignore SIGTERM there
	}
	return unix.SIGTERM
}

// release lets go of everything that the command held, once it has ended: its output
// is complete when release returns.
func (p *process) release() {
	if p.stdin != nil {
		p.stdin.close()
	}
	letGo(p.held)
	for _, pump := range p.pumps {
		pump.settle()
	}
	for _, pump := range p.pumps {
		<-pump.done
	}
	if p.fed != nil {
		<-p.fed
	}
	p.a.cgroups.remove(p.group)
}

// killSession ends every process whose session is sid, also those that left the
// process group of the command. What forks meanwhile is found the next time round.
func killSession(sid int) {
	for deadline := time.Now().Add(walkLimit); time.Now().Before(deadline); {
		found := false
		for _, pid := range processes() {
			if stat, ok := readStat(pid); ok && stat.session == sid && stat.state != 'Z' {
				found = true
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if !found {
			return
		}
		time.Sleep(killPoll)
	}
}

// processes lists the processes that this one can see.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 1 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

type procStat struct {
	state           byte
	parent, session int
}

func readStat(pid int) (procStat, bool) {
	// Many are read one after the other: os.ReadFile takes twice as many system calls.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return procStat{}, false
	}
	defer unix.Close(fd)
	var data [1024]byte // the numbers that are wanted come first
	n, err := unix.Read(fd, data[:])
	if err != nil {
		return procStat{}, false
	}
	return parseStat(string(data[:n]))
}
