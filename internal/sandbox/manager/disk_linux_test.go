package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/sandbox/manager"
	"airlock/internal/statedb"
)

// smallDisk is a world whose state lies on a disk of its own, and what fills and frees that.
func smallDisk(t *testing.T) (w *world, fill, free func()) {
	t.Helper()
	w = newWorld(t)
	if err := os.Mkdir(w.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", w.state(), "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(w.state(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := w.state("filler")
	fill = func() {
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for n := 1 << 20; n > 0; { // to the last byte
			if _, err := f.Write(make([]byte, n)); err != nil {
				n /= 2
			}
		}
	}
	return w, fill, func() { _ = os.Remove(filler) }
}

func TestADiskThatIsFull(t *testing.T) {
	w, fill, free := smallDisk(t)
	create(t, w.manager(t))
	fill()
	m := w.manager(t)
	for name, do := range map[string]func() error{
		"create": func() error { _, err := m.Create(t.Context(), &manager.Request{Image: "small"}); return err },
		"fork": func() error {
			for id := range ids(t, m, nil) {
				_, err := m.Fork(t.Context(), id, 20, nil)
				return err
			}
			return nil
		},
	} {
		var err error
		for range 20 { // some bytes may be left here and there
			if err = do(); err != nil {
				break
			}
			fill()
		}
		if !statedb.Full(err) {
			t.Errorf("%s: err = %v, want that the disk is full", name, err)
		}
	}
	free()
	running, err := w.double.Running(t.Context())
	if got := ids(t, m, nil); err != nil || len(got) != len(running) {
		t.Errorf("List = %v, and %v run, %v", got, running, err)
	}
	if left, _ := filepath.Glob(w.state("snapshots", ".*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestASnapshotForWhichThereIsNoRoom(t *testing.T) {
	w, _, _ := smallDisk(t)
	m := w.manager(t)
	box := create(t, m)
	_, err := m.Snapshot(t.Context(), box.ID(), "s") // it asks for more than there is, with what is to stay free
	is[*manager.Problem](t, err, "make room on its disk")
	if got := ids(t, m, nil)[box.ID()]; got != manager.Ready {
		t.Errorf("it is %s", got)
	}
}

func TestASandboxIsRemovedFromAFullDisk(t *testing.T) {
	w, fill, free := smallDisk(t)
	first := w.manager(t)
	box := create(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	fill()
	// The record needs room, too.
	m := w.manager(t, func(o *manager.Options) {
		o.Record = func(context.Context, string, string, any) error {
			f, err := os.OpenFile(w.state("record"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Write(make([]byte, 10_000))
			return err
		}
	})
	if err := m.Remove(t.Context(), box.ID()); err != nil {
		t.Fatalf("Remove: err = %v", err)
	}
	if got := ids(t, m, all())[box.ID()]; got != "destroyed removed" {
		t.Errorf("state = %q", got)
	}
	if _, err := os.Lstat(w.state("ballast")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ballast is still there: %v", err)
	}
	free()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(w.state("ballast")); err != nil || st.Size() < 1<<20 {
		t.Errorf("the ballast is not there again: %v", err)
	}
}

func TestBoundsOfWhoAsksForNone(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t, func(o *manager.Options) {
		o.Defaults = func() manager.Limits { return manager.Limits{Memory: 7 << 20, Procs: 9} }
	})
	box := create(t, m, func(r *manager.Request) { r.Limits.Procs = 3 })
	if want := (manager.Limits{Memory: 7 << 20, Procs: 3}); box.Info.Limits != want {
		t.Errorf("Create: limits %+v, want %+v", box.Info.Limits, want)
	}
	tpl, err := m.CreateTemplate(t.Context(), &manager.TemplateRequest{Name: "t", Request: manager.Request{WorkDir: "/"}})
	if err != nil || tpl.Sandbox.Limits.Memory != 7<<20 {
		t.Errorf("CreateTemplate = %+v, %v, want the bounds", tpl, err)
	}
}
