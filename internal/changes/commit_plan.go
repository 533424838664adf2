package changes

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// A planner turns wishes into operations. Whole folders that come or go are switched by
// one rename of their top; everything in them rides along. So a tree appears and
// disappears in one step, and what is displaced stays the same objects, with all that a
// Node does not tell: access-control lists, labels, links among themselves.
type planner struct {
	host      *hostFS
	set       *hostFS // the set's own folder, where what is displaced goes
	root      bool    // we may give files away and enter every folder
	ops       []op
	index     map[Path]int
	listed    map[Path]bool // all paths of the wishes
	home      uint64        // the mount of the set's folder
	mounts    map[Path]bool // by folder: is it on that mount
	conflicts []Conflict
	denied    []error
	notes     []Note
}

func newPlanner(host, set *hostFS) *planner {
	p := &planner{
		host: host, set: set, root: os.Geteuid() == 0,
		index: make(map[Path]int), mounts: make(map[Path]bool),
	}
	if id, err := set.mount("/"); err == nil {
		p.home = id
	}
	return p
}

// plan takes wishes in the order of their paths' bytes.
func (p *planner) plan(wishes []wish) error {
	p.listed = make(map[Path]bool, len(wishes))
	for i := range wishes {
		p.listed[wishes[i].path] = true
	}
	for i := range wishes {
		if err := p.add(&wishes[i]); err != nil {
			return err
		}
	}
	p.linkAmong()
	for i := range p.ops {
		if p.ops[i].Do == doReplace {
			if err := p.touch(p.ops[i].Path.Parent()); err != nil {
				return err
			}
		}
	}
	return p.mayAll()
}

func (p *planner) add(w *wish) error {
	o := op{Path: w.path, Before: w.before, After: w.after, Up: -1, From: w.from, Name: w.name, Alt: w.alt, Aux: w.aux}
	up, inSwitched := p.index[w.path.Parent()]
	switch {
	case w.same:
		o.Do, o.Before, o.From, o.Name = doSame, nil, "", ""
	case inSwitched && (p.ops[up].Do == doReplace || p.ops[up].Do == doRide):
		o.Do, o.Up = doRide, up
		if (w.before != nil) == (w.after != nil) || p.comes(up) != (w.after != nil) {
			return fmt.Errorf("plan %s: it fits in neither the old nor the new folder", shown(w.path))
		}
	case w.before != nil && w.after != nil && (w.meta || w.before.Type == Dir && w.after.Type == Dir):
		o.Do, o.From, o.Name = doMeta, "", ""
	default:
		o.Do = doReplace
		if o.Before != nil && o.Before.Type == Dir {
			if err := p.onlyListed(o.Path); err != nil {
				return err
			}
		}
	}
	if o.Before != nil && (o.Do == doReplace || o.Do == doRide) {
		if err := p.keep(&o); err != nil {
			return err
		}
	}
	p.index[w.path] = len(p.ops)
	p.ops = append(p.ops, o)
	return nil
}

// comes reports whether the folder of op i is a new one, as against one that goes.
func (p *planner) comes(i int) bool { return p.ops[i].After != nil && p.ops[i].After.Type == Dir }

