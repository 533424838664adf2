package material

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/planner"
)

// include reads the files that were asked for.
func (g *gatherer) include(ctx context.Context) error {
	for _, word := range g.Include {
		shown := changes.Printable(word)
		name, err := g.absolute(word)
		if err != nil {
			return fmt.Errorf("include %s: %w", shown, err)
		}
		// What exists by that very name is meant, whatever characters it has.
		_, missing := os.Lstat(name)
		if missing != nil && strings.ContainsAny(word, `*?[{`) {
			err = g.pattern(ctx, word, name)
		} else {
			err = g.named(ctx, word, name)
		}
		if err != nil {
			return fmt.Errorf("include %s: %w", shown, err)
		}
	}
	return nil
}

// absolute is where a word points to.
func (g *gatherer) absolute(word string) (string, error) {
	switch {
	case word == "":
		return "", errors.New("the name is empty")
	case strings.ContainsRune(word, 0):
		return "", errors.New("there is a NUL in the name")
	case word == "~" || strings.HasPrefix(word, "~/"):
		home := g.homeDir()
		if home == "" {
			return "", errors.New("the home folder is not known: write it out")
		}
		return filepath.Join(home, word[1:]), nil
	case filepath.IsAbs(word):
		return filepath.Clean(word), nil
	}
	return filepath.Join(g.WorkDir, word), nil
}

// named reads a file that was named itself: what hinders that is an error.
func (g *gatherer) named(ctx context.Context, word, name string) error {
	d, err := g.read(ctx, name, "", MaxFile+slack)
	switch {
	case errors.Is(err, errFolder):
		return fmt.Errorf("%w: write %s for the files in it", err, changes.Printable(strings.TrimRight(word, "/")+"/**"))
	case errors.Is(err, os.ErrNotExist):
		return errors.New("there is no such file")
	case err != nil:
		return err
	case !isText(d.data, d.more):
		g.note("%s is a binary file and was left out.", changes.Printable(word))
		return nil
	}
	g.file(word, d)
	return nil
}

// file adds what was read of a file, unless it is there already. It reports whether there
// was room for it.
func (g *gatherer) file(shown string, d *document) bool {
	if g.seen[d.real] {
		return true
	}
	shown = changes.Printable(shown)
	if g.left <= 0 || g.files >= MaxIncluded {
		g.note("%s was left out: there are %s of files already, or %d of them.", shown, bytesOf(MaxFiles), MaxIncluded)
		return false
	}
	g.seen[d.real] = true
	g.files++
	text, cut := g.cut(shown, d, min(MaxFile, g.left))
	g.left -= len(text)
	if cut != "" {
		g.note("%s is sent%s.", shown, cut)
	}
	g.add(planner.Piece{Kind: planner.FromFile, Name: shown, Text: text, Note: cutNote(cut)})
	return true
}
