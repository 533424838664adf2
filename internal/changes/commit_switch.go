package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A standing is where the nodes of one doReplace operation are.
type standing struct {
	at, tmp, aside *Node // under the name itself, the temporary name, and beside it
	vault          *Node // in the backup folder
	newAt, newTmp  bool  // which of the two is the new node
}

func (x *executor) standing(i int) (standing, error) {
	var s standing
	o := &x.j.ops[i]
	var err error
	if s.at, err = x.look(o.Path); err != nil {
		return s, err
	}
	if s.tmp, err = x.look(x.tmp(i)); err != nil {
		return s, err
	}
	if o.Before != nil {
		if s.aside, err = x.look(x.aside(i)); err != nil {
			return s, err
		}
		if s.vault, err = look(x.set, x.vault(i)); err != nil {
			return s, err
		}
	}
	isNew := func(n *Node) bool {
		return n != nil && o.After != nil && n.Type == o.After.Type && n.Ino == x.j.inos[i]
	}
	s.newAt, s.newTmp = isNew(s.at), isNew(s.tmp)
	return s, nil
}

// old is where the displaced node waits, or nil.
func (x *executor) old(i int, s *standing) (*Node, Path) {
	switch {
	case s.aside != nil:
		return s.aside, x.aside(i)
	case s.tmp != nil && !s.newTmp:
		return s.tmp, x.tmp(i)
	}
	return nil, ""
}

// switchAll gives every name its new node, keeps what was displaced, and makes it last.
func (x *executor) switchAll(ctx context.Context) error {
	if err := x.unlockDirs(); err != nil { // a recovery comes here without staging
		return err
	}
	for i := range x.j.ops {
		o := &x.j.ops[i]
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		var err error
		switch {
		case o.Do == doReplace:
			err = x.forward(i)
		case o.Do == doMeta && o.Before.Type != Dir:
			x.step("set " + string(o.Path))
			if err = x.mine(o); err == nil {
				err = x.meta(o, o.Path, o.After)
			}
		}
		if err != nil {
			return err
		}
	}
	for i := range x.j.ops {
		if o := &x.j.ops[i]; o.Do == doReplace && o.Move {
			if err := x.settle(i); err != nil {
				return err
			}
		}
	}
	if err := x.setDirs(false); err != nil {
		return err
	}
	if err := x.syncNames(); err != nil {
		return err
	}
	return x.mark(&record{Type: recDone})
}

// mine checks that a file whose mode and such are set in place is still that file.
func (x *executor) mine(o *op) error {
	n, err := x.look(o.Path)
	if err != nil {
		return err
	}
	if n == nil || n.Type != o.Before.Type || n.Ino != o.Before.Ino || n.Size != o.Before.Size ||
		!n.MTime.Equal(o.Before.MTime) && (!x.resumed || !n.MTime.Equal(o.After.MTime)) {
		return x.conflict(o.Path, "it was changed on the host just now")
	}
	return nil
}

// forward switches one name. The node that had it is looked at once more after the
// switch, when nobody else can reach it by that name: were it not the one that was
// checked, it is put back. So not even a write between check and rename is lost.
func (x *executor) forward(i int) error {
	o := &x.j.ops[i]
	s, err := x.standing(i)
	if err != nil {
		return err
	}
	tmp, at := place{x.host, x.tmp(i)}, place{x.host, o.Path}
	x.step("switch " + string(o.Path))
	switch {
	case s.newAt:
		return nil
	case o.After == nil && s.at == nil:
		if s.tmp == nil && s.vault == nil {
			return x.conflict(o.Path, "it was deleted on the host just now")
		}
		return nil
	case o.After != nil && !s.newTmp:
		return fmt.Errorf("switch %s: its new content has disappeared", shown(o.Path))
	case o.Before == nil || s.at == nil && s.aside != nil:
		err := renameNew(tmp, at)
		if errors.Is(err, errExists) {
			return x.conflict(o.Path, "something has been put there just now")
		}
		return err
	case s.at == nil:
		return x.conflict(o.Path, "it was deleted on the host just now")
	}
	// An interrupted run may have renamed it there and back, which sets its ctime.
	if !stayed(s.at, o.Before, !x.resumed) {
		return x.conflict(o.Path, "it was changed on the host just now")
	}
	if o.After == nil {
		if s.tmp != nil {
			return x.conflict(o.Path, "something has been put there just now")
		}
		if err := renameNew(at, tmp); err != nil {
			return err
		}
		return x.verify(i, tmp.path, func() error { return renameNew(tmp, at) })
	}
	err = x.swap(tmp.path, at.path)
	if errors.Is(err, errNoSwap) {
		return x.forwardAside(i, tmp, at)
	}
	if err != nil {
		return err
	}
	return x.verify(i, tmp.path, func() error { return x.swap(tmp.path, at.path) })
}

