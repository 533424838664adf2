package pool_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/pool"
)

func TestSandboxesThatDieWhileTheyWaitAreReplaced(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 3}, &pool.Options{Backoff: time.Millisecond})
	full(t, p, 3)
	b.each(func(x *box) { x.die() })
	eventually(t, "replaced", func() bool { s := p.Stats()[template]; return s.Died == 3 && s.Ready == 3 })
	take(t, p)
	if s := p.Stats()[template]; s.Hits != 1 || s.Misses != 0 {
		t.Errorf("%d hits, %d misses, want 1 and 0", s.Hits, s.Misses)
	}
}

func TestASandboxThatDoesNotAnswerIsNotHandedOut(t *testing.T) {
	b := &boxes{t: t}
	p := start(t, b, pool.Template{Size: 2, Check: check}, &pool.Options{Filling: 1})
	full(t, p, 2)
	silent := b.all[0] // the first made is the first tried
	silent.fallSilent()
	w := take(t, p)
	if w.Lasting.ID() == silent.id {
		t.Error("Take handed out what does not answer")
	}
	eventually(t, "ended", func() bool { return !slices.Contains(b.living(), silent.id) })
	// The other one is taken for dead, too, where the machine stands still for a second.
	if s := p.Stats()[template]; s.Died < 1 || s.Died == 1 && s.Hits != 1 {
		t.Errorf("%d died, %d hits, want 1 and 1", s.Died, s.Hits)
	}
}

// check is the pool's own.
func check(ctx context.Context, w *pool.Warm) error { return w.Client.Ping(ctx) }

// bare leaves a sandbox as it was made.
func bare(context.Context, *pool.Warm) error { return nil }

func TestATakeDoesNotTryAllThatAreSilent(t *testing.T) {
	b := &boxes{t: t}
	const silent = 100 // a second each
	p := start(t, b, pool.Template{Size: silent, Check: check, Prepare: bare}, nil)
	full(t, p, silent)
	b.each(func(x *box) { x.fallSilent() })
	begun := time.Now()
	take(t, p)
	if took := time.Since(begun); took > silent*time.Second/2 {
		t.Errorf("%d silent sandboxes held a Take up for %s", silent, took)
	}
	if s := p.Stats()[template]; s.Misses != 1 {
		t.Errorf("%d misses, want 1", s.Misses)
	}
}

func TestAMakeThatFailsIsTriedAgainSlowerAndSlower(t *testing.T) {
	var tries atomic.Int64
	b := &boxes{t: t}
	b.before = func(context.Context) error {
		if tries.Add(1) <= 5 {
			return errors.New("no room")
		}
		return nil
	}
	begun := time.Now()
	p := start(t, b, pool.Template{Size: 2}, &pool.Options{Filling: 1, Backoff: 10 * time.Millisecond})
	full(t, p, 2)
	// Half of 10, 20, 40, 80 and 160 ms, at the least.
	if took := time.Since(begun); took < 155*time.Millisecond {
		t.Errorf("five failures were over in %s: that is no backing off", took)
	}
	if s := p.Stats()[template]; s.Failed != 5 {
		t.Errorf("%d failed, want 5", s.Failed)
	}
}

func TestSandboxesThatDieAtOnceDoNotKeepTheMachineBusy(t *testing.T) {
	b := &boxes{t: t}
	b.after = func(x *box) { x.die() }
	start(t, b, pool.Template{Size: 5}, &pool.Options{Backoff: time.Hour, MaxBackoff: time.Hour})
	eventually(t, "tried", func() bool { return b.made.Load() >= 1 })
	time.Sleep(50 * time.Millisecond) // in which it would be made hundreds of times
	if n := b.made.Load(); n > 2 {
		t.Errorf("%d were made within the backing off, want no more than were begun at once", n)
	}
}

func TestWhoWaitsIsToldWhyNoneWasMade(t *testing.T) {
	b := &boxes{t: t, before: func(context.Context) error { return errors.New("no room left") }}
	p := start(t, b, pool.Template{}, nil)
	_, err := p.Take(t.Context(), template)
	if err == nil || !strings.Contains(err.Error(), "no room left") {
		t.Errorf("Take: err = %v, want the reason", err)
	}
}

func TestASandboxWhoseAgentDoesNotAnswerIsEnded(t *testing.T) {
	refused := errors.New("refused")
	b := &boxes{t: t, after: func(x *box) { x.refuse = refused }}
	p := start(t, b, pool.Template{}, nil)
	if _, err := p.Take(t.Context(), template); !errors.Is(err, refused) {
		t.Errorf("Take: err = %v, want %v", err, refused)
	}
	if n := len(b.living()); n != 0 {
		t.Errorf("%d live that nobody has", n)
	}
}

func TestWhatCannotBePreparedIsNotReady(t *testing.T) {
	b := &boxes{t: t}
	prepare := func(_ context.Context, w *pool.Warm) error {
		if b.made.Load() == 1 {
			return errors.New("spoilt")
		}
		return w.Client.WriteFile(t.Context(), t.TempDir()+"/prepared", "")
	}
	p := start(t, b, pool.Template{Size: 1, Prepare: prepare}, &pool.Options{Backoff: time.Millisecond})
	full(t, p, 1)
	if s := p.Stats()[template]; s.Failed != 1 || len(b.living()) != 1 {
		t.Errorf("%d failed and %d live, want 1 and 1", s.Failed, len(b.living()))
	}
}

