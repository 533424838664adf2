package manager

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"airlock/internal/sandbox"
)

// Restore makes a sandbox that goes on from a snapshot. Of the request it takes labels, times, the variables of later
// commands, and limits of memory, processors, processes, output and wall time, each where it says one; all else is the snapshot's.
func (m *Manager) Restore(ctx context.Context, name string, req *Request) (*Box, error) {
	if req == nil {
		req = &Request{}
	}
	if err := req.checkRestore("a snapshot"); err != nil {
		return nil, err
	}
	if checkName("snapshot", name) != nil {
		return nil, &NotFound{"snapshot", name}
	}
	if _, err := m.settle(ctx); err != nil {
		return nil, err
	}
	release, err := m.lockShared(ctx, snapshotKey(name), "restore")
	if err != nil {
		return nil, err
	}
	defer release()
	snap, err := m.InspectSnapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	r := restoredRow(&snap.Sandbox, req)
	r.info.From = "snapshot:" + name
	about := map[string]any{"snapshot": name, "request": req}
	return m.make(ctx, "restore", r, about, m.restoring(r, &snap.Sandbox, filepath.Join(m.snapshotDir(), name)))
}

// checkRestore finds what cannot be asked of a sandbox that goes on from a state.
func (req *Request) checkRestore(what string) error {
	switch {
	case req.Image != "" || len(req.Hide)+len(req.Show)+len(req.ReadOnly) > 0:
		return problem("%s says by itself what a sandbox is laid over and what it sees; leave out --image, --hide, --show and --readonly", what)
	case req.Limits.Disk != 0 || req.Limits.Files != 0:
		return problem("%s has its limits of disk and files already; leave out --disk and --files", what)
	case req.Net.gated() || req.Net.Mode != "":
		return problem("%s says by itself what its sandboxes reach; leave out --net, --publish and --secret", what)
	case req.Hostname != "":
		return problem("%s has its host name already", what)
	}
	return req.check()
}

// restoredRow is the row of a sandbox that goes on from where another one was.
func restoredRow(from *Info, req *Request) *row {
	r := &row{info: *from}
	i := &r.info
	i.ID, i.State, i.Created = sandbox.NewID(), Creating, time.Now().UTC()
	i.Reason, i.Error, i.Ended, i.Status, i.Busy, i.Ports, i.Notes, i.root = "", "", nil, nil, "", nil, nil, ""
	if i.Labels = maps.Clone(from.Labels); req.Labels != nil {
		i.Labels = maps.Clone(req.Labels)
	}
	if req.Times != (Times{}) {
		i.Times = req.Times
	}
	i.Env = maps.Clone(from.Env)
	if i.Env == nil {
		i.Env = map[string]string{}
	}
	maps.Copy(i.Env, req.Env)
	if req.WorkDir != "" {
		i.WorkDir = req.WorkDir
	}
	i.Limits.override(&req.Limits)
	i.freePorts()
	return r
}

// override takes the limits that are said.
func (l *Limits) override(by *Limits) {
	for _, p := range []struct{ to, from *int64 }{{&l.Memory, &by.Memory}, {&l.Procs, &by.Procs}, {&l.Output, &by.Output}} {
		if *p.from != 0 {
			*p.to = *p.from
		}
	}
	if by.CPUs != 0 {
		l.CPUs = by.CPUs
	}
	if by.Timeout != 0 {
		l.Timeout = by.Timeout
	}
}

// freePorts lets the published ports be any, since the sandbox that this one comes from may have them.
func (i *Info) freePorts() {
	publish := make([]string, len(i.Net.Publish))
	for n, p := range i.Net.Publish {
		guest, _, _ := strings.Cut(p, ":")
		publish[n] = guest + ":0"
	}
	if len(publish) > 0 {
		i.Net.Publish = publish
		i.Notes = append(i.Notes, "published ports are others than those of the sandbox that it comes from")
	}
}

// restoring makes a sandbox of a folder that fill filled.
func (m *Manager) restoring(r *row, from *Info, dir string) func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
	return func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
		i := &r.info
		if err := m.checkUnseen(i); err != nil {
			return nil, err
		}
		if err := m.holdImage(ctx, i); err != nil {
			return nil, err
		}
		if m.opts.Changes != nil && i.OverHost() {
			if err := m.opts.Changes.Restored(ctx, filepath.Join(dir, setDir), i.ID); err != nil {
				return nil, err
			}
		}
		if err := m.gate(ctx, b, from.Env, nil); err != nil {
			return nil, err
		}
		return m.inTurn(ctx, func() (sandbox.Lasting, error) {
			return m.opts.Driver.Restore(ctx, b.spec(), filepath.Join(dir, stateDir))
		})
	}
}

// holdImage holds the image of a sandbox that goes on from another one.
func (m *Manager) holdImage(ctx context.Context, i *Info) error {
	if i.OverHost() {
		return nil
	}
	if m.opts.Images == nil {
		return problem("there are no images here")
	}
	img, err := m.opts.Images.Hold(ctx, i.Digest, owner(i.ID))
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Image, err)
	}
	i.root = img.Root
	return nil
}
