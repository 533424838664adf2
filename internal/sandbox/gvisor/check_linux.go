package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/sandbox"
)

// probeName is the argv[0] under which the program only shows that it can be started.
const probeName = "airlock-probe"

// probe starts a process in the namespaces that a sandbox needs.
func probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args[0] = probeName
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd.Run()
}

// A switch of the kernel that can forbid user namespaces.
type userNSSwitch struct{ file, forbids, reason, mend string }

var userNSSwitches = []userNSSwitch{
	{
		"/proc/sys/user/max_user_namespaces", "0", "this system allows no user namespaces (user.max_user_namespaces is 0)",
		"allow them with: sudo sysctl -w user.max_user_namespaces=15000",
	},
	{
		"/proc/sys/kernel/unprivileged_userns_clone", "0", "this system allows user namespaces to root alone (kernel.unprivileged_userns_clone is 0)",
		"allow them with: sudo sysctl -w kernel.unprivileged_userns_clone=1",
	},
	{
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor forbids user namespaces to programs without a profile (kernel.apparmor_restrict_unprivileged_userns is 1)",
		"allow them with: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or with an AppArmor profile for airlock that has the rule \"userns,\"",
	},
}

// diagnose finds what the machine lacks, if that is why a sandbox did not start.
func diagnose(err error) (reason, mend string) {
	probeErr := probe()
	if probeErr == nil {
		return "", ""
	}
	for _, s := range userNSSwitches {
		data, err := os.ReadFile(s.file)
		if err == nil && strings.TrimSpace(string(data)) == s.forbids {
			return s.reason, s.mend
		}
	}
	if errors.Is(probeErr, unix.EPERM) || errors.Is(probeErr, unix.ENOSYS) || errors.Is(probeErr, unix.EINVAL) {
		return "new user, mount, pid and network namespaces are refused (" + probeErr.Error() + ")", namespaceMend()
	}
	return "", ""
}

// namespaceMend is what to do where the kernel's switches do not say it.
func namespaceMend() string {
	if os.Geteuid() == 0 {
		return "in a container, start that with --privileged, or with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
	}
	return "in a container, start that with --security-opt seccomp=unconfined --security-opt apparmor=unconfined; elsewhere run airlock as root"
}

// Check says what this machine offers.
func (d *Driver) Check(ctx context.Context) []sandbox.Finding {
	return []sandbox.Finding{
		d.checkNamespaces(), d.checkEngine(ctx), d.checkState(), d.checkMemory(), d.checkCPU(),
		{Name: "process limit", OK: true, Text: "held inside the sandbox by its own pids controller"},
		d.checkAgent(),
	}
}

func (d *Driver) checkNamespaces() sandbox.Finding {
	f := sandbox.Finding{Name: "namespaces", OK: true, Text: "user, mount, pid, network, ipc and uts namespaces can be made"}
	if err := probe(); err != nil {
		f.OK = false
		f.Text, f.Mend = diagnose(err)
		if f.Text == "" {
			f.Text = "namespaces cannot be made: " + err.Error()
		}
	}
	return f
}

func (d *Driver) checkEngine(ctx context.Context) sandbox.Finding {
	path, err := d.engine(ctx)
	if err != nil {
		return sandbox.Finding{Name: "engine", Text: err.Error(), Mend: "build airlock with CGO_ENABLED=0 (make build does)"}
	}
	if path == "/proc/self/exe" {
		path, _ = os.Executable()
	}
	return sandbox.Finding{Name: "engine", OK: true, Text: "gVisor " + engineVersion() + ", built into " + path}
}

func (d *Driver) checkAgent() sandbox.Finding {
	if d.opts.Agent != "" {
		return sandbox.Finding{Name: "guest agent", OK: true, Text: d.opts.Agent}
	}
	return sandbox.Finding{
		Name: "guest agent", OK: true, Warn: true, Text: "the one inside airlock itself, which starts some milliseconds slower",
		Mend: "put airlock-agent beside airlock (make build makes both)",
	}
}

func (d *Driver) checkState() sandbox.Finding {
	f := sandbox.Finding{Name: "state", OK: true, Text: d.opts.StateDir}
	dir := d.opts.StateDir
	if err := tryWriting(dir); err != nil {
		return sandbox.Finding{Name: "state", Text: err.Error(), Mend: "set AIRLOCK_HOME to a folder that you can write to"}
	}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		free := int64(st.Bavail) * st.Bsize
		f.Text += fmt.Sprintf(" (%d MiB free)", free>>20)
		if free < 1<<30 {
			f.Warn, f.Mend = true, "free some space there: what sandboxes write is kept there until it is committed or discarded"
		}
	}
	return f
}

// tryWriting makes dir, and a file in it for a moment.
func tryWriting(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".writable-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (d *Driver) checkMemory() sandbox.Finding {
	if cgroupsWritable() {
		return sandbox.Finding{Name: "memory limit", OK: true, Text: "held by the kernel in a control group"}
	}
	return sandbox.Finding{
		Name: "memory limit", OK: true, Warn: true, Text: fmt.Sprintf("watched every %v: no control group can be made here", watchInterval),
		Mend: "run airlock as root for limits that the kernel holds",
	}
}

func (d *Driver) checkCPU() sandbox.Finding {
	if cgroupsWritable() {
		return sandbox.Finding{Name: "processor limit", OK: true, Text: "held by the kernel in a control group"}
	}
	return sandbox.Finding{
		Name: "processor limit", OK: true, Warn: true, Text: "rounded up to whole processors: no control group can be made here",
		Mend: "run airlock as root for limits that the kernel holds",
	}
}
