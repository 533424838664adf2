package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// The set of a sandbox that lives is read anew as often as somebody asks. What is read
// lies in a folder of its own in the set's, which the header names, so that the one
// rename of the header replaces the whole of it; the journals and backups of former
// commits stay where they are:
//
//	<id>/set.json        names the folder
//	<id>/read-3/         changes.jsonl, out.jsonl and blobs/
//	<id>/inherited.jsonl what was let out by the sandbox that this one is a fork of
//
// What was let out before is known from the journals, which are the one account of it:
// an undo changes it with nothing else to be written.
const (
	readPrefix    = "read-"
	outFile       = "out.jsonl"
	inheritedFile = "inherited.jsonl"

	liveVersion = 2 // of a set that has such a folder

	// liveWait bounds how long one command waits for another that reads or commits the same
	// living set.
	liveWait = 30 * time.Second
)

// Renew begins to read the set of a sandbox that lives: the Writer's Finish replaces
// what was read of it before, if it was, and the changes that the sandbox has let out
// already are left out as long as they are what was let out. The header's Live says
// whether the sandbox goes on.
//
// A sandbox that started later than the one that was read before began anew over the
// files as they are: what was let out before is then the host's, and none of its business.
//
// It holds the set's lock until Finish or Abort, and waits for it up to half a minute.
// The errors are ErrBusy, and ErrInterrupted where a commit or undo has to be finished
// first.
func (s *Store) Renew(ctx context.Context, h Header) (*Writer, error) {
	if err := s.adopt(h); err != nil {
		return nil, err
	}
	unlock, err := s.lockWaiting(ctx, h.ID, liveWait)
	if err != nil {
		return nil, err
	}
	w, err := s.renew(h)
	if err != nil {
		unlock()
		return nil, err
	}
	w.unlock = unlock
	return w, nil
}

func (s *Store) renew(h Header) (*Writer, error) {
	old, err := s.readHeader(h.ID)
	if err != nil {
		return nil, err
	}
	if old.Content == "" {
		return nil, fmt.Errorf("change set %s is not of a sandbox that lasts: %w", h.ID, ErrState)
	}
	anew := h.Started.After(old.Started) && !old.Started.IsZero()
	if anew {
		err = s.dropInherited(h.ID)
	}
	var base *baseline
	if err == nil {
		base, err = s.readBaseline(h.ID, old.Reset)
	}
	if err == nil && anew && base.last > old.Reset {
		old.Reset = base.last
		base, err = s.readBaseline(h.ID, old.Reset)
	}
	if err != nil {
		return nil, fmt.Errorf("change set %s: %w", h.ID, err)
	}
	if !old.Created.IsZero() {
		h.Created = old.Created
	}
	w := &Writer{store: s, header: h, blobs: map[string]bool{}, pack: pack{at: map[string]extent{}}}
	w.live = &renewal{old: old, base: base}
	return w, nil
}

// A renewal is what a Writer knows of the set that it replaces.
type renewal struct {
	old  storedHeader
	base *baseline
	outs []Change // what the sandbox has let out, to be committed again after an undo
}

// adopt sees to it that there is a set for the living sandbox, if only an empty one: its
// lock keeps two commands apart, and what a fork inherits needs a place.
func (s *Store) adopt(h Header) error {
	if !ValidID(h.ID) {
		return fmt.Errorf("change set: %q is not an id", h.ID)
	}
	if err := s.hasFolder(h.ID); !errors.Is(err, ErrNotFound) {
		return err
	}
	w, err := s.Create(h)
	if err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return errors.Join(err, w.Abort())
	}
	w.header.State, w.header.Work, w.header.Outside, w.header.NoiseCount = None, 0, 0, 0
	head := storedHeader{Version: liveVersion, Header: w.header, Content: readPrefix + "1"}
	inner := filepath.Join(w.draft, head.Content)
	err = os.Mkdir(inner, 0o700)
	if err == nil {
		err = os.Rename(filepath.Join(w.draft, blobFolder), filepath.Join(inner, blobFolder))
	}
	if err == nil {
		err = errors.Join(writeLines(filepath.Join(inner, changesFile), nil), writeLines(filepath.Join(inner, outFile), nil), syncDir(inner))
	}
	if err == nil {
		err = writeHeader(w.draft, head)
	}
	if err == nil {
		err = os.Rename(w.draft, s.Dir(h.ID))
	}
	if err != nil {
		err = errors.Join(err, w.Abort())
		if s.hasFolder(h.ID) == nil {
			return nil // another command was first
		}
		return fmt.Errorf("change set %s: %w", h.ID, err)
	}
	w.draft = ""
	return errors.Join(w.lock.Close(), syncDir(s.dir))
}

// lockWaiting is Lock, but it waits for who holds it.
func (s *Store) lockWaiting(ctx context.Context, id string, wait time.Duration) (unlock func(), err error) {
	if err := s.hasFolder(id); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l := flock.New(filepath.Join(s.dir, id, lockFile), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(waiting, 5*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("change set %s: %w, and did not end within %s", id, ErrBusy, wait)
		}
		return nil, fmt.Errorf("change set %s: lock: %w", id, err)
	}
	if _, err := s.readHeader(id); err != nil { // it was removed while we waited
		return nil, errors.Join(err, l.Close())
	}
	return func() { _ = l.Close() }, nil
}

