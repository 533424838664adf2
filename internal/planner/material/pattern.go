package material

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"airlock/internal/changes"
)

// Bounds of a pattern: what a person meant is found long before.
const (
	maxVisited = 100_000 // files and folders that are looked at by their names
	maxOpened  = 2_000   // files that are looked into, of all patterns
	maxLooking = 5 * time.Second
)

var errTooMany = fmt.Errorf("it matches too much: more than %d files and folders were looked at, or %v went by; name a smaller folder", maxVisited, maxLooking)

// passedOver are folders that patterns do not look into.
var passedOver = []string{".git", "node_modules"}

// pattern reads the files that a pattern matches, in the order of their names.
func (g *gatherer) pattern(ctx context.Context, word, name string) error {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(name))
	if !doublestar.ValidatePattern(rest) {
		return errors.New("there is no such file, and it is no pattern: a [ or a { is not closed")
	}
	real, err := filepath.EvalSymlinks(filepath.FromSlash(base))
	if err != nil {
		return fmt.Errorf("there is no folder %s", changes.Printable(base))
	}
	if g.Hidden(real) {
		return fmt.Errorf("%s: %w", changes.Printable(base), errHidden)
	}
	t := &tree{ctx: ctx, base: real, hidden: g.Hidden, until: time.Now().Add(maxLooking)}
	found, err := t.find(rest)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return errors.New("it matches no file")
	}
	return g.matched(ctx, word, t, found)
}

// matched reads what a pattern matched.
func (g *gatherer) matched(ctx context.Context, word string, t *tree, found []string) error {
	var binary, unread, hidden, out, more []string
	for i, rel := range found {
		shown := shownAs(word, rel)
		if g.opened++; g.opened > maxOpened || g.left <= 0 || g.files >= MaxIncluded {
			for _, rel := range found[i:] {
				more = append(more, shownAs(word, rel))
			}
			break
		}
		d, err := g.read(ctx, filepath.Join(t.base, filepath.FromSlash(rel)), t.base, MaxFile+slack)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errFolder):
		case errors.Is(err, errHidden):
			hidden = append(hidden, shown)
		case errors.Is(err, errOut):
			out = append(out, shown)
		case err != nil:
			unread = append(unread, shown)
		case !isText(d.data, d.more):
			binary = append(binary, shown)
		default:
			g.file(shown, d)
		}
	}
	g.list(unread, "could not be read")
	g.list(binary, "no text")
	g.list(hidden, "hidden from sandboxes and from models")
	g.list(out, "a link that leads elsewhere: name it to include it")
	g.list(more, fmt.Sprintf("more than fits: %d files, %s", MaxIncluded, bytesOf(MaxFiles)))
	return nil
}

// list notes names that were left out, and why.
func (g *gatherer) list(names []string, why string) {
	if len(names) == 0 {
		return
	}
	shown := make([]string, 0, 4)
	for _, n := range names[:min(3, len(names))] {
		shown = append(shown, changes.Printable(n))
	}
	if n := len(names) - len(shown); n > 0 {
		shown = append(shown, fmt.Sprintf("%d more", n))
	}
	g.note("Left out (%s): %s.", why, strings.Join(shown, ", "))
}

// shownAs is a match in the way the pattern was written: relative to the working folder, or
// absolute.
func shownAs(word, rel string) string {
	base, _ := doublestar.SplitPattern(filepath.ToSlash(word))
	return path.Join(base, rel)
}

// A tree is the files below a folder, as patterns see them. It looks at no more than it may.
type tree struct {
	ctx     context.Context //nolint:containedctx // it lives as long as one pattern is looked for
	base    string
	hidden  func(string) bool
	until   time.Time
	visited int
}

// find lists what a pattern matches, sorted.
func (t *tree) find(pattern string) ([]string, error) {
	var found []string
	err := doublestar.GlobWalk(t, pattern, func(p string, d fs.DirEntry) error {
		if !d.IsDir() && !slices.ContainsFunc(strings.Split(path.Dir(p), "/"), isPassedOver) {
			found = append(found, p)
		}
		return nil
	}, doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	slices.Sort(found)
	return slices.Compact(found), err
}

func isPassedOver(name string) bool { return slices.Contains(passedOver, name) }

// visit counts what is looked at.
func (t *tree) visit(n int) error {
	if t.visited += n; t.visited > maxVisited || time.Now().After(t.until) {
		return errTooMany
	}
	return t.ctx.Err()
}

func (t *tree) place(name string) string { return filepath.Join(t.base, filepath.FromSlash(name)) }

// Open is for fs.FS: nothing is opened in this way.
func (t *tree) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Stat says what is there. What cannot be looked at is absent.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	if err := t.visit(1); err != nil {
		return nil, err
	}
	info, err := os.Stat(t.place(name))
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return info, nil
}

// ReadDir lists a folder, without those that patterns do not look into. One that cannot be
// read is empty.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	dir := t.place(name)
	if err := t.visit(1); err != nil {
		return nil, err
	}
	if t.hidden(dir) {
		return nil, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // it is passed over
	}
	defer f.Close()
	var out []fs.DirEntry
	for {
		entries, err := f.ReadDir(1024)
		if err := t.visit(len(entries)); err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && (isPassedOver(e.Name()) || t.hidden(filepath.Join(dir, e.Name()))) {
				continue
			}
			out = append(out, e)
		}
		if errors.Is(err, io.EOF) || err != nil {
			return out, nil //nolint:nilerr // what was listed before the end counts
		}
	}
}
