package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
	"airlock/internal/statedb"
)

func TestHowASandboxEndedIsKnownAfterwards(t *testing.T) {
	for name, c := range map[string]struct {
		ending ending
		want   string
		kept   bool
	}{
		"its memory was not enough":     {ending{"out_of_memory", ""}, "destroyed out_of_memory", false},
		"its time was over":             {ending{"expired", ""}, "destroyed expired", true},
		"it was idle":                   {ending{"idle", ""}, "destroyed idle", true},
		"nothing was written down":      {ending{}, "destroyed killed", false},
		"its engine was ended, and why": {ending{"killed", "signal 9"}, "destroyed killed", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := w.manager(t)
			box := create(t, m, func(r *manager.Request) { r.Times.TTL = time.Hour })
			w.double.endNow(t, box.ID(), c.ending)
			_, err := m.Open(t.Context(), box.ID())
			is[*manager.Gone](t, err, box.ID(), c.ending.Text)
			if got := ids(t, m, all())[box.ID()]; got != c.want {
				t.Errorf("state = %q, want %q", got, c.want)
			}
			if got := len(w.changes.files) == 1 && w.changes.files[0] == "a tar of "+box.ID(); got != c.kept {
				t.Errorf("kept %q, want %v", w.changes.files, c.kept)
			}
			if left, _ := os.ReadDir(w.state("expired")); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
			if _, ok := w.options().Ended(box.ID()); ok {
				t.Error("the note on how it ended is still there")
			}
		})
	}
}

func TestWhatCannotBeKeptNowIsKeptLater(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	w.changes.fail = errors.New("the disk is full")
	w.double.endNow(t, box.ID(), ending{Reason: "expired"})
	if got := ids(t, m, all())[box.ID()]; got != "destroyed expired" {
		t.Errorf("state = %q", got)
	}
	info, err := m.Find(t.Context(), box.ID())
	if err != nil || !strings.Contains(info.Error, "the disk is full") || !strings.Contains(info.Error, w.state("expired")) {
		t.Errorf("Find = %+v, %v, want what failed and where it is", info, err)
	}
	if _, err := m.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.changes.fail = nil
	ids(t, m, nil)
	if len(w.changes.files) != 1 {
		t.Errorf("kept %q, want it at last", w.changes.files)
	}
}

func TestWhatCanNeverBeKeptIsNotReadAgainByEveryCommand(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	w.changes.fail = fmt.Errorf("%w: too large", manager.ErrUnreadable)
	w.double.endNow(t, box.ID(), ending{Reason: "expired"})
	ids(t, m, all())
	aside := w.state("expired", "unread-"+box.ID()+".tar")
	info, err := m.Find(t.Context(), box.ID())
	if err != nil || !strings.Contains(info.Error, aside) {
		t.Errorf("Find = %+v, %v, want where it is", info, err)
	}
	w.changes.fail = nil
	ids(t, m, nil)
	if _, err := m.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.changes.files) != 0 {
		t.Errorf("it was read again: %q", w.changes.files)
	}
	if _, err := os.Stat(aside); err != nil {
		t.Errorf("somebody's work is gone: %v", err)
	}
}

