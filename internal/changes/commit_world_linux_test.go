package changes_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

// A world is a host's tree, the same tree as a sandbox left it, and a store with the
// difference. The two trees are the oracle: a commit must make the host equal to box,
// an undo equal to what it was.
type world struct {
	t     testing.TB
	dir   string
	host  string
	box   string
	sets  string // the store's folder
	store *changes.Store
	plain bool              // as if names could not be exchanged
	loose bool              // hard links of the host come back as copies: the store is on another file system
	was   map[string]string // snapshot of host before any commit
}

func newWorld(t testing.TB, before, inBox func(w *world, root string)) *world {
	t.Helper()
	return newWorldIn(t, t.TempDir(), "", before, inBox)
}

// newWorldIn is newWorld with the trees in dir, and the store in sets, or beside them.
func newWorldIn(t testing.TB, dir, sets string, before, inBox func(w *world, root string)) *world {
	t.Helper()
	w := &world{t: t, dir: dir, sets: sets}
	if sets == "" {
		w.sets = filepath.Join(w.dir, "sets")
	}
	w.host, w.box = filepath.Join(w.dir, "host"), filepath.Join(w.dir, "box")
	t.Cleanup(func() { // an ordinary user cannot empty a folder that is locked
		for _, dir := range []string{w.dir, w.sets} {
			_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, _ error) error {
				if d != nil && d.IsDir() {
					_ = os.Chmod(p, 0o755)
				}
				return nil
			})
		}
	})
	w.must(os.Mkdir(w.host, 0o755))
	w.must(os.Mkdir(filepath.Join(w.host, "w"), 0o755))
	before(w, filepath.Join(w.host, "w"))
	age(w, w.host)
	out, err := exec.CommandContext(t.Context(), "cp", "-a", w.host, w.box).CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	inBox(w, filepath.Join(w.box, "w"))
	w.was = snapshot(t, w.host, true)
	w.open()
	w.keep(testID)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open() {
	var err error
	w.store, err = changes.OpenStore(w.sets)
	w.must(err)
}

// age makes everything a day old, so that a time that is not restored shows.
func age(w *world, root string) {
	var dirs []string
	w.must(filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		dirs = append(dirs, p)
		return err
	}))
	old := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	for i, p := range slices.Backward(dirs) {
		ts := unix.NsecToTimespec(old.Add(time.Duration(i) * time.Second).UnixNano())
		w.must(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func (w *world) write(root, name, content string) string {
	w.t.Helper()
	p := filepath.Join(root, name)
	w.must(os.MkdirAll(filepath.Dir(p), 0o755))
	w.must(os.WriteFile(p, []byte(content), 0o644))
	return p
}

func (w *world) read(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.host, name))
	w.must(err)
	return string(data)
}

