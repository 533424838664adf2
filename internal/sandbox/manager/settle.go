package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"airlock/internal/sandbox"
)

const (
	// keepEnded is for how long it is known why a sandbox has ended.
	keepEnded = 24 * time.Hour
	// cleanTime bounds clearing up after something went wrong, which a context that has ended does not stop.
	cleanTime = 30 * time.Second
)

// settle makes what is stored and what runs agree, where a crash or somebody outside made them differ, and
// gives all rows. What another command is in the middle of is left to it. Every command runs it: when
// there is nothing to do, it asks the driver for a list, reads the rows and looks into two folders.
func (m *Manager) settle(ctx context.Context) ([]*row, error) {
	if err := m.settleFolders(ctx); err != nil {
		return nil, err
	}
	// In this order: a row is written before its sandbox is made.
	running, err := m.opts.Driver.Running(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out which sandboxes run: %w", err)
	}
	rows, err := m.rows(ctx, "true")
	if err != nil {
		return nil, err
	}
	differ := m.differing(rows, running)
	if len(differ) == 0 {
		return m.forgetOld(ctx, rows)
	}
	lost := false
	for _, id := range differ {
		found, err := m.settleOne(ctx, id)
		if ctx.Err() != nil {
			return nil, err
		}
		lost = lost || found
		if err != nil && !errors.Is(err, errHeld) {
			// The others are to be had nevertheless; the next command tries again.
			m.log.WarnContext(ctx, "the state of a sandbox could not be put right", "id", id, "err", err)
		}
	}
	if lost {
		m.sweep(ctx)
	}
	if rows, err = m.rows(ctx, "true"); err != nil {
		return nil, err
	}
	return m.forgetOld(ctx, rows)
}