// finishLive is finish for a sandbox that lives: its set is kept also when it is empty.
func (w *Writer) finishLive() (*Set, error) {
	if len(w.list) == 0 {
		w.header.State = w.live.base.state(w.header.Live)
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	if err := w.writeDraft(); err != nil {
		return nil, err
	}
	if err := w.install(); err != nil {
		return nil, err
	}
	if w.unlock != nil {
		w.unlock()
	}
	return &Set{Header: w.header, Changes: w.list}, nil
}

// addOut keeps what was let out, and its content, for the case that an undo takes it back.
func (w *Writer) addOut(c Change) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("change set %s: %w", w.header.ID, err)
	}
	if c.Blob != "" {
		w.blobs[c.Blob] = true
	}
	w.live.outs = append(w.live.outs, c)
	return nil
}

// A heldSet is a set as commits and undos see it.
type heldSet struct {
	Set

	// Of a set that was read while its sandbox lived: its changes without those that an undo
	// brought back since, those that had been let out, and the number of the last journal then.
	lasting   bool
	own, outs []Change
	read      int
}

// settle makes the changes of a set those of its sandbox that are not on the host: what
// had been let out and was taken back since is one of them again.
func (set *heldSet) settle(done []*journal) {
	if len(set.outs) == 0 {
		return
	}
	m := committer{entries: done}
	standing := map[int]bool{0: true}
	for _, j := range m.active() {
		standing[j.num] = true
	}
	list := slices.Clone(set.own)
	for i := range set.outs {
		if !standing[set.outs[i].LetOut] {
			list = append(list, set.outs[i])
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(string(a.Path), string(b.Path)) })
	set.Changes = list
	set.count()
}

// count sets the numbers of the header.
func (set *Set) count() {
	set.Work, set.Outside, set.NoiseCount = 0, 0, 0
	for i := range set.Changes {
		switch set.Changes[i].Scope {
		case Work:
			set.Work++
		case Noise:
			set.NoiseCount++
		default:
			set.Outside++
		}
	}
}

// install puts a finished draft in the place of what was read before.
func (w *Writer) install() error {
	dir := w.store.Dir(w.header.ID)
	n, err := strconv.Atoi(strings.TrimPrefix(w.live.old.Content, readPrefix))
	if err != nil {
		return fmt.Errorf("its header names %q", w.live.old.Content)
	}
	head := storedHeader{
		Version: liveVersion, Header: w.header, Changes: len(w.list), Outs: len(w.live.outs),
		Content: readPrefix + strconv.Itoa(n+1), Read: w.live.base.last, Reset: w.live.old.Reset,
	}
	// What a command that was killed had put there, and no header ever named.
	if err := os.RemoveAll(filepath.Join(dir, head.Content)); err != nil {
		return err
	}
	if err := os.Rename(w.draft, filepath.Join(dir, head.Content)); err != nil {
		return err
	}
	w.draft, w.done = "", true
	if err := errors.Join(w.lock.Close(), syncDir(dir), writeHeader(dir, head)); err != nil {
		return err
	}
	sweepReads(dir, head.Content)
	return nil
}

// sweepReads removes all that was read before, but keep. What stays is tried again the
// next time.
func sweepReads(dir, keep string) {
	names, err := readNames(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, readPrefix) && name != keep {
			_ = os.RemoveAll(filepath.Join(dir, name))
		}
	}
}

// Forget throws away what was read of the set of a sandbox whose own changes are thrown
// away: because it ended, or, where live, because it began anew over the files as they
// are. What it let out before stays what it is, and can be undone; where it never let
// anything out the set is removed. The error is ErrInterrupted where a commit or undo has
// to be finished first; of a set that is not there, nil.
func (s *Store) Forget(ctx context.Context, id string, live bool) error {
	unlock, err := s.lockWaiting(ctx, id, liveWait)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	h, err := s.readHeader(id)
	if err != nil {
		return err
	}
	base, err := s.readBaseline(id, h.Reset)
	if err != nil {
		return fmt.Errorf("forget change set %s: %w", id, err)
	}
	if base.last == 0 {
		unlock()
		return s.Remove(id)
	}
	w := &Writer{store: s, header: h.Header, blobs: map[string]bool{}, pack: pack{at: map[string]extent{}}}
	w.live = &renewal{old: h, base: base}
	w.live.old.Reset = base.last
	w.header.Live = live
	if err := s.dropInherited(id); err != nil {
		return errors.Join(err, w.Abort())
	}
	if _, err := w.Finish(); err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	return nil
}

func (s *Store) dropInherited(id string) error {
	err := os.Remove(filepath.Join(s.Dir(id), inheritedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("change set %s: %w", id, err)
	}
	return nil
}

// Ended notes that the sandbox of a set does not live any more: what was read of it last
// is what there is. Of a set that is not there, it does nothing.
func (s *Store) Ended(ctx context.Context, id string) error {
	unlock, err := s.lockWaiting(ctx, id, liveWait)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	h, err := s.readHeader(id)
	if err != nil || !h.Live {
		return err
	}
	if h.Changes == 0 && h.State == None {
		unlock()
		return s.Remove(id)
	}
	h.Live = false
	if err := writeHeader(s.Dir(id), h); err != nil {
		return fmt.Errorf("change set %s: %w", id, err)
	}
	return nil
}
