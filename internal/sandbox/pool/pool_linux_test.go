package pool_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox/pool"
)

const template = "base"

// start makes a pool of one template, which ends with the test.
func start(t *testing.T, b *boxes, tpl pool.Template, opts *pool.Options) *pool.Pool {
	t.Helper()
	var o pool.Options
	if opts != nil {
		o = *opts
	}
	if tpl.Make == nil {
		tpl.Make = b.make
	}
	if tpl.Check == nil {
		tpl.Check = b.patient
	}
	o.Templates = map[string]pool.Template{template: tpl}
	p, err := pool.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func full(t *testing.T, p *pool.Pool, n int) {
	t.Helper()
	eventually(t, "full", func() bool { s := p.Stats()[template]; return s.Ready == n && s.Filling == 0 })
}

// take takes one, runs a command in it, and has it ended with the test.
func take(t *testing.T, p *pool.Pool) *pool.Warm {
	t.Helper()
	w, err := p.Take(t.Context(), template)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	t.Cleanup(func() { endWarm(w) })
	runTrue(t, w)
	return w
}

func runTrue(t *testing.T, w *pool.Warm) {
	t.Helper()
	res, err := w.Client.Run(t.Context(), agent.ExecParams{Argv: []string{"true"}}, nil)
	if err != nil || res.ExitCode != 0 {
		t.Errorf("a command in what was taken: exit code %d, err = %v", res.ExitCode, err)
	}
}

func endWarm(w *pool.Warm) {
	w.Client.Close()
	w.Lasting.(*box).hang = nil
	_ = w.Lasting.End(context.Background()) // of a box: never fails
}

func TestWhatIsTakenIsReplacedAndCounted(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 3}, nil)
	full(t, p, 3)
	var ids []string
	for range 3 {
		ids = append(ids, take(t, p).Lasting.ID())
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 3 {
		t.Errorf("one sandbox was handed out twice: %v", ids)
	}
	full(t, p, 3)
	want := pool.Stats{Size: 3, Ready: 3, Hits: 3, Created: 6}
	if got := p.Stats()[template]; got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	if err := p.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if got := len(b.living()); got != 3 {
		t.Errorf("%d sandboxes live after Close, want the 3 that were taken", got)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close once more: %v", err)
	}
	if _, err := p.Take(t.Context(), template); !errors.Is(err, pool.ErrClosed) {
		t.Errorf("Take after Close: err = %v, want ErrClosed", err)
	}
}

func TestEachSandboxIsReleasedOnceWhenThePoolEndsIt(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 4}, nil)
	full(t, p, 4)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	b.each(func(x *box) {
		if n := x.releases.Load(); n != 1 {
			t.Errorf("%s was released %d times", x.id, n)
		}
	})
}

func TestWithoutAnyReadyATakeMakesOne(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 0}, nil)
	take(t, p)
	take(t, p)
	want := pool.Stats{Misses: 2, Created: 2}
	if got := p.Stats()[template]; got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}

func TestFiftyTakersAtOnceGetFiftySandboxes(t *testing.T) {
	b := &boxes{t: t, slow: 5 * time.Millisecond}
	p := start(t, b, pool.Template{Size: 10}, &pool.Options{Cold: 4, Filling: 2})
	full(t, p, 10)
	var (
		mu    sync.Mutex
		ids   []string
		takes sync.WaitGroup
	)
	for range 50 {
		takes.Go(func() {
			w, err := p.Take(t.Context(), template)
			if err != nil {
				t.Errorf("Take: %v", err)
				return
			}
			defer endWarm(w)
			runTrue(t, w)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, w.Lasting.ID())
		})
	}
	takes.Wait()
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 50 {
		t.Errorf("50 takers got %d sandboxes", n)
	}
	s := p.Stats()[template]
	if s.Hits < 10 || s.Hits+s.Misses != 50 {
		t.Errorf("%d hits and %d misses, want at least 10, and 50 in all", s.Hits, s.Misses)
	}
	if most := b.most.Load(); most > 4+2 {
		t.Errorf("%d were made at once, want at most 6", most)
	}
	full(t, p, 10)
}

