package changes

import (
	"fmt"
	"maps"
	"slices"
)

// A selection is what of a set one commit takes.
type selection struct {
	changes []*Change // in the set's order: a folder before what is in it
	along   []Path
	left    []Left
	already []Path
}

// choose picks the changes that paths name, or all of the work where they name none.
// What earlier commits let out is in done.
func choose(set *Set, paths []Path, done map[Path]bool) (*selection, error) {
	c := chooser{set: set, done: done, pick: make(map[int]bool), index: make(map[Path]int, len(set.Changes))}
	for i := range set.Changes {
		c.index[set.Changes[i].Path] = i
	}
	if err := c.start(paths); err != nil {
		return nil, err
	}
	c.dropIncomplete()
	c.takeAncestors()
	c.takeContents()
	for _, i := range slices.Sorted(maps.Keys(c.pick)) {
		c.out.changes = append(c.out.changes, &set.Changes[i])
	}
	return &c.out, nil
}

type chooser struct {
	set   *Set
	done  map[Path]bool
	pick  map[int]bool
	index map[Path]int
	out   selection
}

func (c *chooser) start(paths []Path) error {
	if len(paths) == 0 {
		for i := range c.set.Changes {
			if c.set.Changes[i].Scope == Work {
				c.take(i)
			}
		}
		return nil
	}
	for _, p := range paths {
		if !p.Valid() {
			return fmt.Errorf("%s: %w: it must be absolute, without “..” and the like", shown(p), ErrNoMatch)
		}
		if i, ok := c.index[p]; ok && c.set.Changes[i].Refused != "" {
			return fmt.Errorf("%s: %w: %s", shown(p), ErrRefused, c.set.Changes[i].Refused)
		}
		found := false
		for i := range c.set.Changes {
			if c.set.Changes[i].Path.Below(p) {
				found = true
				c.take(i)
			}
		}
		if !found {
			return fmt.Errorf("%s: %w", shown(p), ErrNoMatch)
		}
	}
	return nil
}

func (c *chooser) take(i int) {
	ch := &c.set.Changes[i]
	switch {
	case c.pick[i]:
	case c.done[ch.Path]:
		if !slices.Contains(c.out.already, ch.Path) {
			c.out.already = append(c.out.already, ch.Path)
		}
	case ch.Refused != "":
		c.leave(ch.Path, ch.Refused)
	default:
		c.pick[i] = true
	}
}

func (c *chooser) leave(p Path, reason string) {
	if !slices.ContainsFunc(c.out.left, func(l Left) bool { return l.Path == p }) {
		c.out.left = append(c.out.left, Left{Path: p, Reason: reason})
	}
}

// dropIncomplete leaves a folder where it is when something in it can never be removed.
func (c *chooser) dropIncomplete() {
	for i := range c.set.Changes {
		ch := &c.set.Changes[i]
		if ch.Refused == "" || ch.New != nil {
			continue
		}
		for p := ch.Path.Parent(); p != "/"; p = p.Parent() {
			if k, ok := c.index[p]; ok && c.pick[k] && emptiesFolder(&c.set.Changes[k]) {
				delete(c.pick, k)
				c.leave(p, "it holds "+shown(ch.Path)+", which cannot be committed: "+ch.Refused)
			}
		}
	}
}

// takeAncestors adds the folders that the sandbox made and that what is picked lies in.
func (c *chooser) takeAncestors() {
	for _, i := range slices.Sorted(maps.Keys(c.pick)) {
		if c.set.Changes[i].New == nil {
			continue
		}
		for p := c.set.Changes[i].Path.Parent(); p != "/"; p = p.Parent() {
			k, ok := c.index[p]
			if !ok || c.pick[k] || c.done[p] {
				continue
			}
			ch := &c.set.Changes[k]
			if ch.Refused == "" && ch.New != nil && ch.New.Type == Dir && (ch.Old == nil || ch.Old.Type != Dir) {
				c.pick[k] = true
				c.out.along = append(c.out.along, p)
			}
		}
	}
}

// takeContents adds what a removed folder held: the folder goes as a whole or not at all.
func (c *chooser) takeContents() {
	for i := range c.set.Changes {
		ch := &c.set.Changes[i]
		if c.pick[i] || ch.New != nil || ch.Refused != "" || c.done[ch.Path] {
			continue
		}
		for p := ch.Path.Parent(); p != "/"; p = p.Parent() {
			if k, ok := c.index[p]; ok && c.pick[k] && emptiesFolder(&c.set.Changes[k]) {
				c.pick[i] = true
				c.out.along = append(c.out.along, ch.Path)
				break
			}
		}
	}
}

// emptiesFolder reports whether ch takes a folder away, and so all that was in it.
func emptiesFolder(ch *Change) bool {
	return ch.Old != nil && ch.Old.Type == Dir && (ch.New == nil || ch.New.Type != Dir)
}
