package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/logs"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	remotes "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"airlock/internal/image"
)

// A hub is a real registry on the loopback, whose wire can be cut.
type hub struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string       // METHOD PATH RANGE
	sent     map[string]int // bytes of bodies, by path
	before   func(w http.ResponseWriter, r *http.Request) bool
}

// newHub starts one. before, if it is not nil, may answer instead.
func newHub(t *testing.T, before func(w http.ResponseWriter, r *http.Request) bool) *hub {
	t.Helper()
	h := &hub{sent: map[string]int{}, before: before}
	inner := registry.New(registry.Logger(logs.Debug))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
		before := h.before
		h.mu.Unlock()
		w = &counting{w, h, r.URL.Path}
		if before != nil && before(w, r) {
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) answer(before func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.requests, h.sent = before, nil, map[string]int{}
}

// asked counts requests that contain part.
func (h *hub) asked(part string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, r := range h.requests {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

func (h *hub) bytes(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent[path]
}

type counting struct {
	http.ResponseWriter
	h    *hub
	path string
}

func (c *counting) Write(p []byte) (int, error) {
	c.h.mu.Lock()
	c.h.sent[c.path] += len(p) // before it is: who got it must find it counted
	c.h.mu.Unlock()
	return c.ResponseWriter.Write(p)
}

func (h *hub) ref(name string) string { return strings.TrimPrefix(h.URL, "http://") + "/" + name }

func (h *hub) push(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	to, err := name.ParseReference(h.ref(ref))
	if err != nil {
		t.Fatal(err)
	}
	if err := remotes.Write(to, img); err != nil {
		t.Fatal(err)
	}
}

func (h *hub) pushIndex(t *testing.T, ref string, index v1.ImageIndex) {
	t.Helper()
	to, err := name.ParseReference(h.ref(ref))
	if err != nil {
		t.Fatal(err)
	}
	if err := remotes.WriteIndex(to, index); err != nil {
		t.Fatal(err)
	}
}

// An item is an entry of a layer's tar.
type item struct {
	name, body, link string
	kind             byte // 0: a file, or a folder if the name ends in /
	mode             int64
	uid              int
	pax              map[string]string
}

func file(name, body string) item { return item{name: name, body: body} }

func tarOf(t testing.TB, items ...item) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, it := range items {
		h := &tar.Header{
			Name: it.name, Linkname: it.link, Typeflag: it.kind, Mode: it.mode, Size: int64(len(it.body)),
			Uid: it.uid, Gid: it.uid, ModTime: time.Unix(1_500_000_000, 0), PAXRecords: it.pax, Format: tar.FormatPAX,
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(it.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		} else if h.Mode < 0 {
			h.Mode = 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, it.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func layerOf(t testing.TB, items ...item) v1.Layer { return layerOfTar(t, tarOf(t, items...)) }

func layerOfTar(t testing.TB, data []byte, opts ...tarball.LayerOption) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// imageOf is an image for this machine.
func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	return imageFor(t, runtime.GOARCH, v1.Config{}, layers...)
}

func imageFor(t testing.TB, arch string, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: time.Unix(1_600_000_000, 0)}, Config: config,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, layers...); err != nil {
		t.Fatal(err)
	}
	return img
}

func newStore(t testing.TB, opts *image.Options) *image.Store {
	t.Helper()
	return storeAt(t, filepath.Join(fastDir(t), "images"), opts)
}

// fastDir is a folder in memory where there is such, so that tests need not wait for the disk.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "airlock-image-") //nolint:usetesting // the test's own folder is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func storeAt(t testing.TB, dir string, opts *image.Options) *image.Store {
	t.Helper()
	if opts == nil {
		opts = &image.Options{}
	}
	if opts.Backoff == 0 {
		opts.Backoff = time.Millisecond
	}
	s, err := image.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pull(t testing.TB, s *image.Store, ref string, opts *image.PullOptions) *image.Image {
	t.Helper()
	img, err := s.Pull(t.Context(), ref, opts)
	if err != nil {
		t.Fatalf("Pull(%q): %v", ref, err)
	}
	return img
}

// tree lists a root file system: "NAME" with "/" behind folders, "=CONTENT" of files, "->TEXT" of links. The folders
// that every root has are left out when they are empty.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			if inside, _ := os.ReadDir(path); len(inside) == 0 && slices.Contains([]string{"dev", "proc", "sys", "tmp"}, rel) {
				return nil
			}
			rel += "/"
		case d.Type()&fs.ModeSymlink != 0:
			text, _ := os.Readlink(path)
			rel += "->" + text
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel += "=" + string(data)
		default:
			rel += "?" + d.Type().String()
		}
		out = append(out, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantTree(t testing.TB, dir string, want ...string) {
	t.Helper()
	got := tree(t, dir)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the root has\n\t%q, want\n\t%q", got, want)
	}
}

func wantError(t testing.TB, err, want error, parts ...string) {
	t.Helper()
	if want != nil && !errors.Is(err, want) {
		t.Fatalf("err = %v, want %v", err, want)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Fatalf("err = %v, want it to say %q", err, part)
		}
	}
}

// leftovers are files that a store in which nothing happens should not have.
func leftovers(t testing.TB, s *image.Store, but ...string) {
	t.Helper()
	for _, folder := range []string{"temp", "partial", "trash"} {
		if slices.Contains(but, folder) {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(s.Dir(), folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			t.Errorf("left behind: %s", filepath.Join(folder, e.Name()))
		}
	}
}

func digestOf(t testing.TB, of interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	h, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// noise is n bytes that do not pack well, the same for each seed.
func noise(n int, seed uint64) string {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return string(b)
}

func blobPath(repo string, h v1.Hash) string { return fmt.Sprintf("/v2/%s/blobs/%s", repo, h) }

const machineArch = runtime.GOARCH

func sizeOf(t testing.TB, l v1.Layer) int64 {
	t.Helper()
	n, err := l.Size()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
