package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"airlock/internal/sandbox"
)

const forkParallel = 2 // restores at once

// A ForkError says which of the forks could not be made. The others are there.
type ForkError struct {
	IDs  []string // that could not be made
	Errs []error  // why, of each
}

func (e *ForkError) Error() string {
	return fmt.Sprintf("%d of the forks could not be made (%s): %v", len(e.IDs), strings.Join(e.IDs, ", "), e.Errs[0])
}

// Unwrap gives the causes.
func (e *ForkError) Unwrap() []error { return e.Errs }

// Fork makes n sandboxes that go on from where this one is, which goes on itself whatever comes of
// that. Where some cannot be made, the others are returned beside a *ForkError. Labels and times are req's, or where it is
// nil the parent's.
func (m *Manager) Fork(ctx context.Context, id string, n int, req *Request) ([]*Box, error) {
	if n < 1 || n > maxForks {
		return nil, problem("a sandbox is forked into 1 to %d, not %d", maxForks, n)
	}
	if req != nil {
		if err := req.checkRestore("a fork"); err != nil {
			return nil, err
		}
	}
	var out []*Box
	err := m.step(ctx, id, "fork", map[string]any{"n": n}, func(ctx context.Context, box *Box) error {
		var err error
		out, err = m.fork(ctx, box, n, req)
		return err
	})
	return out, err
}

func (m *Manager) fork(ctx context.Context, parent *Box, n int, req *Request) ([]*Box, error) {
	if req == nil {
		req = &Request{Labels: parent.Info.Labels, Times: parent.Info.Times}
	}
	rows := make([]*row, n)
	for i := range rows {
		rows[i] = restoredRow(&parent.Info, req)
		rows[i].info.From = "fork:" + parent.ID()
		release, err := m.lock(ctx, rows[i].info.ID, "fork")
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if err := m.insert(ctx, rows...); err != nil {
		return nil, err
	}
	f := &forking{m: m, parent: parent, rows: rows, births: make([]*birth, n), made: make([]sandbox.Lasting, n), errs: make([]error, n)}
	f.run(ctx)
	return f.result(ctx)
}

// A forking is one call of Fork.
type forking struct {
	m      *Manager
	parent *Box
	rows   []*row
	births []*birth
	made   []sandbox.Lasting
	errs   []error
}

func (f *forking) run(ctx context.Context) {
	m := f.m
	fail := func(err error) {
		for i := range f.rows {
			f.errs[i] = err
		}
	}
	var input []byte
	if f.parent.Info.Net.gated() {
		var err error
		if input, err = f.parent.GateInput(ctx); err != nil {
			fail(err)
			return
		}
	}
	for i, r := range f.rows {
		f.births[i] = &birth{m: m, info: &r.info}
		f.errs[i] = f.ready(ctx, f.births[i], input)
	}
	if d, ok := m.opts.Driver.(Forker); ok {
		f.byDriver(ctx, d)
		return
	}
	dir := filepath.Join(m.snapshotDir(), tempMark+f.parent.ID())
	defer os.RemoveAll(dir)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = f.parent.Checkpoint(ctx, dir)
	}
	if err != nil {
		fail(err)
		return
	}
	f.each(func(i int) {
		f.made[i], f.errs[i] = m.inTurn(ctx, func() (sandbox.Lasting, error) {
			return m.opts.Driver.Restore(ctx, f.births[i].spec(), dir)
		})
	})
}

// ready gives a fork what it needs beside its state.
func (f *forking) ready(ctx context.Context, b *birth, input []byte) error {
	m, i := f.m, b.info
	if err := m.holdImage(ctx, i); err != nil {
		return err
	}
	if m.opts.Changes != nil && i.OverHost() {
		if err := m.opts.Changes.Forked(ctx, f.parent.ID(), i.ID); err != nil {
			return err
		}
	}
	return m.gate(ctx, b, maps.Clone(f.parent.Info.Env), input)
}

// each calls do for each fork that has not failed, a few at a time.
func (f *forking) each(do func(i int)) {
	limit := make(chan struct{}, forkParallel)
	var making sync.WaitGroup
	for i := range f.rows {
		if f.errs[i] != nil {
			continue
		}
		limit <- struct{}{}
		making.Go(func() {
			defer func() { <-limit }()
			do(i)
		})
	}
	making.Wait()
}

// byDriver has the driver fork all that are ready.
func (f *forking) byDriver(ctx context.Context, d Forker) {
	var specs []*sandbox.LastingSpec
	var at []int
	for i, b := range f.births {
		if f.errs[i] == nil {
			specs, at = append(specs, b.spec()), append(at, i)
		}
	}
	if len(specs) == 0 {
		return
	}
	made, err := d.Fork(ctx, f.parent.Lasting, specs)
	for n, i := range at {
		if n < len(made) && made[n] != nil {
			f.made[i] = made[n]
			continue
		}
		if f.errs[i] = err; err == nil {
			f.errs[i] = errors.New("the driver made none")
		}
	}
}

// result writes down those that were made, all at once: where this program is ended before, none is there. It
// clears up after the others.
func (f *forking) result(ctx context.Context) ([]*Box, error) {
	m := f.m
	var out []*Box
	var ready []*row
	for i, r := range f.rows {
		if f.errs[i] == nil {
			f.errs[i] = m.learn(ctx, f.births[i], f.made[i])
		}
		if f.errs[i] == nil {
			ready, out = append(ready, r), append(out, &Box{f.made[i], r.info})
		}
	}
	if err := m.update(ctx, ready...); err != nil {
		out = nil
		for i := range f.rows {
			if f.errs[i] == nil {
				f.errs[i] = err
			}
		}
	}
	return out, f.failure(ctx)
}

// failure clears up after the forks that failed, and says which.
func (f *forking) failure(ctx context.Context) error {
	var failed ForkError
	for i, r := range f.rows {
		err := f.errs[i]
		if err == nil {
			continue
		}
		if f.made[i] != nil {
			err = errors.Join(err, f.m.endNow(ctx, f.made[i]))
		}
		failed.IDs = append(failed.IDs, r.info.ID)
		failed.Errs = append(failed.Errs, f.m.stillborn(ctx, r, err))
	}
	switch len(failed.IDs) {
	case 0:
		return nil
	case len(f.rows):
		return failed.Errs[0]
	}
	return &failed
}
