package gvisor_test

import (
	"context"
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
