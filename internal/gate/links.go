package gate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxLinks is how many links a path may lead through, as the kernel's own limit has it.
const maxLinks = 40

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
