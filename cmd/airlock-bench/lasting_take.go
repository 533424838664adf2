package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/pool"
)

const (
	template   = "busybox"
	poolQuiet  = 100 * time.Millisecond // how long nothing has happened in a pool before something is measured
	manyTakes  = 50
	manyCold   = 100
	coldAtOnce = 4 // of manyCold, on either side
)

// newPool starts a pool of the root file system that all share.
func (l *lastBed) newPool(size int) (*pool.Pool, error) {
	return pool.New(&pool.Options{Templates: map[string]pool.Template{template: {Size: size, Make: l.keep}}})
}

// filled waits until a pool has all it should and rests.
func filled(ctx context.Context, p *pool.Pool, size int) error {
	for end := time.Now().Add(2 * time.Minute); ; {
		s := p.Stats()[template]
		if s.Ready == size && s.Filling == 0 && s.Cold == 0 {
			break
		}
		if s.Failed > 5 || time.Now().After(end) {
			return fmt.Errorf("the pool does not fill: %+v", s)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return pause(ctx, poolQuiet)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// warmFigures take a sandbox from the pool and have it answer, beside runtimes that start one.
func warmFigures(ctx context.Context, b *bed) ([]figure, error) {
	const name = "warm: take from the pool, run `true`, answer"
	l, err := newLastBed(ctx, b)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.skipped != "" {
		return []figure{skip(name, l.skipped)}, nil
	}
	p, err := l.newPool(1)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var w *pool.Warm
	var takes []time.Duration
	ours := side{
		before: func() error { return filled(ctx, p, 1) },
		run: func() (err error) {
			start := time.Now()
			if w, err = p.Take(ctx, template); err != nil {
				return err
			}
			takes = append(takes, time.Since(start))
			_, err = answer(ctx, w.Client, "/bin/true")
			return err
		},
		after: func() error {
			w.Client.Close()
			return endSandbox(ctx, w.Lasting)
		},
	}
	figures, _, err := l.beside(ctx, name, ours, map[string]float64{"`crun run`": 1, "`runsc run`": 0.15})
	if err != nil {
		return nil, err
	}
	if s := p.Stats()[template]; s.Misses > 0 {
		return nil, fmt.Errorf("%d takes found nothing ready", s.Misses)
	}
	figures[0].note = fmt.Sprintf("%s of it is the take with its check; all sides run the same static busybox in the same root file system.", short(median(takes)))
	return figures, nil
}

// manyFigures are what a crowd gets.
func manyFigures(ctx context.Context, b *bed) ([]figure, error) {
	l, err := newLastBed(ctx, b)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.skipped != "" {
		return []figure{skip("50 warm takes at once", l.skipped)}, nil
	}
	takes, err := l.crowd(ctx)
	if err != nil {
		return nil, err
	}
	colds, err := l.colds(ctx)
	return []figure{takes, colds}, err
}

// crowd has many take at once.
func (l *lastBed) crowd(ctx context.Context) (figure, error) {
	p, err := l.newPool(manyTakes)
	if err != nil {
		return figure{}, err
	}
	defer p.Close()
	warm := make([]*pool.Warm, manyTakes)
	ours := side{
		before: func() error { return filled(ctx, p, manyTakes) },
		run: func() error {
			return atOnce(manyTakes, manyTakes, func(i int) (err error) {
				if warm[i], err = p.Take(ctx, template); err == nil {
					_, err = answer(ctx, warm[i].Client, "/bin/true")
				}
				return err
			})
		},
		after: func() error {
			return atOnce(manyTakes, coldAtOnce, func(i int) error {
				warm[i].Client.Close()
				return endSandbox(ctx, warm[i].Lasting)
			})
		},
	}
	engine := side{before: ours.before, run: func() error {
		ids := fmt.Sprintf("crowd%d", time.Now().UnixNano())
		return atOnce(manyTakes, manyTakes, func(i int) error {
			return l.runsc(ctx, "run", "--bundle", l.dir+"/true", fmt.Sprintf("%s%02d", ids, i))
		})
	}}
	times, err := turns(ctx, max(l.rounds/5, 3), []side{ours, engine})
	if err != nil {
		return figure{}, err
	}
	f := compare(fmt.Sprintf("%d warm takes at once, to the last answer of `true`", manyTakes), fmt.Sprintf("%d × `runsc run`", manyTakes), times[0], times[1], 0)
	f.bar = ""
	return f, nil
}

// colds makes many that stay, a few at once.
func (l *lastBed) colds(ctx context.Context) (figure, error) {
	made := make([]sandbox.Lasting, manyCold)
	ours := side{
		run: func() error {
			return atOnce(manyCold, coldAtOnce, func(i int) (err error) {
				made[i], err = l.keep(ctx)
				return err
			})
		},
		after: func() error {
			return atOnce(manyCold, coldAtOnce, func(i int) error { return endSandbox(ctx, made[i]) })
		},
	}
	bundle, err := l.bundle("stays", l.rootfs, "/bin/sleep", "3600")
	if err != nil {
		return figure{}, err
	}
	ids := ""
	id := func(i int) string { return fmt.Sprintf("%s%02d", ids, i) }
	engine := side{
		before: func() error { ids = fmt.Sprintf("cold%d", time.Now().UnixNano()); return nil },
		run: func() error {
			return atOnce(manyCold, coldAtOnce, func(i int) error { return l.detached(ctx, "run", "--detach", "--bundle", bundle, id(i)) })
		},
		after: func() error {
			return atOnce(manyCold, coldAtOnce, func(i int) error { return l.runsc(ctx, "delete", "--force", id(i)) })
		},
	}
	times, err := turns(ctx, 3, []side{ours, engine})
	if err != nil {
		return figure{}, err
	}
	perSecond := func(d []time.Duration) string { return fmt.Sprintf("%.1f/s", manyCold/median(d).Seconds()) }
	return figure{
		name: fmt.Sprintf("%d cold creates that stay, %d at once", manyCold, coldAtOnce), ours: perSecond(times[0]),
		peer: "`runsc run --detach`: " + perSecond(times[1]), ratio: fmt.Sprintf("%.2f × the time", ratioOf(times[0], times[1])),
	}, nil
}

// atOnce does n things, so many at a time.
func atOnce(n, workers int, do func(i int) error) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs error
	)
	turn := make(chan struct{}, workers)
	for i := range n {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			if err := do(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = errors.Join(errs, err)
			}
		})
	}
	all.Wait()
	return errs
}
