package changes_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

func small(w *world, r string) {
	w.write(r, "edit", "old")
	w.write(r, "gone", "gone")
	w.write(r, "tree/x", "x")
	w.write(r, "sub/one", "1")
	w.write(r, "mode", "mode")
	w.must(os.Symlink("edit", filepath.Join(r, "link")))
}

func smallChanged(w *world, r string) {
	w.write(r, "edit", "new")
	w.must(os.Remove(filepath.Join(r, "gone")))
	w.must(os.RemoveAll(filepath.Join(r, "tree")))
	w.write(r, "sub/two", "2")
	w.write(r, "added/file", "added")
	w.must(os.Chmod(filepath.Join(r, "mode"), 0o600))
	w.must(os.Remove(filepath.Join(r, "link")))
	w.must(os.Symlink("gone", filepath.Join(r, "link")))
}

func TestConflicts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		meddle   func(w *world, r string)
		conflict []changes.Path // none: it is not one
	}{
		{"a file that was written since is a conflict", func(w *world, r string) { w.write(r, "edit", "abc") }, []changes.Path{"/w/edit"}},
		{"a file of which only the time differs is none", func(w *world, r string) {
			w.must(os.Chtimes(filepath.Join(r, "edit"), time.Now(), time.Now()))
		}, nil},
		{"a file that was replaced by an equal one is none", func(w *world, r string) { w.unlinkWrite(filepath.Join(r, "edit"), "old") }, nil},
		{"a file with another mode is a conflict", func(w *world, r string) { w.must(os.Chmod(filepath.Join(r, "edit"), 0o600)) }, []changes.Path{"/w/edit"}},
		{"a file that is gone is a conflict when it was to be changed", func(w *world, r string) { w.must(os.Remove(filepath.Join(r, "edit"))) }, []changes.Path{"/w/edit"}},
		{"a file that is gone is none when it was to be deleted", func(w *world, r string) { w.must(os.Remove(filepath.Join(r, "gone"))) }, nil},
		{"a deleted file that was written since is a conflict", func(w *world, r string) { w.write(r, "gone", "!") }, []changes.Path{"/w/gone"}},
		{"a file in a deleted folder that was written since is a conflict", func(w *world, r string) { w.write(r, "tree/x", "y") }, []changes.Path{"/w/tree/x"}},
		{"a new file in a deleted folder is a conflict", func(w *world, r string) { w.write(r, "tree/foreign", "") }, []changes.Path{"/w/tree"}},
		{"another file where one is to be added is a conflict", func(w *world, r string) { w.write(r, "sub/two", "mine") }, []changes.Path{"/w/sub/two"}},
		{"the same file where one is to be added is none", func(w *world, r string) { w.write(r, "sub/two", "2") }, nil},
		{"a folder where a folder is to be added is none", func(w *world, r string) { w.must(os.Mkdir(filepath.Join(r, "added"), 0o755)) }, nil},
		{"a link where a folder is to be added is a conflict", func(w *world, r string) { w.must(os.Symlink("/tmp", filepath.Join(r, "added"))) }, []changes.Path{"/w/added"}},
		{"a folder that has become a link is a conflict", func(w *world, r string) {
			w.must(os.Rename(filepath.Join(r, "sub"), filepath.Join(r, "real")))
			w.must(os.Symlink("real", filepath.Join(r, "sub")))
		}, []changes.Path{"/w/sub/two"}},
		{"a folder that has become a file is a conflict", func(w *world, r string) {
			w.must(os.RemoveAll(filepath.Join(r, "sub")))
			w.write(r, "sub", "a file")
		}, []changes.Path{"/w/sub/two"}},
		{"a link that points elsewhere is a conflict", func(w *world, r string) {
			w.must(os.Remove(filepath.Join(r, "link")))
			w.must(os.Symlink("mode", filepath.Join(r, "link")))
		}, []changes.Path{"/w/link"}},
		{"every conflict is listed", func(w *world, r string) {
			w.write(r, "edit", "abc")
			w.write(r, "gone", "!")
			w.write(r, "tree/foreign", "")
		}, []changes.Path{"/w/edit", "/w/gone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, small, smallChanged)
			tt.meddle(w, filepath.Join(w.host, "w"))
			w.was = snapshot(t, w.host, true)
			_, err := w.commit(nil)
			if tt.conflict == nil {
				if err != nil {
					t.Fatalf("Commit: %v, want none", err)
				}
				return
			}
			var c *changes.ConflictError
			if !errors.As(err, &c) {
				t.Fatalf("Commit: err = %v, want a ConflictError", err)
			}
			var got []changes.Path
			for _, k := range c.Conflicts {
				got = append(got, k.Path)
				if !strings.Contains(err.Error(), string(k.Path)) || k.Reason == "" || k.Advice == "" {
					t.Errorf("the message does not say all of %+v: %v", k, err)
				}
			}
			if !slices.Equal(got, tt.conflict) {
				t.Errorf("Commit: conflicts %q, want %q", got, tt.conflict)
			}
			w.isOld()
			w.noLeftovers()
		})
	}
}

