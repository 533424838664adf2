package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A wish is one path as it is on the host and as it is to be.
type wish struct {
	path   Path
	before *Node // nil: nothing is there
	after  *Node // nil: nothing is to be there
	from   string
	name   string
	alt    string
	meta   bool // the object stays, only its mode, owner, attributes and time are set
	same   bool // the host has it already
	aux    bool // not one of the set's changes: the time of a folder
}

// A checker turns selected changes into wishes, and finds every conflict on the way.
type checker struct {
	host      *hostFS
	force     bool
	forced    func(Path) bool
	restored  map[Path]*Node // what an undo put back, as it left it: as good as Old
	picked    map[Path]*Change
	all       map[Path]*Change // the whole set
	seen      map[Path]*Node   // folders on the way, by path; nil: not a folder
	conflicts []Conflict
	notes     []Note
	already   []Path
}

func (c *checker) conflict(p Path, reason, advice string) {
	c.conflicts = append(c.conflicts, Conflict{Path: p, Reason: reason, Advice: advice})
}

// wishes checks every change against the host as it is now.
func (c *checker) wishes(list []*Change) ([]wish, error) {
	c.picked = make(map[Path]*Change, len(list))
	c.seen = make(map[Path]*Node)
	for _, ch := range list {
		c.picked[ch.Path] = ch
	}
	var out []wish
	for _, ch := range list {
		ok, err := c.way(ch.Path)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		now, err := c.host.Lstat(ch.Path)
		if ch.New == nil && blocked(err) {
			c.conflict(ch.Path, "a folder above it has become a link or a file", adviceFolder)
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		w, err := c.one(ch, now)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// way checks the folders above p: each is a real folder on the host, or one that this
// commit makes. It reports whether p's own check makes sense.
func (c *checker) way(p Path) (bool, error) {
	for dir := p.Parent(); dir != "/"; dir = dir.Parent() {
		if ch := c.picked[dir]; ch != nil && (ch.New != nil && ch.New.Type == Dir || emptiesFolder(ch)) {
			continue // made, kept or removed by this commit, and checked as a change of its own
		}
		n, known := c.seen[dir]
		if !known {
			var err error
			if n, err = c.host.Lstat(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
			c.seen[dir] = n
		}
		if n != nil && n.Type == Dir {
			return true, nil // openat2 came here through real folders alone
		}
		if ch := c.picked[p]; n == nil && ch != nil && ch.New == nil {
			return true, nil // gone with its folder; nothing remains to be deleted
		}
		switch {
		case n == nil:
			c.conflict(p, "the folder "+shown(dir)+" is not there any more", adviceFolder)
		case n.Type == Symlink:
			c.conflict(p, "the folder "+shown(dir)+" has become a link to "+shown(n.Target), adviceFolder)
		default:
			c.conflict(p, "the folder "+shown(dir)+" has become a "+string(n.Type), adviceFolder)
		}
		return false, nil
	}
	return true, nil
}

// one checks one change and says what is to be done for it.
func (c *checker) one(ch *Change, now *Node) (wish, error) {
	w := wish{path: ch.Path, before: now, after: ch.New}
	if ch.New != nil && ch.New.Type == File {
		w.from, w.name = fromBlob, ch.Blob
		if ch.HardLink != "" {
			w.from, w.name, w.alt = fromLink, string(ch.HardLink), c.blobOf(ch)
		}
	}
	has, err := c.hasAlready(ch, now)
	if err != nil {
		return w, err
	}
	if has {
		w.same = true
		c.already = append(c.already, ch.Path)
		return w, nil
	}
	reason, err := c.reason(ch, now)
	if err != nil {
		return w, err
	}
	if ch.Conflict != "" && reason == "" {
		reason = ch.Conflict
	}
	if reason != "" {
		if !c.force || c.forced != nil && !c.forced(ch.Path) {
			c.conflict(ch.Path, reason, adviceCommit)
			return w, nil
		}
		c.notes = append(c.notes, Note{ch.Path, NoteForced, "overridden: " + reason})
	}
	if ch.Kind == Metadata && now != nil && now.Type == File {
		w.from, w.name, w.meta = fromHost, "", now.Nlink == 1
		if now.Nlink == 1 {
			w.from = ""
		}
	}
	return w, nil
}

// blobOf finds the content of a hard link, at whichever name it is stored.
func (c *checker) blobOf(ch *Change) string {
	if ch.Blob == "" {
		if first := c.all[ch.HardLink]; first != nil {
			return first.Blob
		}
	}
	return ch.Blob
}

// hasAlready reports whether the host has what the change would bring.
func (c *checker) hasAlready(ch *Change, now *Node) (bool, error) {
	if ch.New == nil || now == nil {
		return ch.New == nil && now == nil, nil
	}
	if now.Type != ch.New.Type {
		return false, nil
	}
	if ch.Kind == Added && now.Type == Dir {
		c.notes = append(c.notes, Note{ch.Path, NoteMerged, "the folder is there already; its mode and owner stay"})
		return true, nil
	}
	if now.Mode != ch.New.Mode && now.Type != Symlink || !sameXattrs(now, ch.New) {
		return false, nil
	}
	if os.Geteuid() == 0 && (now.UID != ch.New.UID || now.GID != ch.New.GID) {
		return false, nil
	}
	switch now.Type {
	case File:
		if ch.Kind == Metadata && !now.MTime.Equal(ch.New.MTime) || ch.New.SHA256 == "" || now.Size != ch.New.Size {
			return false, nil
		}
		sum, err := c.host.digest(ch.Path)
		if errors.Is(err, fs.ErrPermission) {
			return false, nil
		}
		return sum == ch.New.SHA256, err
	case Symlink:
		return now.Target == ch.New.Target, nil
	case Dir:
		return now.MTime.Equal(ch.New.MTime), nil
	}
	return true, nil
}

// reason says why the host is not as the sandbox saw it; "" where it is.
func (c *checker) reason(ch *Change, now *Node) (string, error) {
	if r := c.restored[ch.Path]; r != nil && now != nil && sameObject(now, r, true) {
		return "", nil
	}
	if ch.Old == nil {
		if ch.Kind != Added {
			return "what the host had is not known", nil
		}
		if now != nil {
			return fmt.Sprintf("a %s is there now", now.Type), nil
		}
		return "", nil
	}
	if now == nil {
		return "it was deleted on the host", nil
	}
	return changed(c.host, ch.Path, now, ch.Old)
}

// changed says how now differs from old; "" where it does not. A file whose times
// differ is compared by its content.
func changed(h *hostFS, p Path, now, old *Node) (string, error) {
	if now.Type != old.Type {
		return fmt.Sprintf("it was a %s and is a %s now", old.Type, now.Type), nil
	}
	owner := now.UID != old.UID || now.GID != old.GID
	if owner || now.Type != Symlink && now.Mode != old.Mode {
		return "its owner or mode was changed on the host", nil
	}
	switch now.Type {
	case Symlink:
		if now.Target != old.Target {
			return "it points to " + shown(now.Target) + " now", nil
		}
	case File:
		if now.Size != old.Size {
			return "its content was changed on the host", nil
		}
		moved := old.Ino != 0 && now.Ino != old.Ino || !old.CTime.IsZero() && !now.CTime.Equal(old.CTime)
		if now.MTime.Equal(old.MTime) && !moved {
			return "", nil
		}
		if old.SHA256 == "" {
			return "it was written on the host since", nil
		}
		sum, err := h.digest(p)
		if err != nil {
			return "", err
		}
		if sum != old.SHA256 {
			return "its content was changed on the host", nil
		}
	}
	return "", nil
}
