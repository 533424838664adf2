package gate

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxLinks is how many links a path may lead through, as the kernel's own limit has it.
const maxLinks = 40

// maxNames is how many names of a folder are looked at.
const maxNames = 4096

// names lists what is in a folder; false where it cannot be told or is too much.
func (pl *places) names(dir string) ([]string, bool) {
	if pl.imagined {
		return nil, false
	}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	list, err := f.Readdirnames(maxNames + 1)
	return list, len(list) <= maxNames && (err == nil || errors.Is(err, io.EOF))
}

// resolveLinks follows the links of an absolute path as the kernel would, a last one that
// leads to nothing included: what writes there makes the file that it names. What does
// not exist is taken by its name. Where links go round, the answer is "".
func resolveLinks(name string) string {
	if runtime.GOOS == "windows" || !filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	at, rest, links := "/", name, 0
	for rest != "" {
		var comp string
		comp, rest, _ = strings.Cut(rest, "/")
		switch comp {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, comp)
		target, err := os.Readlink(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(next, rest)
		case err != nil: // no link, or one that cannot be looked at
			at = next
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	return at
}
