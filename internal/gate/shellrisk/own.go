package shellrisk

import (
	"path"
	"slices"
	"strings"
)

// searchPath notes the folders of PATH whose programs the work itself can change: those in
// the working folder, such as an environment's bin, and those that are named from where
// the shell is. What lies elsewhere, ~/bin too, is the person's own.
func (w *walker) searchPath() {
	if w.opts.Names == nil {
		return
	}
	for dir := range strings.SplitSeq(w.opts.Env["PATH"], ":") {
		switch {
		case programDirs[dir]:
		case !strings.HasPrefix(dir, "/"):
			if _, set := w.opts.Env["PATH"]; set {
				w.ownDirs = append(w.ownDirs, dir)
			}
		case w.workDir != "":
			if real := w.resolve(dir); real == "" || below(real, w.workDir) {
				w.ownDirs = append(w.ownDirs, path.Join("/", real))
			}
		}
	}
}

// isOwn reports whether one of these folders holds a program of that name, or may.
func (w *walker) isOwn(name string, sc *scope) bool {
	for _, dir := range w.ownDirs {
		if !path.IsAbs(dir) {
			if sc.cwd == "" {
				return true
			}
			dir = path.Join(sc.cwd, dir)
		}
		names, ok := w.opts.Names(dir)
		if !ok || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return true
		}
	}
	return false
}
