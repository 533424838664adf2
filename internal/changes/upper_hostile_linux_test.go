package changes_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/changes"
)

func TestReadRefusesWhatIsNoUpperLayer(t *testing.T) {
	odd := func(flag byte, name, link string) func(*layer) {
		return func(l *layer) { l.add(tar.Header{Typeflag: flag, Name: name, Linkname: link, Mode: 0o644}, "") }
	}
	whole := func(l *layer, t *testing.T) []byte { return l.bytes(t) }
	for _, tt := range []struct {
		name  string
		layer func(l *layer)
		cut   func(data []byte) []byte
	}{
		{"a name upwards", odd(tar.TypeReg, "./../../etc/passwd", ""), nil},
		{"a name upwards in the middle", odd(tar.TypeReg, "./a/../b", ""), nil},
		{"an absolute name", odd(tar.TypeReg, "/etc/passwd", ""), nil},
		{"a name without its beginning", odd(tar.TypeReg, "etc", ""), nil},
		{"no name", odd(tar.TypeReg, "", ""), nil},
		{"a dot", odd(tar.TypeReg, "./.", ""), nil},
		{"the root as a file", odd(tar.TypeReg, ".", ""), nil},
		{"two slashes", odd(tar.TypeReg, ".//a", ""), nil},
		{"a folder without its slash", odd(tar.TypeDir, "./a", ""), nil},
		{"a component longer than any", odd(tar.TypeReg, "./"+strings.Repeat("a", 256), ""), nil},
		{"a path of half a megabyte", odd(tar.TypeReg, "./"+strings.Repeat("a/", 1<<18)+"a", ""), nil},
		{"a file twice", func(l *layer) { l.file("./a", "x").file("./a", "y") }, nil},
		{"a folder twice", func(l *layer) { l.opaque("./a/", 0o755).dir("./a/", 0o755) }, nil},
		{"the root twice", func(l *layer) { l.dir("./", 0o755) }, nil},
		{"a file below a file", func(l *layer) { l.file("./a", "x").file("./a/b", "y") }, nil},
		{"a file below a link", func(l *layer) { l.symlink("./a", "/etc").file("./a/passwd", "y") }, nil},
		{"a file below a deletion", func(l *layer) { l.gone("./a").file("./a/b", "y") }, nil},
		{"a file without its folder", func(l *layer) { l.file("./a/b", "y") }, nil},
		{"a file that becomes a link", func(l *layer) { l.dir("./a/", 0o755).symlink("./a", "/etc") }, nil},
		{"a hard link to nothing", odd(tar.TypeLink, "./a", "./b"), nil},
		{"a hard link to itself", odd(tar.TypeLink, "./a", "./a"), nil},
		{"a hard link outside", odd(tar.TypeLink, "./a", "/etc/passwd"), nil},
		{"a hard link upwards", odd(tar.TypeLink, "./a", "./../etc/passwd"), nil},
		{"a hard link to a folder", func(l *layer) { l.dir("./d/", 0o755).link("./a", "./d") }, nil},
		{"a hard link to the root", odd(tar.TypeLink, "./a", "."), nil},
		{"a hard link to what comes later", func(l *layer) { l.link("./a", "./b").file("./b", "x") }, nil},
		{"a link to nowhere", odd(tar.TypeSymlink, "./a", ""), nil},
		{"a link that is too long", odd(tar.TypeSymlink, "./a", strings.Repeat("x", 4097)), nil},
		{"a type that nobody writes", odd(tar.TypeCont, "./a", ""), nil},
		{"a replaced root", func(l *layer) {
			l.buf.Reset()
			l.tar = tar.NewWriter(&l.buf)
			l.opaque("./", 0o755)
		}, nil},
		{"no root", func(l *layer) {
			l.buf.Reset()
			l.tar = tar.NewWriter(&l.buf)
		}, nil},
		{"nothing at all", func(*layer) {}, func([]byte) []byte { return nil }},
		{
			"an end in the middle of a content", func(l *layer) { l.file("./a", strings.Repeat("x", 5000)) },
			func(d []byte) []byte { return d[:3000] },
		},
		{
			"an end between two entries", func(l *layer) { l.file("./a", strings.Repeat("x", 512)).file("./b", "x") },
			func(d []byte) []byte { return d[:512*3] },
		},
		{
			"an end in the middle of a header", func(l *layer) { l.file("./a", "") },
			func(d []byte) []byte { return d[:700] },
		},
		{
			"something after the end", func(l *layer) { l.file("./a", "x") },
			func(d []byte) []byte { return append(d, "more"...) },
		},
		{
			"a second archive after the end", func(l *layer) { l.file("./a", "x") },
			func(d []byte) []byte { return append(d, d...) },
		},
		{
			"a broken checksum", func(l *layer) { l.file("./a", "x") },
			func(d []byte) []byte { d[512+3]++; return d },
		},
		{"a negative size", func(l *layer) { l.file("./a", "x") }, func(d []byte) []byte {
			copy(d[512+124:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf0")
			return checksum(d, 512)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLayer()
			tt.layer(l)
			data := whole(l, t)
			if tt.cut != nil {
				data = tt.cut(data)
			}
			_, set, err := newHost(t).read(data, nil)
			if !errors.Is(err, changes.ErrMalformed) {
				t.Errorf("Read = %v, %v, want ErrMalformed", set, err)
			}
		})
	}
}

// checksum mends the checksum of the header at off.
func checksum(d []byte, off int) []byte {
	copy(d[off+148:], "        ")
	sum := 0
	for _, b := range d[off : off+512] {
		sum += int(b)
	}
	copy(d[off+148:], fmt.Sprintf("%06o\x00 ", sum))
	return d
}

func TestReadKeepsToItsLimits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		host  func(h *host)
		layer func(l *layer)
		opts  *changes.ReadOptions
	}{
		{
			"content", func(*host) {},
			func(l *layer) { l.file("./a", "12345").file("./b", "12345") }, &changes.ReadOptions{MaxBytes: 9},
		},
		{
			"entries", func(*host) {},
			func(l *layer) { l.file("./a", "").file("./b", "").file("./c", "") }, &changes.ReadOptions{MaxEntries: 3},
		},
		{
			"deletions", func(h *host) {
				for i := range 20 {
					h.file(fmt.Sprintf("/d/%d", i), "")
				}
			},
			func(l *layer) { l.gone("./d") }, &changes.ReadOptions{MaxEntries: 10},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			tt.host(h)
			l := newLayer()
			tt.layer(l)
			if _, set, err := h.read(l.bytes(t), tt.opts); !errors.Is(err, changes.ErrTooLarge) {
				t.Errorf("Read = %v, %v, want ErrTooLarge", set, err)
			}
		})
	}
}

