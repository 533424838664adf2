package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

// A world is a state folder with all that a Manager works with.
type world struct {
	dir     string
	double  *double
	images  *images
	changes *changes

	mu     sync.Mutex
	rows   []string // of the record: kind and ID
	refuse error    // Record's
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") //nolint:usetesting // a test's own is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	w := openWorld(dir)
	t.Cleanup(func() {
		w.endAll(t)
		w.double.serving.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return w
}

func openWorld(dir string) *world {
	return &world{
		dir: dir, double: &double{dir: dir, inside: map[string]*keeper{}}, images: &images{dir: filepath.Join(dir, "holds")}, changes: &changes{},
	}
}

func (w *world) endAll(t testing.TB) {
	t.Helper()
	ids, err := w.double.Running(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if l, err := w.double.Open(context.Background(), id); err == nil {
			_ = l.End(context.Background())
			_ = l.Release()
		}
	}
}

func (w *world) options() *manager.Options {
	return &manager.Options{
		Dir: filepath.Join(w.dir, "state"), Driver: w.double, Images: w.images, Changes: w.changes,
		Record: func(_ context.Context, kind, id string, _ any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.rows = append(w.rows, kind+" "+id)
			return w.refuse
		},
		View: func(work string, hide, _ []string) (string, []string, error) {
			return work, append([]string{"/secret"}, hide...), nil
		},
		Gate: func(_ context.Context, req *manager.GateRequest) (*manager.Gate, error) {
			g := &manager.Gate{Argv: []string{"true"}, Input: req.Input, Env: map[string]string{}, Ports: func(said []byte) ([]manager.Port, error) {
				return []manager.Port{{Guest: 80, Host: len(said)}}, nil
			}}
			if g.Input == nil {
				g.Input = []byte(`{"secret":"` + req.ID + `"}`)
			}
			if g.Env["TOKEN"] = req.Env["TOKEN"]; req.Env == nil {
				g.Env["TOKEN"] = "placeholder-" + req.ID
			}
			return g, nil
		},
		Ended: func(id string) (manager.Ending, bool) {
			var e ending
			text, err := os.ReadFile(filepath.Join(w.dir, "ended", id))
			if err != nil || json.Unmarshal(text, &e) != nil {
				return manager.Ending{}, false
			}
			return manager.Ending{Reason: e.Reason, Text: e.Text}, true
		},
		Forget: func(id string) { _ = os.Remove(filepath.Join(w.dir, "ended", id)) },
	}
}

// manager is a Manager as a command of its own would have it.
func (w *world) manager(t testing.TB, change ...func(*manager.Options)) *manager.Manager {
	t.Helper()
	opts := w.options()
	for _, c := range change {
		c(opts)
	}
	m := manager.New(opts)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (w *world) state(name ...string) string {
	return filepath.Join(append([]string{w.dir, "state"}, name...)...)
}

// images holds one image, for owners that are files.
type images struct{ dir string }

var errNoImage = errors.New("there is no such image")

func (s *images) Use(ctx context.Context, ref, _, owner string, _ any) (*manager.Image, error) {
	if ref != "small" {
		return nil, errNoImage
	}
	return s.Hold(ctx, "sha256:small", owner)
}

func (s *images) Hold(_ context.Context, digest, owner string) (*manager.Image, error) {
	if digest != "sha256:small" {
		return nil, errNoImage
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return &manager.Image{Digest: digest, Root: "/image", Env: map[string]string{"PATH": os.Getenv("PATH"), "FROM": "image"}, WorkDir: "/", User: ""},
		os.WriteFile(filepath.Join(s.dir, owner), []byte(digest), 0o600)
}

func (s *images) Release(_ context.Context, owner string) error {
	if err := os.Remove(filepath.Join(s.dir, owner)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (s *images) Owners(context.Context) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}

// changes notes what it is told.
type changes struct {
	mu    sync.Mutex
	told  []string
	files []string // what was in what expired
	fail  error    // Expired's
}

func (c *changes) note(words ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, strings.Join(words, " "))
	return nil
}

func (c *changes) has(words ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.told, strings.Join(words, " "))
}

func (c *changes) Expired(_ context.Context, info *manager.Info, tar string) error {
	text, err := os.ReadFile(tar)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.told, c.files = append(c.told, "expired "+info.ID), append(c.files, string(text))
	return nil
}

func (c *changes) Forked(_ context.Context, parent, child string) error {
	return c.note("forked", parent, child)
}

func (c *changes) Saved(_ context.Context, id, dir string) error {
	return os.WriteFile(filepath.Join(dir, "of"), []byte(id), 0o600)
}

func (c *changes) Restored(_ context.Context, dir, id string) error {
	from, err := os.ReadFile(filepath.Join(dir, "of"))
	return errors.Join(err, c.note("restored", string(from), id))
}
func (c *changes) Anew(_ context.Context, id string) error  { return c.note("anew", id) }
func (c *changes) Ended(_ context.Context, id string) error { return c.note("ended", id) }

// create makes a sandbox over the host.
func create(t *testing.T, m *manager.Manager, change ...func(*manager.Request)) *manager.Box {
	t.Helper()
	req := &manager.Request{WorkDir: "/"}
	for _, c := range change {
		c(req)
	}
	box, err := m.Create(t.Context(), req)
	if err != nil {
		t.Fatalf("Create: err = %v", err)
	}
	t.Cleanup(func() { _ = box.Release() })
	return box
}

// put writes a file into a sandbox's folder, through its guest; get reads it. "" is none.
func (w *world) put(t *testing.T, box sandbox.Lasting, text string) {
	t.Helper()
	c, err := box.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.WriteFile(t.Context(), filepath.Join(w.double.files(box.ID()), "x"), text); err != nil {
		t.Fatal(err)
	}
}

func (w *world) get(t *testing.T, box sandbox.Lasting) string {
	t.Helper()
	c, err := box.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, err := c.ReadFile(t.Context(), filepath.Join(w.double.files(box.ID()), "x"))
	if err != nil {
		return ""
	}
	return text
}

// ids are the IDs that List gives, with their states.
func ids(t *testing.T, m *manager.Manager, f *manager.Filter) map[string]string {
	t.Helper()
	list, err := m.List(t.Context(), f)
	if err != nil {
		t.Fatalf("List: err = %v", err)
	}
	out := map[string]string{}
	for _, i := range list {
		out[i.ID] = i.State
		if i.Reason != "" {
			out[i.ID] += " " + i.Reason
		}
	}
	return out
}

func all() *manager.Filter { return &manager.Filter{All: true} }

// is fails the test unless an error is one of type E that holds the words.
func is[E error](t *testing.T, err error, words ...string) {
	t.Helper()
	if _, ok := errors.AsType[E](err); !ok {
		t.Fatalf("err = %v (%T), want a %T", err, err, *new(E))
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("err = %v, want %q in it", err, w)
		}
	}
}
