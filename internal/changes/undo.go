package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// UndoOptions are for Undo and Redo. Nil means the zero value.
type UndoOptions struct {
	// Force takes back what was changed on the host since the commit, too. The state
	// that it overwrites is kept, and the report says where.
	Force bool

	// DryRun checks everything, and touches nothing.
	DryRun bool

	test testHooks
}

// An UndoReport says what an undo did; after a DryRun, what it would do.
type UndoReport struct {
	ID         string `json:"id"`
	State      State  `json:"state"`
	Undone     []Path `json:"undone"`                // put back, or removed again
	Notes      []Note `json:"notes,omitempty"`       // what was left, and where overwritten states are kept
	RolledBack bool   `json:"rolled_back,omitempty"` // it was a commit that had been interrupted
}

// Undo takes the set's last commit back: what it replaced or deleted returns, as the very
// objects where that is possible, and what it added goes. A folder that the commit
// added stays if it holds files that are not the commit's. A commit that was
// interrupted is rolled back, an undo that was is finished.
//
// Several commits of one set are a stack: each Undo takes the last one that still
// stands. Afterwards the set is Kept and can be committed again.
//
// Nothing is ever lost. An undo is planned, journalled and run as a commit is, so it
// moves what it displaces to the backup folder and removes nothing: neither what the
// commit had written, nor, with Force, what somebody made of it since. Redo brings all
// of that back. It goes when the set is removed from the store.
//
// The errors are *ConflictError naming each path that was changed since the commit,
// ErrNotUndoable, and those of Commit.
func (s *Store) Undo(ctx context.Context, id string, opts *UndoOptions) (*UndoReport, error) {
	o := UndoOptions{}
	if opts != nil {
		o = *opts
	}
	m, err := s.open(ctx, id, "", o.test)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if m.pending != nil {
		if o.DryRun {
			return nil, fmt.Errorf("undo change set %s: %w", m.id, ErrInterrupted)
		}
		if r, err := m.undoPending(ctx, &o); r != nil || err != nil {
			return r, err
		}
	}
	stack := m.active()
	if len(stack) == 0 {
		return nil, fmt.Errorf("change set %s: %w", m.id, ErrNotUndoable)
	}
	return m.reverse(ctx, stack[len(stack)-1], kindUndo, &o)
}

// Redo takes the set's last undo back, if nothing was committed since. It brings back
// what the undo displaced: with a forced one, the state that it overwrote.
func (s *Store) Redo(ctx context.Context, id string, opts *UndoOptions) (*UndoReport, error) {
	o := UndoOptions{}
	if opts != nil {
		o = *opts
	}
	m, err := s.open(ctx, id, "", o.test)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if m.pending != nil {
		return nil, fmt.Errorf("redo change set %s: %w", m.id, ErrInterrupted)
	}
	if len(m.entries) == 0 || m.entries[len(m.entries)-1].entry.Kind != kindUndo {
		return nil, fmt.Errorf("redo: change set %s: %w", m.id, ErrNotUndoable)
	}
	return m.reverse(ctx, m.entries[len(m.entries)-1], kindCommit, &o)
}

// undoPending deals with what was interrupted. No report and no error mean that the
// undo itself is still to be done.
func (m *committer) undoPending(ctx context.Context, o *UndoOptions) (*UndoReport, error) {
	if m.pending.entry.Kind == kindUndo || m.pending.phase == recDone {
		undo := m.pending.entry.Kind == kindUndo
		r, err := m.goOn(ctx, o.Force)
		if err != nil || r == nil || !undo {
			return nil, err
		}
		last := m.entries[len(m.entries)-1]
		return m.undoReport(last, r.Notes), nil
	}
	x, err := m.reopen(o.Force)
	if err != nil {
		return nil, err
	}
	defer x.close()
	touched := x.j.phase != ""
	if err := m.drop(x); err != nil {
		return nil, err
	}
	if !touched {
		return nil, nil // a plan, and nothing else: the person means the commit before it
	}
	r := m.undoReport(x.j, x.notes)
	r.RolledBack = true
	return r, nil
}

