package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A comparer finds what of an upper layer differs from the host.
type comparer struct {
	tree            *layerTree
	opts            *ReadOptions
	host            *hostFS
	hidden, ignored pathSet
	scopes          scoper
	folders         map[Path]string // why a folder is not the one the sandbox saw; "" where it is
	hashLeft        int64
	changes         []Change

	store   *Store
	touches map[Path][]*Node // by folder: how commits and undos left it; nil: not yet asked for

	base *baseline // what was let out before
	outs []Change  // of that, what still is as it was then
}

// compare fills changes, sorted by path.
func (c *comparer) compare(ctx context.Context) error {
	paths := make([]Path, 0, len(c.tree.entries))
	for p := range c.tree.entries {
		if !c.ignored.covers(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		e := c.tree.entries[p]
		if e.tooLong {
			if !c.tree.entries[p.Parent()].tooLong {
				c.refuse(Change{Path: p, Kind: Added, New: &e.node}, "its path is too long for the system")
			}
			continue
		}
		if err := c.one(ctx, p, e); err != nil {
			return fmt.Errorf("compare %s: %w", shown(p), err)
		}
		if len(c.changes) > c.opts.MaxEntries {
			return fmt.Errorf("%w: over %d changes", ErrTooLarge, c.opts.MaxEntries)
		}
	}
	slices.SortFunc(c.changes, func(a, b Change) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return nil
}

// add appends a change, with what is common to all.
func (c *comparer) add(ch Change) {
	ch.Scope = c.scopes.scope(ch.Path)
	if ch.Path == c.scopes.work && emptiesFolder(&ch) {
		// A link in the working folder's place would make what it leads to the next run's work.
		ch.Scope = Outside
	}
	if ch.Refused == "" && ch.New != nil && ch.New.Type == Device {
		ch.Refused = "a device is never committed"
	}
	if ch.Refused == "" && c.hidden.covers(ch.Path) {
		ch.Refused = "hidden from the sandbox"
	}
	if ch.Refused != "" || ch.New == nil || ch.New.Type != File || ch.Kind == Metadata {
		ch.Blob = ""
	}
	c.changes = append(c.changes, ch)
}

func (c *comparer) refuse(ch Change, why string) {
	ch.Refused = why
	c.add(ch)
}

// one compares one entry.
func (c *comparer) one(ctx context.Context, p Path, e *layerEntry) error {
	if c.hidden.covers(p) {
		// Hiding is a whiteout that was there from the start. What the sandbox made in
		// its place is shown, and what the host has there is not even looked at.
		if !e.whiteout {
			now := e.node
			c.add(Change{Path: p, Kind: Added, New: &now})
		}
		return nil
	}
	if o, ok := c.standing(p, e); ok {
		c.keepOut(p, e, o)
		return c.again(ctx, p, e)
	}
	old, err := c.seen(p, e)
	if err != nil {
		return err
	}
	var blocked string
	if old != nil && old.node.Type == Dir && (e.whiteout || e.node.Type != Dir || e.opaque) {
		if blocked, err = c.deleteBelow(ctx, p); err != nil {
			return err
		}
	}
	if e.whiteout {
		if old != nil {
			c.add(Change{Path: p, Kind: Deleted, Old: &old.node, Refused: blocked, Conflict: c.conflict(p, Deleted, &old.node)})
		}
		return nil
	}
	now := e.node
	if old == nil {
		now.UID, now.GID = c.owner(&e.node, nil)
		c.add(Change{Path: p, Kind: Added, New: &now, Blob: e.blob, Conflict: c.conflict(p, Added, nil)})
		return nil
	}
	c.settle(&now, &old.node)
	kind := differs(&now, &old.node)
	if kind == "" && now.Type == Device && e.rdev != old.rdev {
		kind = Modified
	}
	if kind == "" {
		return nil
	}
	if now.Type == Dir {
		blocked = "" // it stays, whatever of its content does
	}
	c.add(Change{
		Path: p, Kind: kind, Old: &old.node, New: &now, Blob: e.blob,
		Refused: blocked, Conflict: c.conflict(p, kind, &old.node),
	})
	return nil
}

// settle gives now what the layer cannot tell from the host's: a time is written there
// to the second, some attributes are not written at all, and some owners are unknown.
func (c *comparer) settle(now, old *Node) {
	now.UID, now.GID = c.owner(now, old)
	if now.MTime.Equal(old.MTime.Round(time.Second)) {
		now.MTime = old.MTime
	}
	if now.Type != old.Type {
		return
	}
	if now.Type == Symlink {
		now.Mode = old.Mode // means nothing
	}
	merged := make(map[string][]byte, len(now.Xattrs))
	maps.Copy(merged, now.Xattrs)
	for key, value := range old.Xattrs {
		if len(value) == 0 || !utf8.Valid(value) || !utf8.ValidString(key) || strings.Contains(key, "=") {
			merged[key] = value
		}
	}
	if len(merged) > 0 {
		now.Xattrs = merged
	}
}

// owner maps the sandbox's owner to the host's.
func (c *comparer) owner(n, old *Node) (uid, gid uint32) {
	ids := c.opts.IDs
	if ids == nil {
		return n.UID, n.GID
	}
	one := func(ranges []IDRange, id uint32, has func(*Node) uint32) uint32 {
		if host, ok := hostID(ranges, id); ok {
			return host
		}
		if old != nil {
			return has(old)
		}
		if len(ranges) > 0 {
			return ranges[0].Host
		}
		return id
	}
	return one(ids.UIDs, n.UID, func(n *Node) uint32 { return n.UID }),
		one(ids.GIDs, n.GID, func(n *Node) uint32 { return n.GID })
}

// differs says how now differs from old; "" where it does not.
func differs(now, old *Node) Kind {
	if now.Type != old.Type {
		return Modified
	}
	meta := now.Mode != old.Mode || now.UID != old.UID || now.GID != old.GID || !sameXattrs(now, old)
	switch now.Type {
	case File:
		if now.Size != old.Size || now.SHA256 != old.SHA256 || now.SHA256 == "" {
			return Modified
		}
		// A folder's time follows from what is done in it, and a link's is nobody's
		// business; a file's is what make and others go by.
		meta = meta || !now.MTime.Equal(old.MTime)
	case Symlink:
		if now.Target != old.Target {
			return Modified
		}
	}
	if meta {
		return Metadata
	}
	return ""
}

// deleteBelow lists everything below the host's folder dir that the layer does not have
// as deleted. It gives a reason where something below dir must stay, and with it all the
// folders down to there.
func (c *comparer) deleteBelow(ctx context.Context, dir Path) (blocked string, err error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	mount, known := c.mount(dir)
	names, err := c.host.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // gone on the host, too
	}
	if errors.Is(err, fs.ErrPermission) {
		return "its content on the host cannot be read", nil
	}
	if err != nil {
		return "", err
	}
	for _, name := range names {
		p := child(dir, name)
		if c.tree.entries[p] != nil && !c.ignored.covers(p) {
			continue // compared on its own
		}
		why, err := c.deleteOne(ctx, p, mount, known)
		if err != nil {
			return "", err
		}
		if why != "" {
			blocked = why
		}
	}
	return blocked, nil
}

func (c *comparer) mount(dir Path) (id uint64, known bool) {
	id, err := c.host.mount(dir)
	return id, err == nil
}

// deleteOne lists p, which is not in the layer, and what is below it.
func (c *comparer) deleteOne(ctx context.Context, p Path, mount uint64, known bool) (blocked string, err error) {
	switch {
	case c.hidden.covers(p):
		return "it holds " + shown(p) + ", which is hidden from the sandbox", nil
	case c.ignored.covers(p):
		return "it holds " + shown(p) + ", which is in use", nil
	case len(p) > maxPath:
		return "it holds paths that are too long for the system", nil
	case len(c.changes) >= c.opts.MaxEntries:
		return "", fmt.Errorf("%w: over %d changes", ErrTooLarge, c.opts.MaxEntries)
	}
	if c.foreign(p) {
		return "", nil
	}
	old, err := c.seen(p, nil)
	if err != nil || old == nil {
		return "", err
	}
	if old.node.Type == Dir {
		if id, ok := c.mount(p); known && ok && id != mount {
			return "it holds " + shown(p) + ", where another file system is mounted", nil
		}
		if blocked, err = c.deleteBelow(ctx, p); err != nil {
			return "", err
		}
	}
	c.add(Change{Path: p, Kind: Deleted, Old: &old.node, Refused: blocked, Conflict: c.conflict(p, Deleted, &old.node)})
	return blocked, nil
}

// linkUp names, for each set of hard links, the first that is a change as what the
// others are the same file as. A link to a file that did not change is a copy.
func (c *comparer) linkUp() {
	leader := map[Path]Path{}
	for i := range c.changes {
		ch := &c.changes[i]
		e := c.tree.entries[ch.Path]
		if e == nil || e.whiteout || ch.New == nil || ch.Refused != "" || ch.Kind == Metadata {
			continue
		}
		first := e.first
		if first == "" {
			first = ch.Path
		}
		if to, ok := leader[first]; ok {
			ch.HardLink = to
		} else {
			leader[first] = ch.Path
		}
	}
}
