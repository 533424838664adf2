//go:build unix

package unpack_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/unpack"
)

// lower is what lies there before a layer comes.
var lower = []entry{
	dir("a"), file("a/one", "1"), file("a/two", "2"), dir("a/sub"), file("a/sub/in", "3"), file("b", "4"),
	symlink("up", ".."), symlink("lib", "usr/lib"), dir("usr"), dir("usr/lib"), symlink("abs", "/usr/lib"),
	symlink("loop", "loop"), symlink("out", "../../../.."), symlink("usr/twice", "../lib/./"),
}

func layered(t *testing.T, opts *unpack.Options, entries ...entry) (root string, err error) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "x/root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, lower...)), nil); err != nil {
		t.Fatal(err)
	}
	_, err = unpack.Into(t.Context(), root, bytes.NewReader(archive(t, entries...)), opts)
	return root, err
}

func TestALayerRemovesWhatLayBelow(t *testing.T) {
	for name, test := range map[string]struct {
		entries []entry
		gone    []string
		there   []string
		err     error
	}{
		"a file":                       {[]entry{file("a/.wh.one", "")}, []string{"a/one", "a/.wh.one"}, []string{"a/two"}, nil},
		"a folder with all in it":      {[]entry{file(".wh.a", "")}, []string{"a"}, []string{"b"}, nil},
		"what is not there":            {[]entry{file("no/such/.wh.file", "")}, []string{"no"}, []string{"a/one"}, nil},
		"below what is no folder":      {[]entry{file("b/.wh.file", "")}, nil, []string{"b"}, nil},
		"all in a folder":              {[]entry{file("a/.wh..wh..opq", "")}, []string{"a/one", "a/sub", "a/.wh..wh..opq"}, []string{"a"}, nil},
		"all but its own, made before": {[]entry{dir("a"), file("a/new", ""), file("a/sub/deep", ""), file("a/.wh..wh..opq", "")}, []string{"a/one", "a/sub/in"}, []string{"a/new", "a/sub/deep"}, nil},
		"all but its own, made after":  {[]entry{file("a/.wh..wh..opq", ""), file("a/new", "")}, []string{"a/one", "a/sub"}, []string{"a/new"}, nil},
		"a folder that it makes anew":  {[]entry{dir("a"), file("a/new", ""), file(".wh.a", "")}, []string{"a/one", "a/sub"}, []string{"a/new"}, nil},
		"not a file of its own":        {[]entry{file("b", "new"), file(".wh.b", "")}, nil, []string{"b"}, nil},
		"a link and not its target":    {[]entry{file(".wh.lib", "")}, []string{"lib"}, []string{"usr/lib"}, nil},
		"no name":                      {[]entry{file("a/.wh.", "")}, nil, []string{"a/one"}, unpack.ErrName},
		"not what it lies in":          {[]entry{file("a/.wh..", "")}, nil, []string{"a/one"}, unpack.ErrName},
		"not what that lies in":        {[]entry{file("a/.wh...", "")}, nil, []string{"a/one"}, unpack.ErrName},
		"nothing through a link":       {[]entry{file("lib/.wh.x", "")}, nil, []string{"lib"}, unpack.ErrLink},
		"not what others noted":        {[]entry{file(".wh..wh.plnk/1.2", ""), dir(".wh..wh.orph")}, []string{".wh..wh.plnk", ".wh..wh.orph"}, []string{"a/one"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := layered(t, &unpack.Options{Whiteouts: true, Replace: unpack.ReplaceAll}, test.entries...)
			if !errors.Is(err, test.err) {
				t.Fatalf("err = %v, want %v", err, test.err)
			}
			for _, path := range test.gone {
				if _, err := os.Lstat(filepath.Join(root, path)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is there (%v)", path, err)
				}
			}
			for _, path := range test.there {
				if _, err := os.Lstat(filepath.Join(root, path)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestLinksAreTakenAsIfTheFolderWereAll(t *testing.T) {
	for name, test := range map[string]struct {
		name string
		want string // where it is
		err  error
	}{
		"a relative one":           {"lib/x", "usr/lib/x", nil},
		"an absolute one":          {"abs/x", "usr/lib/x", nil},
		"one that leads up":        {"up/x", "x", nil},
		"one that leads out":       {"out/x", "x", nil},
		"one that leads to a link": {"usr/twice/x", "usr/lib/x", nil},
		"folders behind one":       {"lib/new/folder/x", "usr/lib/new/folder/x", nil},
		"one without an end":       {"loop/x", "", unpack.ErrLink},
		"the last part is none":    {"lib", "lib", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := layered(t, &unpack.Options{Follow: true}, file(test.name, "new"))
			if !errors.Is(err, test.err) {
				t.Fatalf("err = %v, want %v", err, test.err)
			}
			if test.err != nil {
				return
			}
			st, err := os.Lstat(filepath.Join(root, test.want))
			if err != nil || !st.Mode().IsRegular() {
				t.Errorf("%s is %v, %v", test.want, st, err)
			}
			if got, err := os.ReadDir(filepath.Dir(root)); err != nil || len(got) != 1 {
				t.Errorf("outside there is %v, %v", got, err)
			}
		})
	}
	root, err := layered(t, &unpack.Options{Follow: true}, file("lib/x", "new"), hardlink("abs/y", "lib/x"), dir("lib/sub"), file("usr/lib/sub/z", ""))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(root, "usr/lib/y")); err != nil || string(data) != "new" {
		t.Errorf("the hard link is %q, %v", data, err)
	}
}

func TestWhatIsKeptAndWhatIsNot(t *testing.T) {
	suid := file("suid", "x")
	suid.Mode = 0o6755
	owned := file("owned", "x")
	owned.Uid, owned.Gid = 12345, 54321
	owned.Mode = 0o4711
	pipe := entry{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o622, ModTime: when}, ""}
	device := entry{tar.Header{Typeflag: tar.TypeBlock, Name: "disk", Mode: 0o660, Devmajor: 8}, ""}
	all := []entry{dir("d"), suid, owned, pipe, device}
	root := t.TempDir()
	look := func(name string) string {
		st, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			return "absent"
		}
		sys := st.Sys().(*syscall.Stat_t)
		return fmt.Sprintf("%o %d:%d", sys.Mode, sys.Uid, sys.Gid)
	}
	me := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	steps := []struct {
		what string
		opts unpack.Options
		want map[string]string
		root bool
	}{
		{"by default", unpack.Options{SkipDevices: true}, map[string]string{"suid": "100755 " + me, "pipe": "10622 " + me, "disk": "absent", "d": "40755 " + me}, false},
		{"set-id bits", unpack.Options{SkipDevices: true, SetID: true, SkipFIFOs: true}, map[string]string{"suid": "106755 " + me}, false},
		{"owners", unpack.Options{SkipDevices: true, SetID: true, Owners: unpack.OwnersKeep}, map[string]string{"owned": "104711 12345:54321", "suid": "106755 0:0"}, true},
		{"one owner", unpack.Options{SkipDevices: true, Owners: unpack.OwnersOne, UID: 7, GID: 8}, map[string]string{"owned": "100711 7:8", "d": "40755 7:8"}, true},
		{"owners that can be", unpack.Options{SkipDevices: true, SetID: true, Owners: unpack.OwnersTry}, map[string]string{"owned": "104711 "}, false},
	}
	for _, step := range steps {
		if step.root && os.Geteuid() != 0 {
			continue // only root gives files away; everything else is held all the same
		}
		res, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, all...)), &step.opts)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if !slices.Contains(res.Skipped, "disk") || slices.Contains(res.Skipped, "pipe") != step.opts.SkipFIFOs {
			t.Errorf("%s: skipped %q", step.what, res.Skipped)
		}
		for name, want := range step.want {
			if got := look(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %s, want %s", step.what, name, got, want)
			}
		}
	}
}

func TestNamesAreKeptAsTheyAre(t *testing.T) {
	odd := []string{"new\nline", "not \xff\xfe UTF-8", "\x1b[2J", strings.Repeat("n", 255), " ", "...", "-rf", "a\\b"}
	var entries []entry
	for _, name := range odd {
		entries = append(entries, entry{tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, ""})
	}
	root := t.TempDir()
	if _, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, entries...)), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range odd {
		if _, err := os.Lstat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	_, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, file("../\x1b[2J\n", ""))), nil)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("err = %q", err)
	}
}