// reverse plans and runs the opposite of an entry.
func (m *committer) reverse(ctx context.Context, of *journal, kind string, o *UndoOptions) (*UndoReport, error) {
	if err := m.othersFinished(); err != nil {
		return nil, err
	}
	m.rootDir = of.entry.Root
	j := m.entry(kind)
	j.entry.Reverses, j.entry.Forced = of.num, o.Force
	x, err := m.executor(j)
	if err != nil {
		return nil, err
	}
	defer x.close()
	u := undoer{host: x.host, of: of, force: o.Force}
	if err := u.run(); err != nil {
		return nil, fmt.Errorf("undo change set %s: %w", m.id, err)
	}
	if err := m.plan(x, newPlanner(x.host, x.set), u.wishes, u.conflicts); err != nil {
		return nil, err
	}
	x.notes = append(x.notes, u.notes...)
	for i := range j.ops {
		if op := &j.ops[i]; u.overwritten[op.Path] && (op.Move || op.Copy) {
			name := vaultName(j, i)
			if !op.Move {
				name = backupName(j.num, i) + copySuffix
			}
			x.note(op.Path, NoteKept, "its state before the undo is at "+m.backupPath(name))
		}
	}
	if o.DryRun {
		return m.undoReport(j, x.notes), nil
	}
	if err := m.carryOut(ctx, x); err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	return m.undoReport(j, x.notes), nil
}

func (m *committer) undoReport(j *journal, notes []Note) *UndoReport {
	r := &UndoReport{ID: m.id, State: m.set.State, Notes: notes}
	for i := range j.ops {
		if o := &j.ops[i]; o.Do != doSame && o.Do != doTouch && !o.Aux {
			r.Undone = append(r.Undone, o.Path)
		}
	}
	return r
}

// An undoer turns an entry's operations around.
type undoer struct {
	host        *hostFS
	of          *journal
	force       bool
	wishes      []wish
	conflicts   []Conflict
	notes       []Note
	overwritten map[Path]bool
	now         map[Path]*Node
	stays       map[Path]bool // folders that hold others' files
	comes       map[Path]bool // folders that are there again afterwards
}

