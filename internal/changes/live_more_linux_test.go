package changes_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/changes"
)

func TestAReplacedFolderIsNotTheHostsBusinessAlone(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/d/old", "1") })
	now := func() *layer { return up().opaque("./w/d/", 0o755).file("./w/d/new", "n") }
	l.want(now(), `added "/w/d/new" new:file`, `deleted "/w/d/old" old:file`)
	l.commit()
	l.edit("/w/d/theirs", "t")
	l.want(now())
	if r := l.commit(); len(r.Committed) != 0 {
		t.Errorf("committed %v", r.Committed)
	}
	l.has("/w/d/theirs", "t")
	// The whole folder goes: then what they made in it is in the way.
	l.want(up().gone("./w/d"), `deleted "/w/d" old:dir`, `deleted "/w/d/new" old:file`,
		`deleted "/w/d/theirs" old:file conflict:"/w/d/theirs was changed on the host while the sandbox ran"`)
	l.conflict()
	l.has("/w/d/theirs", "t")
}

func TestModesAndTimesOfFoldersMakeNoConflict(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/d/f", "1"); h.file("/w/d/g", "1") })
	now := func(f string) *layer { return up().dir("./w/d/", 0o700).file("./w/d/f", f) }
	l.want(now("2"), `metadata "/w/d" old:dir new:dir`, `modified "/w/d/f" old:file new:file`)
	l.commit()
	l.want(now("2"))
	l.want(now("3"), `modified "/w/d/f" old:file new:file`)
	l.commit()
	l.undo()
	l.undo()
	l.want(now("3"), `metadata "/w/d" old:dir new:dir`, `modified "/w/d/f" old:file new:file`)
	// A folder that somebody else put there is another one.
	if err := os.Rename(l.name("/w/d"), l.name("/w/aside")); err != nil {
		t.Fatal(err)
	}
	l.file("/w/d/f", "1")
	if got := l.changes(now("3")); !strings.Contains(got, "was replaced on the host") {
		t.Errorf("a replaced folder is not seen:\n%s", got)
	}
}

func TestHiddenPathsStayInAfterACommit(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/secret", "s") })
	now := func() *layer { return up().file("./w/a", "1").file("./w/secret", "mine") }
	refused := `added "/w/secret" new:file refused:"hidden from the sandbox"`
	l.want(now(), `added "/w/a" new:file`, refused)
	l.commit()
	l.has("/w/secret", "s")
	l.want(now(), refused)
	l.want(up(), `deleted "/w/a" old:file`)
}

func TestWhatTheHostHasByItselfWasLetOut(t *testing.T) {
	l := newLiving(t, nil)
	now := func(s string) *layer { return up().file("./w/a", s).dir("./w/d/", 0o700) }
	l.changes(now("1"))
	l.edit("/w/a", "1")
	l.dir("/w/d")
	if r := l.commit(); len(r.Committed) != 0 || len(r.Already) != 2 {
		t.Errorf("the report: %+v", r)
	}
	l.want(now("1"))
	l.want(now("2"), `modified "/w/a" old:file new:file`)
	l.edit("/w/a", "theirs")
	l.want(now("1"))
}

const otherID = "bbbbbbbbbbbbbbbb"

// fork is another sandbox with the same upper layer.
func (l *living) fork() *living {
	l.t.Helper()
	f := *l
	f.id = otherID
	if err := l.store.Inherit(l.t.Context(), l.id, f.header(true)); err != nil {
		l.t.Fatalf("Inherit: %v", err)
	}
	return &f
}

func TestAForkHasTheCommitsOfItsParent(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/old", "1"); h.file("/w/gone", "g") })
	now := func() *layer { return up().file("./w/old", "2").gone("./w/gone").file("./w/new", "n") }
	l.changes(now())
	l.commit()
	f := l.fork()
	f.want(now())
	f.want(up().file("./w/old", "3").gone("./w/gone"), `deleted "/w/new" old:file`, `modified "/w/old" old:file new:file`)
	f.commit()
	f.has("/w/old", "3")
	l.want(now())
	if got := l.changes(up().file("./w/old", "4").gone("./w/gone").file("./w/new", "n")); !strings.Contains(got, `"/w/old" old:file new:file conflict:`) {
		t.Errorf("what the fork let out is no conflict of its parent:\n%s", got)
	}
	if _, err := f.store.Undo(t.Context(), f.id, nil); err != nil {
		t.Fatal(err)
	}
	f.has("/w/old", "2")
	f.want(now())
	// And a fork of the fork.
	g := f.fork()
	g.id = "cccccccccccccccc"
	if err := f.store.Inherit(t.Context(), f.id, g.header(true)); err != nil {
		t.Fatal(err)
	}
	g.want(now())
}

