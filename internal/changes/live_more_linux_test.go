package changes_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

func TestASandboxThatBeginsAnewOwnsNothingOfBefore(t *testing.T) {
	for _, c := range []struct {
		name   string
		forget bool
	}{{"and says so", true}, {"and was killed before it could", false}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiving(t, nil)
			now := func() *layer { return up().file("./w/a", "1").file("./w/b", "1") }
			l.changes(now())
			l.commit("/w/a")
			if c.forget {
				if err := l.store.Forget(t.Context(), l.id, true); err != nil {
					t.Fatal(err)
				}
			}
			l.start()
			l.want(up()) // "a" is the host's now, and not deleted
			l.want(up().file("./w/a", "2"), `modified "/w/a" old:file new:file`)
			l.commit()
			l.undo()
			l.has("/w/a", "1")
			l.undo()
			l.hasNot("/w/a")
		})
	}
}

func TestForgettingKeepsWhatCanBeUndone(t *testing.T) {
	l := newLiving(t, nil)
	l.changes(up().file("./w/a", "1"))
	if err := l.store.Forget(t.Context(), l.id, false); err != nil {
		t.Fatal(err)
	}
	if _, err := l.store.Load(l.id); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("a set that let nothing out is still there: %v", err)
	}
	if err := l.store.Forget(t.Context(), l.id, false); err != nil {
		t.Errorf("once more: %v", err)
	}
	l.changes(up().file("./w/a", "1").file("./w/b", "1"))
	l.commit("/w/a")
	l.changes(up().file("./w/a", "1").file("./w/b", "1"))
	if err := l.store.Forget(t.Context(), l.id, false); err != nil {
		t.Fatal(err)
	}
	set, err := l.store.Load(l.id)
	if err != nil || set.State != changes.Committed || len(set.Changes) != 0 || set.Live {
		t.Fatalf("the set: %+v, %v", set, err)
	}
	if found, _ := filepath.Glob(filepath.Join(l.store.Dir(l.id), "read-*", "blobs", "*")); len(found) != 0 {
		t.Errorf("contents that nobody can commit are still there: %v", found)
	}
	l.undo()
	l.hasNot("/w/a")
	if set, err = l.store.Load(l.id); err != nil || set.State != changes.Discarded {
		t.Errorf("after the undo: %+v, %v", set, err)
	}
}

func TestASetOutlivesItsSandbox(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/a", "0") })
	now := func() *layer { return up().file("./w/a", "1").file("./w/b", "1").gone("./w/c") }
	l.changes(now())
	l.commit("/w/a")
	set, err := l.tryRead(now(), false)
	if err != nil || show(set) != "added \"/w/b\" new:file\n" {
		t.Fatalf("the last of it: %v, %v", show(set), err)
	}
	l.open()
	// What is undone now can be let out again, though nobody can read the sandbox any more.
	l.undo()
	l.has("/w/a", "0")
	if set, err = l.store.Load(l.id); err != nil || set.Work != 2 || set.State != changes.Kept {
		t.Fatalf("after the undo: %+v, %v", set, err)
	}
	if r := l.commit(); len(r.Committed) != 2 || r.State != changes.Committed {
		t.Errorf("the report: %+v", r)
	}
	l.has("/w/a", "1")
	l.has("/w/b", "1")
	l.undo()
	l.has("/w/a", "0")
	if err := l.store.Discard(l.id); err != nil {
		t.Fatal(err)
	}
	if _, err := l.store.Commit(t.Context(), l.id, nil); !errors.Is(err, changes.ErrState) {
		t.Errorf("what was discarded can be committed: %v", err)
	}
	if err := l.store.Remove(l.id); err != nil {
		t.Error(err)
	}
}

func TestASetOfAnEndedSandboxIsWhatWasReadLast(t *testing.T) {
	l := newLiving(t, nil)
	l.want(up())
	if err := l.store.Ended(t.Context(), l.id); err != nil {
		t.Fatal(err)
	}
	if list, err := l.store.List(); err != nil || len(list) != 0 {
		t.Errorf("an empty set stays: %v, %v", list, err)
	}
	l.changes(up().file("./w/a", "1"))
	if err := l.store.Ended(t.Context(), l.id); err != nil {
		t.Fatal(err)
	}
	if set, err := l.store.Load(l.id); err != nil || set.Live || set.Work != 1 {
		t.Errorf("the set: %+v, %v", set, err)
	}
}

func TestTwoReadersAtOnceWaitForEachOther(t *testing.T) {
	l := newLiving(t, nil)
	first, err := l.store.Renew(t.Context(), l.header(true))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	tired := errors.New("tired of it")
	second := make(chan error, 1)
	go func() {
		w, err := l.store.Renew(ctx, l.header(true))
		if err == nil {
			err = w.Abort()
		}
		second <- err
	}()
	third := make(chan error, 1)
	go func() {
		w, err := l.store.Renew(t.Context(), l.header(true))
		if err == nil {
			err = w.Abort()
		}
		third <- err
	}()
	cancel(tired)
	if err := <-second; !errors.Is(err, tired) {
		t.Errorf("one that gives up: %v", err)
	}
	select {
	case err := <-third:
		t.Errorf("a second writer did not wait: %v", err)
	default:
	}
	if err := first.Abort(); err != nil {
		t.Error(err)
	}
	if err := <-third; err != nil {
		t.Errorf("one that waits: %v", err)
	}
}

