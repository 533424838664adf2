package gvisor_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"airlock/internal/sandbox"
)

// TestSweepLeavesWhatStarts sweeps without a pause while sandboxes start: a folder that
// is being made is somebody's.
func TestSweepLeavesWhatStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	state := t.TempDir()
	d := newDriver(t, state)
	ctx, cancel := context.WithCancel(t.Context())
	var sweeping sync.WaitGroup
	for range 2 {
		sweeping.Go(func() {
			for ctx.Err() == nil {
				if removed, err := d.Sweep(ctx); len(removed) > 0 || err != nil {
					t.Errorf("Sweep removed %q, %v", removed, err)
				}
			}
		})
	}
	for range 10 {
		sb, err := d.Start(t.Context(), &sandbox.Spec{WorkDir: "/"})
		if err != nil {
			t.Errorf("Start: %v", err)
			continue
		}
		if err := sb.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	cancel()
	sweeping.Wait()
	if left := leftovers(t, state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestSweepKeepsWhatItCannotFinish: the folder is the one thing that says that a control
// group is ours, so it outlives the group.
func TestSweepKeepsWhatItCannotFinish(t *testing.T) {
	id := sandbox.NewID()
	group := "/sys/fs/cgroup/airlock-" + id
	if _, err := os.Stat("/sys/fs/cgroup/memory/cgroup.procs"); err == nil {
		group = "/sys/fs/cgroup/memory/airlock-" + id
	}
	busy := filepath.Join(group, "busy") // a group with another in it cannot be removed
	if err := os.MkdirAll(busy, 0o755); err != nil {
		t.Skip("no control group can be made here")
	}
	defer os.Remove(group)
	defer os.Remove(busy)
	state := t.TempDir()
	run := filepath.Join(state, "run", id)
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, state)
	if removed, err := d.Sweep(t.Context()); err == nil || len(removed) > 0 {
		t.Errorf("Sweep of a group that cannot be removed = %q, %v, want an error", removed, err)
	}
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	if removed, err := d.Sweep(t.Context()); err != nil || len(removed) != 1 {
		t.Errorf("Sweep of a group that can be removed = %q, %v", removed, err)
	}
	for _, path := range []string{group, run} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was left behind", path)
		}
	}
}
