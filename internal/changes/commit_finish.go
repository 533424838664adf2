package changes

import (
	"errors"
	"fmt"
	"slices"
)

// finish does what remains after the point of no return, from wherever an earlier run
// got to: what was copied to the backup folder goes, folders get their mode and time,
// and the journal notes what is there now.
func (x *executor) finish() error {
	if err := x.purge(); err != nil {
		return fmt.Errorf("committed, but not all temporary names are gone: %w: %w", err, ErrInterrupted)
	}
	if err := x.setDirs(true); err != nil {
		return fmt.Errorf("committed, but for the mode of a folder: %w: %w", err, ErrInterrupted)
	}
	x.step("note what is there now")
	for i := range x.j.ops {
		var n *Node
		if o := &x.j.ops[i]; o.Do != doRide || o.After != nil { // else it went with its folder
			var err error
			if n, err = x.look(o.Path); err != nil {
				return err
			}
		}
		x.j.after[i] = n
		if err := x.w.add(&record{Type: recAfter, I: i, Node: n}); err != nil {
			return err
		}
	}
	return x.w.sync()
}

// purge removes the displaced nodes whose copies are in the backup folder. It removes
// what the journal lists and nothing else: a folder into which somebody put something
// meanwhile is left, and said.
func (x *executor) purge() error {
	for i := range x.j.ops {
		o := &x.j.ops[i]
		if o.Do != doReplace || o.Before == nil || o.Move {
			continue
		}
		s, err := x.standing(i)
		if err != nil {
			return err
		}
		n, at := x.old(i, &s)
		if n == nil {
			continue
		}
		if err := x.removeTree(i, at, func(o *op) bool { return o.Before != nil }); err != nil {
			if !errors.Is(err, errNotEmpty) {
				return err
			}
			x.note(o.Path, NoteKept, "something was put into the old folder while it was replaced; it is at "+shown(at))
		}
	}
	return nil
}

// removeTree removes op top's tree at at: the rides for which in holds, then the top.
func (x *executor) removeTree(top int, at Path, in func(*op) bool) error {
	places := map[int]Path{top: at}
	order := []int{top}
	for i := top + 1; i < len(x.j.ops); i++ {
		o := &x.j.ops[i]
		up, ok := places[o.Up]
		if !ok || o.Do != doRide || !in(o) {
			continue
		}
		n, err := x.look(child(up, o.Path.Base()))
		if err != nil {
			return err
		}
		if n != nil { // else an earlier run removed it, and all that was in it
			places[i] = child(up, o.Path.Base())
			order = append(order, i)
		}
	}
	if !x.root {
		for _, i := range order {
			if n, err := x.look(places[i]); err == nil && n != nil && n.Type == Dir && n.Mode&0o700 != 0o700 {
				if err := x.host.chmod(places[i], n.Mode|0o700); err != nil {
					return err
				}
			}
		}
	}
	for _, i := range slices.Backward(order) {
		if err := x.unstage(i, places[i]); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// unstage takes one node away: an object that came out of a backup folder goes back
// there, anything else is removed.
func (x *executor) unstage(i int, at Path) error {
	o := &x.j.ops[i]
	x.step("remove " + string(at))
	if x.j.phase != recDone && o.After != nil && o.From == fromMoved {
		if o.Do == doRide && x.rides(i) {
			return nil // goes back with its folder
		}
		n, err := x.look(at)
		if err != nil || n == nil {
			return err
		}
		from := place{x.host, at}
		if err := x.openForMove(from, n); err != nil {
			return err
		}
		err = renameNew(from, place{x.set, Path(o.Name)})
		if !errors.Is(err, errExists) {
			return err
		}
	}
	return x.host.Remove(at)
}

// back undoes everything that came before the point of no return.
func (x *executor) back() error {
	if x.j.phase == recStaged {
		if err := x.backNames(); err != nil {
			return err
		}
	}
	if x.j.phase != recAbort {
		if err := x.syncNames(); err != nil {
			return err
		}
		if err := x.mark(&record{Type: recAbort}); err != nil {
			return err
		}
	}
	return x.clean()
}

// backNames gives every name its old node back, from the last operation to the first.
func (x *executor) backNames() error {
	if err := x.unlockAgain(); err != nil {
		return err
	}
	for i := len(x.j.ops) - 1; i >= 0; i-- {
		o := &x.j.ops[i]
		var err error
		switch {
		case o.Do == doReplace:
			err = x.backward(i)
		case o.Do == doMeta && o.Before.Type != Dir:
			err = x.backMeta(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backMeta sets a file's mode and such back. A file that is another one by now, or that
// was written to, is somebody's work: that stays.
func (x *executor) backMeta(o *op) error {
	x.step("set back " + string(o.Path))
	n, err := x.look(o.Path)
	if err != nil {
		return err
	}
	if n == nil || n.Type != o.Before.Type || n.Ino != o.Before.Ino {
		x.note(o.Path, NoteKept, "somebody replaced it meanwhile; it stays")
		return nil
	}
	want := *o.Before
	if !n.MTime.Equal(o.After.MTime) {
		want.MTime = n.MTime
	}
	_, err = x.host.setMeta(o.Path, &want)
	return err
}

// unlockAgain opens the folders that have their locked mode, old or new, to their owner.
func (x *executor) unlockAgain() error {
	if x.root {
		return nil
	}
	for i := range x.j.ops {
		o := &x.j.ops[i]
		if o.Do != doMeta || o.Before.Type != Dir {
			continue
		}
		n, err := x.look(o.Path)
		if err == nil && n != nil && n.Mode&0o300 != 0o300 {
			x.step("unlock " + string(o.Path))
			err = x.host.chmod(o.Path, n.Mode|0o300)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backward gives op i's name its old node back, wherever that has got to.
func (x *executor) backward(i int) error {
	o := &x.j.ops[i]
	s, err := x.standing(i)
	if err != nil {
		return err
	}
	tmp, at := place{x.host, x.tmp(i)}, place{x.host, o.Path}
	n, where := x.old(i, &s)
	old := place{x.host, where}
	if n == nil && s.vault != nil {
		n, old = s.vault, place{x.set, x.vault(i)}
	}
	if s.newAt && !x.force && o.After.Type == File && (s.at.Size != o.After.Size || !s.at.MTime.Equal(o.After.MTime) && !o.After.MTime.IsZero()) {
		return x.conflict(o.Path, "the new file was changed on the host since")
	}
	x.step("switch back " + string(o.Path))
	if n == nil {
		if s.newAt && o.Before == nil {
			return renameNew(at, tmp)
		}
		return nil // it never was switched
	}
	if s.newAt {
		if old.path == tmp.path {
			err := x.swap(tmp.path, at.path)
			if !errors.Is(err, errNoSwap) {
				return errors.Join(err, x.backMode(o))
			}
			aside := place{x.host, x.aside(i)}
			if err := renameNew(tmp, aside); err != nil {
				return err
			}
			old = aside
		}
		x.step("free " + string(o.Path))
		if err := renameNew(at, tmp); err != nil {
			return err
		}
	}
	x.step("put back " + string(o.Path))
	if err := x.openForMove(old, n); err != nil {
		return err
	}
	err = renameNew(old, at)
	if errors.Is(err, errExists) {
		return x.conflict(o.Path, "something new is there; move it away, the old one is kept at "+shown(old.path))
	}
	return errors.Join(err, x.backMode(o))
}

// backMode locks a folder again that had to be open to be moved.
func (x *executor) backMode(o *op) error {
	if x.root || o.Before == nil || o.Before.Type != Dir {
		return nil
	}
	return x.host.chmod(o.Path, o.Before.Mode)
}
