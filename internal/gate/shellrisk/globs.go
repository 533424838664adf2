package shellrisk

import (
	"path"
	"slices"
	"strings"
)

// A pattern such as *.txt can become any name there is, and -o.txt would be an option. Where
// the folder's names are known it can be told that none is: the line is then read as it is
// now, and recheck takes that back where the line itself could change it.

// hasNone reports whether a folder surely holds no name that starts so.
func (c *call) hasNone(dir, prefix string) bool {
	return c.holdsNo(dir, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// holdsNo reports whether a folder surely holds no name such as is meant.
func (c *call) holdsNo(dir string, meant func(string) bool) bool {
	if c.opts.Names == nil || dir == "" || c.fr.remote || c.opts.Env["BASHOPTS"] != "" {
		return false
	}
	names, ok := c.opts.Names(dir)
	if !ok || slices.ContainsFunc(names, meant) {
		return false
	}
	c.part.assumes = true
	return true
}

// literal reports whether a word is what it says: also a pattern that no file's name can
// match, such as sed's s,.*/,, where it is not quoted.
func (c *call) literal(f *field) bool {
	if f.Known || !f.glob || c.sc.cwd == "" {
		return f.Known
	}
	dir, base := path.Split(f.prefix)
	if !path.IsAbs(dir) {
		dir = c.sc.cwd + "/" + dir
	}
	if dir = path.Clean(dir); base == "." || base == ".." { // which . and .. match in every folder that is there
		folder := path.Base(dir)
		return f.prefix != base && c.holdsNo(path.Dir(dir), func(name string) bool { return strings.EqualFold(name, folder) })
	}
	return base != "" && c.hasNone(dir, base)
}

// recheck doubts what was assumed of folders in a line that does more than look, and so
// could have changed them, or that changes what patterns become.
func (w *walker) recheck() {
	changes := w.globbing || slices.ContainsFunc(w.parts, func(p Part) bool { return len(p.Effects) > 0 })
	for i := range w.parts {
		if p := &w.parts[i]; p.assumes && changes {
			p.add(Unknown, "a pattern could become an option by what the rest of the line does")
			p.settle()
		}
	}
}
