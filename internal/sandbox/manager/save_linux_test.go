package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

func TestARestoredSandboxGoesOnFromItsSnapshot(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m, func(r *manager.Request) {
		r.Env = map[string]string{"A": "1", "B": "1"}
		r.Limits = manager.Limits{Memory: 1 << 30, Disk: 1 << 30}
		r.Net = manager.Net{Mode: "allow", Allow: []string{"example.com"}, Publish: []string{"80:8080"}}
		r.Times = manager.Times{TTL: time.Hour}
		r.Labels = map[string]string{"old": ""}
	})
	w.put(t, box, "saved")
	snap, err := m.Snapshot(t.Context(), box.ID(), "first.1")
	if err != nil {
		t.Fatalf("Snapshot: err = %v", err)
	}
	w.put(t, box, "later")
	if snap.Size < 5 || !snap.Named || snap.Sandbox.ID != box.ID() {
		t.Errorf("Snapshot = %+v", snap)
	}
	if err := m.Remove(t.Context(), box.ID()); err != nil {
		t.Fatal(err)
	}
	got, err := m.Restore(t.Context(), "first.1", &manager.Request{
		Labels: map[string]string{"new": "1"}, Env: map[string]string{"B": "2"}, Limits: manager.Limits{Memory: 2 << 30}, Times: manager.Times{Idle: time.Minute},
	})
	if err != nil {
		t.Fatalf("Restore: err = %v", err)
	}
	defer func() { _ = got.Release() }()
	if text := w.get(t, got); text != "saved" {
		t.Errorf("the file is %q, want what was saved", text)
	}
	i := got.Info
	if i.ID == box.ID() || i.From != "snapshot:first.1" || i.Env["A"] != "1" || i.Env["B"] != "2" || i.Env["TOKEN"] != box.Info.Env["TOKEN"] ||
		i.Limits != (manager.Limits{Memory: 2 << 30, Disk: 1 << 30}) || i.Times != (manager.Times{Idle: time.Minute}) ||
		len(i.Labels) != 1 || !slices.Equal(i.Hidden, []string{"/secret"}) || !slices.Equal(i.Net.Publish, []string{"80:0"}) || len(i.Ports) != 1 {
		t.Errorf("Restore: %+v", i)
	}
	if !w.changes.has("restored", box.ID(), i.ID) {
		t.Error("its change set was not told")
	}
	if input, err := got.GateInput(t.Context()); err != nil || strings.Contains(string(input), box.ID()) {
		t.Errorf("the gate has %s, %v: secrets of the one that was saved", input, err)
	}
}

func TestSnapshotsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	if _, err := m.Snapshot(t.Context(), box.ID(), "there"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"there", "a/b", "..", ".hidden", "a\x00", "a b", strings.Repeat("x", 65), "-rf", "ä"} {
		_, err := m.Snapshot(t.Context(), box.ID(), name)
		is[*manager.Problem](t, err)
	}
	for _, name := range []string{"", "none", "..", "../snapshots/there", ".part-x"} {
		_, err := m.InspectSnapshot(t.Context(), name)
		is[*manager.NotFound](t, err)
		is[*manager.NotFound](t, m.RemoveSnapshot(t.Context(), name))
		_, err = m.Restore(t.Context(), name, nil)
		is[*manager.NotFound](t, err)
	}
	for want, req := range map[string]manager.Request{
		"--image": {Image: "small"}, "--disk": {Limits: manager.Limits{Disk: 1}}, "--net": {Net: manager.Net{Mode: "host"}}, "--hide": {Hide: []string{"/x"}},
	} {
		_, err := m.Restore(t.Context(), "there", &req)
		is[*manager.Problem](t, err, want)
	}
	w.double.unsaved = true
	if _, err := m.Snapshot(t.Context(), box.ID(), "other"); !errors.Is(err, sandbox.ErrNotSaved) {
		t.Errorf("Snapshot: err = %v, want sandbox.ErrNotSaved", err)
	}
	if _, err := m.Fork(t.Context(), box.ID(), 2, nil); !errors.Is(err, sandbox.ErrNotSaved) {
		t.Errorf("Fork: err = %v, want sandbox.ErrNotSaved", err)
	}
	if got := ids(t, m, nil); len(got) != 1 || got[box.ID()] != "ready" {
		t.Errorf("List = %v, want the one that runs on", got)
	}
	left, err := os.ReadDir(w.state("snapshots"))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v, want one", left, err)
	}
}

