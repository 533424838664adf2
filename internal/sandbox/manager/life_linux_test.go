package manager_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

func TestMain(m *testing.M) {
	switch os.Getenv("MANAGER_TEST_ROLE") {
	case "keeper":
		keeperMain()
	case "command":
		commandMain()
	default:
		os.Exit(m.Run())
	}
}

func TestASandboxOutlivesWhoMadeIt(t *testing.T) {
	w := newWorld(t)
	first := w.manager(t)
	box := create(t, first, func(r *manager.Request) {
		r.Labels, r.Env, r.Hide = map[string]string{"for": "tests"}, map[string]string{"A": "b"}, []string{"/mine"}
		r.Limits = manager.Limits{Memory: 1 << 30, CPUs: 1.5, Timeout: time.Minute}
	})
	w.put(t, box, "hello")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	m := w.manager(t)
	again, err := m.Open(t.Context(), box.ID()[:3])
	if err != nil {
		t.Fatalf("Open: err = %v", err)
	}
	defer func() { _ = again.Release() }()
	if got := w.get(t, again); got != "hello" {
		t.Errorf("the file is %q, want what was written", got)
	}
	info, err := m.Inspect(t.Context(), box.ID())
	if err != nil {
		t.Fatal(err)
	}
	if info.State != manager.Ready || info.Status == nil || !maps.Equal(info.Labels, box.Info.Labels) || info.Env["A"] != "b" ||
		!slices.Equal(info.Hidden, []string{"/secret", "/mine"}) || info.Limits != box.Info.Limits || !info.Started.Equal(box.Started()) || len(info.Notes) != 1 {
		t.Errorf("Inspect = %+v", info)
	}
	spec := again.Lasting.(interface{ ID() string })
	if spec.ID() != box.ID() {
		t.Errorf("opened %s, want %s", spec.ID(), box.ID())
	}
}

func TestPauseResumeRemove(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	id := box.ID()
	for _, s := range []struct {
		do   func(context.Context, string) error
		want string
	}{
		{m.Pause, "paused"},
		{m.Pause, "paused"},
		{m.Resume, "ready"},
		{m.Resume, "ready"},
		{m.Remove, "destroyed removed"},
	} {
		if err := s.do(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, m, all())[id]; got != s.want {
			t.Errorf("state = %q, want %q", got, s.want)
		}
	}
	if got := ids(t, m, nil); len(got) != 0 {
		t.Errorf("List = %v, want none that lives", got)
	}
	is[*manager.Gone](t, m.Remove(t.Context(), id), "it was removed")
	_, err := m.Open(t.Context(), id)
	is[*manager.Gone](t, err, id)
	if !w.changes.has("ended", id) {
		t.Error("its change set was not told")
	}
	want := []string{"create", "pause", "pause", "resume", "resume", "remove", "ended"}
	for i, k := range want {
		want[i] = "sandbox_" + k + " " + id
	}
	if !slices.Equal(w.rows, want) {
		t.Errorf("record = %q, want %q", w.rows, want)
	}
}

func TestRequestsThatCannotBeMet(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	for name, c := range map[string]struct {
		req  manager.Request
		want string
	}{
		"no folder":                   {manager.Request{}, "working folder"},
		"a relative folder":           {manager.Request{WorkDir: "a/b"}, "not an absolute path"},
		"a label without a name":      {manager.Request{WorkDir: "/", Labels: map[string]string{"": "x"}}, "label's name"},
		"a label with control bytes":  {manager.Request{WorkDir: "/", Labels: map[string]string{"a": "\x1b[31m"}}, "control"},
		"a label that is no text":     {manager.Request{WorkDir: "/", Labels: map[string]string{"a": "\xff"}}, "text"},
		"an endless label":            {manager.Request{WorkDir: "/", Labels: map[string]string{"a": strings.Repeat("x", 300)}}, "256"},
		"a variable with =":           {manager.Request{WorkDir: "/", Env: map[string]string{"a=b": "x"}}, "variable"},
		"a variable with NUL":         {manager.Request{WorkDir: "/", Env: map[string]string{"a": "x\x00"}}, "variable"},
		"too large an environment":    {manager.Request{WorkDir: "/", Env: map[string]string{"a": strings.Repeat("x", 2<<20)}}, "environment"},
		"hidden paths in an image":    {manager.Request{Image: "small", Hide: []string{"/x"}}, "host's files"},
		"a template and an image":     {manager.Request{Image: "small", Template: "t"}, "template"},
		"an unknown template":         {manager.Request{Template: "t"}, `no template "t"`},
		"a template's path":           {manager.Request{Template: "../../etc"}, "no template"},
		"an image that is not there":  {manager.Request{Image: "large"}, "no such image"},
		"another way to pull":         {manager.Request{Image: "small", Pull: "often"}, "--pull"},
		"negative memory":             {manager.Request{WorkDir: "/", Limits: manager.Limits{Memory: -1}}, "--memory"},
		"another end of time":         {manager.Request{WorkDir: "/", Times: manager.Times{TTL: 1, TTLThen: "explode"}}, "--ttl-then"},
		"a negative time":             {manager.Request{WorkDir: "/", Times: manager.Times{Idle: -1}}, "negative"},
		"another network":             {manager.Request{WorkDir: "/", Net: manager.Net{Mode: "all"}}, "--net"},
		"a network that lets nobody":  {manager.Request{WorkDir: "/", Net: manager.Net{Mode: "allow"}}, "names no host"},
		"published on the whole host": {manager.Request{WorkDir: "/", Net: manager.Net{Mode: "host", Publish: []string{"80"}}}, "--publish"},
	} {
		t.Run(name, func(t *testing.T) {
			box, err := m.Create(t.Context(), &c.req)
			if err == nil {
				err = box.Release()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Create: err = %v, want %q in it", err, c.want)
			}
		})
	}
	if got := ids(t, m, nil); len(got) != 0 {
		t.Errorf("List = %v, want none", got)
	}
	if owners, err := w.images.Owners(t.Context()); len(owners) != 0 || err != nil {
		t.Errorf("images are held by %v, %v", owners, err)
	}
}

