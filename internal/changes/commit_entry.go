package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// refuse marks what the options do not let out.
func (m *committer) refuse(o *CommitOptions) {
	if o.Refuse == nil {
		return
	}
	for i := range m.set.Changes {
		if ch := &m.set.Changes[i]; ch.Refused == "" {
			ch.Refused = o.Refuse(&m.set.Header, ch)
		}
	}
}

// commit chooses, checks, plans and runs one commit.
func (m *committer) commit(ctx context.Context, o *CommitOptions) (*CommitReport, error) {
	if err := m.othersFinished(); err != nil {
		return nil, err
	}
	m.refuse(o)
	sel, err := choose(&m.set.Set, o.Paths, m.committed())
	if err != nil {
		return nil, fmt.Errorf("commit change set %s: %w", m.id, err)
	}
	j := m.entry(kindCommit)
	j.entry.Paths, j.entry.Forced = o.Paths, o.Force
	x, err := m.executor(j)
	if err != nil {
		return nil, err
	}
	defer x.close()
	c := checker{host: x.host, force: o.Force, restored: m.restored(), all: make(map[Path]*Change, len(m.set.Changes))}
	for i := range m.set.Changes {
		c.all[m.set.Changes[i].Path] = &m.set.Changes[i]
	}
	list := m.outsideStore(sel)
	c.forced = func(p Path) bool { return named(p, o.Paths) }
	wishes, err := c.wishes(list)
	if err != nil {
		return nil, fmt.Errorf("commit change set %s: %w", m.id, err)
	}
	p := newPlanner(x.host, x.set)
	if err := m.plan(x, p, wishes, c.conflicts); err != nil {
		return nil, err
	}
	x.notes = append(x.notes, c.notes...)
	r := m.report(sel, c.already)
	if len(list) == 0 {
		return r, nil
	}
	if o.DryRun {
		r.Notes = x.notes
		m.reportOps(r, j)
		return r, nil
	}
	if err := m.carryOut(ctx, x); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	r.Notes = x.notes
	m.reportOps(r, j)
	m.reportState(r)
	return r, nil
}

// plan makes the operations, or an error that names every conflict or every denial.
func (m *committer) plan(x *executor, p *planner, wishes []wish, conflicts []Conflict) error {
	if len(conflicts) == 0 {
		if err := p.plan(wishes); err != nil && len(p.conflicts) == 0 {
			return fmt.Errorf("change set %s: nothing was changed: %w", m.id, err)
		}
		conflicts = p.conflicts
	}
	if len(conflicts) > 0 {
		return fmt.Errorf("nothing was changed: %w", &ConflictError{ID: m.id, Conflicts: conflicts})
	}
	x.j.ops, x.j.entry.Count = p.ops, len(p.ops)
	x.notes = append(p.notes, setIDNotes(p.ops)...)
	return nil
}

// carryOut runs a planned entry to its end.
func (m *committer) carryOut(ctx context.Context, x *executor) error {
	if err := x.begin(); err != nil {
		return err
	}
	if err := x.run(ctx); err != nil {
		return err
	}
	return m.closeEntry(x)
}

// closeEntry sets the set's state, and then says that nothing remains to be done: a
// crash in between repeats it.
func (m *committer) closeEntry(x *executor) error {
	m.entries = append(m.entries, x.j)
	m.set.settle(m.entries)
	if state := m.state(); state != m.set.State {
		x.step("set the state")
		if err := m.store.SetState(m.id, state); err != nil {
			return fmt.Errorf("%w: %w", ErrInterrupted, err)
		}
		m.set.State = state
	}
	if err := x.mark(&record{Type: recClosed}); err != nil {
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	return nil
}

// goOn finishes the pending entry forward. A nil report without an error says that
// nothing had been begun but a plan, which was dropped.
func (m *committer) goOn(ctx context.Context, force bool) (*CommitReport, error) {
	x, err := m.reopen(force)
	if err != nil {
		return nil, err
	}
	defer x.close()
	switch x.j.phase {
	case "", recReady, recAbort:
		// Nothing was switched, or everything is switched back. The host may have
		// moved on, so the rest is to be checked afresh rather than gone on with.
		return nil, m.drop(x)
	case recDone:
		err = x.finish()
	default:
		err = x.run(ctx)
	}
	if err == nil {
		err = m.closeEntry(x)
	}
	if err != nil {
		if errors.Is(err, ErrRolledBack) {
			m.pending = nil
		}
		return nil, fmt.Errorf("finish the interrupted %s of change set %s: %w", x.j.entry.Kind, m.id, err)
	}
	m.pending = nil
	r := m.report(nil, nil)
	r.Notes = x.notes
	if x.j.entry.Kind == kindCommit {
		m.reportOps(r, x.j)
	}
	return r, nil
}

// drop takes the pending entry back.
func (m *committer) drop(x *executor) error {
	var err error
	if x.j.phase == "" {
		err = os.Remove(filepath.Join(m.dir, journalName(x.j.num)))
	} else {
		err = x.noneMoved()
		if err == nil {
			err = x.back()
		}
	}
	if err != nil {
		return fmt.Errorf("roll back the interrupted %s of change set %s: %w", x.j.entry.Kind, m.id, err)
	}
	m.pending = nil
	return nil
}

// noneMoved protects the backup from a journal that has lost records: where nothing was
// switched, nothing can have been displaced into it.
func (x *executor) noneMoved() error {
	if x.j.phase != recReady {
		return nil
	}
	for i := range x.j.ops {
		if o := &x.j.ops[i]; o.Do == doReplace && o.Move {
			if n, err := look(x.set, x.vault(i)); err != nil || n != nil {
				return errors.Join(err, fmt.Errorf("%w: the old %s is in the backup folder, which the journal does not know", ErrJournal, shown(o.Path)))
			}
		}
	}
	return nil
}

func (m *committer) reopen(force bool) (*executor, error) {
	x, err := m.executor(m.pending)
	if err != nil {
		return nil, err
	}
	x.force = force
	if err := x.resume(); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// othersFinished refuses to commit beside a half-done commit, whose files are neither
// old nor new.
func (m *committer) othersFinished() error {
	ids, err := m.store.interrupted(m.id)
	if err == nil && len(ids) > 0 {
		err = fmt.Errorf("change set %s: %w: commit or undo it again", ids[0], ErrInterrupted)
	}
	return err
}

// outsideStore leaves out what lies in the store itself, whatever the set says.
func (m *committer) outsideStore(sel *selection) []*Change {
	rel, err := filepath.Rel(m.rootDir, m.store.dir)
	if err != nil {
		return sel.changes
	}
	home := Path(filepath.Join("/", rel))
	list := make([]*Change, 0, len(sel.changes))
	for _, ch := range sel.changes {
		if ch.Path.Below(home) || home.Below(ch.Path) && ch.New == nil {
			sel.left = append(sel.left, Left{ch.Path, "it holds Airlock's own change sets"})
			continue
		}
		list = append(list, ch)
	}
	return list
}

func named(p Path, paths []Path) bool {
	return slices.ContainsFunc(paths, p.Below)
}

// backupPath is where a person finds what op i of entry num displaced.
func (m *committer) backupPath(p Path) string {
	return filepath.Join(m.dir, filepath.FromSlash(string(p)))
}
