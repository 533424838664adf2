package material

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"airlock/internal/changes"
	"airlock/internal/planner"
)

// instructionsName is the file in which projects say what whoever works on them should know.
const instructionsName = "AGENTS.md"

// instructions reads it in each folder from the repository's root down to the working folder:
// the nearest comes last.
func (g *gatherer) instructions(ctx context.Context) error {
	if !g.Instructions {
		return nil
	}
	dir, err := filepath.EvalSymlinks(g.WorkDir)
	if err != nil {
		return nil // the working folder is gone: there is nothing to read in it
	}
	root := repository(dir)
	in := root
	if root == "" {
		in = dir
	}
	for _, folder := range folders(root, dir) {
		name := filepath.Join(folder, instructionsName)
		shown := changes.Printable(name)
		d, err := g.read(ctx, name, in, MaxFile+slack)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errOut):
			g.note("%s leads out of the project and was not read.", shown)
			continue
		case err != nil:
			g.note("%s was not read: %v.", shown, err)
			continue
		case !isText(d.data, d.more):
			g.note("%s is no text and was left out.", shown)
			continue
		}
		if g.seen[instructionsName+d.real] {
			continue
		}
		g.seen[instructionsName+d.real] = true
		text, cut := g.cut(name, d, MaxFile)
		g.note("The project's instructions in %s are sent along%s.", shown, cut)
		g.add(planner.Piece{Kind: planner.FromInstructions, Name: shown, Text: text, Note: cutNote(cut)})
	}
	return nil
}

// cut redacts a document and keeps its first n bytes. how says, for a sentence that goes
// before, what was cut; it is empty where nothing was.
func (g *gatherer) cut(name string, d *document, n int) (text, how string) {
	data := d.data
	if d.more {
		data = wholeRunes(data)
	}
	if kindOf(d.real) != otherKind {
		name = d.real // whatever the link to it is called
	}
	whole := g.Redactor.File(name, string(data))
	text = firstBytes(whole, n)
	if d.more || len(text) < len(whole) {
		how = ", cut after its first " + bytesOf(int64(len(text))) + " of " + bytesOf(d.size)
	}
	return text, how
}

// cutNote is how as a note of its own.
func cutNote(how string) string {
	if how == "" {
		return ""
	}
	return how[len(", "):]
}