func TestSandboxesAreFoundByTheBeginningOfTheirID(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	byFirst := map[byte][]string{}
	for len(byFirst) == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(byFirst)), func(s []string) bool { return len(s) > 1 }) {
		id := create(t, m).ID()
		byFirst[id[0]] = append(byFirst[id[0]], id)
	}
	for first, have := range byFirst {
		info, err := m.Find(t.Context(), string(first))
		if len(have) == 1 {
			if err != nil || info.ID != have[0] {
				t.Errorf("Find(%c) = %v, %v", first, info, err)
			}
			continue
		}
		is[*manager.Ambiguous](t, err, have...)
		// One that ended stands back.
		if err := m.Remove(t.Context(), have[0]); err != nil {
			t.Fatal(err)
		}
		if info, err := m.Find(t.Context(), string(first)); err != nil || info.ID != have[1] {
			t.Errorf("Find(%c) = %v, %v, want the one that lives", first, info, err)
		}
		if info, err := m.Find(t.Context(), have[0]); err != nil || info.State != manager.Destroyed {
			t.Errorf("Find(%s) = %v, %v, want the one that ended", have[0], info, err)
		}
	}
	for _, none := range []string{"", "1", "A", "%", "_", "a'", strings.Repeat("a", 17), "\x00"} {
		_, err := m.Find(t.Context(), none)
		is[*manager.NotFound](t, err, "airlock sandbox list")
	}
}

func TestListSelectsByLabels(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	label := func(s ...string) func(*manager.Request) {
		return func(r *manager.Request) { r.Labels, _ = manager.ParseLabels(s) }
	}
	a, b := create(t, m, label("k=1", "x=")).ID(), create(t, m, label("k=2")).ID()
	for _, c := range []struct {
		labels map[string]string
		want   []string
	}{
		{nil, []string{a, b}},
		{map[string]string{"k": "1"}, []string{a}},
		{map[string]string{"x": ""}, []string{a}},
		{map[string]string{"k": "2", "x": ""}, nil},
		{map[string]string{"y": ""}, nil},
	} {
		list, err := m.List(t.Context(), &manager.Filter{Labels: c.labels})
		var got []string
		for _, i := range list {
			got = append(got, i.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("List(%v) = %v, %v, want %v", c.labels, got, err, c.want)
		}
	}
	for _, bad := range []string{"k", "=v", "a b=c", "-a=b"} {
		if _, err := manager.ParseLabels([]string{bad}); err == nil {
			t.Errorf("ParseLabels(%q): no error", bad)
		}
	}
}

func TestNothingIsDoneThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	w.put(t, box, "kept")
	w.refuse = errors.New("the record is full")
	for name, do := range map[string]func() error{
		"create":   func() error { _, err := m.Create(t.Context(), &manager.Request{WorkDir: "/"}); return err },
		"pause":    func() error { return m.Pause(t.Context(), box.ID()) },
		"remove":   func() error { return m.Remove(t.Context(), box.ID()) },
		"discard":  func() error { _, err := m.Discard(t.Context(), box.ID()); return err },
		"fork":     func() error { _, err := m.Fork(t.Context(), box.ID(), 2, nil); return err },
		"snapshot": func() error { _, err := m.Snapshot(t.Context(), box.ID(), "s"); return err },
		"template": func() error {
			_, err := m.CreateTemplate(t.Context(), &manager.TemplateRequest{Name: "t", Request: manager.Request{WorkDir: "/"}})
			return err
		},
	} {
		if err := do(); !errors.Is(err, w.refuse) {
			t.Errorf("%s: err = %v, want the record's", name, err)
		}
	}
	if got := ids(t, m, all()); len(got) != 1 || got[box.ID()] != "ready" {
		t.Errorf("List = %v, want the one alone, ready", got)
	}
	if got := w.get(t, box); got != "kept" {
		t.Errorf("its file is %q", got)
	}
	if list, err := m.Snapshots(t.Context()); len(list) != 0 || err != nil {
		t.Errorf("Snapshots = %v, %v", list, err)
	}
	w.refuse = nil
}

func TestCreateThatIsCanceledLeavesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	m := w.manager(t, func(o *manager.Options) {
		o.Gate = func(context.Context, *manager.GateRequest) (*manager.Gate, error) {
			cancel() // in the middle
			return &manager.Gate{}, nil
		}
	})
	_, err := m.Create(ctx, &manager.Request{Image: "small", Net: manager.Net{Mode: "allow", Allow: []string{"example.com"}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Create: err = %v, want that it was canceled", err)
	}
	for id, state := range ids(t, m, all()) {
		if state != "destroyed failed" {
			t.Errorf("sandbox %s is %s", id, state)
		}
	}
	running, _ := w.double.Running(t.Context())
	owners, _ := w.images.Owners(t.Context())
	if len(running) != 0 || len(owners) != 0 {
		t.Errorf("%v run, and images are held by %v", running, owners)
	}
}

func TestDiscardBeginsAnew(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m, func(r *manager.Request) {
		r.Net = manager.Net{Mode: "allow", Allow: []string{"example.com"}}
		r.Labels = map[string]string{"a": "b"}
	})
	w.put(t, box, "written")
	before, err := box.GateInput(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	anew, err := m.Discard(t.Context(), box.ID())
	if err != nil {
		t.Fatalf("Discard: err = %v", err)
	}
	defer func() { _ = anew.Release() }()
	after, err := anew.GateInput(t.Context())
	if err != nil || string(after) != string(before) || anew.ID() != box.ID() || anew.Info.Env["TOKEN"] != box.Info.Env["TOKEN"] || anew.Info.Labels["a"] != "b" {
		t.Errorf("Discard: %+v with gate %s, %v, want the same with %s", anew.Info, after, err, before)
	}
	if got := w.get(t, anew); got != "" {
		t.Errorf("the file is still %q", got)
	}
	select {
	case <-box.Done():
	case <-time.After(time.Minute):
		t.Error("the old one did not end")
	}
	if !w.changes.has("anew", box.ID()) {
		t.Error("its change set was not told")
	}
	if got := ids(t, m, all()); len(got) != 1 || got[box.ID()] != "ready" {
		t.Errorf("List = %v", got)
	}
}

func TestTimesAreSet(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	want := manager.Times{TTL: time.Hour, TTLThen: "pause", Idle: time.Minute}
	if err := m.SetTimes(t.Context(), box.ID(), want); err != nil {
		t.Fatal(err)
	}
	l, err := w.double.Open(t.Context(), box.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	if got := l.(interface{ times() sandbox.Times }).times(); got != (sandbox.Times{Life: time.Hour, LifeThen: "pause", Idle: time.Minute}) {
		t.Errorf("the keeper has %+v", got)
	}
	info, err := m.Inspect(t.Context(), box.ID())
	if err != nil || info.Times != want {
		t.Errorf("Inspect = %+v, %v", info.Times, err)
	}
	is[*manager.Problem](t, m.SetTimes(t.Context(), box.ID(), manager.Times{Idle: -1}))
}

func TestLocksOfCommandsThatAreGoneMeanNothing(t *testing.T) {
	w := newWorld(t)
	m := w.manager(t)
	box := create(t, m)
	path := w.state("locks", box.ID())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("1 fork\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := m.Inspect(t.Context(), box.ID()); err != nil || info.Busy != "" {
		t.Errorf("Inspect = %+v, %v, want that nobody is at it", info, err)
	}
	if err := m.Pause(t.Context(), box.ID()); err != nil {
		t.Errorf("Pause: err = %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is still there: %v", err)
	}
}
