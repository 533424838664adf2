package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/sandbox/manager"
)

// lastBed is what sandboxes that last are measured on: one root file system, of busybox, that
// every side runs the same program of.
type lastBed struct {
	*bed
	dir     string
	rootfs  string
	keeping sandbox.Keeping
	forker  manager.Forker
	peers   []peer

	seclusion *seclusion // nil: no peer needs it

	skipped string // why there is nothing to run in; "": there is
}

func newLastBed(ctx context.Context, b *bed) (*lastBed, error) {
	dir, err := os.MkdirTemp(b.dir, "last-")
	if err != nil {
		return nil, err
	}
	l := &lastBed{bed: b, dir: dir, rootfs: filepath.Join(dir, "rootfs")}
	driver := gvisor.New(&gvisor.Options{
		StateDir: filepath.Join(dir, "state"), Agent: b.agent, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Engine: func(context.Context) (string, error) { return b.engine, nil },
	})
	keeping, ok := any(driver).(sandbox.Keeping)
	if !ok {
		return nil, fmt.Errorf("%s keeps no sandboxes here", driver.Name())
	}
	l.keeping, l.forker = keeping, driver
	if l.skipped, err = l.makeRootfs(); err != nil || l.skipped != "" {
		return l, err
	}
	l.peers = l.findPeers(ctx)
	return l, nil
}

// close removes what is left of sandboxes whose measurement failed.
func (l *lastBed) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if l.seclusion != nil {
		l.seclusion.close()
	}
	ids, err := l.keeping.Running(ctx)
	for _, id := range ids {
		if sb, openErr := l.keeping.Open(ctx, id); openErr == nil {
			err = errors.Join(err, endSandbox(ctx, sb))
		}
	}
	if err := errors.Join(err, os.RemoveAll(l.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "airlock-bench:", err)
	}
}

// makeRootfs lays out a root file system with a static busybox.
func (l *lastBed) makeRootfs() (skipped string, err error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return "no busybox here (Debian: busybox-static)", nil
	}
	if linked, err := dynamic(busybox); err != nil || linked {
		return "the busybox here is not static (Debian: busybox-static)", err
	}
	for _, dir := range []string{"bin", "dev", "proc", "sys", "tmp", "etc", "root"} {
		if err := os.MkdirAll(filepath.Join(l.rootfs, dir), 0o755); err != nil {
			return "", err
		}
	}
	data, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(l.rootfs, "bin")
	if err := os.WriteFile(filepath.Join(bin, "busybox"), data, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"true", "sh", "sleep", "cat", "tar"} {
		if err := os.Symlink("busybox", filepath.Join(bin, name)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// dynamic reports whether a program needs a dynamic linker.
func dynamic(path string) (bool, error) {
	f, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true, nil
		}
	}
	return false, nil
}

// bundle writes an OCI bundle for the engine and the other runtimes.
func (l *lastBed) bundle(name, root string, argv ...string) (string, error) {
	dir := filepath.Join(l.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	type m = map[string]any
	var namespaces []m
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, m{"type": kind})
	}
	data, err := json.Marshal(m{
		"ociVersion": "1.0.2",
		"process":    m{"user": m{"uid": 0, "gid": 0}, "args": argv, "env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "cwd": "/"},
		"root":       m{"path": root},
		"mounts": []m{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
		},
		"linux": m{"namespaces": namespaces},
	})
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// keep makes a sandbox of ours over the root file system that all share.
func (l *lastBed) keep(ctx context.Context) (sandbox.Lasting, error) {
	return l.keeping.Keep(ctx, &sandbox.LastingSpec{Spec: sandbox.Spec{Root: l.rootfs, WorkDir: "/"}})
}

// keepHost makes one over the machine's files.
func (l *lastBed) keepHost(ctx context.Context) (sandbox.Lasting, error) {
	return l.keeping.Keep(ctx, &sandbox.LastingSpec{Spec: sandbox.Spec{WorkDir: "/"}})
}

func endSandbox(ctx context.Context, sb sandbox.Lasting) error {
	return errors.Join(sb.End(ctx), sb.Release())
}

// answer runs a program in a sandbox and takes what it says.
func answer(ctx context.Context, c *agent.Client, argv ...string) (string, error) {
	res, err := c.Run(ctx, agent.ExecParams{Argv: argv}, nil)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%v in a sandbox: exit code %d: %s", argv, res.ExitCode, res.Stderr)
	}
	return res.Stdout, err
}

// fresh speaks to a sandbox over a new connection and has a program answer.
func fresh(ctx context.Context, sb sandbox.Lasting, argv ...string) error {
	c, err := sb.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = answer(ctx, c, argv...)
	return err
}

// runsc is a command of the bare engine, with the settings of a sandbox of ours and the
// quickest of its overlays.
func (l *lastBed) runsc(ctx context.Context, args ...string) error {
	return command(ctx, l.engine, "runsc", nil, l.runscArgs(args...)...)
}

func (l *lastBed) runscArgs(args ...string) []string {
	return l.engineArgs(append([]string{"--overlay2=root:memory"}, args...)...)
}

// skip is a line that says why there is no figure.
func skip(name, why string) figure { return figure{name: name, ours: "not measured", note: why} }