// differing are the IDs where rows and what runs do not agree.
func (m *Manager) differing(rows []*row, running []string) []string {
	runs := make(map[string]bool, len(running))
	for _, id := range running {
		runs[id] = true
	}
	var out []string
	for _, r := range rows {
		id := r.info.ID
		// One that is being made, or removed, is well while somebody is at it.
		if r.info.State == Creating || r.step != "" || runs[id] != r.info.Alive() || m.orphan(r) {
			out = append(out, id)
		}
		delete(runs, id)
	}
	for id := range runs {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (m *Manager) orphan(r *row) bool {
	return m.opts.Orphan != nil && r.info.Alive() && m.opts.Orphan(&r.info)
}

// settleOne finds out what came of a sandbox that nobody is at, and whether it was lost, so that there may be
// something of it to clear up. errHeld: somebody is at it.
func (m *Manager) settleOne(ctx context.Context, id string) (lost bool, err error) {
	if ctx.Value(heldKey{m.lockPath(id)}) == nil {
		h, err := m.tryLock(id, "look after", false)
		if err != nil {
			return false, err
		}
		defer h.release()
	}
	r, err := m.row(ctx, id)
	if err != nil {
		return false, err
	}
	l, err := m.opts.Driver.Open(ctx, id)
	switch {
	case errors.Is(err, sandbox.ErrNoSandbox):
		l = nil
	case err != nil:
		return false, err // it may be well, or half there: it is not gone
	default:
		defer func() { _ = l.Release() }()
	}
	switch {
	case r == nil || !r.info.Alive():
		if l == nil {
			return false, m.release(ctx, id)
		}
		m.log.WarnContext(ctx, "a sandbox that nobody knows is ended", "id", id)
		return true, errors.Join(m.end(ctx, l), m.release(ctx, id))
	case r.info.State == Creating:
		return true, errors.Join(m.end(ctx, l), m.ended(ctx, r, Ending{Reason: Failed, Text: "the command that made it was ended"}))
	case r.step == stepRemove:
		return true, errors.Join(m.end(ctx, l), m.ended(ctx, r, Ending{Reason: Removed}))
	case m.orphan(r):
		return true, errors.Join(m.end(ctx, l), m.ended(ctx, r, Ending{Reason: Removed, Text: "the program that it was made for has ended"}))
	case l != nil:
		return false, nil // it was made since
	}
	return true, m.ended(ctx, r, m.ending(id))
}

// ending is how a sandbox ended that was not told to by us.
func (m *Manager) ending(id string) Ending {
	if m.opts.Ended != nil {
		if e, ok := m.opts.Ended(id); ok && e.Reason != "" {
			return e
		}
	}
	if _, err := os.Lstat(m.expired(id)); err == nil {
		return Ending{Reason: Expired} // only then it is written
	}
	return Ending{Reason: Killed}
}

// end ends a sandbox; nil is one that does not run.
func (m *Manager) end(ctx context.Context, l sandbox.Lasting) error {
	if l == nil {
		return nil
	}
	if err := l.End(ctx); err != nil && !errors.Is(err, sandbox.ErrNoSandbox) {
		return fmt.Errorf("end sandbox %s: %w", l.ID(), err)
	}
	return nil
}

// ended writes down that a sandbox has ended, and lets go of what it had.
func (m *Manager) ended(ctx context.Context, r *row, e Ending) error {
	id := r.info.ID
	if err := m.record(ctx, "ended", id, map[string]string{"reason": e.Reason, "text": e.Text}); err != nil {
		return err
	}
	when := e.Time
	if when.IsZero() {
		when = time.Now()
	}
	when = when.UTC()
	r.info.State, r.info.Reason, r.info.Error, r.info.Ended, r.step = Destroyed, e.Reason, e.Text, &when, ""
	if err := m.keepExpired(ctx, &r.info); err != nil {
		r.info.Error = err.Error()
	}
	if err := m.release(ctx, id); err != nil {
		return err
	}
	if err := m.update(ctx, r); err != nil {
		return err
	}
	if m.opts.Changes != nil && r.info.OverHost() && (e.Reason == Removed || e.Reason == Failed) {
		if err := m.opts.Changes.Ended(ctx, id); err != nil {
			m.log.WarnContext(ctx, "the changes of a sandbox that has ended were not forgotten", "id", id, "err", err)
		}
	}
	if m.opts.Forget != nil {
		m.opts.Forget(id)
	}
	return nil
}

// release lets go of a sandbox's image.
func (m *Manager) release(ctx context.Context, id string) error {
	if m.opts.Images == nil {
		return nil
	}
	return m.opts.Images.Release(ctx, owner(id))
}

// unreadMark begins the name of what no set can be made of. It stays until somebody removes it.
const unreadMark = "unread-"

// keepExpired hands on what a sandbox wrote whose time was over.
func (m *Manager) keepExpired(ctx context.Context, info *Info) error {
	path := m.expired(info.ID)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	keep := m.opts.Changes != nil && info.OverHost() && info.Reason != Removed && info.Reason != Failed
	if keep {
		err := m.opts.Changes.Expired(ctx, info, path)
		if errors.Is(err, ErrUnreadable) {
			// Reading it again and again would hold up every command.
			aside := filepath.Join(m.expiredDir(), unreadMark+filepath.Base(path))
			if err := os.Rename(path, aside); err != nil {
				return err
			}
			path = aside
		}
		if err != nil {
			return fmt.Errorf("keep what sandbox %s changed (it is in %s): %w", info.ID, path, err)
		}
	}
	return os.Remove(path)
}

// settleFolders clears up what commands left behind that were ended in the middle, and hands on what
// could not be handed on before.
func (m *Manager) settleFolders(ctx context.Context) error {
	for _, dir := range []string{m.snapshotDir(), m.templateDir()} {
		if _, err := m.clearFolder(dir); err != nil {
			return err
		}
	}
	entries, err := readDir(m.expiredDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".tar")
		if !ok || !sandbox.ValidID(id) {
			continue // it is being written
		}
		r, err := m.row(ctx, id)
		if err != nil {
			return err
		}
		if r == nil || r.info.Alive() {
			continue
		}
		h, err := m.tryLock(id, "keep", false)
		if err != nil {
			continue
		}
		err = m.keepExpired(ctx, &r.info)
		h.release()
		if err != nil {
			m.log.WarnContext(ctx, "what a sandbox changed could not be kept", "id", id, "err", err)
		}
	}
	return nil
}

// tempMark begins the names of folders that are not whole. The rest is the key of the lock that whoever
// fills one holds.
const tempMark = ".part-"

// clearFolder removes folders that nobody fills any more.
func (m *Manager) clearFolder(dir string) (removed []string, err error) {
	entries, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		key, ok := strings.CutPrefix(e.Name(), tempMark)
		if !ok {
			continue
		}
		h, err := m.tryLock(key, "clear up", false)
		if err != nil {
			continue // somebody fills it
		}
		path := filepath.Join(dir, e.Name())
		err = os.RemoveAll(path)
		h.release()
		if err != nil {
			return removed, fmt.Errorf("clear up: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// sweep has the driver clear up what ended sandboxes left. It is not what was asked for, and so fails nothing.
func (m *Manager) sweep(ctx context.Context) {
	if _, err := m.opts.Driver.Sweep(ctx); err != nil {
		m.log.WarnContext(ctx, "what ended sandboxes left could not be cleared up", "err", err)
	}
}

// forgetOld drops rows of sandboxes that ended long ago, and gives the others.
func (m *Manager) forgetOld(ctx context.Context, rows []*row) ([]*row, error) {
	var old []string
	rows = slices.DeleteFunc(rows, func(r *row) bool {
		if !m.outdated(r) {
			return false
		}
		old = append(old, r.info.ID)
		return true
	})
	if len(old) == 0 {
		return rows, nil
	}
	return rows, m.forget(ctx, old)
}

// outdated says whether a row can go. A clock that was set back keeps none for ever.
func (m *Manager) outdated(r *row) bool {
	if r.info.Alive() || r.info.Ended == nil {
		return false
	}
	if age := time.Since(*r.info.Ended); age < keepEnded && age > -keepEnded {
		return false
	}
	_, err := os.Lstat(m.expired(r.info.ID)) // what it wrote is still to be kept
	return errors.Is(err, fs.ErrNotExist)
}
