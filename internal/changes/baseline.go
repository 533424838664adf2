package changes

import (
	"errors"
	"io/fs"
	"slices"
)

// A hostNode is what the host has at a path.
type hostNode struct {
	node Node
	rdev uint64 // of a device
}

// seen describes what the host has at p, without following a link; nil where there is
// nothing. e is what the layer has there, if anything: a file of the same size is read
// to compare it, whatever the bound on digests.
func (c *comparer) seen(p Path, e *layerEntry) (*hostNode, error) {
	old, err := c.host.baseline(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := &old.node
	n.MTime, n.CTime = sensible(n.MTime), sensible(n.CTime)
	if n.Type != File {
		return old, nil
	}
	compared := e != nil && e.node.Type == File && e.node.Size == n.Size
	if !compared {
		if n.Size > c.hashLeft {
			return old, nil
		}
		c.hashLeft -= n.Size
	}
	// Unreadable, or gone meanwhile: what is not known stays "".
	if n.SHA256, err = c.host.digest(p); err != nil {
		n.SHA256 = ""
		return old, nil
	}
	// Changed while it was read: the later look says so, and is a conflict.
	again, err := c.host.baseline(p)
	if err != nil || again.node.Ino != n.Ino {
		n.SHA256 = ""
		return old, nil
	}
	n.CTime = sensible(again.node.CTime)
	return old, nil
}

// conflict says that the host changed p, or a folder on the way, since the sandbox
// started; "" where it did not.
func (c *comparer) conflict(p Path, kind Kind, old *Node) string {
	if c.opts.Started.IsZero() || p == "/" {
		return ""
	}
	if why := c.folder(p.Parent()); why != "" {
		return why
	}
	if left, ours := c.base.left[p]; ours {
		return c.since(p, kind, old, left)
	}
	switch {
	case old == nil:
		return ""
	case old.Type == Dir && kind != Metadata:
		// A folder's ctime moves with each name made in it, and then those names are
		// the conflict. Only its own replacement counts here.
		return c.folder(p)
	case old.CTime.After(c.opts.Started):
		return shown(p) + " was changed on the host while the sandbox ran"
	}
	return ""
}

// folder says why the folder at p, or one above it, is not the one that the sandbox
// saw. A folder was replaced if it was made later, or if it was moved: that alone
// changes its ctime and not its mtime.
func (c *comparer) folder(p Path) string {
	if p == "/" {
		return ""
	}
	if why, ok := c.folders[p]; ok {
		return why
	}
	why := c.folder(p.Parent())
	if why == "" && c.replaced(p) {
		why = "the folder " + shown(p) + " was replaced on the host while the sandbox ran"
	}
	c.folders[p] = why
	return why
}

func (c *comparer) replaced(p Path) bool {
	n, born, err := c.host.born(p)
	if err != nil || n.Type != Dir {
		return false
	}
	if left := c.base.left[p]; left != nil && left.Type == Dir {
		return n.Ino != left.Ino || n.CTime.After(left.CTime) && !n.MTime.After(left.MTime) && !c.touched(p, n)
	}
	started := c.opts.Started
	return born.After(started) || n.CTime.After(started) && !n.MTime.After(started) && !c.touched(p, n)
}

// touched reports whether the folder at p, which is as now, was last changed by a commit or
// undo of some set of the store: an undo gives folders their old times back, which looks
// as if they had been moved.
func (c *comparer) touched(p Path, now *Node) bool {
	if c.touches == nil {
		c.touches = c.store.touches()
	}
	return slices.ContainsFunc(c.touches[p], func(n *Node) bool { return sameObject(now, n, true) })
}

// touches says how the commits and undos of all sets left folders that were there before.
func (s *Store) touches() map[Path][]*Node {
	out := map[Path][]*Node{}
	ids, err := s.ids()
	if err != nil {
		return out // then they count as others' work, and a person looks
	}
	for _, id := range ids {
		done, _, err := readEntries(s.Dir(id))
		if err != nil {
			continue // it says what is wrong with it when it is used
		}
		for _, j := range done {
			for i, n := range j.after {
				if o := &j.ops[i]; n != nil && n.Type == Dir && (o.Do == doTouch || o.Do == doMeta) {
					out[o.Path] = append(out[o.Path], n)
				}
			}
		}
	}
	return out
}