func TestTheBackgroundIsBounded(t *testing.T) {
	b := &boxes{t: t, slow: time.Millisecond}
	p, err := pool.New(&pool.Options{Filling: 3, Templates: map[string]pool.Template{
		"a": {Size: 8, Make: b.make}, "b": {Size: 8, Make: b.make}, "c": {Size: 8, Make: b.make},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	eventually(t, "all full", func() bool {
		s := p.Stats()
		return s["a"].Ready == 8 && s["b"].Ready == 8 && s["c"].Ready == 8
	})
	if most := b.most.Load(); most > 3 {
		t.Errorf("%d were made at once, want at most 3", most)
	}
}

func TestNothingIsBegunWhileTakersComeInButForPatience(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 2}, &pool.Options{Quiet: time.Hour, Patience: 50 * time.Millisecond})
	full(t, p, 2)
	before := b.made.Load()
	begun := time.Now()
	take(t, p)
	eventually(t, "made in spite of the hour of quiet", func() bool { return b.made.Load() == before+1 })
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("another one was made after %s, want not before 50 ms", took)
	}
}

func TestSettingsChangeWhileItRuns(t *testing.T) {
	b, other := &boxes{t: t}, &boxes{t: t}
	p := start(t, b, pool.Template{Size: 2}, nil)
	full(t, p, 2)
	if err := p.Resize(template, 5); err != nil {
		t.Fatal(err)
	}
	full(t, p, 5)
	if err := p.Resize(template, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one lives", func() bool { return len(b.living()) == 1 })
	if err := p.Set(template, pool.Template{Size: 2, Make: other.make}); err != nil {
		t.Fatal(err)
	}
	full(t, p, 2)
	eventually(t, "none of the former lives", func() bool { return len(b.living()) == 0 })
	if got := len(other.living()); got != 2 {
		t.Errorf("%d of the new template live, want 2", got)
	}
	if s := p.Stats()[template]; s.Created != 7 {
		t.Errorf("%d created, want 7 of both", s.Created)
	}
	if err := p.Drop(template); err != nil {
		t.Fatal(err)
	}
	eventually(t, "none lives", func() bool { return len(other.living()) == 0 })
	if _, err := p.Take(t.Context(), template); !errors.Is(err, pool.ErrUnknown) {
		t.Errorf("Take of what was dropped: err = %v, want ErrUnknown", err)
	}
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	b := &boxes{t: t}
	for name, tpl := range map[string]pool.Template{
		"nothing makes it":         {Size: 1},
		"fewer than none":          {Size: -1, Make: b.make},
		"more than a pool may":     {Size: pool.MaxSize + 1, Make: b.make},
		"an age of less than none": {Size: 1, MaxAge: -1, Make: b.make},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pool.New(&pool.Options{Templates: map[string]pool.Template{template: tpl}}); err == nil {
				t.Error("New took it")
			}
		})
	}
	p := start(t, b, pool.Template{}, nil)
	if err := p.Set("", pool.Template{Make: b.make}); err == nil {
		t.Error("Set took a template without a name")
	}
	if err := p.Resize("nobody", 1); !errors.Is(err, pool.ErrUnknown) {
		t.Errorf("Resize of no template: err = %v, want ErrUnknown", err)
	}
}

func TestTheOldAreReplaced(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 2, MaxAge: 30 * time.Millisecond}, nil)
	eventually(t, "replaced", func() bool { return b.made.Load() >= 6 })
	eventually(t, "2 live and what is just made or ending", func() bool { return len(b.living()) <= 4 })
	take(t, p)
	if s := p.Stats()[template]; s.Died > 0 || s.Failed > 0 {
		t.Errorf("Stats = %+v, want none died or failed", s)
	}
}

func TestATemplateThatNobodyAsksForSleepsUntilSomebodyDoes(t *testing.T) {
	b := &boxes{t: t}
	const idle = 50 * time.Millisecond
	tpl := pool.Template{Make: b.make, Check: b.patient, Size: 2, MaxIdle: idle}
	p := start(t, b, tpl, nil)
	// Where the machine stands still for that long, it sleeps before it has made any: then somebody has to ask again.
	begun := time.Now()
	late := func() bool {
		if time.Since(begun) < 10*idle {
			return false
		}
		begun = time.Now()
		return true
	}
	eventually(t, "made and ended", func() bool {
		if b.made.Load() < 2 && late() {
			if err := p.Set(template, tpl); err != nil {
				t.Fatal(err)
			}
		}
		return b.made.Load() >= 2 && len(b.living()) == 0
	})
	filled := func() int64 { return b.made.Load() - int64(p.Stats()[template].Misses) } // and not for somebody who waited
	asleep := filled()
	take(t, p)
	begun = time.Now()
	eventually(t, "made anew", func() bool {
		if filled() < asleep+2 && late() {
			take(t, p)
		}
		return filled() >= asleep+2
	})
}