func TestAMakeThatHangsHoldsUpNoOtherTemplate(t *testing.T) {
	hanging := func(ctx context.Context) (sandbox.Lasting, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b := &boxes{t: t}
	p, err := pool.New(&pool.Options{
		MakeTimeout: 500 * time.Millisecond, Backoff: 20 * time.Millisecond,
		Templates: map[string]pool.Template{
			"hangs": {Size: 5, Make: hanging}, template: {Size: 3, Make: b.make, Check: b.patient, Prepare: bare},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	full(t, p, 3)
	take(t, p)
	if _, err := p.Take(t.Context(), "hangs"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Take of what hangs: err = %v, want its deadline's", err)
	}
}

// A Make that does not even heed its context: what it makes in the end is ended.
func TestAMakeThatHeedsNothingIsLetGoOf(t *testing.T) {
	b := &boxes{t: t}
	free := make(chan struct{})
	deaf := func(context.Context) (sandbox.Lasting, error) {
		<-free
		return b.make(context.Background())
	}
	p := start(t, b, pool.Template{Size: 4, Make: deaf}, &pool.Options{MakeTimeout: time.Millisecond, Filling: 1, Drain: 50 * time.Millisecond})
	eventually(t, "stuck", func() bool { return p.Stats()[template].Stuck == 1 })
	if _, err := p.Take(t.Context(), template); err == nil {
		t.Error("Take gave a sandbox that was never made")
	}
	if err := p.Close(); err == nil {
		t.Error("Close says that all has ended, and two are still being made")
	}
	close(free)
	eventually(t, "ended after all", func() bool { return b.made.Load() == 2 && len(b.living()) == 0 })
	eventually(t, "closed, now that they have ended", func() bool { return p.Close() == nil })
}

func TestTakersThatGoAwayLoseNothing(t *testing.T) {
	b := &boxes{t: t}
	release := make(chan struct{})
	b.before = func(context.Context) error { <-release; return nil }
	p := start(t, b, pool.Template{Size: 0}, &pool.Options{Cold: 4})
	ctx, cancel := context.WithCancel(t.Context())
	var takes sync.WaitGroup
	for range 20 {
		takes.Go(func() {
			if w, err := p.Take(ctx, template); err == nil {
				endWarm(w)
				t.Error("Take gave a sandbox to one who had gone")
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("Take: err = %v, want Canceled", err)
			}
		})
	}
	eventually(t, "all wait", func() bool { s := p.Stats()[template]; return s.Waiting == 20 && s.Cold == 4 })
	cancel()
	takes.Wait()
	close(release)
	eventually(t, "what nobody wanted has ended", func() bool { s := p.Stats()[template]; return s.Created == 4 && s.Destroyed == 4 })
	if _, err := p.Take(ctx, template); !errors.Is(err, context.Canceled) {
		t.Errorf("Take with a context that is over: err = %v", err)
	}
}

func TestATakerThatGoesAwayWhileItsSandboxIsCheckedLeavesItThere(t *testing.T) {
	b := &boxes{t: t}
	checking := make(chan struct{}, 10)
	look := func(ctx context.Context, _ *pool.Warm) error {
		checking <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	p := start(t, b, pool.Template{Size: 1, Check: look}, nil)
	full(t, p, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-checking; cancel() }()
	if _, err := p.Take(ctx, template); !errors.Is(err, context.Canceled) {
		t.Errorf("Take: err = %v, want Canceled", err)
	}
	full(t, p, 1)
	if n := b.made.Load(); n > 2 && p.Stats()[template].Died == 0 { // the check's second was over before the taker went
		t.Errorf("%d were made, want the one, or a second that came in between", n)
	}
}

func TestCloseInTheMiddleLeavesNothing(t *testing.T) {
	for range 20 {
		b := &boxes{t: t, slow: time.Millisecond}
		p := start(t, b, pool.Template{Size: 10}, nil)
		var takes sync.WaitGroup
		for range 10 {
			takes.Go(func() {
				for {
					w, err := p.Take(t.Context(), template)
					if errors.Is(err, pool.ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, context.Canceled) { // of one that was being made
						t.Errorf("Take: %v", err)
					}
					if w != nil {
						endWarm(w)
					}
				}
			})
		}
		eventually(t, "under way", func() bool { return b.made.Load() > 10 })
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		takes.Wait()
		if n := len(b.living()); n != 0 {
			t.Fatalf("%d live after Close", n)
		}
	}
}

func TestAnEndThatHangsBoundsClose(t *testing.T) {
	free := make(chan struct{})
	b := &boxes{t: t}
	b.after = func(x *box) {
		x.hang = func(context.Context) error {
			<-free
			x.die()
			x.serving.Wait()
			return nil
		}
	}
	p := start(t, b, pool.Template{Size: 2}, &pool.Options{Drain: 20 * time.Millisecond})
	full(t, p, 2)
	if err := p.Close(); err == nil {
		t.Error("Close says that all has ended, and two have not")
	}
	close(free)
	eventually(t, "closed, now that they can end", func() bool { return p.Close() == nil })
}