func TestAnUndoOfAnotherSetReplacesNoFolder(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/d/f", "1") })
	if err := os.Chtimes(l.name("/w/d"), time.Unix(1, 0), time.Unix(1_600_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	l.start()
	other := *l
	other.id = otherID
	other.changes(up().dir("./w/d/", 0o755).file("./w/d/g", "1"))
	other.commit()
	other.undo()
	now := func() *layer { return up().dir("./w/d/", 0o755).file("./w/d/h", "1") }
	l.want(now(), `added "/w/d/h" new:file`)
	// Anybody else who does that is somebody else.
	if err := os.Chtimes(l.name("/w/d"), time.Unix(1, 0), time.Unix(1_600_000_001, 0)); err != nil {
		t.Fatal(err)
	}
	if got := l.changes(now()); !strings.Contains(got, "was replaced on the host") {
		t.Errorf("a folder with other times:\n%s", got)
	}
}

func TestASnapshotKnowsTheCommitsBeforeItAlone(t *testing.T) {
	l := newLiving(t, nil)
	l.changes(up().file("./w/a", "1"))
	l.commit()
	saved := t.TempDir()
	if err := l.store.Bequeath(t.Context(), l.id, saved); err != nil {
		t.Fatal(err)
	}
	l.changes(up().file("./w/a", "1").file("./w/later", "2"))
	l.commit()
	f := *l
	f.id = otherID
	if err := f.store.Receive(t.Context(), changes.Header{ID: otherID, Live: true}, saved); err != nil {
		t.Fatal(err)
	}
	f.want(up().file("./w/a", "1")) // and no deletion of what it never had
	f.want(up(), `deleted "/w/a" old:file`)
}

func TestAForkOfWhatHasNoSetNeedsNone(t *testing.T) {
	l := newLiving(t, nil)
	f := l.fork()
	f.want(up().file("./w/a", "1"), `added "/w/a" new:file`)
	if list, err := l.store.List(); err != nil || len(list) != 1 {
		t.Errorf("the store: %v, %v", list, err)
	}
}

func TestADeletionThatWasHeldBackStaysAChange(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/d/old", "1") })
	now := func() *layer { return up().opaque("./w/d/", 0o700).file("./w/d/new", "n") }
	l.want(now(), `metadata "/w/d" old:dir new:dir`, `added "/w/d/new" new:file`, `deleted "/w/d/old" old:file`)
	_, err := l.store.Commit(t.Context(), l.id, &changes.CommitOptions{Root: l.root, Refuse: func(_ *changes.Header, c *changes.Change) string {
		if c.Path == "/w/d/old" {
			return "a rule says so"
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.want(now(), `deleted "/w/d/old" old:file`)
}

func TestAnInterruptedCommitIsFinishedBeforeASetIsReadAnew(t *testing.T) {
	l := newLiving(t, nil)
	now := func() *layer { return up().file("./w/a", "1") }
	l.changes(now())
	l.commit()
	journal := filepath.Join(l.store.Dir(l.id), "journal-1")
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	end := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	if err := os.WriteFile(journal, data[:end], 0o600); err != nil { // as if it had been killed just before the end
		t.Fatal(err)
	}
	if _, err := l.tryRead(now(), true); !errors.Is(err, changes.ErrInterrupted) {
		t.Errorf("read: %v", err)
	}
	if err := l.store.Forget(t.Context(), l.id, false); !errors.Is(err, changes.ErrInterrupted) {
		t.Errorf("Forget: %v", err)
	}
	l.commit()
	l.want(now())
	l.undo()
	l.hasNot("/w/a")
}

func TestAnUndoOfALivingSetIsNoWorkOfOthers(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/a", "0") })
	l.changes(up().file("./w/a", "1"))
	l.commit()
	l.undo()
	// The sandbox goes on from what it has.
	l.want(up().file("./w/a", "2"), `modified "/w/a" old:file new:file`)
	l.commit()
	l.has("/w/a", "2")
}
