package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"airlock/agent"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

// The steps that a command is killed in, each at each point where it does something. ID is a sandbox that is
// there, as are the snapshot "s" and the template "t".
var crashes = map[string]func(ctx context.Context, m *manager.Manager, id string) error{
	"create": func(ctx context.Context, m *manager.Manager, _ string) error {
		_, err := m.Create(ctx, &manager.Request{Image: "small"})
		return err
	},
	"create --template": func(ctx context.Context, m *manager.Manager, _ string) error {
		_, err := m.Create(ctx, &manager.Request{Template: "t"})
		return err
	},
	"snapshot": func(ctx context.Context, m *manager.Manager, id string) error {
		_, err := m.Snapshot(ctx, id, "")
		return err
	},
	"restore": func(ctx context.Context, m *manager.Manager, _ string) error {
		_, err := m.Restore(ctx, "s", nil)
		return err
	},
	"fork": func(ctx context.Context, m *manager.Manager, id string) error {
		_, err := m.Fork(ctx, id, 2, nil)
		return err
	},
	"rm": func(ctx context.Context, m *manager.Manager, id string) error { return m.Remove(ctx, id) },
	"discard": func(ctx context.Context, m *manager.Manager, id string) error {
		_, err := m.Discard(ctx, id)
		return err
	},
	"template build": func(ctx context.Context, m *manager.Manager, _ string) error {
		_, err := m.BuildTemplate(ctx, "t", nil)
		return err
	},
	"pause": func(ctx context.Context, m *manager.Manager, id string) error { return m.Pause(ctx, id) },
}

// A fuse counts points, and kills its process at one.
type fuse struct{ left atomic.Int64 }

func (f *fuse) point() {
	if f.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// deadly is a double, and what it is used with, with points before and after whatever it does.
type deadly struct {
	sandbox.Keeping
	*images
	*fuse
}

func (d *deadly) Keep(ctx context.Context, spec *sandbox.LastingSpec) (sandbox.Lasting, error) {
	d.point()
	defer d.point()
	return d.wrap(d.Keeping.Keep(ctx, spec))
}

func (d *deadly) Restore(ctx context.Context, spec *sandbox.LastingSpec, dir string) (sandbox.Lasting, error) {
	d.point()
	defer d.point()
	return d.wrap(d.Keeping.Restore(ctx, spec, dir))
}

func (d *deadly) Open(ctx context.Context, id string) (sandbox.Lasting, error) {
	return d.wrap(d.Keeping.Open(ctx, id))
}

func (d *deadly) wrap(l sandbox.Lasting, err error) (sandbox.Lasting, error) {
	if err != nil {
		return nil, err
	}
	return &deadlyBox{l, d.fuse}, nil
}

func (d *deadly) Use(ctx context.Context, ref, pull, owner string, progress any) (*manager.Image, error) {
	d.point()
	defer d.point()
	return d.images.Use(ctx, ref, pull, owner, progress)
}

func (d *deadly) Hold(ctx context.Context, digest, owner string) (*manager.Image, error) {
	d.point()
	defer d.point()
	return d.images.Hold(ctx, digest, owner)
}

func (d *deadly) Release(ctx context.Context, owner string) error {
	d.point()
	defer d.point()
	return d.images.Release(ctx, owner)
}

type deadlyBox struct {
	sandbox.Lasting
	*fuse
}

func (b *deadlyBox) Checkpoint(ctx context.Context, dir string) error {
	b.point()
	defer b.point()
	return b.Lasting.Checkpoint(ctx, dir)
}

func (b *deadlyBox) Pause(ctx context.Context) error {
	b.point()
	defer b.point()
	return b.Lasting.Pause(ctx)
}

func (b *deadlyBox) Client(ctx context.Context) (*agent.Client, error) {
	b.point()
	return b.Lasting.Client(ctx)
}

func (b *deadlyBox) End(ctx context.Context) error {
	b.point()
	defer b.point()
	return b.Lasting.End(ctx)
}

// commandMain takes one step, and is killed at a point of it.
func commandMain() {
	w := openWorld(os.Getenv("MANAGER_TEST_DIR"))
	w.double.apart, w.double.starting = true, startingFile()
	at, _ := strconv.Atoi(os.Getenv("MANAGER_TEST_POINT"))
	f := &fuse{}
	f.left.Store(int64(at))
	d := &deadly{w.double, w.images, f}
	opts := w.options()
	opts.Driver, opts.Images, opts.Changes = d, d, nil
	opts.Record = func(context.Context, string, string, any) error {
		f.point()
		return nil
	}
	opts.Forget = func(string) { f.point() }
	m := manager.New(opts)
	if err := crashes[os.Getenv("MANAGER_TEST_STEP")](context.Background(), m, os.Getenv("MANAGER_TEST_ID")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// killed takes a step in a process that is killed at a point; false: it ended before. It waits for the keepers that
// were just being started then: in the middle of a look, one would come as if from nowhere.
func (w *world) killed(t *testing.T, step, id string, point int) bool {
	t.Helper()
	var out bytes.Buffer
	started, starting, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "MANAGER_TEST_ROLE=command", "MANAGER_TEST_DIR="+w.dir, "MANAGER_TEST_STEP="+step, "MANAGER_TEST_ID="+id,
		"MANAGER_TEST_POINT="+strconv.Itoa(point), startingVariable+"=1")
	cmd.ExtraFiles = []*os.File{starting}
	cmd.Stderr = &out
	err = cmd.Run()
	starting.Close()
	_, _ = io.Copy(io.Discard, started) // until nobody has the other end
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return false
	case ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	t.Fatalf("%s: err = %v\n%s", step, err, &out)
	return false
}

func TestACommandThatIsKilledLeavesATrueState(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some hundred processes")
	}
	for step := range crashes {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.double.apart = true
			m := w.manager(t, func(o *manager.Options) { o.Changes = nil })
			box := create(t, m, func(r *manager.Request) { *r = manager.Request{Image: "small"} })
			if _, err := m.Snapshot(t.Context(), box.ID(), "s"); err != nil {
				t.Fatal(err)
			}
			if _, err := m.CreateTemplate(t.Context(), &manager.TemplateRequest{Name: "t", Request: manager.Request{Image: "small"}, Run: []string{"true"}}); err != nil {
				t.Fatal(err)
			}
			for point := 1; w.killed(t, step, box.ID(), point); point++ {
				w.sound(t, m, fmt.Sprintf("killed at point %d", point))
				box = w.again(t, m, box)
			}
			w.sound(t, m, "ended by itself")
		})
	}
}