func TestWhatRunsAndWhatIsStoredAreMadeToAgree(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	known := create(t, m)
	stranger, err := w.double.Keep(t.Context(), &sandbox.LastingSpec{Spec: sandbox.Spec{ID: sandbox.NewID(), WorkDir: "/"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Release() }()
	part := w.state("snapshots", ".part-snapshot-x")
	if err := os.MkdirAll(filepath.Join(part, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, m, all()); len(got) != 1 || got[known.ID()] != "ready" {
		t.Errorf("List = %v", got)
	}
	<-stranger.Done()
	if _, err := os.Lstat(part); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", part)
	}
	// Whoever fills a folder is not disturbed.
	err = m.With(t.Context(), known.ID(), "fork", func(context.Context, *manager.Box) error {
		mine := w.state("snapshots", ".part-"+known.ID())
		if err := os.MkdirAll(mine, 0o700); err != nil {
			return err
		}
		ids(t, w.manager(t), nil)
		_, err := os.Lstat(mine)
		return err
	})
	if err != nil {
		t.Errorf("a folder that is being filled: %v", err)
	}
}

func TestRepairRemovesWhatNobodyOwns(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	image := func(r *manager.Request) { *r = manager.Request{Image: "small"} }
	lives, dies := create(t, m, image), create(t, m, image)
	if _, err := m.Snapshot(t.Context(), lives.ID(), "s"); err != nil {
		t.Fatal(err)
	}
	for _, orphan := range []string{"sandbox-" + sandbox.NewID(), "snapshot-none", "template-none", "somebody-else"} {
		if _, err := w.images.Hold(t.Context(), "sha256:small", orphan); err != nil {
			t.Fatal(err)
		}
	}
	w.double.endNow(t, dies.ID(), ending{})
	said, err := m.Repair(t.Context())
	if err != nil {
		t.Fatalf("Repair: err = %v", err)
	}
	for _, want := range []string{dies.ID(), "snapshot none", "template none"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("Repair = %q, want %q in it", said, want)
		}
	}
	owners, _ := w.images.Owners(t.Context())
	if strings.Join(owners, " ") != "sandbox-"+lives.ID()+" snapshot-s somebody-else" {
		t.Errorf("images are held by %v", owners)
	}
	if said, err := m.Repair(t.Context()); len(said) != 0 || err != nil {
		t.Errorf("Repair again = %q, %v, want nothing", said, err)
	}
	if said, err := m.Prune(t.Context()); err != nil || len(said) != 1 {
		t.Errorf("Prune = %q, %v, want the record of one", said, err)
	}
	if got := ids(t, m, all()); len(got) != 1 {
		t.Errorf("List = %v", got)
	}
}

func TestARowThatCannotBeReadHarmsNoOther(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	good, bad := create(t, m), create(t, m)
	db, err := statedb.Open(t.Context(), w.state("sandboxes.db"), &statedb.Format{What: "x", ID: 0x41534258, Steps: []string{""}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Write(t.Context(), func(tx *statedb.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE sandbox SET data = '{\"id\":7' WHERE id = ?", bad.ID())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(t, m, nil); got[good.ID()] != "ready" || got[bad.ID()] != "ready" {
		t.Errorf("List = %v", got)
	}
	if err := m.Remove(t.Context(), bad.ID()); err != nil {
		t.Errorf("Remove: err = %v", err)
	}
}

func TestADamagedListSaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(w.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.state("sandboxes.db"), []byte(strings.Repeat("hello\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := w.manager(t).List(t.Context(), nil)
	is[*statedb.FileError](t, err, "move it away", w.state("sandboxes.db"))
}

func TestOneHundredAtOnce(t *testing.T) {
	w := newWorld(t)
	var making sync.WaitGroup
	for range 4 {
		m := w.manager(t)
		for range 25 {
			making.Go(func() {
				box, err := m.Create(t.Context(), &manager.Request{WorkDir: "/"})
				if err != nil {
					t.Errorf("Create: err = %v", err)
					return
				}
				if err := box.Release(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	making.Wait()
	m := w.manager(t)
	got := ids(t, m, all())
	if len(got) != 100 {
		t.Errorf("List gives %d, want 100", len(got))
	}
	for id, state := range got {
		if state != "ready" {
			t.Errorf("%s is %s", id, state)
		}
	}
	start := time.Now()
	for range 10 {
		if _, err := m.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("to look after 100: %s", time.Since(start)/20)
	if locks, _ := os.ReadDir(w.state("locks")); len(locks) != 0 {
		t.Errorf("%d locks are left", len(locks))
	}
}

func TestASandboxOfAPoolEndsWithItsProgram(t *testing.T) {
	w := newWorld(t)
	gone := false
	opts := w.options()
	opts.Orphan = func(i *manager.Info) bool { return gone && i.Labels[manager.LabelPool] != "" }
	m := manager.New(opts)
	t.Cleanup(func() { m.Close() })
	own := create(t, m)
	pooled := create(t, m, func(r *manager.Request) { r.Labels = map[string]string{manager.LabelPool: "owner"} })
	if got := ids(t, m, nil); len(got) != 2 {
		t.Errorf("while its program runs: %v", got)
	}
	gone = true
	if got := ids(t, m, nil); len(got) != 1 || got[own.ID()] != "ready" {
		t.Errorf("after its program has ended: %v, want %s alone", got, own.ID())
	}
	<-pooled.Done()
}
