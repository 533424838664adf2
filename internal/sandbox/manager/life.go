package manager

import (
	"context"
	"errors"

	"airlock/internal/sandbox"
)

// Pause freezes what runs in a sandbox; Resume lets it go on. Both may be said twice.
func (m *Manager) Pause(ctx context.Context, id string) error {
	return m.step(ctx, id, "pause", nil, func(ctx context.Context, box *Box) error { return box.Pause(ctx) })
}

// Resume is Pause's opposite.
func (m *Manager) Resume(ctx context.Context, id string) error {
	return m.step(ctx, id, "resume", nil, func(ctx context.Context, box *Box) error { return box.Resume(ctx) })
}

// SetTimes gives a sandbox new times; its life is counted from its start.
func (m *Manager) SetTimes(ctx context.Context, id string, t Times) error {
	if err := t.check(); err != nil {
		return err
	}
	return m.step(ctx, id, "times", t, func(ctx context.Context, box *Box) error {
		times := t.engine()
		if err := box.Touch(ctx, &times); err != nil {
			return err
		}
		r, err := m.row(ctx, box.ID())
		if err != nil || r == nil {
			return err
		}
		r.info.Times = t
		return m.update(ctx, r)
	})
}

// step does something with a sandbox that lives, under its lock and after its row in the record.
func (m *Manager) step(ctx context.Context, id, verb string, about any, do func(ctx context.Context, box *Box) error) error {
	if _, err := m.settle(ctx); err != nil {
		return err
	}
	return m.With(ctx, id, verb, func(ctx context.Context, box *Box) error {
		if err := m.record(ctx, verb, box.ID(), about); err != nil {
			return err
		}
		return do(ctx, box)
	})
}

// Remove ends a sandbox and throws away what it wrote. What is to be kept or committed of that is gathered
// before, within With. One that has ended already is not there: *Gone.
func (m *Manager) Remove(ctx context.Context, id string) error {
	if _, err := m.settle(ctx); err != nil {
		return err
	}
	found, err := m.find(ctx, id)
	if err != nil {
		return err
	}
	id = found.info.ID
	release, err := m.lock(ctx, id, "rm")
	if err != nil {
		return err
	}
	defer release()
	box, err := m.open(ctx, id)
	if err != nil {
		return err
	}
	defer func() { _ = box.Release() }()
	r := &row{box.Info, stepRemove}
	err = m.withBallast(func() error {
		if err := m.record(ctx, "remove", id, nil); err != nil {
			return err
		}
		// From here on it is removed, whatever becomes of this program.
		return m.update(ctx, r)
	})
	if err != nil {
		return err
	}
	if err := m.end(ctx, box); err != nil {
		return err
	}
	return m.ended(ctx, r, Ending{Reason: Removed})
}

// Discard throws away what a sandbox wrote: it begins anew over the files as they are now, or from its
// template, with the same ID. What ran in it is ended.
func (m *Manager) Discard(ctx context.Context, id string) (*Box, error) {
	if _, err := m.settle(ctx); err != nil {
		return nil, err
	}
	found, err := m.find(ctx, id)
	if err != nil {
		return nil, err
	}
	id = found.info.ID
	release, err := m.lock(ctx, id, "discard")
	if err != nil {
		return nil, err
	}
	defer release()
	box, err := m.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = box.Release() }()
	if err := m.record(ctx, "discard", id, nil); err != nil {
		return nil, err
	}
	return m.anew(ctx, box)
}

func (m *Manager) anew(ctx context.Context, box *Box) (*Box, error) {
	r := &row{info: box.Info}
	i := &r.info
	start, done, err := m.beginning(ctx, r, box)
	if err != nil {
		return nil, err
	}
	defer done()
	i.State, i.Notes = Creating, nil
	if err := m.update(ctx, r); err != nil {
		return nil, err
	}
	if err := m.end(ctx, box); err != nil {
		// It is as it was, unless it ended all the same.
		i.State = Ready
		return nil, errors.Join(err, m.update(context.WithoutCancel(ctx), r))
	}
	if m.opts.Forget != nil {
		m.opts.Forget(i.ID)
	}
	return m.bear(ctx, r, func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
		if m.opts.Changes != nil && i.OverHost() {
			if err := m.opts.Changes.Anew(ctx, i.ID); err != nil {
				return nil, err
			}
		}
		return start(ctx, b)
	})
}

// beginning is how a sandbox began: what makes it anew, while its template, if it has one, stays.
func (m *Manager) beginning(ctx context.Context, r *row, box *Box) (start func(context.Context, *birth) (sandbox.Lasting, error), done func(), err error) {
	if r.info.Template != "" {
		return m.templateBeginning(ctx, r)
	}
	i := &r.info
	var input []byte
	if i.Net.gated() {
		if input, err = box.GateInput(ctx); err != nil {
			return nil, nil, err
		}
	}
	return func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
		if i.OverHost() && m.opts.View != nil {
			// Files that are to be hidden may have come since.
			var err error
			if i.WorkDir, i.Hidden, err = m.opts.View(i.WorkDir, i.Hide, i.Show); err != nil {
				return nil, err
			}
		}
		if err := m.gate(ctx, b, i.Env, input); err != nil {
			return nil, err
		}
		return m.inTurn(ctx, func() (sandbox.Lasting, error) { return m.opts.Driver.Keep(ctx, b.spec()) })
	}, func() {}, nil
}