// sound checks that after one look all that is stored, runs and is held agrees.
func (w *world) sound(t *testing.T, m *manager.Manager, when string) {
	t.Helper()
	want := []string{"snapshot-s", "template-t"}
	var alive []string
	for id, state := range ids(t, m, all()) {
		switch state {
		case manager.Ready, manager.Paused:
			alive = append(alive, id)
			want = append(want, "sandbox-"+id)
		case "destroyed failed", "destroyed removed":
		default:
			t.Errorf("%s: sandbox %s is %s", when, id, state)
		}
	}
	running, err := w.double.Running(t.Context())
	slices.Sort(running)
	slices.Sort(alive)
	if err != nil || !slices.Equal(running, alive) {
		t.Errorf("%s: %v run, %v, and %v are said to live", when, running, err, alive)
	}
	snaps, err := m.Snapshots(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, s := range snaps {
		if !s.Named {
			want = append(want, "snapshot-"+s.Name)
		}
	}
	if _, err := m.InspectTemplate(t.Context(), "t"); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	w.clean(t, when, "expired")
	w.clean(t, when, "snapshots", "s")
	w.clean(t, when, "templates", "t")
	// Locks that nobody has, and images held for who is not there, are what a repair is for.
	if _, err := m.Repair(t.Context()); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	w.clean(t, when, "locks")
	owners, err := w.images.Owners(t.Context())
	slices.Sort(owners)
	slices.Sort(want)
	if err != nil || !slices.Equal(owners, want) {
		t.Errorf("%s: the image is held by %v, %v, want %v", when, owners, err, want)
	}
}

// clean checks that a folder has nothing else in it than this, and snapshots that nobody named.
func (w *world) clean(t *testing.T, when, dir string, names ...string) {
	t.Helper()
	left, _ := os.ReadDir(w.state(dir)) // it need not be there
	for _, e := range left {
		if !slices.Contains(names, e.Name()) && !strings.HasPrefix(e.Name(), "auto-") {
			t.Errorf("%s: %s/%s is left", when, dir, e.Name())
		}
	}
}

// again gives the sandbox, or another one where it has ended, and ends the others.
func (w *world) again(t *testing.T, m *manager.Manager, box *manager.Box) *manager.Box {
	t.Helper()
	for id := range ids(t, m, nil) {
		if id == box.ID() {
			continue
		}
		t.Errorf("sandbox %s lives, and nobody was told of it", id)
		if err := m.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if open, err := m.Open(t.Context(), box.ID()); err == nil {
		if err := open.Release(); err != nil {
			t.Fatal(err)
		}
		return box
	}
	return create(t, m, func(r *manager.Request) { *r = manager.Request{Image: "small"} })
}