// forwardAside does in two renames what swap does in one. For a moment the name is
// free; the journal knows what belongs there.
func (x *executor) forwardAside(i int, tmp, at place) error {
	aside := place{x.host, x.aside(i)}
	x.step("put aside " + string(at.path))
	if err := renameNew(at, aside); err != nil {
		return err
	}
	if err := x.verify(i, aside.path, func() error { return renameNew(aside, at) }); err != nil {
		return err
	}
	x.step("switch " + string(at.path))
	err := renameNew(tmp, at)
	if errors.Is(err, errExists) {
		return x.conflict(at.path, "something has been put there just now")
	}
	return err
}

// verify looks at what was displaced, a folder with all that is in it, and calls
// undo where it is not what was checked.
func (x *executor) verify(i int, at Path, undo func() error) error {
	o := &x.j.ops[i]
	n, err := x.host.Lstat(at)
	if err == nil && !stayed(n, o.Before, false) {
		err = x.conflict(o.Path, "it was changed on the host just now")
	}
	if err == nil && n.Type == Dir {
		err = x.verifyTree(i, at)
	}
	if err == nil {
		return nil
	}
	x.step("put back " + string(o.Path))
	return errors.Join(err, undo())
}

// verifyTree checks a displaced folder against the operations that ride in it.
func (x *executor) verifyTree(top int, at Path) error {
	places := map[int]Path{top: at}
	inside := map[int][]string{top: nil}
	for i := top + 1; i < len(x.j.ops); i++ {
		o := &x.j.ops[i]
		up, ok := places[o.Up]
		if o.Do != doRide || !ok || o.Before == nil {
			continue
		}
		places[i] = child(up, o.Path.Base())
		inside[o.Up] = append(inside[o.Up], o.Path.Base())
		n, err := x.look(places[i])
		if err != nil {
			return err
		}
		if n == nil || !stayed(n, o.Before, false) {
			return x.conflict(o.Path, "it was changed on the host just now")
		}
		if o.Before.Type == Dir {
			inside[i] = nil
		}
	}
	for i, want := range inside {
		names, err := x.host.ReadDir(places[i])
		if err != nil {
			return err
		}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			return x.conflict(x.j.ops[i].Path, "something has been put into it just now")
		}
	}
	return nil
}

// stayed is sameObject, for folders by their identity alone: what is in them is checked
// one by one.
func stayed(now, before *Node, withCTime bool) bool {
	if before.Type == Dir {
		return now.Type == Dir && now.Ino == before.Ino
	}
	// A rename of one name of a file changes the time of all of them.
	return sameObject(now, before, withCTime && before.Nlink <= 1)
}

// settle moves what op i displaced to the backup folder.
func (x *executor) settle(i int) error {
	s, err := x.standing(i)
	if err != nil {
		return err
	}
	n, at := x.old(i, &s)
	if n == nil {
		return nil
	}
	x.step("keep " + string(x.j.ops[i].Path))
	from := place{x.host, at}
	if err := x.openForMove(from, n); err != nil {
		return err
	}
	return renameNew(from, place{x.set, x.vault(i)})
}

// setDirs gives the folders that stay their mode and owner, and once everything else is
// done also their time; the innermost first. Until then they stay open to their owner.
func (x *executor) setDirs(last bool) error {
	for i := len(x.j.ops) - 1; i >= 0; i-- {
		o := &x.j.ops[i]
		if o.Do != doMeta || o.Before.Type != Dir {
			continue
		}
		x.step("set the folder " + string(o.Path))
		want := *o.After
		if !last && !x.root {
			want.Mode |= 0o700
		}
		if err := x.meta(o, o.Path, &want); err != nil && !(last && gone(err)) {
			return err
		}
	}
	return nil
}
