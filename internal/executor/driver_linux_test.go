package executor_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/guest"
	"airlock/internal/sandbox"
)

// driver makes boxes: the real guest agent in this process, without any isolation, over
// an upper layer that the test made up.
type driver struct {
	t     *testing.T
	upper []byte // the tar

	starting func(ctx context.Context) error // before a box is made; may be nil
	upperErr error                           // at the end of reading the upper layer
	boxes    []*box
}

func (d *driver) Name() string                            { return "fake" }
func (d *driver) Sweep(context.Context) ([]string, error) { return nil, nil }
func (d *driver) Check(context.Context) []sandbox.Finding { return nil }
func (d *driver) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Sandbox, error) {
	if d.starting != nil {
		if err := d.starting(ctx); err != nil {
			return nil, err
		}
	}
	g, err := guest.New(nil)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	b := &box{driver: d, id: sandbox.NewID(), spec: *spec, client: agent.NewClient(near, nil), conn: far, done: make(chan struct{})}
	b.serving.Go(func() { _ = g.Serve(context.Background(), far) })
	b.guest = g
	d.boxes = append(d.boxes, b)
	return b, nil
}

type box struct {
	driver  *driver
	id      string
	spec    sandbox.Spec
	client  *agent.Client
	guest   *guest.Agent
	conn    io.Closer
	serving sync.WaitGroup

	endOnce   sync.Once
	done      chan struct{}
	endErr    error
	closed    atomic.Bool
	readUpper bool
}

// end ends the box by itself.
func (b *box) end(err error) {
	b.endOnce.Do(func() {
		b.endErr = err
		close(b.done) // first: the reason of an end does not lag for as long as an end may take here
		b.conn.Close()
		b.guest.Close()
	})
}

func (b *box) ID() string            { return b.id }
func (b *box) Client() *agent.Client { return b.client }
func (b *box) Identity() string      { return "" }
func (b *box) Started() time.Time    { return time.Now() }
func (b *box) Notes() []string       { return []string{"a note"} }
func (b *box) Done() <-chan struct{} { return b.done }
func (b *box) Err() error            { <-b.done; return b.endErr }
func (b *box) Upper(_ context.Context, w io.Writer) error {
	b.readUpper = true
	if _, err := w.Write(b.driver.upper); err != nil {
		return err
	}
	return b.driver.upperErr
}

func (b *box) Close() error {
	b.closed.Store(true)
	b.end(nil)
	b.client.Close()
	b.serving.Wait()
	return nil
}

// upper is an upper layer in which path was made.
func upper(t *testing.T, path string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	write := func(h tar.Header, content string) {
		h.Uid, h.Gid, h.Size = os.Getuid(), os.Getgid(), int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	write(tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, "")
	var dirs func(dir string)
	dirs = func(dir string) {
		if dir != "/" {
			dirs(filepath.Dir(dir))
			write(tar.Header{Typeflag: tar.TypeDir, Name: "." + dir + "/", Mode: 0o755}, "")
		}
	}
	dirs(filepath.Dir(path))
	write(tar.Header{Typeflag: tar.TypeReg, Name: "." + path, Mode: 0o644}, "new\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// world is a Runner with its driver and store.
type world struct {
	driver *driver
	store  *changes.Store
	runner *executor.Runner
	work   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "w")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := changes.OpenStore(filepath.Join(dir, "changes"))
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, upper: upper(t, filepath.Join(work, "made"))}
	t.Cleanup(func() {
		for _, b := range d.boxes {
			if !b.closed.Load() {
				t.Errorf("sandbox %s was not closed", b.id)
			}
		}
	})
	return &world{d, store, &executor.Runner{
		Driver: d, Store: func() (*changes.Store, error) { return store, nil }, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}, work}
}

// request runs a shell line.
func (w *world) request(line string) *executor.Request {
	return &executor.Request{Argv: []string{"sh", "-c", line}, WorkDir: w.work, Env: map[string]string{"PATH": os.Getenv("PATH")}}
}

// kept are how many sets the store has.
func (w *world) kept(t *testing.T) int {
	t.Helper()
	list, err := w.store.List()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

var errTorn = errors.New("torn")