func TestSnapshotsHaveBounds(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t, func(o *manager.Options) { o.MaxSnapshots = 3 })
	box := create(t, m)
	snap := func(name string) (string, error) {
		s, err := m.Snapshot(t.Context(), box.ID(), name)
		if err != nil {
			return "", err
		}
		return s.Name, nil
	}
	must := func(name string) string {
		t.Helper()
		got, err := snap(name)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	names := func() (out []string) {
		list, err := m.Snapshots(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	must("a")
	first, second := must(""), must("")
	must("b") // instead of the first
	if got := names(); !slices.Equal(got, []string{"a", second, "b"}) {
		t.Errorf("Snapshots = %v, want that %s went", got, first)
	}
	must("c")
	_, err := snap("d")
	is[*manager.Problem](t, err, "airlock sandbox snapshots rm", "a (", "b (", "c (")
	if got := names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Snapshots = %v, want all that were named", got)
	}
	small := w.manager(t, func(o *manager.Options) { o.MaxBytes = 10 })
	if err := small.RemoveSnapshot(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	_, err = small.Snapshot(t.Context(), box.ID(), "d")
	is[*manager.Problem](t, err, "no room")
}

func TestForksGoOnFromWhereTheirParentIs(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	parent := create(t, m, func(r *manager.Request) {
		r.Net = manager.Net{Mode: "allow", Allow: []string{"example.com"}}
		r.Labels = map[string]string{"a": "b"}
	})
	w.put(t, parent, "before")
	forks, err := m.Fork(t.Context(), parent.ID(), 3, nil)
	if err != nil || len(forks) != 3 {
		t.Fatalf("Fork = %v, %v", forks, err)
	}
	w.put(t, parent, "after")
	want, err := parent.GateInput(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range forks {
		defer func() { _ = f.Release() }()
		input, err := f.GateInput(t.Context())
		if err != nil || string(input) != string(want) || f.Info.Env["TOKEN"] != parent.Info.Env["TOKEN"] || f.Info.From != "fork:"+parent.ID() || f.Info.Labels["a"] != "b" {
			t.Errorf("fork: %+v, %s, %v, want the parent's secrets", f.Info, input, err)
		}
		if got := w.get(t, f); got != "before" {
			t.Errorf("the fork's file is %q", got)
		}
		if !w.changes.has("forked", parent.ID(), f.ID()) {
			t.Error("its change set was not told")
		}
	}
	if got := w.get(t, parent); got != "after" {
		t.Errorf("the parent's file is %q", got)
	}
	if got := ids(t, m, nil); len(got) != 4 {
		t.Errorf("List = %v, want four", got)
	}
	if left, _ := os.ReadDir(w.state("snapshots")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	for _, n := range []int{0, -1, 101} {
		_, err := m.Fork(t.Context(), parent.ID(), n, nil)
		is[*manager.Problem](t, err)
	}
}

func TestAForkThatFailsInParts(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	parent := create(t, m, func(r *manager.Request) { r.Image, r.WorkDir = "small", "" })
	made := 0
	failed := errors.New("there is no memory")
	w.double.failRestore = func(string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if made++; made == 2 {
			return failed
		}
		return nil
	}
	forks, err := m.Fork(t.Context(), parent.ID(), 3, nil)
	is[*manager.ForkError](t, err, failed.Error(), "1 of the forks")
	if len(forks) != 2 || !errors.Is(err, failed) {
		t.Errorf("Fork = %v, %v, want two and the cause", forks, err)
	}
	for _, f := range forks {
		defer func() { _ = f.Release() }()
	}
	states := map[string]int{}
	for _, s := range ids(t, m, all()) {
		states[s]++
	}
	if states["ready"] != 3 || states["destroyed failed"] != 1 {
		t.Errorf("List = %v", states)
	}
	if owners, _ := w.images.Owners(t.Context()); len(owners) != 3 {
		t.Errorf("the image is held by %v, want three", owners)
	}
}

func TestTemplates(t *testing.T) {
	for name, unsaved := range map[string]bool{"their state is saved": false, "their state cannot be saved": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := w.manager(t)
			w.double.unsaved = unsaved
			var out bytes.Buffer
			count := filepath.Join(w.dir, "count")
			req := &manager.TemplateRequest{
				Name: "py", Request: manager.Request{Image: "small", Env: map[string]string{"A": "1"}, Limits: manager.Limits{Procs: 5}},
				Run: []string{"echo $A$FROM", "echo >> " + count}, Output: &out,
			}
			tpl, err := m.CreateTemplate(t.Context(), req)
			if err != nil {
				t.Fatalf("CreateTemplate: err = %v", err)
			}
			if tpl.Saved == unsaved || out.String() != "1image\n" || (tpl.Note != "") != unsaved {
				t.Errorf("CreateTemplate = %+v, %q", tpl, &out)
			}
			_, err = m.CreateTemplate(t.Context(), req)
			is[*manager.Problem](t, err, "airlock template build py")
			box := create(t, m, func(r *manager.Request) {
				*r = manager.Request{Template: "py", Env: map[string]string{"A": "2"}, Labels: map[string]string{"l": ""}}
			})
			if i := box.Info; i.Template != "py" || i.Env["A"] != "2" || i.Env["FROM"] != "image" || i.Limits.Procs != 5 || i.Image != "small" || i.From != "" {
				t.Errorf("from the template: %+v", i)
			}
			if _, err := m.BuildTemplate(t.Context(), "py", nil); err != nil {
				t.Fatalf("BuildTemplate: err = %v", err)
			}
			anew, err := m.Discard(t.Context(), box.ID())
			if err != nil {
				t.Fatalf("Discard: err = %v", err)
			}
			defer func() { _ = anew.Release() }()
			want := 2
			if unsaved {
				want = 4
			}
			if text, err := os.ReadFile(count); len(text) != want || err != nil {
				t.Errorf("the commands ran %d times, want %d", len(text), want)
			}
			if err := m.RemoveTemplate(t.Context(), "py"); err != nil {
				t.Fatal(err)
			}
			is[*manager.NotFound](t, m.RemoveTemplate(t.Context(), "py"))
			if owners, _ := w.images.Owners(t.Context()); !slices.Equal(owners, []string{"sandbox-" + box.ID()}) {
				t.Errorf("the image is held by %v, want the sandbox alone", owners)
			}
			if left, _ := os.ReadDir(w.state("templates")); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

func TestATemplateWhoseCommandFails(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	_, err := m.CreateTemplate(t.Context(), &manager.TemplateRequest{
		Name: "bad", Request: manager.Request{WorkDir: "/"}, Run: []string{"true", "yes | head -c 100000; echo why >&2; exit 3"},
	})
	is[*manager.Problem](t, err, "command 2", "ended with 3", "why")
	if len(err.Error()) > 5000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	_, err = m.InspectTemplate(t.Context(), "bad")
	is[*manager.NotFound](t, err)
	if running, _ := w.double.Running(t.Context()); len(running) != 0 {
		t.Errorf("%v run", running)
	}
	for _, req := range []manager.TemplateRequest{
		{Name: "a/b", Request: manager.Request{WorkDir: "/"}},
		{Name: "a", Request: manager.Request{}},
		{Name: "a", Request: manager.Request{Template: "b"}},
		{Name: "a", Request: manager.Request{WorkDir: "/"}, Run: []string{""}},
		{Name: "a", Request: manager.Request{WorkDir: "/"}, Run: []string{strings.Repeat("x", 1<<20)}},
		{Name: "a", Request: manager.Request{WorkDir: "/"}, Run: slices.Repeat([]string{"true"}, 300)},
	} {
		_, err := m.CreateTemplate(t.Context(), &req)
		is[*manager.Problem](t, err)
	}
}

func TestOneStepAtATime(t *testing.T) {
	w := newWorld(t)
	hasty := func(o *manager.Options) { o.Wait = 100 * time.Millisecond }
	one, other := w.manager(t), w.manager(t, hasty)
	box := create(t, one)
	id := box.ID()
	err := one.With(t.Context(), id, "commit", func(ctx context.Context, b *manager.Box) error {
		is[*manager.Busy](t, other.Pause(t.Context(), id), "does commit", fmt.Sprintf("process %d", os.Getpid()))
		is[*manager.Busy](t, other.Remove(t.Context(), id))
		_, err := other.Fork(t.Context(), id, 1, nil)
		is[*manager.Busy](t, err)
		info, err := other.Inspect(t.Context(), id)
		if err != nil || info.Busy != "commit" || info.State != manager.Ready {
			t.Errorf("Inspect = %+v, %v, want that it is busy", info, err)
		}
		w.put(t, b, "calls go on")
		open, err := other.Open(t.Context(), id)
		if err != nil {
			return err
		}
		defer func() { _ = open.Release() }()
		if got := w.get(t, open); got != "calls go on" {
			t.Errorf("the file is %q", got)
		}
		// Whoever holds it up may take steps.
		return one.Remove(ctx, id)
	})
	if err != nil {
		t.Fatalf("With: err = %v", err)
	}
	if got := ids(t, other, all())[id]; got != "destroyed removed" {
		t.Errorf("state = %q", got)
	}
	is[*manager.Gone](t, other.Pause(t.Context(), id))
}

func TestStepsWaitForEachOther(t *testing.T) {
	w := newWorld(t)
	patient := func(o *manager.Options) { o.Wait = 10 * time.Minute }
	one, other := w.manager(t, patient), w.manager(t, patient)
	id := create(t, one).ID()
	waiting := make(chan error, 1)
	err := one.With(t.Context(), id, "commit", func(context.Context, *manager.Box) error {
		go func() { waiting <- other.Remove(t.Context(), id) }()
		select {
		case err := <-waiting:
			t.Errorf("Remove did not wait: %v", err)
		case <-time.After(50 * time.Millisecond): // what is not to come can only be waited for
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("Remove: err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	box := create(t, one)
	err = one.With(t.Context(), box.ID(), "commit", func(context.Context, *manager.Box) error {
		cancel()
		return other.Pause(ctx, box.ID())
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Pause: err = %v, want that it was canceled", err)
	}
}