// TestReadAHugeSizeThatIsNotThere gives a header that promises more than any disk has.
func TestReadAHugeSizeThatIsNotThere(t *testing.T) {
	l := newLayer()
	if err := l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./a", Size: math.MaxInt64, Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	_, _, err := newHost(t).read(l.buf.Bytes(), nil)
	if !errors.Is(err, changes.ErrTooLarge) {
		t.Errorf("Read: err = %v, want ErrTooLarge", err)
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	s := newStore(t)
	w, err := s.Create(changes.Header{ID: testID})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = changes.Read(ctx, bytes.NewReader(newLayer().bytes(t)), w, &changes.ReadOptions{HostRoot: t.TempDir()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Read: err = %v, want context.Canceled", err)
	}
	if _, err := w.Finish(); !errors.Is(err, context.Canceled) {
		t.Errorf("Finish: err = %v, want context.Canceled", err)
	}
}

// TestASparseFileCostsNothing streams half a GiB of zeros with an island.
func TestASparseFileCostsNothing(t *testing.T) {
	const size = 512 << 20
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		out := tar.NewWriter(pw)
		err := errors.Join(
			out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}),
			out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./sparse", Size: size, Mode: 0o644}),
		)
		zeros := make([]byte, 1<<20)
		for i := 0; i < size && err == nil; i += len(zeros) {
			zeros[0] = 0
			if i == 100<<20 {
				zeros[0] = 1
			}
			_, err = out.Write(zeros)
		}
		err = errors.Join(err, out.Close())
		pw.CloseWithError(err)
		written <- err
	}()
	h, s := newHost(t), newStore(t)
	w, err := s.Create(changes.Header{ID: testID})
	if err != nil {
		t.Fatal(err)
	}
	if err := changes.Read(t.Context(), pr, w, &changes.ReadOptions{HostRoot: h.root}); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	set, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	c := set.Changes[len(set.Changes)-1]
	if err := syscall.Stat(filepath.Join(s.Dir(testID), "blobs", c.Blob), &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != size || st.Blocks*512 > 1<<20 {
		t.Errorf("the content has %d bytes in %d on the disk, want %d in next to none", st.Size, st.Blocks*512, size)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(newLayer().bytes(f))
	f.Add(newLayer().dir("./w/", 0o755).file("./w/a", "new").gone("./w/b").link("./w/c", "./w/a").symlink("./w/l", "../..").bytes(f))
	f.Add(newLayer().opaque("./w/", 0o755).file("./w/\xff", strings.Repeat("x", 600)).link("./w/a", "./w/\xff").bytes(f))
	f.Add(newLayer().file("./w", "was a folder").bytes(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := os.Stat("/dev/shm"); err == nil {
			t.Setenv("TMPDIR", "/dev/shm") // a disk's syncs leave three tries a second
		}
		h := newHost(t)
		h.file("/w/a", "old")
		h.file("/w/b", "old")
		h.symlink("/w/l", "/etc")
		_, set, err := h.read(data, &changes.ReadOptions{
			MaxBytes: 1 << 20, MaxEntries: 100, Hidden: []string{"/w/hidden"}, Started: time.Now(),
		})
		if err != nil {
			return
		}
		for i, c := range set.Changes {
			if !c.Path.Valid() || i > 0 && set.Changes[i-1].Path >= c.Path {
				t.Errorf("change %d: %q is no path in its order", i, c.Path)
			}
			if c.Path.Below("/w/hidden") && c.Refused == "" {
				t.Errorf("%q is hidden and not refused", c.Path)
			}
		}
		for _, name := range []string{"a", "b"} {
			if got, err := os.ReadFile(h.name("/w/" + name)); string(got) != "old" {
				t.Errorf("the host's %s is %q now: %v", name, got, err)
			}
		}
		if err := changes.List(io.Discard, set, &changes.ListOptions{All: true}); err != nil {
			t.Error(err)
		}
	})
}
