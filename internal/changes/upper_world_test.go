package changes_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/changes"
)

// A layer builds an upper layer's tar in the form that runsc writes.
type layer struct {
	buf bytes.Buffer
	tar *tar.Writer
	err error
}

func newLayer() *layer {
	l := &layer{}
	l.tar = tar.NewWriter(&l.buf)
	return l.dir("./", 0o755)
}

func (l *layer) add(h tar.Header, content string) *layer {
	if h.ModTime.IsZero() {
		h.ModTime = time.Unix(1_600_000_000, 0)
	}
	h.Size = int64(len(content))
	if err := l.tar.WriteHeader(&h); err != nil && l.err == nil {
		l.err = err
	}
	if content != "" {
		if _, err := io.WriteString(l.tar, content); err != nil && l.err == nil {
			l.err = err
		}
	}
	return l
}

func (l *layer) dir(name string, mode int64) *layer {
	return l.add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: os.Getuid(), Gid: os.Getgid()}, "")
}

func (l *layer) opaque(name string, mode int64) *layer {
	return l.add(tar.Header{
		Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: os.Getuid(), Gid: os.Getgid(),
		PAXRecords: map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"},
	}, "")
}

func (l *layer) file(name, content string) *layer {
	return l.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Uid: os.Getuid(), Gid: os.Getgid()}, content)
}

func (l *layer) symlink(name, target string) *layer {
	return l.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, Uid: os.Getuid(), Gid: os.Getgid()}, "")
}

func (l *layer) link(name, target string) *layer {
	return l.add(tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, "")
}

func (l *layer) gone(name string) *layer {
	return l.add(tar.Header{Typeflag: tar.TypeChar, Name: name}, "")
}

func (l *layer) bytes(t testing.TB) []byte {
	t.Helper()
	if l.err != nil {
		t.Fatal(l.err)
	}
	if err := l.tar.Close(); err != nil {
		t.Fatal(err)
	}
	return l.buf.Bytes()
}

// A host is a folder that stands for the host's root.
type host struct {
	t    testing.TB
	root string
}

func newHost(t testing.TB) *host {
	root := filepath.Join(t.TempDir(), "root")
	h := &host{t: t, root: root}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) name(p string) string { return filepath.Join(h.root, filepath.FromSlash(p)) }

func (h *host) dir(p string) {
	h.t.Helper()
	if err := os.MkdirAll(h.name(p), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) file(p, content string) {
	h.t.Helper()
	h.dir(filepath.Dir(p))
	if err := os.WriteFile(h.name(p), []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
	when := time.Unix(1_600_000_000, 0)
	if err := os.Chtimes(h.name(p), when, when); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) symlink(p, target string) {
	h.t.Helper()
	h.dir(filepath.Dir(p))
	if err := os.Symlink(target, h.name(p)); err != nil {
		h.t.Fatal(err)
	}
}

// read reads a layer laid over the host, and gives the stored set as a second process
// would load it.
func (h *host) read(data []byte, opts *changes.ReadOptions) (*changes.Store, *changes.Set, error) {
	h.t.Helper()
	s, err := changes.OpenStore(filepath.Join(h.t.TempDir(), "sets"))
	if err != nil {
		h.t.Fatal(err)
	}
	w, err := s.Create(changes.Header{ID: testID, WorkDir: "/w", Created: time.Unix(1, 0).UTC()})
	if err != nil {
		h.t.Fatal(err)
	}
	o := changes.ReadOptions{}
	if opts != nil {
		o = *opts
	}
	o.HostRoot = h.root
	readErr := changes.Read(h.t.Context(), bytes.NewReader(data), w, &o)
	set, err := w.Finish()
	if (readErr != nil) != (err != nil) {
		h.t.Errorf("Read: %v, and yet Finish: %v", readErr, err)
	}
	if readErr != nil {
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Dir(testID)), "*"))
		for _, name := range left {
			if filepath.Base(name) != "lock" {
				h.t.Errorf("after an error the store holds %v", left)
			}
		}
		return s, nil, readErr
	}
	if err == nil && set.State == changes.Kept {
		set, err = s.Load(testID)
	}
	return s, set, err
}

// show gives a line a change: kind, path and what matters besides.
func show(set *changes.Set) string {
	var b strings.Builder
	for _, c := range set.Changes {
		fmt.Fprintf(&b, "%s %q", c.Kind, string(c.Path))
		if c.Old != nil {
			fmt.Fprintf(&b, " old:%s", c.Old.Type)
		}
		if c.New != nil {
			fmt.Fprintf(&b, " new:%s", c.New.Type)
		}
		if c.New != nil && c.New.Type == changes.Symlink {
			fmt.Fprintf(&b, " to:%q", string(c.New.Target))
		}
		if c.HardLink != "" {
			fmt.Fprintf(&b, " link:%s", c.HardLink)
		}
		if c.Refused != "" {
			fmt.Fprintf(&b, " refused:%q", c.Refused)
		}
		if c.Conflict != "" {
			fmt.Fprintf(&b, " conflict:%q", c.Conflict)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func lines(list ...string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\n") + "\n"
}

func fileHeader(name string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Uid: os.Getuid(), Gid: os.Getgid()}
}

// sortedLines is a copy of list in order.
func sortedLines(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
