package unpack_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"airlock/internal/unpack"
)

var when = time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)

// An entry is one of a tar's, with its content.
type entry struct {
	tar.Header
	body string
}

func file(name, body string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body)), ModTime: when}, body}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: when}, ""}
}

func symlink(name, text string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: text, Mode: 0o777, ModTime: when}, ""}
}

func hardlink(name, old string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: old, Mode: 0o644, ModTime: when}, ""}
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatATarHasIsThere(t *testing.T) {
	root := t.TempDir()
	d := dir("a/b/")
	d.Mode = 0o500
	res, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, dir("a"), d, file("a/b/c", "hello"),
		file("/a/b/d", ""), symlink("a/l", "/etc/passwd"), hardlink("a/h", "a/b/c"))), nil)
	if err != nil || res.Entries != 6 || res.Bytes != 5 {
		t.Fatalf("Into: %+v, %v", res, err)
	}
	data, err := os.ReadFile(filepath.Join(root, "a/h"))
	if err != nil || string(data) != "hello" {
		t.Errorf("a/h is %q, %v", data, err)
	}
	st, err := os.Stat(filepath.Join(root, "a/b"))
	if err != nil || st.Mode().Perm() != 0o500 || !st.ModTime().Equal(when) {
		t.Errorf("a/b: %v, %v", st, err)
	}
	if text, err := os.Readlink(filepath.Join(root, "a/l")); err != nil || text != "/etc/passwd" {
		t.Errorf("a/l is %q, %v", text, err)
	}
	st, err = os.Lstat(filepath.Join(root, "a/l"))
	if err != nil || !st.ModTime().Equal(when) {
		t.Errorf("a/l: %v, %v", st, err)
	}
}

func TestATarThatLeadsOutIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		entries []entry
		want    error
	}{
		"a name with dots":                     {[]entry{file("../out", "x")}, unpack.ErrName},
		"dots inside":                          {[]entry{dir("a"), file("a/../../out", "x")}, unpack.ErrName},
		"through an absolute link":             {[]entry{symlink("l", "OUTSIDE"), file("l/out", "x")}, unpack.ErrLink},
		"through a relative link":              {[]entry{symlink("l", ".."), file("l/out", "x")}, unpack.ErrLink},
		"through two links":                    {[]entry{symlink("a", "."), symlink("b", "a/.."), file("b/out", "x")}, unpack.ErrLink},
		"a hard link to what is outside":       {[]entry{hardlink("h", "../secret")}, unpack.ErrName},
		"a hard link through a link":           {[]entry{symlink("l", ".."), hardlink("h", "l/secret")}, unpack.ErrLink},
		"a folder in the place of a link":      {[]entry{symlink("l", "OUTSIDE"), dir("l"), file("l/out", "x")}, unpack.ErrExists},
		"a device":                             {[]entry{{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}}, unpack.ErrKind},
		"a link in the place of the folder":    {[]entry{symlink("./", "OUTSIDE")}, unpack.ErrName},
		"a file in the place of the folder":    {[]entry{file(".", "x")}, unpack.ErrName},
		"a hard link to the folder":            {[]entry{hardlink("h", "/")}, unpack.ErrName},
		"a hard link to itself":                {[]entry{file("h", "x"), hardlink("h", "./h")}, unpack.ErrName},
		"a file in the place of a full folder": {[]entry{file("a/b", "x"), file("a", "x")}, unpack.ErrExists},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			root := filepath.Join(top, "root")
			if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(top, "secret"), []byte("s"), 0o600)); err != nil {
				t.Fatal(err)
			}
			for i := range test.entries {
				if test.entries[i].Linkname == "OUTSIDE" {
					test.entries[i].Linkname = top
				}
			}
			_, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, test.entries...)), nil)
			var at *unpack.EntryError
			if !errors.Is(err, test.want) || !errors.As(err, &at) {
				t.Errorf("err = %v, want %v of an entry", err, test.want)
			}
			if names, err := os.ReadDir(top); err != nil || len(names) != 2 {
				t.Errorf("outside there is now %v, %v", names, err)
			}
			if st, err := os.Stat(filepath.Join(top, "secret")); err != nil || st.Size() != 1 || st.Mode() != 0o600 {
				t.Errorf("outside the file is now %v, %v", st, err)
			}
		})
	}
}
