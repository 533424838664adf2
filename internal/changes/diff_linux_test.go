package changes_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/changes"
)

// diff reads the layer over the host and gives the diff.
func diff(t *testing.T, h *host, l *layer, opts *changes.DiffOptions) string {
	t.Helper()
	s, set, err := h.read(l.bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := changes.DiffOptions{}
	if opts != nil {
		o = *opts
	}
	o.HostRoot = h.root
	var b bytes.Buffer
	if err := changes.Diff(t.Context(), &b, s, set, &o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintln(&b, i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name  string
		host  func(h *host)
		layer func(l *layer)
		opts  *changes.DiffOptions
		want  []string
	}{
		{
			"a file was changed",
			func(h *host) { h.file("/w/a", numbers(1, 9)) },
			func(l *layer) { l.file("./w/a", strings.Replace(numbers(1, 9), "5\n", "five\n", 1)) },
			nil,
			[]string{
				"diff --git a/a b/a", "--- a/a", "+++ b/a", "@@ -2,7 +2,7 @@",
				" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8",
			},
		},
		{
			"a file was added, without a last line feed",
			func(h *host) { h.dir("/w") },
			func(l *layer) { l.file("./w/a", "x\ny") },
			nil,
			[]string{
				"diff --git a/a b/a", "new file mode 100644", "--- /dev/null", "+++ b/a", "@@ -0,0 +1,2 @@",
				"+x", "+y", `\ No newline at end of file`,
			},
		},
		{
			"a file was deleted",
			func(h *host) { h.file("/w/a", "x\n") },
			func(l *layer) { l.gone("./w/a") },
			nil,
			[]string{"diff --git a/a b/a", "deleted file mode 100644", "--- a/a", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"},
		},
		{
			"a name with a space, one with an escape, one with an accent",
			func(h *host) { h.dir("/w") },
			func(l *layer) { l.file("./w/a b", "x\n").file("./w/c\x1b", "").file("./w/ü", "") },
			nil,
			[]string{
				"diff --git a/a b b/a b", "new file mode 100644", "--- /dev/null", "+++ b/a b\t", "@@ -0,0 +1 @@", "+x",
				`diff --git "a/c\033" "b/c\033"`, "new file mode 100644",
				"diff --git a/ü b/ü", "new file mode 100644",
			},
		},
		{
			"what controls a terminal is escaped on one",
			func(h *host) { h.dir("/w") },
			func(l *layer) { l.file("./w/a", "\x1b]0;x\a\tC:\\ \u202e\r\n") },
			&changes.DiffOptions{Terminal: true},
			[]string{
				"diff --git a/a b/a", "new file mode 100644", "--- /dev/null", "+++ b/a", "@@ -0,0 +1 @@",
				"+" + `\x1b]0;x\x07` + "\t" + `C:\ \u202e\r`,
			},
		},
		{
			"and is left alone for a program",
			func(h *host) { h.dir("/w") },
			func(l *layer) { l.file("./w/a", "\x1b]0;x\a\r\n") },
			nil,
			[]string{"diff --git a/a b/a", "new file mode 100644", "--- /dev/null", "+++ b/a", "@@ -0,0 +1 @@", "+\x1b]0;x\a\r"},
		},
		{
			"binary and large files by size and digest",
			func(h *host) { h.file("/w/a", "a\x00b") },
			func(l *layer) { l.file("./w/a", "abc").file("./w/b", "0123456789a").file("./w/c", "\xff") },
			&changes.DiffOptions{MaxFile: 10},
			[]string{
				"# a: binary file, 3 B sha256:59b271ae1bbcb1d31d41929817f4b16fb439eb4f31520b5ad1d5ce98920a7138 to " +
					"3 B sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
				"# b: large file, new: 11 B sha256:73ceda67679033f468e81fc709c07fdb6bc02e0b6df5edf314dac5f4f6931b27",
				"# c: binary file, new: 1 B sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89",
			},
		},
		{
			"links, folders and pipes",
			func(h *host) { h.symlink("/w/l", "old"); h.dir("/w/gone") },
			func(l *layer) { l.symlink("./w/l", "new").opaque("./w/d/", 0o755).gone("./w/gone") },
			nil,
			[]string{
				"# d: new dir", "# gone: deleted dir",
				"diff --git a/l b/l", "deleted file mode 120000", "--- a/l", "+++ /dev/null", "@@ -1 +0,0 @@",
				"-old", `\ No newline at end of file`,
				"diff --git a/l b/l", "new file mode 120000", "--- /dev/null", "+++ b/l", "@@ -0,0 +1 @@",
				"+new", `\ No newline at end of file`,
			},
		},
		{
			"a file became a link",
			func(h *host) { h.file("/w/a", "x\n") },
			func(l *layer) { l.symlink("./w/a", "y") },
			nil,
			[]string{
				"diff --git a/a b/a", "deleted file mode 100644", "--- a/a", "+++ /dev/null", "@@ -1 +0,0 @@", "-x",
				"diff --git a/a b/a", "new file mode 120000", "--- /dev/null", "+++ b/a", "@@ -0,0 +1 @@", "+y",
				`\ No newline at end of file`,
			},
		},
		{
			"what is outside is left out, unless named",
			func(h *host) { h.dir("/w") },
			func(l *layer) { l.dir("./x/", 0o755).file("./x/a", "").file("./x/b", "").file("./w/c", "") },
			&changes.DiffOptions{Paths: []changes.Path{"/x/a"}},
			[]string{"diff --git a/x/a b/x/a", "new file mode 100644"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			tt.host(h)
			l := newLayer().dir("./w/", 0o755)
			tt.layer(l)
			if diff := cmp.Diff(lines(tt.want...), diff(t, h, l, tt.opts)); diff != "" {
				t.Errorf("Diff (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDiffOfAFileThatTheHostChangedSince(t *testing.T) {
	h := newHost(t)
	h.file("/w/a", "old")
	s, set, err := h.read(newLayer().dir("./w/", 0o755).file("./w/a", "new").bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.file("/w/a", "xxx")
	var b bytes.Buffer
	if err := changes.Diff(t.Context(), &b, s, set, &changes.DiffOptions{HostRoot: h.root}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "# a: the host's file is not what the sandbox saw any more, 3 B") {
		t.Errorf("Diff = %q, want that it says so", b.String())
	}
}

func TestDiffOfACommittedSetAndOfADiscardedOne(t *testing.T) {
	h := newHost(t)
	h.file("/w/a", "old\n")
	h.file("/w/d/b", "gone\n")
	s, set, err := h.read(newLayer().dir("./w/", 0o755).file("./w/a", "new\n").gone("./w/d").bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	show := func() string {
		var b bytes.Buffer
		if err := changes.Diff(t.Context(), &b, s, set, &changes.DiffOptions{HostRoot: h.root}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	before := show()
	if _, err := s.Commit(t.Context(), testID, &changes.CommitOptions{Root: h.root}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, show()); diff != "" {
		t.Errorf("the diff changed with the commit (-before +after):\n%s", diff)
	}
	if err := s.Discard(testID); !errors.Is(err, changes.ErrState) {
		t.Errorf("Discard of what is committed: err = %v, want ErrState", err)
	}
	if _, err := s.Undo(t.Context(), testID, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard(testID); err != nil {
		t.Fatal(err)
	}
	if set, err = s.Load(testID); err != nil {
		t.Fatal(err)
	}
	err = changes.Diff(t.Context(), &bytes.Buffer{}, s, set, nil)
	if !errors.Is(err, changes.ErrState) {
		t.Errorf("Diff of a discarded set: err = %v, want ErrState", err)
	}
}

// TestDiffIsTakenByItsReaders lets real programs apply a diff of everything at once.
func TestDiffIsTakenByItsReaders(t *testing.T) {
	long := strings.Repeat("line\n", 50)
	before := func(h *host) {
		h.file("/w/changed", "a\n"+long+"z\n")
		h.file("/w/sp ace", "x\n")
		h.file("/w/nolf", "x")
		h.file("/w/emptied", "x\n")
		h.file("/w/filled", "")
		h.file("/w/d/gone", "x\ny\n")
		h.file("/w/exec", "#!/bin/sh\n")
		h.file("/w/-- odd", "- x\n")
		h.symlink("/w/link", "old")
	}
	after := func(l *layer) {
		l.file("./w/changed", "b\n"+long+"y\nz").file("./w/sp ace", "y\n").file("./w/nolf", "x\n").
			file("./w/emptied", "").file("./w/filled", "x").gone("./w/d").
			opaque("./w/new/", 0o755).file("./w/new/f\tü", "-- \n+++ x\n").file("./w/new/empty", "").
			file("./w/-- odd", "-- y\n").symlink("./w/link", "new")
		h := fileHeader("./w/exec", 0o755)
		l.add(h, "#!/bin/sh\n")
	}
	for _, tool := range [][]string{{"git", "apply", "-"}, {"patch", "-p1", "--batch"}} {
		t.Run(tool[0], func(t *testing.T) {
			if _, err := exec.LookPath(tool[0]); err != nil {
				t.Skip(err)
			}
			h := newHost(t)
			before(h)
			l := newLayer().dir("./w/", 0o755)
			after(l)
			text := diff(t, h, l, nil)
			cmd := exec.CommandContext(t.Context(), tool[0], tool[1:]...)
			cmd.Dir = h.name("/w")
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+h.root)
			cmd.Stdin = strings.NewReader(text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s\n%s", tool, err, out, text)
			}
			want := map[string]string{
				"changed": "b\n" + long + "y\nz", "sp ace": "y\n", "nolf": "x\n", "emptied": "", "filled": "x",
				"exec": "#!/bin/sh\n", "new/f\tü": "-- \n+++ x\n", "new/empty": "", "-- odd": "-- y\n", "link": "-> new",
			}
			if diff := cmp.Diff(want, contents(t, h.name("/w"))); diff != "" {
				t.Errorf("after %s (-want +got):\n%s\n%s", tool[0], diff, text)
			}
			if info, err := os.Stat(h.name("/w/exec")); err != nil || info.Mode().Perm()&0o100 == 0 {
				t.Errorf("exec: %v, %v, want it executable", info.Mode(), err)
			}
		})
	}
}

// contents gives every file below dir, and where each link leads.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			found[rel] = "-> " + target
			return err
		}
		data, err := os.ReadFile(name)
		found[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
