//go:build unix

package unpack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/unpack"
)

// contents reads a tar: its names, in order, with their kinds and links.
func contents(t *testing.T, data []byte) (list []string, notes map[string]string) {
	t.Helper()
	notes = map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			slices.Sort(list)
			return list, notes
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			maps.Copy(notes, h.PAXRecords)
			continue
		}
		list = append(list, string(h.Typeflag)+" "+h.Name+" "+h.Linkname)
	}
}

func TestWhatAPathIsCalled(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(os.MkdirAll(root+"/dir/sub", 0o755), os.WriteFile(root+"/dir/f", nil, 0o644),
		os.Symlink("dir", root+"/link"), os.Symlink("none", root+"/dangling"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path string
		opts unpack.PackOptions
		want string
		err  error
	}{
		"a folder":                {"/dir", unpack.PackOptions{}, "0 dir/f ,5 dir/ ,5 dir/sub/ ", nil},
		"a folder with a slash":   {"/dir//", unpack.PackOptions{}, "0 dir/f ,5 dir/ ,5 dir/sub/ ", nil},
		"what is in a folder":     {"/dir/.", unpack.PackOptions{}, "0 ./f ,5 ./ ,5 ./sub/ ", nil},
		"a folder by its parent":  {"/dir/sub/..", unpack.PackOptions{}, "0 ./f ,5 ./ ,5 ./sub/ ", nil},
		"a folder renamed":        {"/dir", unpack.PackOptions{Name: "x"}, "0 x/f ,5 x/ ,5 x/sub/ ", nil},
		"what is in it, renamed":  {"/dir/.", unpack.PackOptions{Name: "x"}, "0 x/f ,5 x/ ,5 x/sub/ ", nil},
		"a file":                  {"/dir/f", unpack.PackOptions{}, "0 f ", nil},
		"a link":                  {"/link", unpack.PackOptions{}, "2 link dir", nil},
		"a link that is followed": {"/link", unpack.PackOptions{Follow: true}, "0 link/f ,5 link/ ,5 link/sub/ ", nil},
		"what is behind a link":   {"/link/.", unpack.PackOptions{}, "0 ./f ,5 ./ ,5 ./sub/ ", nil},
		"a link to nothing":       {"/dangling", unpack.PackOptions{}, "2 dangling none", nil},
		"what is not there":       {"/none", unpack.PackOptions{}, "", os.ErrNotExist},
		"nothing behind a link":   {"/dangling", unpack.PackOptions{Follow: true}, "", os.ErrNotExist},
		"a file as a folder":      {"/dir/f/.", unpack.PackOptions{}, "", errAny},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			_, err := unpack.Pack(t.Context(), &out, root+test.path, &test.opts)
			if test.err != nil {
				if err == nil || !errors.Is(test.err, errAny) && !errors.Is(err, test.err) {
					t.Errorf("err = %v, want %v", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if list, _ := contents(t, out.Bytes()); strings.Join(list, ",") != test.want {
				t.Errorf("there is %q, want %q", list, test.want)
			}
		})
	}
}

// A changing writer changes a file when it has seen the file's name go by.
type changing struct {
	bytes.Buffer
	name   string
	change func()
}

func (c *changing) Write(p []byte) (int, error) {
	if c.change != nil && bytes.Contains(p, []byte(c.name)) {
		c.change()
		c.change = nil
	}
	return c.Buffer.Write(p)
}

func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	const size = 3 << 20
	for name, change := range map[string]func(path string) error{
		"gets shorter": func(path string) error { return os.Truncate(path, size/2+1) },
		"gets empty":   func(path string) error { return os.Truncate(path, 0) },
		"grows": func(path string) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, 1000))
			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, "changing")
			err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o644), os.WriteFile(filepath.Join(root, "other"), []byte("whole"), 0o644))
			if err != nil {
				t.Fatal(err)
			}
			out := &changing{name: "changing", change: func() {
				if err := change(path); err != nil {
					t.Error(err)
				}
			}}
			res, err := unpack.Pack(t.Context(), out, root+"/.", &unpack.PackOptions{Notes: "N."})
			if err != nil || len(res.Skipped) != 1 || !strings.HasPrefix(res.Skipped[0], "./changing: ") {
				t.Fatalf("Pack: %+v, %v", res, err)
			}
			if list, notes := contents(t, out.Bytes()); len(list) != 3 || !strings.Contains(notes["N.skipped"], "./changing: ") {
				t.Errorf("there is %q, with %q", list, notes)
			}
			to := t.TempDir()
			if _, err := unpack.Into(t.Context(), to, &out.Buffer, nil); err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(filepath.Join(to, "changing"))
			if err != nil || st.Size() != size {
				t.Errorf("it is %v, %v", st, err)
			}
			if data, err := os.ReadFile(filepath.Join(to, "other")); err != nil || string(data) != "whole" {
				t.Errorf("the other is %q, %v", data, err)
			}
		})
	}
}

func TestATarSaysWhyItIsNotComplete(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	_, err := unpack.Pack(ctx, &out, root, &unpack.PackOptions{Notes: "N.", Progress: func(res unpack.Result) {
		if res.Entries == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want %v", err, context.Canceled)
	}
	if _, notes := contents(t, out.Bytes()); notes["N.error"] == "" {
		t.Errorf("notes: %q", notes)
	}
	if _, err := unpack.Into(t.Context(), t.TempDir(), &out, nil); !errors.Is(err, unpack.ErrFormat) {
		t.Errorf("Into: err = %v, want %v", err, unpack.ErrFormat)
	}
}

func TestHardLinksAreOneFile(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(os.MkdirAll(root+"/from/sub", 0o755), os.WriteFile(root+"/from/a", []byte("x"), 0o644),
		os.Link(root+"/from/a", root+"/from/b"), os.Link(root+"/from/a", root+"/from/sub/c"), os.Link(root+"/from/a", root+"/outside"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := unpack.Pack(t.Context(), &out, root+"/from", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack.Into(t.Context(), root, &out, &unpack.Options{Top: "to"}); err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(root + "/to/a")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "sub/c"} {
		if st, err := os.Stat(root + "/to/" + name); err != nil || !os.SameFile(st, first) {
			t.Errorf("%s is another file (%v)", name, err)
		}
	}
}
