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

// A living is a sandbox that goes on over a host: its upper layer is what a test says it
// is now.
type living struct {
	*host
	store   *changes.Store
	sets    string
	id      string
	started time.Time
}

// newLiving makes one that starts now, when the host's files are there.
func newLiving(t *testing.T, files func(h *host)) *living {
	t.Helper()
	h := newHost(t)
	h.dir("/w")
	if files != nil {
		files(h)
	}
	l := &living{host: h, sets: filepath.Join(filepath.Dir(h.root), "sets"), id: testID}
	l.start()
	l.open()
	return l
}

// start notes the time, and waits until the host's file system stamps later ones: its
// clock has coarse steps.
func (l *living) start() {
	l.t.Helper()
	l.started = time.Now()
	l.later(l.started)
}

// later waits until the file system stamps what is changed with a time after than.
func (h *host) later(than time.Time) {
	h.t.Helper()
	probe := filepath.Join(filepath.Dir(h.root), "probe")
	for deadline := time.Now().Add(time.Minute); ; {
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			h.t.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			h.t.Fatal(err)
		}
		if info.ModTime().After(than) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal("the file system's clock stands still")
		}
	}
}

// open opens the store as another program would.
func (l *living) open() {
	l.t.Helper()
	store, err := changes.OpenStore(l.sets)
	if err != nil {
		l.t.Fatal(err)
	}
	l.store = store
}

func (l *living) header(live bool) changes.Header {
	return changes.Header{ID: l.id, WorkDir: "/w", Command: []string{"sandbox"}, Live: live, Started: l.started, Created: time.Unix(1, 0).UTC()}
}

func (l *living) tryRead(up *layer, live bool) (*changes.Set, error) {
	l.t.Helper()
	w, err := l.store.Renew(l.t.Context(), l.header(live))
	if err != nil {
		return nil, err
	}
	data := up.bytes(l.t)
	opts := &changes.ReadOptions{HostRoot: l.root, Started: l.started, Hidden: []string{"/w/secret"}}
	if err := changes.Read(l.t.Context(), bytes.NewReader(data), w, opts); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w.Finish()
}

// changes reads the sandbox's upper layer anew and gives a line a change.
func (l *living) changes(up *layer) string {
	l.t.Helper()
	set, err := l.tryRead(up, true)
	if err != nil {
		l.t.Fatalf("read: %v", err)
	}
	again, err := l.store.Load(l.id)
	if err != nil {
		l.t.Fatalf("Load: %v", err)
	}
	if a, b := show(set), show(again); a != b {
		l.t.Errorf("what was read and what was kept differ:\n%s\n%s", a, b)
	}
	return show(set)
}

func (l *living) want(up *layer, lines ...string) {
	l.t.Helper()
	want := ""
	if len(lines) > 0 {
		want = strings.Join(lines, "\n") + "\n"
	}
	if got := l.changes(up); got != want {
		l.t.Errorf("changes:\n%swant:\n%s", got, want)
	}
}

func (l *living) commit(paths ...changes.Path) *changes.CommitReport {
	l.t.Helper()
	r, err := l.store.Commit(l.t.Context(), l.id, &changes.CommitOptions{Root: l.root, Paths: paths})
	if err != nil {
		l.t.Fatalf("Commit: %v", err)
	}
	// What is done next on the host is later.
	l.later(time.Now())
	return r
}

func (l *living) conflict(paths ...changes.Path) {
	l.t.Helper()
	_, err := l.store.Commit(l.t.Context(), l.id, &changes.CommitOptions{Root: l.root, Paths: paths})
	if conflict, ok := errors.AsType[*changes.ConflictError](err); !ok {
		l.t.Errorf("Commit: %v, want a conflict", err)
	} else if len(conflict.Conflicts) == 0 {
		l.t.Error("a conflict of nothing")
	}
}

func (l *living) undo() {
	l.t.Helper()
	if _, err := l.store.Undo(l.t.Context(), l.id, nil); err != nil {
		l.t.Fatalf("Undo: %v", err)
	}
	l.later(time.Now())
}

func (l *living) has(p, content string) {
	l.t.Helper()
	data, err := os.ReadFile(l.name(p))
	if err != nil || string(data) != content {
		l.t.Errorf("the host's %s: %q, %v, want %q", p, data, err, content)
	}
}

func (l *living) hasNot(p string) {
	l.t.Helper()
	if _, err := os.Lstat(l.name(p)); !os.IsNotExist(err) {
		l.t.Errorf("the host's %s: %v, want that it is not there", p, err)
	}
}

