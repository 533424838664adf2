package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// clean removes what an entry that is not to be leaves: temporary names, copies, and
// last the journal. It may be run again at any point.
func (x *executor) clean() error {
	if err := x.unlockAgain(); err != nil {
		return err
	}
	for i := range x.j.ops {
		o := &x.j.ops[i]
		if o.Do != doReplace || o.After == nil {
			continue
		}
		if err := x.cleanOne(i); err != nil {
			return err
		}
	}
	for i := len(x.j.ops) - 1; i >= 0; i-- {
		o := &x.j.ops[i]
		if o.Do != doTouch && (o.Do != doMeta || o.Before.Type != Dir) {
			continue
		}
		x.step("set back " + string(o.Path))
		want := o.Before
		if o.Do == doTouch {
			// Its mode is not ours to set; its time is, for only we worked in it.
			n, err := x.look(o.Path)
			if err != nil {
				return err
			}
			if n == nil || n.Type != Dir {
				continue
			}
			n.MTime = o.Before.MTime
			want = n
		}
		if _, err := x.host.setMeta(o.Path, want); err != nil && !gone(err) {
			if o.Do == doTouch && errors.Is(err, fs.ErrPermission) {
				continue // another's folder: its time cannot be set back
			}
			return err
		}
	}
	return x.forget()
}

// cleanOne removes what op i staged. A temporary name under which the old node is would
// mean that the journal lies: then nothing is removed.
func (x *executor) cleanOne(i int) error {
	o := &x.j.ops[i]
	tmp := x.tmp(i)
	n, err := x.look(tmp)
	if err != nil || n == nil {
		return err
	}
	if o.Before != nil && n.Ino == o.Before.Ino && n.Dev == o.Before.Dev {
		return fmt.Errorf("%w: %s is the old %s, which the journal says was never moved", ErrJournal, shown(tmp), shown(o.Path))
	}
	if x.j.phase == recAbort && o.After.Type == File && n.Type == File && x.j.inos != nil && n.Size != o.After.Size {
		x.note(o.Path, NoteKept, "the new file was written to before it was taken back; it is at "+shown(tmp))
		return nil
	}
	err = x.removeTree(i, tmp, func(o *op) bool { return o.After != nil })
	if errors.Is(err, errNotEmpty) {
		x.note(o.Path, NoteKept, "something was put into the new folder before it was taken back; it is at "+shown(tmp))
		return nil
	}
	return err
}

// forget removes the copies and the journal of an entry that is not to be. A copy whose
// original is not at its place any more stays, whatever the journal says.
func (x *executor) forget() error {
	for i := range x.j.ops {
		o := &x.j.ops[i]
		if !o.Copy {
			continue
		}
		n, err := look(x.host, o.Path)
		if err != nil {
			return err
		}
		if n == nil || n.Ino != o.Before.Ino {
			continue
		}
		x.step("remove the copy of " + string(o.Path))
		if err := x.set.Remove(x.copyName(i)); err != nil && !gone(err) {
			return err
		}
	}
	x.step("remove the backup folder")
	if err := x.set.Remove(x.vaultDir()); err != nil && !gone(err) && !errors.Is(err, errNotEmpty) {
		return err
	}
	if err := x.syncNames(); err != nil {
		return err
	}
	x.step("remove the journal")
	if err := os.Remove(filepath.Join(x.dir, journalName(x.j.num))); err != nil {
		return fmt.Errorf("remove the journal: %w", err)
	}
	return x.set.syncDir("/", false)
}
