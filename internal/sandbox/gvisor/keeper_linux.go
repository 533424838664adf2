package gvisor

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/flag"
	gsandbox "gvisor.dev/gvisor/runsc/sandbox"
	"gvisor.dev/gvisor/runsc/specutils"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

// Keep is the main function of a keeper: it starts one sandbox when the driver says so,
// and ends it when the driver says so or is gone. It never returns.
func Keep() {
	// The driver's end of the control socket is what says that it is gone; a signal
	// meant for the driver's terminal is not.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE)
	log.SetTarget(&log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	file := os.NewFile(launch.ControlFD, "control")
	unix.CloseOnExec(launch.ControlFD)
	conn, err := net.FileConn(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "control socket:", err)
		os.Exit(1)
	}
	file.Close()
	k := &keeper{conn: conn.(*net.UnixConn), log: os.Stderr, pidfd: -1}
	code := k.serve()
	if k.last != nil && k.kept {
		k.last.wait()
	}
	k.destroy()
	k.leave()
	if k.last != nil {
		k.last.finish()
	}
	os.Exit(code)
}

type keeper struct {
	conn  *net.UnixConn
	log   *os.File // what goes wrong, for the driver to read
	lock  *os.File // of the sandbox's folder; kept open, and not handed on
	plan  *plan
	conf  *config.Config
	c     *container.Container // used by the serving goroutine
	sb    *gsandbox.Sandbox    // safe for concurrent use
	pid   int                  // of the monitor
	pidfd int                  // of the monitor; -1 where the kernel has none

	last *last // of a sandbox that lasts
	kept bool  // opKeep was said; used by the serving goroutine

	outOfMemory atomic.Bool
	tooLarge    atomic.Int64 // the memory that reading out passed; 0: it did not
	destroying  atomic.Bool
}

// serve answers requests until the driver is gone.
func (k *keeper) serve() int {
	buf, oob := make([]byte, 1<<20), make([]byte, unix.CmsgSpace(2*4))
	for {
		n, oobn, _, _, err := k.conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return 0
		}
		var req request
		if err := json.Unmarshal(buf[:n], &req); err != nil {
			return 1
		}
		k.send(k.handle(&req, received(oob[:oobn])))
	}
}

func (k *keeper) send(r reply) {
	data, err := json.Marshal(r)
	if err == nil {
		_, _ = k.conn.Write(data) // the driver may be gone: the next read says so
	}
}

// received takes the files out of a packet's control data.
func received(oob []byte) []*os.File {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "received")
	}
	return files
}

func (k *keeper) handle(req *request, files []*os.File) reply {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch {
	case req.Op == opStart && k.plan == nil && req.Plan != nil && otherSource(req.Plan.Source, source()):
		return reply{
			Error:  "airlock was built from " + req.Plan.Source + ", its engine from " + source(),
			Reason: "the airlock-engine beside airlock is of another version",
			Mend:   "copy both from the same build (make build makes them), or remove airlock-engine: airlock does without",
		}
	case req.Op == opStart && k.plan == nil && req.Plan != nil:
		k.plan = req.Plan
		if err := k.take(files); err != nil {
			return failure(err)
		}
		files = nil
		notes, err := k.start()
		if err != nil {
			return failure(err)
		}
		if k.last == nil || !k.last.plan.Wait {
			go k.watch()
		}
		return reply{Notes: notes}
	case req.Op == opRun && k.last != nil && k.last.plan.Wait:
		k.last.plan.Wait = false
		if err := k.begin(nil); err != nil {
			return failure(err)
		}
		go k.watch()
		return reply{}
	case req.Op == opKeep && k.last != nil:
		k.kept = true
		return reply{}
	case req.Op == opUpper && k.c != nil && len(files) > 0:
		return failure(k.upper(files[0]))
	default:
		return reply{Error: fmt.Sprintf("request %q makes no sense now", req.Op)}
	}
}

// take makes the first file the log, which is standard error from now on, and keeps the second, the
// lock, as long as this process lives.
func (k *keeper) take(files []*os.File) error {
	if len(files) != 2 {
		return fmt.Errorf("%d files came with the plan, not the log and the lock", len(files))
	}
	if err := unix.Dup3(int(files[0].Fd()), int(k.log.Fd()), 0); err != nil {
		return fmt.Errorf("write to the log: %w", err)
	}
	k.lock = files[1]
	return files[0].Close()
}

