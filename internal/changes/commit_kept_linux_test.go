package changes_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

func TestHolesAreKept(t *testing.T) {
	const size = 64 << 20
	w := newWorld(t, small, func(w *world, r string) {
		f, err := os.Create(filepath.Join(r, "sparse"))
		w.must(err)
		w.must(f.Truncate(size))
		_, err = f.WriteAt([]byte("in the middle"), size/2)
		w.must(err)
		w.must(f.Close())
	})
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	w.isBox()
	var st syscall.Stat_t
	w.must(syscall.Stat(w.host+"/w/sparse", &st))
	if st.Blocks*512 > size/16 {
		t.Errorf("sparse takes %d bytes", st.Blocks*512)
	}
}

func TestUndoGivesTheVeryObjectsBack(t *testing.T) {
	w := newWorld(t, func(w *world, r string) {
		small(w, r)
		w.must(os.Link(filepath.Join(r, "edit"), filepath.Join(r, "other-name")))
	}, func(w *world, r string) {
		w.unlinkWrite(filepath.Join(r, "edit"), "new")
		w.must(os.RemoveAll(filepath.Join(r, "tree")))
	})
	before := map[string]uint64{}
	for _, p := range []changes.Path{"/w/edit", "/w/tree", "/w/tree/x"} {
		before[string(p)] = node(t, w.host, p).Ino
	}
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("Undo: %v", err)
	}
	w.isOld()
	for p, ino := range before {
		if got := node(t, w.host, changes.Path(p)).Ino; got != ino {
			t.Errorf("%s is another object than before", p)
		}
	}
}

func TestUndoBringsBackTheContentThatAnotherNameHasLost(t *testing.T) {
	w := newWorld(t, func(w *world, r string) {
		small(w, r)
		w.must(os.Link(filepath.Join(r, "edit"), filepath.Join(r, "other-name")))
	}, func(w *world, r string) { w.unlinkWrite(filepath.Join(r, "edit"), "new") })
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	w.write(w.host+"/w", "other-name", "written in place")
	r, err := w.undo(nil)
	if err != nil {
		t.Fatalf("Undo: %v", err)
	}
	if got := w.read("w/edit"); got != "old" {
		t.Errorf("edit = %q, want old", got)
	}
	if got := w.read("w/other-name"); got != "written in place" {
		t.Errorf("the other name = %q", got)
	}
	if !slices.ContainsFunc(r.Notes, func(n changes.Note) bool { return n.Kind == changes.NoteLinkCopy }) {
		t.Errorf("no note says so: %+v", r.Notes)
	}
}

func TestAWriterThatHasTheOldFileOpenLosesNothing(t *testing.T) {
	w := newWorld(t, small, smallChanged)
	f, err := os.OpenFile(w.host+"/w/edit", os.O_WRONLY|os.O_APPEND, 0)
	w.must(err)
	defer f.Close()
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	_, err = f.WriteString(" and more")
	w.must(err)
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("Undo: %v", err)
	}
	if got := w.read("w/edit"); got != "old and more" {
		t.Errorf("edit = %q, want what its writer wrote", got)
	}
}

func TestOwnerThatCannotBeGiven(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can give any; TestAsAnOrdinaryUser runs this")
	}
	w := newWorld(t, small, func(w *world, r string) {
		w.must(os.Chmod(w.write(r, "tool", "#!"), 0o755|os.ModeSetuid))
	})
	name := filepath.Join(w.store.Dir(testID), "changes.jsonl")
	data, err := os.ReadFile(name)
	w.must(err)
	data = []byte(strings.ReplaceAll(string(data), `"uid":65534`, `"uid":0`))
	w.must(os.WriteFile(name, data, 0o600))
	r, err := w.commit(nil)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	for _, want := range []changes.NoteKind{changes.NoteOwner, changes.NoteSetIDLost} {
		if !slices.ContainsFunc(r.Notes, func(n changes.Note) bool { return n.Kind == want && n.Path == "/w/tool" }) {
			t.Errorf("no note %s: %+v", want, r.Notes)
		}
	}
	n := node(t, w.host, "/w/tool")
	if n.UID != 65534 || n.Mode&0o6000 != 0 {
		t.Errorf("tool: user %d, mode %04o", n.UID, n.Mode)
	}
}

func TestListsOfAccessSurviveAnEdit(t *testing.T) {
	w := newWorld(t, small, smallChanged)
	// user::rw- user:65534:rw- group::r-- mask::rw- other::---
	acl := []byte("\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x06\x00\xfe\xff\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff")
	name := w.host + "/w/edit"
	if err := unix.Setxattr(name, "system.posix_acl_access", acl, 0); err != nil {
		t.Skipf("no access-control lists here: %v", err)
	}
	w.must(os.Chmod(name, 0o644))
	want := getxattr(t, name)
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	if got := w.read("w/edit"); got != "new" {
		t.Fatalf("edit = %q", got)
	}
	if got := getxattr(t, name); got != want {
		t.Errorf("the list is %q, want %q", got, want)
	}
}

func getxattr(t *testing.T, name string) string {
	t.Helper()
	buf := make([]byte, 1024)
	n, err := unix.Getxattr(name, "system.posix_acl_access", buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestAForeignJournalOfAnotherSetBlocksCommits(t *testing.T) {
	w := fastWorld(t, false)
	w.keep("bbbbbbbbbbbbbbbb")
	if _, killed := w.killedAt("commit", 50); !killed {
		t.Fatal("it lived")
	}
	_, err := w.store.Commit(t.Context(), "bbbbbbbbbbbbbbbb", &changes.CommitOptions{Root: w.host})
	if err == nil || !strings.Contains(err.Error(), testID) {
		t.Errorf("Commit of another set: err = %v, want one that names %s", err, testID)
	}
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("Undo: %v", err)
	}
	w.isOld()
	if _, err := w.store.Commit(t.Context(), "bbbbbbbbbbbbbbbb", &changes.CommitOptions{Root: w.host}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	w.isBox()
}
