package unpack

import (
	"archive/tar"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A folderEntry is a folder whose mode, owner and times are set when all is in it: a folder without
// the right to write could not be filled, and filling it would change its times.
type folderEntry struct {
	path     []string
	header   *tar.Header
	dev, ino uint64
}

// note keeps for the end what a folder's entry says; the last one of a folder counts.
func (u *unpacker) note(f folder, path []string, h *tar.Header) error {
	st, err := f.stat()
	if err != nil {
		return err
	}
	e := folderEntry{slices.Clone(path), h, st.dev, st.ino}
	key := strings.Join(path, "/")
	if i, ok := u.index[key]; ok {
		u.folders[i] = e
		return nil
	}
	u.index[key] = len(u.folders)
	u.folders = append(u.folders, e)
	return nil
}

// finish gives folders what their entries say, the innermost first. One that somebody
// replaced meanwhile is left alone.
func (u *unpacker) finish() error {
	slices.SortFunc(u.folders, func(a, b folderEntry) int { return slices.Compare(b.path, a.path) })
	var first error
	for _, e := range u.folders {
		f, _, err := u.tree.enter(e.path, false)
		if err != nil {
			continue
		}
		st, err := f.stat()
		if err != nil || st.dev != e.dev || st.ino != e.ino {
			continue
		}
		if err := u.dress(f.asFile(), e.header); err != nil && first == nil {
			first = &EntryError{e.header.Name, err}
		}
	}
	u.folders = nil
	return first
}

// removeAll removes a name with all in it, through no link.
func (u *unpacker) removeAll(parent folder, name string) error {
	_, err := removeBelow(parent, name, nil, nil)
	return err
}

// removeBelow removes a name with all in it but what keep has, whose paths begin with path.
// kept says that something of it stays.
func removeBelow(parent folder, name string, path []string, keep map[string]struct{}) (kept bool, err error) {
	st, err := parent.lstat(name)
	if errors.Is(err, errAbsent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, kept = keep[strings.Join(path, "/")]
	if !st.isFolder() {
		if kept {
			return true, nil
		}
		return false, gone(parent.remove(name, false))
	}
	f, err := parent.open(name)
	if err != nil {
		return false, gone(err)
	}
	defer f.close()
	some, err := removeIn(f, path, keep)
	if err != nil {
		return false, fmt.Errorf("remove %.100q: %w", name, err)
	}
	if kept || some {
		return true, nil
	}
	return false, gone(parent.remove(name, true))
}

// removeIn empties a folder but for what keep has.
func removeIn(f folder, path []string, keep map[string]struct{}) (some bool, err error) {
	names, err := f.names()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		kept, err := removeBelow(f, name, append(slices.Clip(path), name), keep)
		if err != nil {
			return false, err
		}
		some = some || kept
	}
	return some, nil
}

// gone takes it for done when somebody else removed a name.
func gone(err error) error {
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// whiteout does what an entry says that removes, and nothing for one that is none.
func (u *unpacker) whiteout(path []string) (done bool, err error) {
	if strings.HasPrefix(path[0], whiteoutMeta) && path[0] != whiteoutOpaque {
		return true, nil // what another kind of file system noted for itself
	}
	name, ok := strings.CutPrefix(path[len(path)-1], whiteoutPrefix)
	if !ok {
		return false, nil
	}
	opaque := path[len(path)-1] == whiteoutOpaque
	if !opaque && strings.HasPrefix(path[len(path)-1], whiteoutMeta) {
		return true, nil
	}
	if !opaque && (name == "" || name == "." || name == "..") {
		return true, ErrName
	}
	parent, real, err := u.tree.dir(path[:len(path)-1], false)
	if errors.Is(err, errAbsent) || errors.Is(err, errBelow) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	if opaque {
		_, err = removeIn(parent, real, u.made)
	} else {
		_, err = removeBelow(parent, name, append(slices.Clip(real), name), u.made)
	}
	return true, err
}