func failure(err error) reply {
	if err == nil {
		return reply{}
	}
	if reason, mend := diagnose(err); reason != "" {
		return reply{Error: err.Error(), Reason: reason, Mend: mend}
	}
	return reply{Error: err.Error()}
}

func (k *keeper) start() (notes []string, err error) {
	p := k.plan
	if p.Cgroup == "" && p.CPUs > 0 {
		note, err := pinCPUs(p.CPUs)
		if err != nil {
			return nil, err
		}
		notes = append(notes, note)
	}
	if p.Cgroup == "" && p.Memory > 0 {
		notes = append(notes, "--memory is watched every 50 ms instead of held by the kernel: no control group can be made here")
	}
	if k.conf, err = engineConfig(p); err != nil {
		return nil, err
	}
	spec, err := specutils.ReadSpec(p.Dir, k.conf)
	if err != nil {
		return nil, err
	}
	var exe *os.File
	if p.Lasting == nil {
		if exe, err = agentFile(p.Agent); err != nil {
			return nil, err
		}
		defer exe.Close()
	}
	if err := k.boundStderr(); err != nil {
		return nil, err
	}
	if p.Lasting != nil {
		k.last = newLast(k, p.Lasting)
		if err := k.last.streams(); err != nil {
			return nil, err
		}
	}
	if p.HostNetwork {
		if err := giveUpNetwork(); err != nil {
			return nil, err
		}
	}
	// Attached: the engine's processes die with this one, however it ends.
	k.c, err = container.New(k.conf, container.Args{
		ID: p.ID, Spec: spec, BundleDir: p.Dir, Attached: true, ExecFile: exe,
	})
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	if p.Cgroup != "" && p.Memory > 0 {
		holdSwap(p.Cgroup, p.Memory)
	}
	k.sb, k.pid = k.c.Sandbox, k.c.SandboxPid()
	if fd, err := unix.PidfdOpen(k.pid, 0); err == nil {
		k.pidfd = fd
	}
	if p.Lasting != nil && p.Lasting.Wait {
		return notes, nil
	}
	return notes, k.begin(notes)
}

// begin has what was made run, and reaches the guest agent.
func (k *keeper) begin(notes []string) error {
	if err := k.run(); err != nil {
		return err
	}
	if k.last != nil {
		return k.last.serve(notes)
	}
	// From here on the guest's ends are the monitor's alone, so that the driver sees
	// the end of the connection when the sandbox ends.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, fd := range []int{0, 1} {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// run starts the sandbox, or has it go on from what was saved.
func (k *keeper) run() error {
	if p := k.plan.Lasting; p != nil && p.Restore != "" {
		if p.SavedBy != engineVersion() {
			return fmt.Errorf("it was saved by gVisor %s, and this is %s: one version cannot read what another has saved", p.SavedBy, engineVersion())
		}
		if err := k.c.Restore(k.conf, p.Restore, false, false, nil); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		return nil
	}
	if err := k.c.Start(k.conf); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// maxLog is how much of what the guest writes to its standard error is kept.
const maxLog = 64 << 10

// boundStderr makes a pipe of the standard error that the engine hands on to the guest:
// as the log itself, a hostile guest could fill the disk with it.
func (k *keeper) boundStderr() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the guest's standard error: %w", err)
	}
	os.Stderr = w
	go func() {
		_, _ = io.CopyN(k.log, r, maxLog) // a log that cannot be written must not stop the guest
		_, _ = io.Copy(io.Discard, r)
	}()
	return nil
}

// agentFile opens the guest agent's executable: the small one, or this program.
func agentFile(path string) (*os.File, error) {
	if path == "" {
		path = "/proc/self/exe"
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the guest agent: %w", err)
	}
	return f, nil
}

