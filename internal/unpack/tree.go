package unpack

import (
	"errors"
	"slices"
	"strings"
)

const (
	maxHeld  = 32 // folders that are kept open from the top; below them only the last
	maxLinks = 40 // that one name may go through
)

var (
	errNoFolder = errors.New("is not a folder")
	errBelow    = errors.New("goes through something that is not a folder")
)

// A level is a folder on the way to where the tree stands.
type level struct {
	name string
	f    folder
	open bool
}

// A tree goes from folder to folder below its root, by descriptors, and remembers where it
// stands: the next entry of a tar is mostly beside the last one.
type tree struct {
	root   folder
	levels []level
	follow bool

	// made is called for a folder that was made on the way to a name; nil makes none.
	made func(parent folder, path []string) error
	// clear is called for something on the way that is neither folder nor link, to put it away.
	clear func(parent folder, path []string) error
}

// reset forgets where the tree stands: what a path meant may have changed.
func (t *tree) reset() { t.cut(0) }

func (t *tree) close() {
	t.reset()
	t.root.close()
}

// cut goes up to the folder at depth n.
func (t *tree) cut(n int) {
	for i := n; i < len(t.levels); i++ {
		if t.levels[i].open {
			t.levels[i].f.close()
		}
	}
	t.levels = t.levels[:n]
}

// at is the folder that the tree stands in.
func (t *tree) at() folder {
	if n := len(t.levels); n > 0 {
		return t.levels[n-1].f
	}
	return t.root
}

// enter goes to the folder path and through no link. make says to make what is missing. It
// is good until the next call. n is how much of path was entered when it fails.
func (t *tree) enter(path []string, make bool) (f folder, n int, err error) {
	for n < len(t.levels) && n < len(path) && t.levels[n].name == path[n] {
		n++
	}
	for n > 0 && !t.levels[n-1].open {
		n-- // from the nearest that is open
	}
	t.cut(n)
	for ; n < len(path); n++ {
		next, err := t.step(path, n, make)
		if err != nil {
			return folder{}, n, err
		}
		if n > maxHeld {
			t.levels[n-1].f.close()
			t.levels[n-1].open = false
		}
		t.levels = append(t.levels, level{path[n], next, true})
	}
	return t.at(), n, nil
}

// step opens path[n] in the folder that the tree stands in.
func (t *tree) step(path []string, n int, make bool) (folder, error) {
	at, name := t.at(), path[n]
	next, err := at.open(name)
	switch {
	case err == nil:
		return next, nil
	case errors.Is(err, errNoFolder):
		st, err := at.lstat(name)
		if err != nil {
			return folder{}, err
		}
		if st.isLink() {
			return folder{}, ErrLink
		}
		if !make || t.clear == nil || st.isFolder() {
			return folder{}, errBelow
		}
		if err := t.clear(at, path[:n+1]); err != nil {
			return folder{}, err
		}
	case !errors.Is(err, errAbsent) || !make:
		return folder{}, err
	}
	if err := at.mkdir(name, 0o755); err != nil {
		return folder{}, err
	}
	if next, err = at.open(name); err == nil && t.made != nil {
		err = t.made(next, path[:n+1])
	}
	return next, err
}

// dir goes to the folder path, through links where the tree follows them, and says where that is.
func (t *tree) dir(path []string, make bool) (folder, []string, error) {
	f, _, err := t.enter(path, make)
	if !t.follow || !errors.Is(err, ErrLink) {
		return f, path, err
	}
	// Part by part: what is in front of ".." is known to be no link then.
	var real []string
	rest := slices.Clone(path)
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			real = real[:max(len(real)-1, 0)]
			continue
		}
		real = append(real, part)
		_, n, err := t.enter(real, make)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrLink) {
			return f, nil, err
		}
		if links++; links > maxLinks {
			return f, nil, ErrLink
		}
		text, err := t.at().readlink(real[n])
		if err != nil {
			return f, nil, err
		}
		real = real[:n]
		if strings.HasPrefix(text, "/") {
			real = nil
		}
		rest = slices.Concat(parts(text), rest)
	}
	f, _, err = t.enter(real, make)
	return f, real, err
}

// parts are a path's names, without the empty ones and ".".
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}
