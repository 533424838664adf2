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

	"airlock/internal/changes"
)

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
