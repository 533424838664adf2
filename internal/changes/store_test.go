package changes_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/changes"
)

const testID = "abcdefghijklmnop"

func newStore(t testing.TB) *changes.Store {
	t.Helper()
	s, err := changes.OpenStore(filepath.Join(t.TempDir(), "sets"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keep stores a set of one added file for each of the names.
func keep(t *testing.T, s *changes.Store, id string, created time.Time, names ...string) *changes.Set {
	t.Helper()
	w, err := s.Create(changes.Header{ID: id, Created: created, Command: []string{"make"}, WorkDir: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		blob, err := w.WriteBlob(strings.NewReader(name), int64(len(name)))
		if err != nil {
			t.Fatal(err)
		}
		err = w.Add(changes.Change{
			Path: changes.Path("/w/" + name), Kind: changes.Added, Scope: changes.Work, Blob: blob,
			New: &changes.Node{Type: changes.File, Mode: 0o644, Size: int64(len(name)), SHA256: blob},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	set, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestPathJSON(t *testing.T) {
	for _, tt := range []struct{ name, path, json string }{
		{"plain text is a string", "/a b", `"/a b"`},
		{"other scripts are a string", "/ä", `"/ä"`},
		{"what is not UTF-8 is base64", "/\xff", `{"base64":"L/8="}`},
		{"a surrogate half is not UTF-8", "\xed\xa0\x80", `{"base64":"7aCA"}`},
		{"nothing", "", `""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(changes.Path(tt.path))
			if err != nil || string(got) != tt.json {
				t.Fatalf("Marshal(%q) = %s, %v, want %s", tt.path, got, err, tt.json)
			}
			var back changes.Path
			if err := json.Unmarshal(got, &back); err != nil || string(back) != tt.path {
				t.Fatalf("Unmarshal(%s) = %q, %v, want %q", got, back, err, tt.path)
			}
		})
	}
	for _, bad := range []string{`"a\u0000b"`, `{"base64":"AA=="}`, `{"base64":"!"}`, `3`, `{"base64":3}`} {
		var p changes.Path
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("Unmarshal(%s) = %q, want an error", bad, p)
		}
	}
}

func TestPathBelow(t *testing.T) {
	for _, tt := range []struct {
		path, dir changes.Path
		want      bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/", "/a", false},
		{"/a", "/", true},
		{"/", "/", true},
	} {
		if got := tt.path.Below(tt.dir); got != tt.want {
			t.Errorf("%q.Below(%q) = %v, want %v", tt.path, tt.dir, got, tt.want)
		}
	}
}

func TestAFinishedSetSurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sets")
	s, err := changes.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	set := keep(t, s, testID, time.Unix(1, 5).UTC(), "b\xff", "a")
	if set.State != changes.Kept || set.Work != 2 || set.Changes[0].Path != "/w/a" {
		t.Fatalf("Finish: %+v, want two changes of the work, sorted, kept", set)
	}
	again, err := changes.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Load(testID[:3])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(set, got); diff != "" {
		t.Errorf("Load differs from Finish:\n%s", diff)
	}
	f, err := again.Blob(testID, got.Changes[1].Blob)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); string(data) != "b\xff" || err != nil {
		t.Errorf("Blob = %q, %v", data, err)
	}
	err = filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others can use it", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFindingASet(t *testing.T) {
	s := newStore(t)
	keep(t, s, "aaaaaaaaaaaaaaaa", time.Unix(1, 0), "x")
	keep(t, s, "aabbbbbbbbbbbbbb", time.Unix(3, 0), "x")
	keep(t, s, "bbbbbbbbbbbbbbbb", time.Unix(2, 0), "x")
	for _, tt := range []struct {
		name, id string
		want     error
	}{
		{"a whole id", "aaaaaaaaaaaaaaaa", nil},
		{"the beginning of one", "b", nil},
		{"the beginning of two", "aa", changes.ErrAmbiguous},
		{"the beginning of none", "c", changes.ErrNotFound},
		{"nothing", "", changes.ErrNotFound},
		{"a path", "../sets/b", changes.ErrNotFound},
		{"a dot", ".", changes.ErrNotFound},
		{"more than an id", "bbbbbbbbbbbbbbbbb", changes.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.Load(tt.id); !errors.Is(err, tt.want) {
				t.Errorf("Load(%q): err = %v, want %v", tt.id, err, tt.want)
			}
		})
	}
	list, err := s.List()
	if err != nil || len(list) != 3 || list[0].ID[:2] != "aa" || list[2].Created.Unix() != 1 {
		t.Errorf("List = %v, %v, want the newest first", list, err)
	}
	for _, id := range []string{"", "..", "a/b", "AAAAAAAAAAAAAAAA", "aaaaaaaaaaaaaaa1"} {
		if got := s.Dir(id); got != "" {
			t.Errorf("Dir(%q) = %q, want none", id, got)
		}
		if _, err := s.Lock(id); !errors.Is(err, changes.ErrNotFound) {
			t.Errorf("Lock(%q): err = %v, want ErrNotFound", id, err)
		}
		if err := s.Remove(id); !errors.Is(err, changes.ErrNotFound) {
			t.Errorf("Remove(%q): err = %v, want ErrNotFound", id, err)
		}
		if _, err := s.Create(changes.Header{ID: id}); err == nil {
			t.Errorf("Create(%q): no error", id)
		}
	}
}

func TestASetWithoutChangesIsNotStored(t *testing.T) {
	s := newStore(t)
	w, err := s.Create(changes.Header{ID: testID})
	if err != nil {
		t.Fatal(err)
	}
	set, err := w.Finish()
	if err != nil || set.State != changes.None {
		t.Fatalf("Finish = %+v, %v, want state none", set, err)
	}
	if names, _ := os.ReadDir(filepath.Dir(s.Dir(testID))); len(names) != 0 {
		t.Errorf("the store holds %v, want nothing", names)
	}
}

func TestWhatASpoiledSetLeavesBehind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(w *changes.Writer) error
	}{
		{"content that ends early", func(w *changes.Writer) error {
			_, err := w.WriteBlob(strings.NewReader("x"), 2)
			return err
		}},
		{"long content that ends early", func(w *changes.Writer) error {
			_, err := w.WriteBlob(bytes.NewReader(make([]byte, 1<<20)), 1<<20+1)
			return err
		}},
		{"a negative size", func(w *changes.Writer) error {
			_, err := w.WriteBlob(strings.NewReader("x"), -1)
			return err
		}},
		{"a path twice", func(w *changes.Writer) error {
			c := changes.Change{Path: "/a", Kind: changes.Deleted, Old: &changes.Node{}}
			if err := errors.Join(w.Add(c), w.Add(c)); err != nil {
				return nil // wrong place: Finish must say it
			}
			return errors.New("as wanted")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			w, err := s.Create(changes.Header{ID: testID})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteBlob(strings.NewReader("good"), 4); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(w); err == nil {
				t.Fatal("no error")
			}
			if set, err := w.Finish(); err == nil {
				t.Errorf("Finish = %+v, want an error", set)
			}
			if err := w.Abort(); err != nil {
				t.Error(err)
			}
			if names, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Dir(testID)), "*")); len(names) != 1 {
				t.Errorf("the store holds %v, want the lock file alone", names)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	node := &changes.Node{Type: changes.File}
	for _, tt := range []struct {
		name string
		c    changes.Change
	}{
		{"a relative path", changes.Change{Path: "a", Kind: changes.Added, New: node}},
		{"a path upwards", changes.Change{Path: "/a/../b", Kind: changes.Added, New: node}},
		{"a NUL byte", changes.Change{Path: "/a\x00", Kind: changes.Added, New: node}},
		{"no kind", changes.Change{Path: "/a", New: node}},
		{"an addition of nothing", changes.Change{Path: "/a", Kind: changes.Added}},
		{"a deletion of something that is there", changes.Change{Path: "/a", Kind: changes.Deleted, New: node}},
		{"content that was not written", changes.Change{Path: "/a", Kind: changes.Added, New: node, Blob: strings.Repeat("a", 64)}},
		{"content named by a path", changes.Change{Path: "/a", Kind: changes.Added, New: node, Blob: "../x"}},
		{"a relative hard link", changes.Change{Path: "/a", Kind: changes.Added, New: node, HardLink: "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := newStore(t).Create(changes.Header{ID: testID})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Add(tt.c); err == nil {
				t.Errorf("Add(%+v): no error", tt.c)
			}
		})
	}
}

func TestContentsAreKeptWhole(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	hole := make([]byte, 5<<20)
	copy(hole[3<<20:], "island")
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"nothing", nil},
		{"a byte", []byte{7}},
		{"exactly one chunk", long[:128<<10]},
		{"a byte more than a chunk", long[:128<<10+1]},
		{"long", long},
		{"holes and an island", hole},
		{"a hole alone, of no even size", make([]byte, 1<<20+3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			w, err := s.Create(changes.Header{ID: testID})
			if err != nil {
				t.Fatal(err)
			}
			var blob string
			for range 2 { // the second time it is known
				if blob, err = w.WriteBlob(bytes.NewReader(tt.data), int64(len(tt.data))); err != nil {
					t.Fatal(err)
				}
			}
			if sum := sha256.Sum256(tt.data); blob != hex.EncodeToString(sum[:]) {
				t.Errorf("WriteBlob names it %s, want %x", blob, sum)
			}
			if err := w.Add(changes.Change{Path: "/a", Kind: changes.Added, New: &changes.Node{}, Blob: blob}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteBlob(strings.NewReader("unwanted"), 8); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			f, err := s.Blob(testID, blob)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, tt.data) {
				t.Errorf("the stored content differs: %d bytes, %v", len(got), err)
			}
			unwanted := sha256.Sum256([]byte("unwanted"))
			if f, err := s.Blob(testID, hex.EncodeToString(unwanted[:])); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Blob of what no change refers to = %v, %v, want that it is gone", f, err)
			}
		})
	}
}

func TestManyContentsAtOnce(t *testing.T) {
	s := newStore(t)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
	}
	keep(t, s, testID, time.Now(), names...)
	set, err := s.Load(testID)
	if err != nil || len(set.Changes) != 100 {
		t.Fatalf("Load: %v, want 100 changes", err)
	}
	for _, c := range set.Changes {
		f, err := s.Blob(testID, c.Blob)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || "/w/"+string(data) != string(c.Path) {
			t.Fatalf("the content of %s is %q, %v", c.Path, data, err)
		}
	}
}

func TestADamagedContentIsNotGivenOut(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		damage     func(data []byte) []byte
	}{
		{"a changed byte of the pack", "pack", func(d []byte) []byte { d[3]++; return d }},
		{"a pack that ends early", "pack", func(d []byte) []byte { return d[:len(d)-1] }},
		{"an index that points elsewhere", "index", func(d []byte) []byte { d[39]++; return d }},
		{"an index that points before the beginning", "index", func(d []byte) []byte { d[32] = 0xff; return d }},
		{"an index with a size beyond all bounds", "index", func(d []byte) []byte { d[41] = 0xff; return d }},
		{"an index that ends early", "index", func(d []byte) []byte { return d[:len(d)-1] }},
		{"no index", "index", func([]byte) []byte { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			set := keep(t, s, testID, time.Now(), "some content")
			name := filepath.Join(s.Dir(testID), "blobs", tt.file)
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, tt.damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if f, err := s.Blob(testID, set.Changes[0].Blob); err == nil {
				t.Errorf("Blob: no error, and Close: %v", f.Close())
			}
		})
	}
}