// paths lists everything below root, as the paths of changes, a folder first.
func paths(t testing.TB, root string) []changes.Path {
	t.Helper()
	var out []changes.Path
	err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if p != root {
			out = append(out, changes.Path(strings.TrimPrefix(p, root)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func node(t testing.TB, root string, p changes.Path) *changes.Node {
	t.Helper()
	n, err := changes.HostLstat(root, p, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if n.Type == changes.File {
		n.SHA256 = digest(t, root+string(p))
	}
	return n
}

func digest(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// keep writes the difference of the two trees as a change set.
func (w *world) keep(id string) {
	w.t.Helper()
	wr, err := w.store.Create(changes.Header{ID: id, Created: time.Now(), WorkDir: "/w"})
	w.must(err)
	all := make(map[changes.Path]bool)
	for _, p := range append(paths(w.t, w.host), paths(w.t, w.box)...) {
		all[p] = true
	}
	first := make(map[uint64]changes.Path)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		c := w.difference(p)
		if c == nil {
			continue
		}
		if c.New != nil && c.New.Type == changes.File {
			f, err := os.Open(w.box + string(p))
			w.must(err)
			c.Blob, err = wr.WriteBlob(f, c.New.Size)
			w.must(errors.Join(err, f.Close()))
			if to, ok := first[c.New.Ino]; ok && c.New.Nlink > 1 {
				c.HardLink = to
			} else {
				first[c.New.Ino] = p
			}
		}
		if c.New != nil {
			c.New.Ino, c.New.Dev, c.New.Nlink, c.New.CTime = 0, 0, 0, time.Time{}
		}
		w.must(wr.Add(*c))
	}
	_, err = wr.Finish()
	w.must(err)
}

func (w *world) difference(p changes.Path) *changes.Change {
	o, n := node(w.t, w.host, p), node(w.t, w.box, p)
	c := &changes.Change{Path: p, Old: o, New: n, Scope: changes.Outside}
	if p.Below("/w") {
		c.Scope = changes.Work
	}
	if strings.Contains(string(p), "/cache/") || p.Base() == "cache" {
		c.Scope = changes.Noise
	}
	switch {
	case o == nil:
		c.Kind = changes.Added
	case n == nil:
		c.Kind = changes.Deleted
	case o.Type != n.Type || o.SHA256 != n.SHA256 || o.Target != n.Target:
		c.Kind = changes.Modified
	case o.Mode != n.Mode || o.UID != n.UID || fmt.Sprint(o.Xattrs) != fmt.Sprint(n.Xattrs),
		n.Type != changes.Dir && !o.MTime.Equal(n.MTime):
		c.Kind = changes.Metadata
	default:
		return nil
	}
	if n != nil && n.Type == changes.Device {
		c.Refused = "a device"
	}
	return c
}

// snapshot describes a tree: with times, everything; without, not the folders' times.
func snapshot(t testing.TB, root string, times bool) map[string]string {
	t.Helper()
	out := make(map[string]string)
	inos := make(map[uint64]changes.Path)
	for _, p := range paths(t, root) {
		n := node(t, root, p)
		mtime := n.MTime.Format(time.RFC3339Nano)
		if n.Type == changes.Dir && !times {
			mtime = ""
		}
		same := ""
		if n.Type == changes.File && n.Nlink > 1 {
			if first, ok := inos[n.Ino]; ok {
				same = "=" + string(first)
			}
			inos[n.Ino] = p
		}
		out[string(p)] = fmt.Sprintf("%s %04o %d:%d %d %q %s %v %s %s", n.Type, n.Mode, n.UID, n.GID, n.Size, n.Target, n.SHA256, n.Xattrs, mtime, same)
	}
	return out
}

// differ lists how two snapshots differ, or is "".
func differ(got, want map[string]string) string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[p]; !ok {
			fmt.Fprintf(&b, "unexpected %q: %s\n", p, got[p])
		} else if w != got[p] {
			fmt.Fprintf(&b, "%q: %s\n  want %s\n", p, got[p], w)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[p]; !ok {
			fmt.Fprintf(&b, "missing %q: %s\n", p, want[p])
		}
	}
	return b.String()
}

func (w *world) isBox() {
	w.t.Helper()
	if d := differ(snapshot(w.t, w.host, false), snapshot(w.t, w.box, false)); d != "" {
		w.t.Errorf("the host is not as the sandbox left it:\n%s", d)
	}
}

func (w *world) isOld() {
	w.t.Helper()
	got, want := snapshot(w.t, w.host, true), w.was
	if w.loose {
		got, want = unlinked(got), unlinked(want)
	}
	if d := differ(got, want); d != "" {
		w.t.Errorf("the host is not as it was:\n%s", d)
	}
}

func (w *world) commit(opts *changes.CommitOptions) (*changes.CommitReport, error) {
	w.t.Helper()
	if opts == nil {
		opts = &changes.CommitOptions{}
	}
	opts.Root = w.host
	if w.plain {
		opts.OnStep(nil, true)
	}
	return w.store.Commit(context.Background(), testID, opts)
}

func (w *world) undo(opts *changes.UndoOptions) (*changes.UndoReport, error) {
	w.t.Helper()
	if opts == nil {
		opts = &changes.UndoOptions{}
	}
	if w.plain {
		opts.OnStep(nil, true)
	}
	return w.store.Undo(context.Background(), testID, opts)
}

// everything is a tree in which each kind of change happens.
func everything(w *world, r string) {
	w.write(r, "same", "same")
	w.write(r, "edit", "old")
	w.write(r, "gone", "gone")
	w.write(r, "tree/a/b/deep", "deep")
	w.write(r, "tree/x", "x")
	w.must(os.Symlink("../elsewhere", filepath.Join(r, "tree/link")))
	w.write(r, "file-to-dir", "a file")
	w.write(r, "dir-to-file/in", "in")
	w.write(r, "mode", "mode")
	w.write(r, "sub/one", "1")
	w.write(r, "sub/two", "2")
	w.write(r, "linked", "linked")
	w.must(os.Link(filepath.Join(r, "linked"), filepath.Join(r, "linked-too")))
	w.write(r, "meta-linked", "ml")
	w.must(os.Link(filepath.Join(r, "meta-linked"), filepath.Join(r, "meta-linked-too")))
	w.must(os.Symlink("edit", filepath.Join(r, "symlink")))
	w.must(os.Mkdir(filepath.Join(r, "closing"), 0o755))
	w.write(r, "new\nline \xff", "hostile")
	w.must(os.Mkdir(filepath.Join(r, "opening"), 0o555))
	_ = unix.Setxattr(filepath.Join(r, "edit"), "user.note", []byte("before"), 0)
}

func everythingChanged(w *world, r string) {
	w.write(r, "edit", "new content")
	_ = unix.Setxattr(filepath.Join(r, "edit"), "user.note", []byte("after"), 0)
	w.must(os.Remove(filepath.Join(r, "gone")))
	w.must(os.RemoveAll(filepath.Join(r, "tree")))
	w.must(os.Remove(filepath.Join(r, "file-to-dir")))
	w.write(r, "file-to-dir/one", "one")
	w.write(r, "file-to-dir/two/three", "three")
	w.must(os.RemoveAll(filepath.Join(r, "dir-to-file")))
	w.write(r, "dir-to-file", "now a file")
	w.must(os.Chmod(filepath.Join(r, "mode"), 0o600))
	w.write(r, "sub/three", "3")
	w.must(os.Remove(filepath.Join(r, "sub/one")))
	w.unlinkWrite(filepath.Join(r, "linked"), "linked no more")
	w.unlinkWrite(filepath.Join(r, "meta-linked"), "ml")
	w.must(os.Chmod(filepath.Join(r, "meta-linked"), 0o640))
	w.must(os.Remove(filepath.Join(r, "symlink")))
	w.must(os.Symlink("same", filepath.Join(r, "symlink")))
	w.write(r, "new\nline \xff", "hostile, and changed")
	w.write(r, "added/-rf", "dash")
	w.write(r, "added/ tab\t", "tab")
	w.must(os.Symlink("/etc/passwd", filepath.Join(r, "added/link")))
	w.must(unix.Mkfifo(filepath.Join(r, "added/fifo"), 0o600))
	w.write(r, "hard-1", "hard")
	w.must(os.Link(filepath.Join(r, "hard-1"), filepath.Join(r, "hard-2")))
	w.must(os.Link(filepath.Join(r, "hard-1"), filepath.Join(r, "added/hard-3")))
	w.write(r, "empty", "")
	w.write(r, "closing/inside", "in")
	w.must(os.Chmod(filepath.Join(r, "closing"), 0o555))
	w.must(os.Chmod(filepath.Join(r, "opening"), 0o755))
	w.write(r, "opening/inside", "in")
	w.write(r, "locked/in", "in")
	w.must(os.Chmod(filepath.Join(r, "locked"), 0o555))
	w.must(os.Chmod(w.write(r, "suid", "#!"), 0o755|fs.ModeSetuid))
}

// unlinkWrite is what a sandbox's copy-up does: the name gets a node of its own.
func (w *world) unlinkWrite(name, content string) {
	w.must(os.Remove(name))
	w.must(os.WriteFile(name, []byte(content), 0o644))
}

func (w *world) noLeftovers() {
	w.t.Helper()
	for _, p := range paths(w.t, w.host) {
		if strings.Contains(string(p), ".airlock-") {
			w.t.Errorf("%s is left over", p)
		}
	}
}

// unlinked is a snapshot without what is the same file as what.
func unlinked(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for p, s := range m {
		out[p] = s[:strings.LastIndexByte(s, ' ')]
	}
	return out
}
