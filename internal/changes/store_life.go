package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// storeWait bounds how long one command waits for another that makes or clears a
// folder, which is a matter of microseconds.
const storeWait = 10 * time.Second

// writeHeader replaces dir's header so that a crash leaves the old or the new one.
func writeHeader(dir string, h storedHeader) (err error) {
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, headerFile+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, headerFile)); err != nil {
		return err
	}
	return syncDir(dir)
}

// SetState rewrites the state in the set's header. The caller holds Lock.
func (s *Store) SetState(id string, st State) error {
	h, err := s.readHeader(id)
	if err != nil {
		return err
	}
	h.State = st
	if err := writeHeader(s.Dir(id), h); err != nil {
		return fmt.Errorf("change set %s: state %s: %w", id, st, err)
	}
	return nil
}

// Lock keeps other commands off the set until unlock is called, which may be called
// twice. Its errors are ErrNotFound and, at once where another holds it, ErrBusy. The
// system frees the lock of a process that dies.
func (s *Store) Lock(id string) (unlock func(), err error) {
	return s.lock(id, func() error {
		_, err := s.readHeader(id)
		return err
	})
}

// lock is Lock for a set that is there, as far as the caller is concerned.
func (s *Store) lock(id string, there func() error) (unlock func(), err error) {
	if err := there(); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(s.dir, id, lockFile), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("change set %s: lock: %w", id, err)
	}
	if !ok {
		return nil, fmt.Errorf("change set %s: %w", id, ErrBusy)
	}
	// Remove may have won between the look and the lock.
	if err := there(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return func() { _ = l.Close() }, nil
}

// Discard throws the contents of a kept set away; its header and list of changes stay,
// with the state Discarded. It takes the set's lock. A committed set is refused with
// ErrState, and one whose commit or undo was cut short with ErrInterrupted. What a part
// of the set replaced when it was committed is kept for undo.
func (s *Store) Discard(id string) error {
	unlock, err := s.Lock(id)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := s.readHeader(id)
	if err != nil {
		return err
	}
	if h.State != Kept && h.State != Discarded {
		return fmt.Errorf("discard change set %s, which is %s: %w", id, h.State, ErrState)
	}
	if err := s.atRest(id); err != nil {
		return fmt.Errorf("discard change set %s: %w", id, err)
	}
	// The state first: a crash in between leaves contents that nobody can commit,
	// and discarding again clears them.
	if h.State == Kept {
		if err := s.SetState(id, Discarded); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(s.dir, id, h.Content, blobFolder)); err != nil {
		return fmt.Errorf("discard change set %s: %w", id, err)
	}
	return nil
}

// atRest refuses a set whose commit or undo was cut short: what it holds is needed to
// bring the host into a consistent state.
func (s *Store) atRest(id string) error {
	_, pending, err := readEntries(s.Dir(id))
	if err == nil && pending != nil {
		err = ErrInterrupted
	}
	return err
}

// Remove takes the set out of the store with all that belongs to it: a committed one
// cannot be undone afterwards. It takes the set's lock. One whose commit or undo was cut
// short is refused with ErrInterrupted; a damaged one is removed.
func (s *Store) Remove(id string) error {
	unlock, err := s.lock(id, func() error { return s.hasFolder(id) })
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.atRest(id); err != nil {
		return fmt.Errorf("remove change set %s: %w", id, err)
	}
	trash := filepath.Join(s.dir, trashPrefix+id)
	err = os.Rename(filepath.Join(s.dir, id), trash)
	if err == nil {
		err = removeAll(trash)
	}
	if err != nil {
		return fmt.Errorf("remove change set %s: %w", id, err)
	}
	return nil
}

func (s *Store) hasFolder(id string) error {
	if ValidID(id) {
		info, err := os.Lstat(s.Dir(id))
		if err == nil && info.IsDir() {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("change set %s: %w", id, err)
		}
	}
	return fmt.Errorf("change set %q: %w", id, ErrNotFound)
}

// removeAll removes a folder of the store. A backup holds folders as they were on the
// host, and some let not even their owner in.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := openUp(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// openUp gives the owner every right to the folders in dir. It follows no link.
func openUp(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode()&0o700 == 0o700 {
			return err
		}
		return root.Chmod(name, info.Mode()|0o700) // WalkDir reads the folder after this
	})
}

// lockStore orders the making of drafts and the search for dead ones.
func (s *Store) lockStore() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	l := flock.New(filepath.Join(s.dir, lockFile), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, time.Millisecond); err != nil {
		return nil, fmt.Errorf("change store: lock: %w", err)
	}
	return func() { _ = l.Close() }, nil
}

// sweepLeftovers removes the drafts and the trash of processes that are gone. A living
// one holds its folder's lock.
func (s *Store) sweepLeftovers() error {
	names, err := readNames(s.dir)
	if err != nil {
		return fmt.Errorf("change store: %w", err)
	}
	var dead []*flock.Flock
	defer func() {
		for _, l := range dead {
			_ = l.Close()
		}
	}()
	for _, name := range names {
		if !strings.HasPrefix(name, draftPrefix) && !strings.HasPrefix(name, trashPrefix) {
			continue
		}
		if l, err := s.claim(name); err != nil {
			return fmt.Errorf("change store: clear up %s: %w", name, err)
		} else if l != nil {
			dead = append(dead, l)
		}
	}
	var errs []error
	for _, l := range dead {
		if err := removeAll(filepath.Dir(l.Path())); err != nil {
			errs = append(errs, fmt.Errorf("change store: clear up: %w", err))
		}
	}
	return errors.Join(errs...)
}

// claim locks a leftover folder; nil where a living process has it or it went away.
func (s *Store) claim(name string) (*flock.Flock, error) {
	unlock, err := s.lockStore()
	if err != nil {
		return nil, err
	}
	defer unlock()
	l := flock.New(filepath.Join(s.dir, name, lockFile), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// SweepOptions says how long sets are kept. A zero duration keeps them for ever.
type SweepOptions struct {
	Now       time.Time // zero: time.Now
	Kept      time.Duration
	Committed time.Duration // an undo is impossible afterwards
	Discarded time.Duration
}

// Sweep removes leftovers of dead processes and the sets that are older than opts
// allows, and gives the ids of these. A set that a command works on, or that Recover has
// to finish first, stays. Nil opts removes leftovers alone.
func (s *Store) Sweep(opts *SweepOptions) (removed []string, err error) {
	left := s.sweepLeftovers()
	if opts == nil {
		return nil, left
	}
	defer func() { err = errors.Join(err, left) }()
	now := opts.Now
	if now.IsZero() {
		now = time.Now()
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	limits := map[State]time.Duration{Kept: opts.Kept, Committed: opts.Committed, Discarded: opts.Discarded}
	for _, h := range list {
		limit := limits[h.State]
		if h.Live || limit <= 0 || now.Sub(h.Created) <= limit {
			continue
		}
		err := s.Remove(h.ID)
		if errors.Is(err, ErrBusy) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrInterrupted) {
			continue
		}
		if err != nil {
			return removed, err
		}
		removed = append(removed, h.ID)
	}
	return removed, nil
}