func TestForceIsForNamedPathsAndLosesNothing(t *testing.T) {
	w := newWorld(t, small, smallChanged)
	w.write(w.host+"/w", "edit", "mine")
	w.was = snapshot(t, w.host, true)
	if _, err := w.commit(&changes.CommitOptions{Force: true}); err == nil {
		t.Fatal("Commit forced everything without a path")
	}
	r, err := w.commit(&changes.CommitOptions{Force: true, Paths: []changes.Path{"/w/edit"}})
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	if !slices.ContainsFunc(r.Notes, func(n changes.Note) bool { return n.Kind == changes.NoteForced && n.Path == "/w/edit" }) {
		t.Errorf("Commit does not say what it forced: %+v", r.Notes)
	}
	if got := w.read("w/edit"); got != "new" {
		t.Errorf("edit = %q, want the sandbox's", got)
	}
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("Undo: %v", err)
	}
	w.isOld()
}

func TestNamedPaths(t *testing.T) {
	w := newWorld(t, func(w *world, r string) {
		small(w, r)
		w.write(w.host, "etc/conf", "old")
		w.must(os.MkdirAll(filepath.Join(r, "gone-dir/cache"), 0o755))
		w.write(r, "gone-dir/cache/c", "c")
	}, func(w *world, r string) {
		smallChanged(w, r)
		w.write(w.box, "etc/conf", "new")
		w.write(r, "deep/er/file", "deep")
		w.write(r, "deep/other", "other")
		w.write(r, "cache/noise", "noise")
		w.must(os.RemoveAll(filepath.Join(r, "gone-dir")))
	})
	for _, p := range []changes.Path{"/w/nothing", "w/edit", "/w/../w/edit", "/w/ed", ""} {
		if _, err := w.commit(&changes.CommitOptions{Paths: []changes.Path{p}}); !errors.Is(err, changes.ErrNoMatch) || !strings.Contains(err.Error(), string(p)) {
			t.Errorf("Commit(%q): err = %v, want ErrNoMatch by name", p, err)
		}
	}
	w.isOld()
	r, err := w.commit(&changes.CommitOptions{Paths: []changes.Path{"/w/deep/er/file"}})
	if err != nil || r.State != changes.Kept || len(r.Committed) != 3 {
		t.Fatalf("Commit of one file: %+v, %v", r, err)
	}
	if _, err := os.Lstat(w.host + "/w/deep/other"); err == nil {
		t.Error("a path that was not named was committed")
	}
	if r, err = w.commit(nil); err != nil || r.State != changes.Committed {
		t.Fatalf("Commit of the rest: %+v, %v", r, err)
	}
	if got := w.read("etc/conf"); got != "old" {
		t.Errorf("what is outside the work was committed: %q", got)
	}
	if _, err := os.Lstat(w.host + "/w/cache"); err == nil {
		t.Error("noise was committed")
	}
	if _, err := os.Lstat(w.host + "/w/gone-dir"); err == nil {
		t.Error("the deleted folder did not take the noise in it along")
	}
	if _, err := w.commit(&changes.CommitOptions{Paths: []changes.Path{"/etc", "/w/cache"}}); err != nil {
		t.Fatalf("Commit of the named rest: %v", err)
	}
	w.isBox()
	for range 3 {
		if _, err := w.undo(nil); err != nil {
			t.Fatalf("Undo: %v", err)
		}
	}
	w.isOld()
	if _, err := w.undo(nil); !errors.Is(err, changes.ErrNotUndoable) {
		t.Errorf("Undo of nothing: err = %v, want ErrNotUndoable", err)
	}
}