func TestAReadThatFailsLeavesWhatWasThere(t *testing.T) {
	good := func() *layer { return up().file("./w/a", "1") }
	for _, c := range []struct {
		name string
		data func(t *testing.T) []byte
		err  error
	}{
		{"a layer that ends in its middle", func(t *testing.T) []byte { return good().file("./w/b", strings.Repeat("x", 100_000)).bytes(t)[:5000] }, changes.ErrMalformed},
		{"a name upwards", func(t *testing.T) []byte { return up().file("./../b", "").bytes(t) }, changes.ErrMalformed},
		{"nothing at all", func(*testing.T) []byte { return nil }, changes.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiving(t, nil)
			l.changes(good())
			before := tree(t, l.sets)
			w, err := l.store.Renew(t.Context(), l.header(true))
			if err != nil {
				t.Fatal(err)
			}
			if err := changes.Read(t.Context(), bytes.NewReader(c.data(t)), w, &changes.ReadOptions{HostRoot: l.root}); !errors.Is(err, c.err) {
				t.Errorf("Read: %v", err)
			}
			if _, err := w.Finish(); err == nil {
				t.Error("half a layer became a set")
			}
			if after := tree(t, l.sets); !slices.Equal(before, after) {
				t.Errorf("the store was\n%v and is\n%v", before, after)
			}
			l.want(good(), `added "/w/a" new:file`)
		})
	}
}

// tree lists all names below dir.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		list = append(list, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestWhatAKilledReaderLeavesIsSweptUp(t *testing.T) {
	l := newLiving(t, nil)
	l.changes(up().file("./w/a", "1"))
	dir := l.store.Dir(l.id)
	for _, name := range []string{"read-3", "read-17"} { // whole, and named by no header
		if err := os.MkdirAll(filepath.Join(dir, name, "blobs"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "read-3", "changes.jsonl"), []byte("half a li"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.open()
	l.want(up().file("./w/a", "2"), `added "/w/a" new:file`)
	if left, _ := filepath.Glob(filepath.Join(dir, "read-*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	l.commit()
	l.has("/w/a", "2")
}

func TestHostileHeadersOfLivingSetsAreRefused(t *testing.T) {
	for _, content := range []string{"../aaaaaaaaaaaaaaaa", "read-", "read-1/../..", "/etc", "read--1", "blobs"} {
		l := newLiving(t, nil)
		l.changes(up().file("./w/a", "1"))
		name := filepath.Join(l.store.Dir(l.id), "set.json")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Replace(data, []byte(`"content": "read-2"`), []byte(`"content": "`+content+`"`), 1)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.store.Load(l.id); err == nil || !strings.Contains(err.Error(), "format") {
			t.Errorf("content %q: %v", content, err)
		}
	}
}

func TestASetOfARunIsNotReadAnew(t *testing.T) {
	l := newLiving(t, nil)
	w, err := l.store.Create(l.header(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := changes.Read(t.Context(), bytes.NewReader(up().file("./w/a", "1").bytes(t)), w, &changes.ReadOptions{HostRoot: l.root}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.tryRead(up(), true); !errors.Is(err, changes.ErrState) {
		t.Errorf("Renew: %v", err)
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

func FuzzInheritedIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"path":"/w/a","time":"2026-01-02T03:04:05Z","out":true,"node":{"type":"file","size":1,"mode":420,"uid":0,"gid":0,"mtime":"2026-01-02T03:04:05Z"},"known":true,"left":null}`))
	f.Add([]byte(`{"path":"/w","out":true,"node":{"type":"dir"},"known":true,"left":{"type":"dir"}}` + "\n" + `{"path":"/w/a/b/c","out":true,"node":{}}`))
	f.Add([]byte(`{"path":"/","out":true,"node":{"type":"file"}}`))
	f.Add([]byte(`{"path":"/../x"}`))
	f.Add([]byte(`{"path":"/w/secret","out":true}{"path":{"base64":"L3f/"},"out":true,"before":{"type":"dir"}}`))
	dir := f.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "w", "keep"), 0o755); err != nil {
		f.Fatal(err)
	}
	store, err := changes.OpenStore(filepath.Join(dir, "sets"))
	if err != nil {
		f.Fatal(err)
	}
	head := changes.Header{ID: testID, WorkDir: "/w", Live: true}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := store.Renew(t.Context(), head)
		if err == nil {
			err = w.Abort()
		}
		if err != nil && !strings.Contains(err.Error(), "inherited") {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(store.Dir(testID), "inherited.jsonl"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if w, err = store.Renew(t.Context(), head); err != nil {
			return
		}
		opts := &changes.ReadOptions{HostRoot: root, Hidden: []string{"/w/secret"}, Started: time.Unix(1, 0)}
		if err := changes.Read(t.Context(), bytes.NewReader(up().file("./w/a", "1").bytes(t)), w, opts); err != nil {
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
			return
		}
		set, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range set.Changes {
			if c.Path.Below("/w/secret") && c.Refused == "" {
				t.Errorf("%s came out", c.Path)
			}
		}
	})
}