// edit is somebody's hand on the host.
func (l *living) edit(p, content string) {
	l.t.Helper()
	if err := os.WriteFile(l.name(p), []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *living) remove(p string) {
	l.t.Helper()
	if err := os.RemoveAll(l.name(p)); err != nil {
		l.t.Fatal(err)
	}
}

func up() *layer { return newLayer().dir("./w/", 0o755) }

func TestWhatWasLetOutIsNoChange(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/old", "1") })
	first := func() *layer { return up().file("./w/new", "n").file("./w/old", "2") }
	l.want(first(), `added "/w/new" new:file`, `modified "/w/old" old:file new:file`)
	if r := l.commit(); r.State != changes.Committed || r.Remaining != 0 {
		t.Errorf("after the commit: %s, %d left", r.State, r.Remaining)
	}
	l.has("/w/old", "2")
	l.want(first())
	if set, err := l.store.Load(testID); err != nil || set.State != changes.Committed || !set.Live {
		t.Errorf("the set: %+v, %v", set.Header, err)
	}
	l.want(up().file("./w/new", "n").file("./w/old", "3"), `modified "/w/old" old:file new:file`)
	l.commit()
	l.has("/w/old", "3")
	l.has("/w/new", "n")
}

func TestTheHostMovesOnAfterACommit(t *testing.T) {
	const changed = `modified "/w/a" old:file new:file conflict:"/w/a was changed on the host after the last commit"`
	for _, c := range []struct {
		name string
		host func(l *living)
		now  *layer
		want []string
	}{
		{"an edit of what was let out is nobody's change", func(l *living) { l.edit("/w/a", "theirs") }, up().file("./w/a", "1"), nil},
		{"an edit on both sides is a conflict", func(l *living) { l.edit("/w/a", "theirs") }, up().file("./w/a", "2"), []string{changed}},
		{"an edit to a state that the host never had is one, though it has the same size", func(l *living) { l.edit("/w/a", "x") }, up().file("./w/a", "2"), []string{changed}},
		{"a rewrite with what was let out is none", func(l *living) { l.edit("/w/a", "1") }, up().file("./w/a", "2"), []string{`modified "/w/a" old:file new:file`}},
		{"a deletion there is none while the sandbox rests", func(l *living) { l.remove("/w/a") }, up().file("./w/a", "1"), nil},
		{
			"a deletion there and an edit here is one", func(l *living) { l.remove("/w/a") }, up().file("./w/a", "2"),
			[]string{`added "/w/a" new:file conflict:"/w/a was deleted on the host after the last commit"`},
		},
		{"a deletion on both sides is agreement", func(l *living) { l.remove("/w/a") }, up().gone("./w/a"), nil},
		{
			"a deletion here and an edit there is one", func(l *living) { l.edit("/w/a", "theirs") }, up().gone("./w/a"),
			[]string{`deleted "/w/a" old:file conflict:"/w/a was changed on the host after the last commit"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiving(t, nil)
			l.want(up().file("./w/a", "1"), `added "/w/a" new:file`)
			l.commit()
			c.host(l)
			l.want(c.now, c.want...)
			if len(c.want) > 0 && strings.Contains(c.want[0], "conflict:") {
				l.conflict()
				return
			}
			l.commit()
		})
	}
}

func TestADeletionOfWhatWasLetOutIsAChange(t *testing.T) {
	for _, c := range []struct {
		name string
		now  func() *layer
	}{
		{"with a whiteout", func() *layer { return up().gone("./w/a").gone("./w/d") }},
		{"without a trace, for the layer below had none when it was made", up},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiving(t, nil)
			made := up().file("./w/a", "1").dir("./w/d/", 0o755).file("./w/d/f", "f")
			l.want(made, `added "/w/a" new:file`, `added "/w/d" new:dir`, `added "/w/d/f" new:file`)
			l.commit()
			l.want(c.now(), `deleted "/w/a" old:file`, `deleted "/w/d" old:dir`, `deleted "/w/d/f" old:file`)
			l.commit()
			l.hasNot("/w/a")
			l.hasNot("/w/d")
			l.want(c.now())
			l.undo()
			l.has("/w/d/f", "f")
			l.want(c.now(), `deleted "/w/a" old:file`, `deleted "/w/d" old:dir`, `deleted "/w/d/f" old:file`)
		})
	}
}

func TestAnUndoneCommitIsAChangeAgain(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/old", "1"); h.file("/w/gone", "g"); h.file("/w/d/f", "f") })
	now := func() *layer {
		return up().file("./w/new", "n").file("./w/old", "2").gone("./w/gone").gone("./w/d").symlink("./w/link", "new")
	}
	all := []string{
		`deleted "/w/d" old:dir`, `deleted "/w/d/f" old:file`, `deleted "/w/gone" old:file`,
		`added "/w/link" new:symlink to:"new"`, `added "/w/new" new:file`, `modified "/w/old" old:file new:file`,
	}
	l.want(now(), all...)
	for range 3 {
		l.commit()
		l.want(now())
		l.undo()
		l.has("/w/old", "1")
		l.has("/w/d/f", "f")
		l.hasNot("/w/new")
		l.want(now(), all...)
	}
	l.edit("/w/old", "theirs")
	if got := l.changes(now()); !strings.Contains(got, `"/w/old" old:file new:file conflict:`) {
		t.Errorf("somebody's edit after an undo is not seen:\n%s", got)
	}
}

func TestAPartCanBeLetOutAndTakenBack(t *testing.T) {
	l := newLiving(t, func(h *host) { h.file("/w/b", "1") })
	now := func() *layer {
		return up().file("./w/a", "a").file("./w/b", "2").dir("./w/d/", 0o755).file("./w/d/f", "f")
	}
	l.changes(now())
	if r := l.commit("/w/d/f"); r.Remaining != 2 || r.State != changes.Kept || len(r.Along) != 1 {
		t.Errorf("the report: %+v", r)
	}
	l.has("/w/d/f", "f")
	l.want(now(), `added "/w/a" new:file`, `modified "/w/b" old:file new:file`)
	l.commit("/w/b")
	l.want(now(), `added "/w/a" new:file`)
	l.undo()
	l.has("/w/b", "1")
	l.want(now(), `added "/w/a" new:file`, `modified "/w/b" old:file new:file`)
	l.undo()
	l.hasNot("/w/d")
	l.want(now(), `added "/w/a" new:file`, `modified "/w/b" old:file new:file`, `added "/w/d" new:dir`, `added "/w/d/f" new:file`)
}

func TestFoldersAndLinksThatTakeAnothersPlace(t *testing.T) {
	steps := []struct {
		name string
		now  func() *layer
		host map[string]string // afterwards; "": not there
	}{
		{"a folder is a file now", func() *layer { return up().file("./w/d", "file") }, map[string]string{"/w/d": "file"}},
		{"and a folder again", func() *layer { return up().opaque("./w/d/", 0o755).file("./w/d/g", "g") }, map[string]string{"/w/d/g": "g"}},
		{"which is renamed", func() *layer { return up().gone("./w/d").opaque("./w/e/", 0o755).file("./w/e/g", "g") }, map[string]string{"/w/e/g": "g", "/w/d": ""}},
		{"and renamed back, over nothing", func() *layer { return up().opaque("./w/d/", 0o755).file("./w/d/g", "g").gone("./w/e") }, map[string]string{"/w/d/g": "g", "/w/e": ""}},
		{"a file of it goes", func() *layer { return up().opaque("./w/d/", 0o755).file("./w/d/h", "h").gone("./w/e") }, map[string]string{"/w/d/h": "h", "/w/d/g": ""}},
		{"hard links", func() *layer { return up().opaque("./w/d/", 0o755).file("./w/d/h", "h").link("./w/d/i", "./w/d/h") }, map[string]string{"/w/d/h": "h", "/w/d/i": "h"}},
		{"one of which is written to", func() *layer { return up().opaque("./w/d/", 0o755).file("./w/d/h", "h2").link("./w/d/i", "./w/d/h") }, map[string]string{"/w/d/h": "h2", "/w/d/i": "h2"}},
		{"a folder is a link", func() *layer { return up().symlink("./w/d", "/etc") }, map[string]string{"/w/d/h": ""}},
	}
	l := newLiving(t, func(h *host) { h.file("/w/d/f", "f") })
	for _, step := range steps {
		if l.changes(step.now()) == "" {
			t.Errorf("%s: no change", step.name)
		}
		l.commit()
		for p, content := range step.host {
			if content == "" {
				l.hasNot(p)
			} else {
				l.has(p, content)
			}
		}
		if got := l.changes(step.now()); got != "" {
			t.Errorf("%s: after the commit:\n%s", step.name, got)
		}
	}
	for range steps {
		l.undo()
	}
	l.has("/w/d/f", "f")
	l.hasNot("/w/e")
}
