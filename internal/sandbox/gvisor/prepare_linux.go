package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"airlock/internal/sandbox"
)

// makeDir makes the sandbox's folder and takes its lock. It gets its name once it is
// locked: one that had it before would be nobody's to another driver's Sweep.
func (b *box) makeDir() error {
	if err := os.MkdirAll(b.driver.runDir(), 0o700); err != nil {
		return err
	}
	run, err := filepath.EvalSymlinks(b.driver.runDir())
	if err != nil {
		return err
	}
	young := filepath.Join(run, youngPrefix+b.spec.ID)
	if err := os.Mkdir(young, 0o700); err != nil {
		return err
	}
	// The lock is held through a description that the keeper shares: the folder is
	// in use until both are gone.
	lock, ok, err := takeLock(filepath.Join(young, "lock"), os.O_CREATE)
	if err == nil && !ok {
		err = errors.New("lock the sandbox's folder: another has it")
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(young, "root"), 0o700)
	}
	dir := filepath.Join(run, b.spec.ID)
	if err == nil {
		err = os.Rename(young, dir)
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		return errors.Join(err, removeRun(young))
	}
	b.dir, b.lock = dir, lock
	return nil
}

// prepare writes what the engine reads.
func (b *box) prepare() (*plan, error) {
	p := &plan{
		Source: source(), ID: b.spec.ID, Dir: b.dir, EngineLog: b.driver.opts.EngineLog, Filestore: filestore(b.dir),
		CPUs: b.spec.Limits.CPUs, Memory: b.spec.Limits.Memory, Agent: b.driver.opts.Agent,
		UpperMemory: b.driver.opts.UpperMemory, HostNetwork: b.spec.HostNetwork, Disk: b.spec.Limits.Disk,
	}
	var err error
	switch {
	case b.saved != nil: // what is hidden is in what was saved
	case b.spec.Root != "":
		p.Hidden, err = b.writeNetworkFiles()
	default:
		p.Hidden, err = writeHidden(filepath.Join(b.dir, "hidden.tar"), b.spec.Hide, b.agents)
	}
	if err != nil {
		return nil, fmt.Errorf("hide paths: %w", err)
	}
	spec, err := b.ociSpec(p)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	// The file's change time is the file systems' own clock, which may lag behind
	// time.Now by a tick.
	path := filepath.Join(b.dir, "config.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	b.noted = time.Now()
	b.started, err = changeTime(path)
	return p, err
}

// filestore names where the upper layer's content is kept: an unlinked file in dir, or
// memory where the engine could not parse the path.
func filestore(dir string) string {
	if strings.ContainsAny(dir, ":,") {
		return "memory"
	}
	return "dir=" + dir
}

// What root's commands may do inside: the usual set of containers, less raw sockets.
// The agent of an ordinary user has the same, to become another user than its
// commands; they have none.
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_MKNOD", "CAP_AUDIT_WRITE", "CAP_SETFCAP",
}

// agentArgs are the guest agent's. An ordinary user's agent becomes root inside, so that
// commands can neither signal it nor reach its connection.
func (b *box) agentArgs() []string {
	args := []string{"airlock-agent", "--listen", "stdio"}
	if b.lasting != nil {
		args[0], args[2] = b.agentsInside()+"/"+agentName, "mux"
	}
	if os.Geteuid() != 0 && b.spec.Root == "" {
		args = append(args, "--become-root")
	}
	return args
}

// agentFiles are the open files that the guest agent may have whatever the limit of its commands is. It raises its
// own limit to this and hands on the lower one; a command can raise that as well, to no more than this.
const agentFiles = 4096

// cgroupMount is where the sandbox's own control groups are seen inside.
const cgroupMount = "/sys/fs/cgroup"

func (b *box) ociSpec(p *plan) (*specs.Spec, error) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	root, inside, insideGroup := "/", uid, gid
	if b.spec.Root != "" {
		root, inside, insideGroup = b.spec.Root, 0, 0
	}
	host := b.spec.Hostname
	if host == "" {
		host, _ = os.Hostname()
	}
	spec := &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: root},
		Hostname: host,
		Process: &specs.Process{
			User: specs.User{UID: inside, GID: insideGroup, AdditionalGids: b.groups()},
			Args: b.agentArgs(), Env: b.driver.opts.Env, Cwd: "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
				Inheritable: capabilities, Ambient: capabilities,
			},
			NoNewPrivileges: true,
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "dev", Source: "dev"},
			// Else it is a folder of root's, and nobody else has shared memory.
			{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777", "nosuid", "nodev"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
			{Destination: cgroupMount, Type: "cgroup", Source: "cgroup"},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.IPCNamespace},
			},
		},
		Annotations: map[string]string{},
	}
	if n := b.spec.Limits.Files; n > 0 {
		spec.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: uint64(n), Hard: uint64(max(n, agentFiles))}}
	}
	b.network(spec)
	if uid != 0 {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		spec.Linux.UIDMappings = []specs.LinuxIDMapping{{ContainerID: inside, HostID: uid, Size: 1}}
		spec.Linux.GIDMappings = []specs.LinuxIDMapping{{ContainerID: insideGroup, HostID: gid, Size: 1}}
	}
	if p.Hidden {
		spec.Annotations["dev.gvisor.tar.rootfs.upper"] = filepath.Join(p.Dir, "hidden.tar")
	}
	if b.lasting != nil {
		b.mountAgents(spec)
	}
	for _, path := range b.spec.ReadOnly {
		m, err := readOnlyMount(path)
		if err != nil {
			return nil, err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	p.Cgroup = b.limit(spec)
	return spec, nil
}

// readOnlyMount lays a path over itself, read-only. Its destination exists, or the
// engine would make it on the host.
func readOnlyMount(path string) (specs.Mount, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return specs.Mount{}, fmt.Errorf("make a path read-only: %w", err)
	}
	return specs.Mount{Destination: real, Source: real, Type: "bind", Options: []string{"rbind", "ro"}}, nil
}

// groups are the supplementary groups of root's commands. An ordinary user's cannot be
// mapped into the sandbox.
func (b *box) groups() []uint32 {
	if os.Geteuid() != 0 || b.spec.Root != "" {
		return nil
	}
	ids, err := os.Getgroups()
	if err != nil {
		return nil
	}
	var gids []uint32
	for _, id := range ids {
		gids = append(gids, uint32(id))
	}
	return gids
}

func changeTime(path string) (time.Time, error) {
	st, err := lstat(path)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(st.Ctim.Unix()), nil
}

var _ sandbox.Driver = (*Driver)(nil)
