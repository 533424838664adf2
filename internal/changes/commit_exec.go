package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// An executor carries out one entry's operations, in either direction, from wherever an
// earlier run of it got to:
//
//	stage     new content is written under temporary names beside its place; copies are kept
//	switch    each name changes hands in one rename; what was there gets the temporary name
//	settle    what was displaced is moved to the backup folder
//	done      the point of no return; before it, back undoes each step from the last one on
//	finish    what was copied to the backup folder is removed, folders get their mode and time
//
// Where an operation stands is seen from which node has which name, never guessed: the
// temporary names hold a token that nobody can know, so under them is either what was
// staged (its inode number is in the journal) or what was displaced.
type executor struct {
	store   *Store
	id      string
	dir     string  // the set's folder
	host    *hostFS // the tree that is changed
	set     *hostFS // the set's folder
	j       *journal
	w       *journalWriter
	step    func(string)
	plain   bool // names cannot be exchanged
	force   bool
	root    bool
	resumed bool // an earlier process began this
	notes   []Note
}

// syncEach is how many operations are brought to the disk one by one. Above it, one
// sync of each file system is quicker by far.
const syncEach = 64

func (x *executor) few() bool { return len(x.j.ops) <= syncEach }

func (x *executor) note(p Path, kind NoteKind, text string) {
	x.notes = append(x.notes, Note{Path: p, Kind: kind, Text: text})
}

// tmp is op i's temporary name; aside is where what it displaced waits on a file system
// that cannot exchange two names.
func (x *executor) tmp(i int) Path {
	return child(x.j.ops[i].Path.Parent(), ".airlock-"+x.j.entry.Token+"-"+strconv.Itoa(i))
}

func (x *executor) aside(i int) Path { return x.tmp(i) + "-old" }

// staged is where op i's new node is until its name is switched.
func (x *executor) staged(i int) Path {
	if o := &x.j.ops[i]; o.Do == doRide {
		return child(x.staged(o.Up), o.Path.Base())
	}
	return x.tmp(i)
}

// vault is op i's place in the backup folder.
func (x *executor) vault(i int) Path { return vaultName(x.j, i) }

// vaultName is where what op i of j displaced is kept; a ride of a moved folder is
// inside its top's.
func vaultName(j *journal, i int) Path {
	if o := &j.ops[i]; o.Do == doRide && o.Move {
		return child(vaultName(j, o.Up), o.Path.Base())
	}
	return backupName(j.num, i)
}

func backupName(num, i int) Path {
	return Path("/backup/" + strconv.Itoa(num) + "/" + strconv.Itoa(i))
}

const copySuffix = ".copy"

// copyName is where op i's copied content is.
func (x *executor) copyName(i int) Path { return backupName(x.j.num, i) + copySuffix }

// run goes forward from the present phase to the end, and back to the old state if it
// cannot.
func (x *executor) run(ctx context.Context) error {
	var err error
	if x.j.phase == recReady {
		err = x.stage(ctx)
	}
	if err == nil && x.j.phase == recStaged {
		err = x.switchAll(ctx)
	}
	if err == nil {
		return x.finish()
	}
	if berr := x.back(); berr != nil {
		return fmt.Errorf("%w; and it could not be taken back (%w): %w", err, berr, ErrInterrupted)
	}
	return fmt.Errorf("%w; %w", err, ErrRolledBack)
}

// mark writes a record that says how far it came and waits for the disk.
func (x *executor) mark(r *record) error {
	x.step("journal " + r.Type)
	if err := x.w.add(r); err != nil {
		return err
	}
	if err := x.w.sync(); err != nil {
		return err
	}
	x.j.phase = r.Type
	return nil
}

// look is Lstat with nil for nothing.
func look(h *hostFS, p Path) (*Node, error) {
	n, err := h.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return n, err
}

// look is the same for the executor, which must not take a folder that somebody swapped
// for a link for one that is empty: what it has to clear up is still in the folder. By
// force, it is given up.
func (x *executor) look(p Path) (*Node, error) {
	n, err := x.host.Lstat(p)
	if gone(err) || x.force && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if blocked(err) {
		return nil, &ConflictError{ID: x.id, Conflicts: []Conflict{{p, "a folder above it has become a link", adviceFolder}}}
	}
	return n, err
}

// begin writes the plan to a new journal. Nothing is touched before it is on the disk.
func (x *executor) begin() error {
	x.step("journal begin")
	name := filepath.Join(x.dir, journalName(x.j.num))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	x.w = newJournalWriter(f, 0)
	err = x.w.add(&record{Type: recBegin, Entry: &x.j.entry})
	for i := range x.j.ops {
		if err == nil {
			err = x.w.add(&record{Type: recOp, Op: &x.j.ops[i]})
		}
	}
	if err == nil {
		err = x.w.sync()
	}
	if err == nil {
		err = x.set.syncDir("/", false)
	}
	if err == nil {
		err = x.mark(&record{Type: recReady})
	}
	if err != nil {
		return errors.Join(err, x.w.close(), os.Remove(name))
	}
	return nil
}

// resume opens the journal of an interrupted entry for more records, and cuts the torn end off.
func (x *executor) resume() error {
	name := filepath.Join(x.dir, journalName(x.j.num))
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		err = f.Truncate(x.j.length)
	}
	if err == nil {
		_, err = f.Seek(x.j.length, 0)
	}
	if err != nil {
		return fmt.Errorf("open the journal again: %w", err)
	}
	x.w = newJournalWriter(f, x.j.next)
	x.resumed = true
	return nil
}

// close releases the files.
func (x *executor) close() {
	if x.w != nil {
		_ = x.w.close() // everything that counts was synced
	}
	_ = x.host.Close()
	_ = x.set.Close()
}

// syncNames brings the names and nodes of this entry to the disk.
func (x *executor) syncNames() error {
	x.step("sync")
	done := make(map[Path]bool)
	devs := make(map[uint64]bool)
	for i := range x.j.ops {
		o := &x.j.ops[i]
		if o.Do == doTouch || o.Do == doMeta && o.Before.Type == Dir {
			if x.few() {
				done[o.Path] = true
			} else if !devs[o.Before.Dev] {
				devs[o.Before.Dev], done[o.Path] = true, true
			}
		}
		if (o.Do == doRide || o.Do == doReplace) && x.few() && o.After != nil && o.After.Type == Dir {
			done[o.Path] = true
		}
		if o.Do == doMeta && o.Before.Type == File && x.few() {
			// Without the right to read it there is no way to sync it alone.
			if f, err := x.host.Open(o.Path); err == nil {
				if err := errors.Join(f.Sync(), f.Close()); err != nil {
					return err
				}
			}
		}
	}
	for dir := range done {
		n, err := look(x.host, dir)
		if err == nil && n != nil && n.Type == Dir {
			err = x.host.syncDir(dir, !x.few())
		}
		if err != nil {
			return err
		}
	}
	if n, err := look(x.set, x.vaultDir()); n == nil {
		return err
	}
	if err := x.set.syncDir("/backup", false); err != nil {
		return err
	}
	return x.set.syncDir(x.vaultDir(), !x.few())
}

func (x *executor) vaultDir() Path { return Path("/backup/" + strconv.Itoa(x.j.num)) }

func journalName(num int) string { return "journal-" + strconv.Itoa(num) }

// swap exchanges two names, or is errNoSwap.
func (x *executor) swap(a, b Path) error {
	if x.plain {
		return errNoSwap
	}
	return x.host.swap(a, b)
}
