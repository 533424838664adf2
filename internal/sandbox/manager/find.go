package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"airlock/internal/sandbox"
)

// A Filter selects sandboxes. The zero value selects those that live.
type Filter struct {
	All    bool              // those that ended lately, too
	Labels map[string]string // they have all of these
}

// List gives sandboxes, the oldest first, each with its true state.
func (m *Manager) List(ctx context.Context, f *Filter) ([]Info, error) {
	rows, err := m.settle(ctx)
	if err != nil {
		return nil, err
	}
	if f == nil {
		f = &Filter{}
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return !f.All && !r.info.Alive() || !hasLabels(&r.info, f.Labels) })
	return m.views(ctx, rows), nil
}

func hasLabels(i *Info, labels map[string]string) bool {
	for k, v := range labels {
		if got, ok := i.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Find gives the sandbox of an ID, or of the beginning of one that only one has: *NotFound and *Ambiguous
// otherwise. Those that live go before those that ended.
func (m *Manager) Find(ctx context.Context, prefix string) (*Info, error) {
	r, err := m.find(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return &r.info, nil
}

func (m *Manager) find(ctx context.Context, prefix string) (*row, error) {
	if prefix == "" || len(prefix) > idLen || strings.Trim(prefix, idChars) != "" {
		return nil, &NotFound{"sandbox", prefix}
	}
	// A range, so that the index finds it. No ID has a character above 'z'.
	rows, err := m.rows(ctx, "id >= ? AND id < ?", prefix, prefix+"{")
	if err != nil {
		return nil, err
	}
	if alive := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !r.info.Alive() }); len(alive) > 0 {
		rows = alive
	}
	switch len(rows) {
	case 0:
		return nil, &NotFound{"sandbox", prefix}
	case 1:
		return rows[0], nil
	}
	e := &Ambiguous{Prefix: prefix}
	for _, r := range rows {
		e.IDs = append(e.IDs, r.info.ID)
	}
	return nil, e
}

const (
	idLen   = 16
	idChars = "abcdefghijklmnopqrstuvwxyz234567"
)

// Inspect gives everything known of a sandbox, with its Status where it runs.
func (m *Manager) Inspect(ctx context.Context, prefix string) (*Info, error) {
	if _, err := m.settle(ctx); err != nil {
		return nil, err
	}
	r, err := m.find(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return &m.views(ctx, []*row{r})[0], nil
}

// Open opens a sandbox that lives, for calls. *Gone: it has ended. Whether it is paused is not asked for.
func (m *Manager) Open(ctx context.Context, prefix string) (*Box, error) {
	r, err := m.find(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return m.open(ctx, r.info.ID)
}

// open opens one. Where it does not run, it finds out what came of it.
func (m *Manager) open(ctx context.Context, id string) (*Box, error) {
	r, err := m.row(ctx, id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, &NotFound{"sandbox", id}
	}
	if r.info.State == Ready {
		l, err := m.opts.Driver.Open(ctx, id)
		if err == nil {
			return &Box{l, r.info}, nil
		}
		if !errors.Is(err, sandbox.ErrNoSandbox) {
			return nil, err
		}
	}
	if _, err := m.settleOne(ctx, id); err != nil && !errors.Is(err, errHeld) {
		return nil, err
	}
	if r, err = m.row(ctx, id); err != nil {
		return nil, err
	}
	switch {
	case r == nil:
		return nil, &NotFound{"sandbox", id}
	case r.info.State == Creating:
		pid, verb := m.holder(id)
		return nil, &Busy{What: keyText(id), PID: pid, Verb: verb}
	case r.info.Alive() && r.step == stepRemove:
		return nil, &Gone{id, Removed, ""}
	case r.info.Alive():
		return nil, sandbox.ErrNoSandbox // another command is at it, and will say what came of it
	}
	return nil, &Gone{id, r.info.Reason, r.info.Error}
}

const (
	statusTime = 5 * time.Second // for how long a keeper may think about how it is
	statusMost = 16              // that are asked at once
)

// views gives rows as they are seen, with what the keepers say.
func (m *Manager) views(ctx context.Context, rows []*row) []Info {
	out := make([]Info, len(rows))
	limit := make(chan struct{}, statusMost)
	var asking sync.WaitGroup
	for i, r := range rows {
		out[i] = r.info
		if r.info.State == Creating {
			out[i].Busy = m.busyWith(r.info.ID)
		}
		if r.info.State != Ready {
			continue
		}
		asking.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			m.view(ctx, r, &out[i])
		})
	}
	asking.Wait()
	return out
}

func (m *Manager) view(ctx context.Context, r *row, info *Info) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	info.Busy = m.busyWith(info.ID)
	l, err := m.opts.Driver.Open(ctx, info.ID)
	if err == nil {
		defer func() { _ = l.Release() }()
		if info.Status, err = l.Status(ctx); err == nil {
			info.State = info.Status.State
			return
		}
	}
	if r.step == stepRemove {
		info.State, info.Reason = Destroyed, Removed
		return
	}
	info.Error = err.Error()
}

// Stats says how sandboxes are: those that live, where none is named. The errors of the lookup of IDs
// come before any is asked.
func (m *Manager) Stats(ctx context.Context, prefixes ...string) ([]Stat, error) {
	rows, err := m.settle(ctx)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return !r.info.Alive() })
	if len(prefixes) > 0 {
		rows = nil
		for _, p := range prefixes {
			r, err := m.find(ctx, p)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	out := make([]Stat, 0, len(rows))
	for _, i := range m.views(ctx, rows) {
		out = append(out, Stat{i.ID, i.State, i.Status, i.Error})
	}
	return out, nil
}