func (u *undoer) run() error {
	u.overwritten, u.now, u.stays = make(map[Path]bool), make(map[Path]*Node), make(map[Path]bool)
	u.comes = make(map[Path]bool)
	goes := make(map[Path]bool)
	for i := range u.of.ops {
		o := &u.of.ops[i]
		n, err := u.host.Lstat(o.Path)
		if o.Before == nil && o.Do != doSame && blocked(err) {
			u.conflicts = append(u.conflicts, Conflict{o.Path, "a folder above it has become a link", adviceFolder})
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		u.now[o.Path] = n
		if o.Before != nil && o.Before.Type == Dir && o.Do != doTouch {
			u.comes[o.Path] = true
		}
		if o.Before == nil && o.Do != doSame {
			goes[o.Path] = true
		}
	}
	if err := u.findForeign(goes); err != nil {
		return err
	}
	for i := range u.of.ops {
		if err := u.one(i); err != nil {
			return err
		}
	}
	slices.SortStableFunc(u.wishes, func(a, b wish) int { return strings.Compare(string(a.path), string(b.path)) })
	return nil
}

// findForeign finds the added folders that cannot go, from the innermost outwards.
func (u *undoer) findForeign(goes map[Path]bool) error {
	for i := len(u.of.ops) - 1; i >= 0; i-- {
		o := &u.of.ops[i]
		if n := u.now[o.Path]; !goes[o.Path] || n == nil || n.Type != Dir || o.After == nil || o.After.Type != Dir {
			continue
		}
		names, err := u.host.ReadDir(o.Path)
		if err != nil {
			return err
		}
		for _, name := range names {
			if path := child(o.Path, name); !goes[path] {
				delete(goes, o.Path)
				u.stays[o.Path] = true
				u.notes = append(u.notes, Note{o.Path, NoteKept, "the folder stays: it holds " + shown(path)})
				break
			}
		}
	}
	return nil
}

// one turns operation i around.
func (u *undoer) one(i int) error {
	o := &u.of.ops[i]
	now, left := u.now[o.Path], u.of.after[i]
	switch {
	case o.Do == doSame || u.stays[o.Path]:
		return nil
	case o.Do == doTouch:
		u.time(o, now, left)
		return nil
	case now == nil && o.Before == nil:
		u.wishes = append(u.wishes, wish{path: o.Path, same: true})
		return nil
	}
	if ok, err := u.way(o.Path); err != nil || !ok {
		return err
	}
	reason, err := u.reason(o, now, left)
	if err != nil {
		return err
	}
	if reason != "" && !u.force {
		u.conflicts = append(u.conflicts, Conflict{o.Path, reason, adviceUndo})
		return nil
	}
	w := wish{path: o.Path, before: now, after: o.Before, aux: o.Aux}
	if o.Do == doMeta && o.Before.Type != Dir {
		if now == nil || now.Type != o.Before.Type {
			u.conflicts = append(u.conflicts, Conflict{o.Path, reason, "put the file back as it was, or leave it"})
			return nil
		}
		w.meta = true
		u.wishes = append(u.wishes, w)
		return nil
	}
	if reason != "" {
		u.overwritten[o.Path] = true
		u.notes = append(u.notes, Note{o.Path, NoteForced, "overridden: " + reason})
	}
	switch {
	case o.Before == nil:
	case o.Move:
		w.from, w.name = fromMoved, string(vaultName(u.of, i))
		if o.Copy {
			w.alt = string(backupName(u.of.num, i) + copySuffix)
		}
	case o.Copy:
		if o.Before.Nlink > 1 {
			u.notes = append(u.notes, Note{o.Path, NoteLinkCopy, "it comes back as a file of its own: it was kept on another file system than its other names"})
		}
		w.from, w.name = fromBackup, string(backupName(u.of.num, i)+copySuffix)
	}
	u.wishes = append(u.wishes, w)
	return nil
}

// reason says how the host differs from what the commit left; "" where it does not.
func (u *undoer) reason(o *op, now, left *Node) (string, error) {
	switch {
	case left == nil && now != nil:
		return fmt.Sprintf("a %s has been put there since", now.Type), nil
	case left == nil:
		return "", nil
	case now == nil:
		return "it was deleted on the host since", nil
	case sameObject(now, left, true):
		return "", nil
	}
	was := *left
	if o.After != nil {
		was.SHA256 = o.After.SHA256
	}
	return changed(u.host, o.Path, now, &was)
}

// way checks that the folders above p are real ones, or come back by this undo.
func (u *undoer) way(p Path) (bool, error) {
	if u.comes[p.Parent()] {
		return true, nil
	}
	n, err := u.host.Lstat(p.Parent())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if n == nil || n.Type != Dir {
		u.conflicts = append(u.conflicts, Conflict{p, "the folder " + shown(p.Parent()) + " is not there as a folder any more", adviceFolder})
		return false, nil
	}
	return true, nil
}

// time gives a folder its old time back if nobody worked in it since.
func (u *undoer) time(o *op, now, left *Node) {
	if now == nil || now.Type != Dir || left == nil || !now.MTime.Equal(left.MTime) || now.MTime.Equal(o.Before.MTime) {
		return
	}
	if euid := os.Geteuid(); euid != 0 && now.UID != uint32(euid) {
		return // its owner alone may set it
	}
	want := *now
	want.MTime = o.Before.MTime
	u.wishes = append(u.wishes, wish{path: o.Path, before: now, after: &want, aux: true})
}
