package changes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A baseline is what the commits and undos of a set did to the host: what of the sandbox
// is there already, and how the host looks where nobody else has been since.
type baseline struct {
	out  map[Path]letOut
	left map[Path]*Node     // what the last commit or undo left; nil: nothing
	when map[Path]time.Time // of a folder: when something in it was let out last
	last int                // the number of the last journal; 0: there is none

	stands bool // some commit was not undone
}

// A letOut is what was let out at a path.
type letOut struct {
	num    int   // of the journal; 0: inherited
	node   *Node // as the sandbox had it; nil: it was deleted
	before *Node // what the host had before the first that stands
}

// An inheritance is a line of what a fork takes over: one path's.
type inheritance struct {
	Path Path      `json:"path"`
	Time time.Time `json:"time"`

	Out    bool  `json:"out,omitempty"` // Node and Before say something
	Node   *Node `json:"node,omitempty"`
	Before *Node `json:"before,omitempty"`

	Known bool  `json:"known,omitempty"` // Left says something
	Left  *Node `json:"left,omitempty"`
}

func newBaseline() *baseline {
	return &baseline{out: map[Path]letOut{}, left: map[Path]*Node{}, when: map[Path]time.Time{}}
}

// readBaseline reads what is known of the set's commits. What was let out by the journals
// up to reset belongs to a sandbox that began anew since.
func (s *Store) readBaseline(id string, reset int) (*baseline, error) {
	dir := s.Dir(id)
	done, pending, err := readEntries(dir)
	if err != nil {
		return nil, err
	}
	if pending != nil {
		return nil, ErrInterrupted
	}
	b := newBaseline()
	if err := b.inherit(filepath.Join(dir, inheritedFile)); err != nil {
		return nil, err
	}
	for _, j := range done {
		b.last = j.num
		b.noteLeft(j)
	}
	m := committer{entries: done}
	for _, j := range m.active() {
		b.stands = true
		if j.num > reset {
			b.noteOut(j)
		}
	}
	return b, nil
}

// state is that of a set without changes.
func (b *baseline) state(live bool) State {
	switch {
	case b.stands:
		return Committed
	case live || b.last == 0:
		return None
	}
	return Discarded
}

// noteLeft takes in how an entry left the host.
func (b *baseline) noteLeft(j *journal) {
	for i := range j.ops {
		n, known := j.after[i]
		if !known {
			continue
		}
		if o := &j.ops[i]; n != nil && n.SHA256 == "" && o.After != nil && o.Do != doTouch {
			own := *n
			own.SHA256 = o.After.SHA256
			n = &own
		}
		b.left[j.ops[i].Path] = n
	}
}

// noteOut takes in what an entry that stands let out.
func (b *baseline) noteOut(j *journal) {
	for i := range j.ops {
		o := &j.ops[i]
		if o.Do == doTouch || o.Aux {
			continue
		}
		to := letOut{num: j.num, node: o.After, before: o.Before}
		if first, again := b.out[o.Path]; again {
			to.before = first.before
		}
		b.out[o.Path] = to
		b.mark(o.Path, j.entry.Time)
	}
}

// mark notes of the folders that p lies in, and of p, when something was let out there.
func (b *baseline) mark(p Path, when time.Time) {
	for ; ; p = p.Parent() {
		if !b.when[p].Before(when) {
			return // and so it was with those above
		}
		b.when[p] = when
		if p == "/" {
			return
		}
	}
}

// inherit reads what another set passed on; there may be none.
func (b *baseline) inherit(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return b.readInherited(f)
}

func (b *baseline) readInherited(from io.Reader) error {
	dec := json.NewDecoder(bufio.NewReaderSize(from, 1<<16))
	for n := 1; ; n++ {
		var in inheritance
		err := dec.Decode(&in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && !in.Path.Valid() {
			err = fmt.Errorf("%q is not an absolute, clean path", in.Path)
		}
		if err != nil {
			return fmt.Errorf("what was inherited, line %d: %w", n, err)
		}
		if in.Out {
			b.out[in.Path] = letOut{node: in.Node, before: in.Before}
			b.mark(in.Path, in.Time)
		}
		if in.Known {
			b.left[in.Path] = in.Left
		}
	}
}

// Inherit gives the set of a fork, whose header is child, what is known of its parent's
// commits: what the parent has let out is no change of the fork either. Where the parent
// has no set, there is nothing to be known.
func (s *Store) Inherit(ctx context.Context, parent string, child Header) error {
	lines, err := s.heritage(ctx, parent)
	if err != nil {
		return err
	}
	return s.endow(child, lines)
}

// Bequeath writes what is known of a set's commits into the folder dir, for whatever goes
// on later from where its sandbox is now.
func (s *Store) Bequeath(ctx context.Context, id, dir string) error {
	lines, err := s.heritage(ctx, id)
	if err != nil || len(lines) == 0 {
		return err
	}
	if err := replaceLines(dir, inheritedFile, lines); err != nil {
		return fmt.Errorf("keep what sandbox %s has let out: %w", id, err)
	}
	return nil
}

// Receive gives the set of a new sandbox, whose header is child, what Bequeath wrote into
// dir, if that was anything.
func (s *Store) Receive(_ context.Context, child Header, dir string) error {
	f, err := os.Open(filepath.Join(dir, inheritedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b := newBaseline()
	if err := b.readInherited(f); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return s.endow(child, b.lines())
}

func (s *Store) endow(child Header, lines []inheritance) error {
	if len(lines) == 0 {
		return nil
	}
	if err := s.adopt(child); err != nil {
		return err
	}
	if err := replaceLines(s.Dir(child.ID), inheritedFile, lines); err != nil {
		return fmt.Errorf("change set %s: %w", child.ID, err)
	}
	return nil
}

// heritage is what a set's commits come to.
func (s *Store) heritage(ctx context.Context, id string) ([]inheritance, error) {
	unlock, err := s.lockWaiting(ctx, id, liveWait)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	h, err := s.readHeader(id)
	if err != nil {
		return nil, err
	}
	b, err := s.readBaseline(id, h.Reset)
	if err != nil {
		return nil, fmt.Errorf("change set %s: %w", id, err)
	}
	return b.lines(), nil
}

// lines are the baseline as another set takes it over.
func (b *baseline) lines() []inheritance {
	var lines []inheritance
	for p, o := range b.out {
		n, known := b.left[p]
		lines = append(lines, inheritance{Path: p, Time: b.when[p], Out: true, Node: o.node, Before: o.before, Known: known, Left: n})
	}
	for p, n := range b.left {
		if _, both := b.out[p]; !both {
			lines = append(lines, inheritance{Path: p, Known: true, Left: n})
		}
	}
	return lines
}

// replaceLines replaces a file of dir by one with these lines, so that a crash leaves the
// old or the new.
func replaceLines[T any](dir, name string, lines []T) (err error) {
	f, err := os.CreateTemp(dir, name+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	out := bufio.NewWriterSize(f, 1<<16)
	enc := json.NewEncoder(out)
	for i := range lines {
		if err := enc.Encode(&lines[i]); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(out.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}
