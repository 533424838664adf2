package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"airlock/internal/sandbox"
)

// forkName is the folder, in that of the first fork, where the parent's state is while its forks
// are made. It goes with them, or with what a sweep finds of them.
const forkName = "fork"

// forksAtOnce is how many forks are made at a time: on two processors more gain nothing.
const forksAtOnce = 2

// Fork makes sandboxes that go on from where parent is. The result has the place of each spec, nil where
// that one failed, and the error says why. Forks are prepared while their parent is
// saved, so that it takes less time than one after the other.
func (d *Driver) Fork(ctx context.Context, parent sandbox.Lasting, specs []*sandbox.LastingSpec) ([]sandbox.Lasting, error) {
	p, ok := parent.(*lasting)
	if !ok {
		return nil, errors.New("fork: the parent is another driver's")
	}
	forks := make([]sandbox.Lasting, len(specs))
	if len(specs) == 0 {
		return forks, nil
	}
	f := &forking{driver: d, parent: p, saved: make(chan struct{}), turn: make(chan struct{}, forksAtOnce)}
	first, engine, err := f.newBox(ctx, specs[0])
	if err != nil {
		return forks, err
	}
	if err := first.makeDir(); err != nil {
		return forks, fmt.Errorf("fork %s: %w", p.ID(), err)
	}
	f.dir = filepath.Join(first.dir, forkName)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(f.saved)
		if f.err = os.Mkdir(f.dir, 0o700); f.err == nil {
			f.err = p.Checkpoint(ctx, f.dir)
		}
	})
	errs := make([]error, len(specs))
	for i, spec := range specs[1:] {
		f.others.Go(func() { forks[i+1], errs[i+1] = f.one(ctx, nil, "", spec) })
	}
	all.Go(func() { forks[0], errs[0] = f.one(ctx, first, engine, specs[0]) })
	f.others.Wait()
	all.Wait()
	if err := os.RemoveAll(f.dir); err != nil {
		d.log.WarnContext(ctx, "a fork's state stays until the fork ends", "error", err)
	}
	if f.err != nil {
		return forks, fmt.Errorf("fork %s: %w", p.ID(), f.err)
	}
	return forks, errors.Join(errs...)
}

// forking is the making of forks.
type forking struct {
	driver *Driver
	parent *lasting
	dir    string
	turn   chan struct{} // held while one is being made
	saved  chan struct{} // closed when the parent's state is in dir, or err says why not
	err    error
	others sync.WaitGroup // all but the first
}

func (f *forking) newBox(ctx context.Context, spec *sandbox.LastingSpec) (*box, string, error) {
	b, engine, err := f.driver.newLasting(ctx, spec)
	if err != nil {
		return nil, "", err
	}
	b.saved = &saved{Started: f.parent.about.Started, Agents: f.parent.about.Agents, Engine: f.parent.about.Engine}
	b.agents, b.lasting.Agents = b.saved.Agents, b.saved.Agents
	b.lasting.SavedBy, b.lasting.Wait = b.saved.Engine, true
	return b, engine, nil
}

// one makes one fork.
func (f *forking) one(ctx context.Context, b *box, engine string, spec *sandbox.LastingSpec) (sandbox.Lasting, error) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	first := b != nil
	if !first {
		var err error
		if b, engine, err = f.newBox(ctx, spec); err != nil {
			return nil, err
		}
	}
	b.lasting.Restore = f.dir
	err := b.start(ctx, engine)
	<-f.saved
	if err == nil {
		err = f.err
	}
	if err == nil {
		_, err = b.call(ctx, request{Op: opRun})
		if err != nil {
			err = fmt.Errorf("start sandbox %s: %w", b.spec.ID, b.explain(ctx, err))
		}
	}
	if err != nil {
		if first {
			f.others.Wait() // what they go on from lies in its folder
		}
		return nil, errors.Join(err, b.abandon())
	}
	return b.handOver(ctx)
}