// engineConfig is the engine's settings.
func engineConfig(p *plan) (*config.Config, error) {
	set := flag.NewFlagSet("engine", flag.ContinueOnError)
	config.RegisterFlags(set)
	settings := map[string]string{
		"root":                        filepath.Join(p.Dir, "root"),
		"network":                     engineNetwork(p.HostNetwork),
		"overlay2":                    overlay(p),
		"in-sandbox-cgroup":           "v2",
		"ignore-cgroups":              strconv.FormatBool(p.Cgroup == ""),
		"allow-rootfs-tar-annotation": strconv.FormatBool(p.Hidden),
		"host-settings":               "ignore",
		// What is restored has the plan of what was saved, but for the hidden paths, which are in its files.
		"restore-spec-validation": "ignore",
		// A shared empty network namespace would stay behind as a mount.
		"gofer-network-namespace": "new",
	}
	if p.EngineLog != "" {
		settings["debug"] = "true"
		settings["debug-log"] = strings.TrimSuffix(p.EngineLog, "/") + "/"
	}
	for name, value := range settings {
		if err := set.Set(name, value); err != nil {
			return nil, fmt.Errorf("engine setting %s=%s: %w", name, value, err)
		}
	}
	return config.NewFromFlags(set)
}

// overlay is the engine's setting for where the upper layer is and how large it may be.
func overlay(p *plan) string {
	s := "root:" + p.Filestore
	if p.Disk > 0 {
		s += ",size=" + strconv.FormatInt(p.Disk, 10)
	}
	return s
}

// watchInterval is how often memory is looked at.
const watchInterval = 50 * time.Millisecond

// slowInterval is how often it is looked at in one that lasts, where the kernel holds the limit: there may be a
// hundred of them.
const slowInterval = 500 * time.Millisecond

// watch tells the driver when the sandbox ends by itself, and ends it when it has
// passed its memory limit.
func (k *keeper) watch() {
	stop := make(chan struct{})
	if k.plan.Memory > 0 {
		go k.watchMemory(stop)
	}
	_, _ = k.sb.Wait(k.plan.ID) // however it ended, it ended
	close(stop)
	if k.destroying.Load() {
		return
	}
	oom := k.outOfMemory.Load() || k.plan.Cgroup != "" && oomKills(k.plan.Cgroup) > 0
	if k.last != nil {
		e := &Ending{Reason: EndKilled, At: time.Now(), Text: k.tooLargeReason()}
		if oom {
			e.Reason = EndOutOfMemory
		}
		k.last.end(e)
		if k.last.session == nil {
			return
		}
	}
	k.send(reply{Ended: &ending{OutOfMemory: oom, Reason: k.tooLargeReason()}})
	k.conn.CloseRead() // serve returns, and the keeper ends
}

func (k *keeper) watchMemory(stop chan struct{}) {
	interval := watchInterval
	if k.last != nil && k.plan.Cgroup != "" {
		interval = slowInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if !k.passedMemory() {
			continue
		}
		k.outOfMemory.Store(true)
		k.kill()
		return
	}
}

func (k *keeper) passedMemory() bool {
	if k.plan.Cgroup != "" {
		return oomKills(k.plan.Cgroup) > 0
	}
	u, err := k.sb.Usage(false)
	return err == nil && int64(u.Total) > k.plan.Memory
}

// destroy ends the sandbox and removes the engine's state.
func (k *keeper) destroy() {
	if k.c == nil {
		return
	}
	k.destroying.Store(true)
	// Killed first: the engine would otherwise wait for a frozen sandbox to end nicely.
	k.kill()
	if err := k.c.Destroy(); err != nil {
		fmt.Fprintln(k.log, "destroy:", err)
	}
}

// kill ends the monitor. By its descriptor, because the engine collects it when it ends by
// itself, and its number can be another process's by now.
func (k *keeper) kill() {
	switch {
	case k.pidfd >= 0:
		_ = unix.PidfdSendSignal(k.pidfd, unix.SIGKILL, nil, 0) // gone already: so much the better
	case k.pid > 0:
		_ = unix.Kill(k.pid, unix.SIGKILL)
	}
}

// leave removes the sandbox's control group and folder: its driver may be gone. The folder
// stays where the group does, for a sweep to find it by.
func (k *keeper) leave() {
	if k.plan == nil || !sandbox.ValidID(filepath.Base(k.plan.Dir)) {
		return
	}
	var err error
	if k.plan.Cgroup != "" {
		if err = removeCgroup(k.plan.Cgroup); err != nil {
			fmt.Fprintln(k.log, err)
		}
	}
	if err == nil {
		_ = os.RemoveAll(k.plan.Dir) // nobody is left to tell; a sweep clears it
	}
}