func TestUndoRefusesWhatWasChangedSince(t *testing.T) {
	w := newWorld(t, small, smallChanged)
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	w.write(w.host+"/w", "edit", "my own words")
	w.write(w.host+"/w", "added/mine", "mine")
	w.write(w.host+"/w", "gone", "a new one")
	later := snapshot(t, w.host, true)
	_, err := w.undo(nil)
	var c *changes.ConflictError
	if !errors.As(err, &c) || len(c.Conflicts) != 2 || c.Conflicts[0].Path != "/w/edit" || c.Conflicts[1].Path != "/w/gone" {
		t.Fatalf("Undo: err = %v, want conflicts over edit and gone", err)
	}
	if d := differ(snapshot(t, w.host, true), later); d != "" {
		t.Errorf("the refused undo changed something:\n%s", d)
	}
	r, err := w.undo(&changes.UndoOptions{Force: true})
	if err != nil {
		t.Fatalf("Undo by force: %v", err)
	}
	if got := w.read("w/edit"); got != "old" {
		t.Errorf("edit = %q, want old", got)
	}
	if got := w.read("w/added/mine"); got != "mine" {
		t.Errorf("the foreign file in an added folder is %q", got)
	}
	kept := ""
	for _, n := range r.Notes {
		if _, at, ok := strings.Cut(n.Text, "before the undo is at "); ok && n.Path == "/w/edit" {
			data, err := os.ReadFile(at)
			w.must(err)
			kept = string(data)
		}
	}
	if kept != "my own words" {
		t.Errorf("the overwritten state is kept as %q", kept)
	}
	if _, err := w.store.Redo(t.Context(), testID, nil); err != nil {
		t.Fatalf("Redo: %v", err)
	}
	if d := differ(snapshot(t, w.host, false), withoutTimes(later)); d != "" {
		t.Errorf("the undo of the undo did not bring back what was there:\n%s", d)
	}
}

func withoutTimes(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for p, s := range m {
		if strings.HasPrefix(s, "dir ") {
			s = s[:strings.Index(s, "map[")] + "map[]  "
		}
		out[p] = s
	}
	return out
}

func TestWhatIsNotable(t *testing.T) {
	w := newWorld(t, everything, everythingChanged)
	r, err := w.commit(nil)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	for _, want := range []struct {
		path changes.Path
		kind changes.NoteKind
	}{{"/w/suid", changes.NoteSetID}, {"/w/linked", changes.NoteHardLinks}} {
		if !slices.ContainsFunc(r.Notes, func(n changes.Note) bool { return n.Path == want.path && n.Kind == want.kind }) {
			t.Errorf("no note %s for %s: %+v", want.kind, want.path, r.Notes)
		}
	}
}

func TestRefusedIsNeverCommitted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a device")
	}
	w := newWorld(t, small, func(w *world, r string) {
		w.write(r, "fine", "fine")
		if err := unix.Mknod(filepath.Join(r, "dev"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("mknod: %v", err)
		}
	})
	if _, err := w.commit(&changes.CommitOptions{Paths: []changes.Path{"/w/dev"}}); !errors.Is(err, changes.ErrRefused) || !strings.Contains(err.Error(), "/w/dev") {
		t.Errorf("Commit: err = %v, want ErrRefused by name", err)
	}
	r, err := w.commit(nil)
	if err != nil || len(r.Left) != 1 || r.Left[0].Path != "/w/dev" || r.State != changes.Committed {
		t.Errorf("Commit: %+v, %v, want the device left out", r, err)
	}
	if _, err := os.Lstat(w.host + "/w/dev"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the device: %v", err)
	}
}

func TestDryRunTouchesNothing(t *testing.T) {
	w := newWorld(t, everything, everythingChanged)
	r, err := w.commit(&changes.CommitOptions{DryRun: true})
	if err != nil || len(r.Committed) == 0 {
		t.Fatalf("Commit: %+v, %v", r, err)
	}
	w.isOld()
	if list, err := w.store.Interrupted(); len(list) != 0 || err != nil {
		t.Errorf("Interrupted: %v, %v", list, err)
	}
}
