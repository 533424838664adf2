package gvisor

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// The engine can start a program from a descriptor, but cannot save one that was started so: it
// finds programs again by their path. So the guest agent of a sandbox that lasts has a path inside: a folder
// of its own, read-only. Over the host's files that is the folder's own path, which is otherwise hidden with the
// rest of the state: with "/" as its root the engine's file server loses mounts whose source is elsewhere. In an image it is
// one which every kernel has, which is empty in a sandbox, and which nobody has on a disk.
const (
	imageAgents = "/sys/firmware"
	agentName   = "airlock-agent"
)

// agentsInside is where a sandbox sees the folder.
func (b *box) agentsInside() string {
	if b.spec.Root != "" {
		return imageAgents
	}
	return b.agents
}

// agentFolder is a folder that holds the guest agent and nothing else. Each build has its own,
// since what was saved of a sandbox needs the very one that ran in it.
func (d *Driver) agentFolder(ctx context.Context) (string, error) {
	path := d.opts.Agent
	if path == "" {
		engine, err := d.engine(ctx)
		if err != nil {
			return "", err
		}
		path = engine
	}
	src, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the guest agent: %w", err)
	}
	defer src.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return "", fmt.Errorf("open the guest agent: %w", err)
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
	base, err := filepath.Abs(filepath.Join(d.opts.StateDir, "agents"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, fmt.Sprintf("%016x", sum.Sum64()))
	if _, err := os.Lstat(filepath.Join(dir, agentName)); err == nil {
		return filepath.EvalSymlinks(dir)
	}
	if err := d.copyAgent(src, base, dir); err != nil {
		return "", fmt.Errorf("copy the guest agent: %w", err)
	}
	return filepath.EvalSymlinks(dir)
}

// copyAgent makes dir with a copy of src, whole or not at all. Another program may do the same.
func (d *Driver) copyAgent(src *os.File, base, dir string) error {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(base, youngPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	dst, err := os.OpenFile(filepath.Join(tmp, agentName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o500)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, there := os.Lstat(filepath.Join(dir, agentName)); there == nil {
			return nil
		}
		return err
	}
	return nil
}

// mountAgents shows the sandbox the folder.
func (b *box) mountAgents(spec *specs.Spec) {
	spec.Mounts = append(spec.Mounts, specs.Mount{
		Destination: b.agentsInside(), Source: b.agents, Type: "bind", Options: []string{"bind", "ro"},
	})
}
