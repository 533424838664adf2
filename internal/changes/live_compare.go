package changes

import (
	"context"
	"slices"
	"strings"
)

// findOut marks as deleted what was let out and is not in the layer any more: a file that
// the sandbox made and that is gone again leaves no mark there, and yet the host has it.
func (c *comparer) findOut() {
	var gone []Path
	for p, o := range c.base.out {
		if o.node != nil && c.tree.entries[p] == nil && c.lost(p) {
			gone = append(gone, p)
		}
	}
	for _, p := range gone {
		c.tree.entries[p] = &layerEntry{node: Node{Type: Device}, whiteout: true}
	}
}

// lost reports whether p, which is not in the layer, is the top of what is missing there.
func (c *comparer) lost(p Path) bool {
	for dir := p.Parent(); ; dir = dir.Parent() {
		if e := c.tree.entries[dir]; e != nil {
			return !e.whiteout && e.node.Type == Dir // else it went with its folder
		}
		if o, known := c.base.out[dir]; known && o.node != nil {
			return false // that is missing, too
		}
	}
}

// standing reports whether what the layer has at p is what was let out already.
func (c *comparer) standing(p Path, e *layerEntry) (letOut, bool) {
	o, known := c.base.out[p]
	if !known || e.whiteout || o.node == nil {
		return o, known && e.whiteout && o.node == nil
	}
	now := e.node
	c.settle(&now, o.node)
	return o, differs(&now, o.node) == ""
}

// keepOut notes what was let out and stands, so that an undo finds it. What another
// sandbox let out, of which this is a fork, is not undone here.
func (c *comparer) keepOut(p Path, e *layerEntry, o letOut) {
	ch := Change{Path: p, Scope: c.scopes.scope(p), Old: o.before, LetOut: o.num}
	switch {
	case o.num == 0, o.node == nil && o.before == nil: // the latter came and went
		return
	case o.node == nil:
		ch.Kind = Deleted
	default:
		ch.New = o.node
		if ch.Kind = Added; o.before != nil {
			ch.Kind = differs(o.node, o.before)
		}
		if ch.Kind == "" {
			return
		}
		if e != nil && o.node.Type == File && ch.Kind != Metadata {
			ch.Blob = e.blob
		}
	}
	c.outs = append(c.outs, ch)
}

// sortOuts adds the deletions that went out with their folder, and puts all in order.
func (c *comparer) sortOuts() {
	for p, o := range c.base.out {
		if o.node == nil && c.tree.entries[p] == nil && !c.hidden.covers(p) {
			c.keepOut(p, nil, o)
		}
	}
	slices.SortFunc(c.outs, func(a, b Change) int { return strings.Compare(string(a.Path), string(b.Path)) })
}

// again compares a folder that was let out as it is and that took another's place: what
// it held then and does not hold now was deleted since.
func (c *comparer) again(ctx context.Context, p Path, e *layerEntry) error {
	if !e.opaque || e.whiteout {
		return nil
	}
	old, err := c.seen(p, e)
	if err != nil || old == nil || old.node.Type != Dir {
		return err
	}
	_, err = c.deleteBelow(ctx, p)
	return err
}

// foreign reports whether p, which the host has in a folder that the sandbox put in the
// place of another, came there after that was let out: the sandbox never saw it, and so
// did not delete it.
func (c *comparer) foreign(p Path) bool {
	e := c.tree.entries[p.Parent()]
	if e == nil || !e.opaque || e.whiteout {
		return false
	}
	when, some := c.base.when[p.Parent()]
	if o, known := c.base.out[p]; !some || known && o.node != nil {
		return false
	}
	_, born, err := c.host.born(p)
	return err == nil && born.After(when)
}

// since says what somebody else did at p after the last commit or undo, which left it as
// left; "" where it is still so.
func (c *comparer) since(p Path, kind Kind, now, left *Node) string {
	switch {
	case left == nil && now == nil:
		return ""
	case left == nil:
		return "a " + string(now.Type) + " was put there on the host after the last commit"
	case now == nil:
		return shown(p) + " was deleted on the host after the last commit"
	case now.Type == Dir && left.Type == Dir && kind != Metadata:
		return c.folder(p)
	case sameObject(now, left, true):
		return ""
	}
	why, err := changed(c.host, p, now, left)
	switch {
	case err != nil:
		return "whether " + shown(p) + " was changed on the host after the last commit cannot be seen"
	case why != "":
		return shown(p) + " was changed on the host after the last commit"
	}
	return ""
}
