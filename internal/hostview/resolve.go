package hostview

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hidden paths are given as the sandbox's layer names them, with every link on the way
// resolved: whoever compares the layer with the host must know a hidden path by that
// name, or takes it for one that the sandbox deleted.

// place is p with the links above it resolved, as far as the way to it exists. What is at
// p itself is not followed.
func place(p string) string {
	rest := filepath.Base(p)
	for dir := filepath.Dir(p); ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == "/" {
			return p
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// target is what the link at p leads to; "" where there is no link, or nothing behind it.
func target(p string) string {
	if st, err := os.Lstat(p); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return ""
	}
	return real
}

// places gives the places of paths, and what those lead to that are links.
func places(paths []string) []string {
	var out []string
	for _, p := range paths {
		p = place(p)
		out = append(out, p)
		if t := target(p); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// resolve gives what hiding p means: its place and, of a link, what it leads to. A link
// to what is shown, or into a folder that holds some of it, stays: it is the way there.
func resolve(p string, show []string) ([]string, error) {
	p = place(p)
	t := target(p)
	switch {
	case t == "/":
		return nil, fmt.Errorf("%s is to be hidden and leads to the root folder; use --show %s to allow it", p, p)
	case t == "":
		return []string{p}, nil
	case holdsShown(t, show):
		return []string{t}, nil
	case coveredBy(t, show):
		return nil, nil // hiding the link would hide what it leads to
	}
	return []string{p, t}, nil
}

func holdsShown(p string, show []string) bool {
	return slices.ContainsFunc(show, func(s string) bool { return s != p && within(s, p) })
}

// planted reports whether p is a link in a folder that anybody may write to: whoever made
// it would choose what everybody else's sandboxes cannot see.
func planted(p string) bool {
	return strings.HasPrefix(p, "/tmp/") && target(p) != ""
}
