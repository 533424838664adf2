package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// stage writes all new content and all copies, so that what can fail for want of room or
// rights fails before a single name has changed.
func (x *executor) stage(ctx context.Context) error {
	if err := x.makeVault(); err != nil {
		return err
	}
	if err := x.unlockDirs(); err != nil {
		return err
	}
	for i := range x.j.ops {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if err := x.stageOne(i); err != nil {
			return err
		}
	}
	if err := x.stagedDirs(); err != nil {
		return err
	}
	inos := make([]uint64, len(x.j.ops))
	for i := range x.j.ops {
		if o := &x.j.ops[i]; o.Do == doReplace && o.After != nil {
			n, err := x.host.Lstat(x.tmp(i))
			if err != nil {
				return err
			}
			inos[i] = n.Ino
		}
	}
	if err := x.syncStaged(); err != nil {
		return err
	}
	x.j.inos = inos
	return x.mark(&record{Type: recStaged, Inos: inos})
}

func (x *executor) makeVault() error {
	need := false
	for i := range x.j.ops {
		need = need || x.j.ops[i].Move || x.j.ops[i].Copy
	}
	if !need {
		return nil
	}
	for _, dir := range []Path{"/backup", x.vaultDir()} {
		x.step("make " + string(dir))
		if err := x.set.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// unlockDirs opens the folders that the sandbox opened too.
func (x *executor) unlockDirs() error {
	if x.root {
		return nil
	}
	for i := range x.j.ops {
		if o := &x.j.ops[i]; o.Do == doMeta && unlocks(o) {
			x.step("unlock " + string(o.Path))
			if err := x.host.chmod(o.Path, o.Before.Mode|0o300); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *executor) stageOne(i int) error {
	o := &x.j.ops[i]
	if o.Copy {
		if err := x.copyOld(i); err != nil {
			return err
		}
	}
	if o.After == nil || o.Do != doReplace && o.Do != doRide {
		return nil
	}
	at := place{x.host, x.staged(i)}
	x.step("stage " + string(o.Path))
	switch o.From {
	case fromMoved:
		return x.stageMoved(i, at)
	case fromLink:
		k, err := strconv.Atoi(o.Name)
		if err != nil || k < 0 || k >= i {
			return fmt.Errorf("stage %s: a hard link to operation %q", shown(o.Path), o.Name)
		}
		return link(place{x.host, x.staged(k)}, at)
	}
	switch o.After.Type {
	case File:
		src, err := x.source(o)
		if err != nil {
			return err
		}
		defer src.Close()
		return x.stageFile(o, at.path, src)
	case Dir:
		return x.host.Mkdir(at.path) // its mode and time when everything is in it
	case Symlink:
		if err := x.host.Symlink(o.After.Target, at.path); err != nil {
			return err
		}
	case Fifo:
		if err := x.host.Mkfifo(at.path); err != nil {
			return err
		}
	default:
		return fmt.Errorf("stage %s: %w: it is a %s", shown(o.Path), ErrRefused, o.After.Type)
	}
	return x.meta(o, at.path, o.After)
}

// source opens the content of a new file; nil is an empty one.
func (x *executor) source(o *op) (*os.File, error) {
	switch {
	case o.From == fromHost:
		return x.host.Open(o.Path)
	case o.From == fromBackup:
		return x.set.Open(Path(o.Name))
	case o.From == fromBlob && o.Name != "":
		return x.store.Blob(x.id, o.Name)
	case o.After.Size == 0:
		return nil, nil
	}
	return nil, fmt.Errorf("stage %s: its content is not in the change set", shown(o.Path))
}

func (x *executor) stageFile(o *op, at Path, src *os.File) error {
	f, err := x.host.Create(at)
	if err != nil {
		return err
	}
	defer f.Close()
	if src != nil {
		sum, err := copyRuns(f, src)
		if err != nil {
			return fmt.Errorf("stage %s: %w", shown(o.Path), err)
		}
		if o.After.SHA256 != "" && sum != o.After.SHA256 {
			return fmt.Errorf("stage %s: its content is not what the change set says: digest %s, not %s", shown(o.Path), sum, o.After.SHA256)
		}
	}
	if o.Before != nil && o.Before.Type == File {
		x.host.carry(o.Path, f)
	}
	// By the descriptor: where somebody else may rename in the folder, the name can be another
	// file's by now, which must not get an owner and a set-uid bit that are not its own.
	x.step("finish " + string(o.Path))
	g, err := setFileMeta(f, at, o.After)
	x.shortfalls(o, o.After, g)
	if err != nil {
		return err
	}
	if x.few() {
		x.step("sync " + string(at))
		if err := f.Sync(); err != nil {
			return fmt.Errorf("stage %s: %w", shown(o.Path), err)
		}
	}
	return nil
}

// meta is setMeta with its shortfalls reported.
func (x *executor) meta(o *op, at Path, want *Node) error {
	g, err := x.host.setMeta(at, want)
	x.shortfalls(o, want, g)
	return err
}

func (x *executor) shortfalls(o *op, want *Node, g given) {
	if g.owner {
		x.note(o.Path, NoteOwner, fmt.Sprintf("it cannot be given to user %d, group %d by this user", want.UID, want.GID))
	}
	if g.suid {
		x.note(o.Path, NoteSetIDLost, fmt.Sprintf("mode %04o without the owner it was meant for", want.Mode))
	}
}

// stageMoved takes an object that an earlier entry displaced out of its backup folder,
// or the copy beside it where the object is not what it was.
func (x *executor) stageMoved(i int, at place) error {
	o := &x.j.ops[i]
	if o.Do == doRide && x.rides(i) {
		return nil
	}
	from := place{x.set, Path(o.Name)}
	n, err := x.set.Lstat(from.path)
	if err != nil {
		return fmt.Errorf("take %s out of the backup: %w", shown(o.Path), err)
	}
	if o.Alt != "" && (n.Size != o.After.Size || !n.MTime.Equal(o.After.MTime)) {
		src, err := x.set.Open(Path(o.Alt))
		if err != nil {
			return err
		}
		defer src.Close()
		x.note(o.Path, NoteLinkCopy, "another name of the old file was written to, so this is a copy of the old content")
		return x.stageFile(o, at.path, src)
	}
	if o.After.Type == File && (n.Size != o.After.Size || !n.MTime.Equal(o.After.MTime)) {
		x.note(o.Path, NoteKept, "a program that had the old file open went on writing to it; that is in it")
	}
	if err := x.openForMove(from, n); err != nil {
		return err
	}
	if err := renameNew(from, at); err != nil {
		return err
	}
	if n.Type == File && (n.Size != o.After.Size || !n.MTime.Equal(o.After.MTime)) {
		return nil
	}
	return x.meta(o, at.path, o.After)
}

// rides reports whether a moved object is inside its folder, which is moved as a whole.
func (x *executor) rides(i int) bool {
	o := &x.j.ops[i]
	up := &x.j.ops[o.Up]
	return o.From == fromMoved && up.From == fromMoved && child(Path(up.Name), o.Path.Base()) == Path(o.Name)
}

// openForMove lets an ordinary user's own folder be moved: its ".." changes, so it must
// be writable. Its mode is set again where it arrives, or stands in the journal.
func (x *executor) openForMove(at place, n *Node) error {
	if x.root || n.Type != Dir || n.Mode&0o200 != 0 {
		return nil
	}
	return at.fs.chmod(at.path, n.Mode|0o700)
}

// copyOld keeps a copy of what is replaced.
func (x *executor) copyOld(i int) error {
	o := &x.j.ops[i]
	x.step("copy " + string(o.Path))
	src, err := x.host.Open(o.Path)
	if err != nil {
		return fmt.Errorf("keep a copy: %w", err)
	}
	defer src.Close()
	dst, err := x.set.Create(x.copyName(i))
	if err != nil {
		return err
	}
	defer dst.Close()
	if _, err := copyRuns(dst, src); err != nil {
		return fmt.Errorf("keep a copy of %s: %w", shown(o.Path), err)
	}
	now, err := x.host.Lstat(o.Path)
	if err != nil {
		return err
	}
	if !sameObject(now, o.Before, true) {
		return x.conflict(o.Path, "it was changed on the host just now")
	}
	if x.few() {
		return dst.Sync()
	}
	return nil
}

// stagedDirs gives new folders their mode and time, the innermost first. A folder that
// is to be locked can be so already: it is switched as a whole.
func (x *executor) stagedDirs() error {
	for i := len(x.j.ops) - 1; i >= 0; i-- {
		o := &x.j.ops[i]
		if o.After == nil || o.After.Type != Dir || o.Do != doReplace && o.Do != doRide || o.From == fromMoved {
			continue
		}
		at := x.staged(i)
		x.step("finish the folder " + string(o.Path))
		if x.few() {
			if err := x.host.syncDir(at, false); err != nil {
				return err
			}
		}
		if err := x.meta(o, at, o.After); err != nil {
			return err
		}
	}
	return nil
}

func (x *executor) syncStaged() error { return x.syncNames() }

func (x *executor) conflict(p Path, reason string) error {
	advice := adviceCommit
	if x.j.entry.Kind == kindUndo {
		advice = adviceUndo
	}
	return &ConflictError{ID: x.id, Conflicts: []Conflict{{p, reason, advice}}}
}