// onlyListed makes a conflict of everything in a folder that goes which nobody was shown.
func (p *planner) onlyListed(dir Path) error {
	names, err := p.host.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := child(dir, name)
		if !p.listed[path] {
			p.conflicts = append(p.conflicts, Conflict{dir, "it holds " + shown(path) + ", which is not in the change set", adviceFolder})
			continue
		}
		n, err := p.host.Lstat(path)
		if err != nil {
			return err
		}
		if n.Type == Dir {
			if err := p.onlyListed(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep decides how what the op displaces is kept.
//
// On the same mount the object itself is moved: a rename costs nothing, fills no disk,
// and loses nothing. Once it has been renamed away nobody has it by name; only a
// process that holds it open can still write to it, and then its words land in the kept
// object instead of nowhere. A file with further names is different: a program that
// writes in place through another name would change what was kept, so its content is
// copied as well, and undo takes the copy if the object is not what it was. A hard link
// instead of a move would have that weakness for every file, and needs rights that
// protected_hardlinks denies.
func (p *planner) keep(o *op) error {
	if o.Do == doRide {
		top := &p.ops[o.Up]
		o.Move = top.Move
	} else {
		o.Move = p.sameMount(o.Path.Parent()) && (p.root || o.Before.Type != Dir ||
			o.Before.UID == uint32(os.Geteuid()))
	}
	o.Copy = o.Before.Type == File && (!o.Move || o.Before.Nlink > 1)
	if o.Before.Type == Device && !o.Move {
		return fmt.Errorf("%s is a device or socket on another file system than the change sets: it cannot be kept", shown(o.Path))
	}
	if o.Do == doReplace && o.Before.Type == File && o.Before.Nlink > 1 && o.After != nil {
		p.notes = append(p.notes, Note{o.Path, NoteHardLinks, fmt.Sprintf("%d other names of this file keep the old content", o.Before.Nlink-1)})
	}
	return nil
}

func (p *planner) sameMount(dir Path) bool {
	if p.home == 0 {
		return false
	}
	same, known := p.mounts[dir]
	if !known {
		id, err := p.host.mount(dir)
		same = err == nil && id == p.home
		p.mounts[dir] = same
	}
	return same
}

// linkAmong resolves hard links: the first name is staged as a file, later ones as links to it.
func (p *planner) linkAmong() {
	for i := range p.ops {
		o := &p.ops[i]
		if o.From != fromLink || o.Do == doSame {
			continue
		}
		k, ok := p.index[Path(o.Name)]
		if ok && k != i && p.ops[k].After != nil && p.ops[k].After.Type == File && p.ops[k].Do != doMeta && p.ops[k].From == fromBlob && k < i {
			o.Name = fmt.Sprint(k)
			continue
		}
		p.notes = append(p.notes, Note{o.Path, NoteLinkCopy, "in the sandbox it was the same file as " + shown(Path(o.Name))})
		o.From, o.Name, o.Alt = fromBlob, o.Alt, ""
	}
}

// touch records the folder that a switched name is in, once.
func (p *planner) touch(dir Path) error {
	if i, ok := p.index[dir]; ok && p.ops[i].Do != doSame {
		return nil
	}
	n, err := p.host.Lstat(dir)
	if err != nil {
		return err
	}
	p.index[dir] = len(p.ops)
	p.ops = append(p.ops, op{Path: dir, Do: doTouch, Before: n, Up: -1})
	return nil
}

// mayAll finds, before anything is touched, what the user has no right to do.
func (p *planner) mayAll() error {
	euid := uint32(os.Geteuid())
	asked := make(map[Path]bool)
	for i := range p.ops {
		o := &p.ops[i]
		switch {
		case o.Do == doMeta && !p.root && o.Before.UID != euid:
			p.denied = append(p.denied, fmt.Errorf("change the mode or owner of %s: it belongs to user %d: %w", shown(o.Path), o.Before.UID, os.ErrPermission))
		case o.Do == doReplace:
			dir := o.Path.Parent()
			if !asked[dir] {
				asked[dir] = true
				if err := p.mayIn(dir); err != nil {
					p.denied = append(p.denied, err)
				}
			}
			if err := p.maySticky(o, dir, euid); err != nil {
				p.denied = append(p.denied, err)
			}
		}
	}
	if len(p.denied) > 0 {
		return errors.Join(p.denied...)
	}
	return nil
}

// mayIn asks whether names in dir may be changed, now or once dir has its new mode.
func (p *planner) mayIn(dir Path) error {
	if i, ok := p.index[dir]; ok && p.ops[i].Do == doMeta && !p.root && unlocks(&p.ops[i]) {
		return nil
	}
	return p.host.MayWrite(dir)
}

// maySticky: in a folder like /tmp only the owner of a file or of the folder may rename it.
func (p *planner) maySticky(o *op, dir Path, euid uint32) error {
	if p.root || o.Before == nil || o.Before.UID == euid {
		return nil
	}
	n, err := p.host.Lstat(dir)
	if err != nil || n.Mode&0o1000 == 0 || n.UID == euid {
		return err
	}
	return fmt.Errorf("replace %s: it belongs to user %d, in a sticky folder: %w", shown(o.Path), o.Before.UID, os.ErrPermission)
}

// unlocks reports whether a folder's new mode lets its owner work in it where the old
// one did not. A folder that is to stay locked is not opened behind its owner's back.
func unlocks(o *op) bool {
	return o.Before.Type == Dir && o.Before.UID == uint32(os.Geteuid()) &&
		o.Before.Mode&0o300 != 0o300 && o.After.Mode&0o300 == 0o300
}

// setIDNotes names every file that will run with the rights of its owner or group.
func setIDNotes(ops []op) []Note {
	var notes []Note
	for i := range ops {
		o := &ops[i]
		if o.Do == doSame || o.After == nil || o.After.Type != File || o.After.Mode&0o6000 == 0 {
			continue
		}
		if o.Before != nil && o.Before.Mode&0o6000 == o.After.Mode&0o6000 && o.Do == doMeta {
			continue
		}
		notes = append(notes, Note{o.Path, NoteSetID, fmt.Sprintf("mode %04o: it runs with the rights of user %d, group %d", o.After.Mode, o.After.UID, o.After.GID)})
	}
	return slices.Clip(notes)
}
