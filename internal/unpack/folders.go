package unpack

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// A folderEntry is a folder whose mode, owner and times are set when all is in it: a folder without
// the right to write could not be filled, and filling it would change its times. Of what a tar says of it no more is kept than
// that needs, since a tar of little but folders is small when it is compressed.
type folderEntry struct {
	path     string
	header   *tar.Header
	dev, ino uint64
}

// What is kept of folders until then is bounded, in bytes: names of about a million, and attributes.
const (
	maxKept    = 512 << 20
	maxRecords = 64 << 20
	keptEach   = 512 // beside a name and attributes
)

// note keeps for the end what a folder's entry says; the last one of a folder counts.
func (u *unpacker) note(f folder, path []string, h *tar.Header) error {
	st, err := f.stat()
	if err != nil {
		return err
	}
	e := folderEntry{strings.Join(path, "/"), u.kept(h), st.dev, st.ino}
	u.noted += int64(keptEach + len(e.path))
	for key, value := range e.header.PAXRecords {
		u.records += int64(len(key) + len(value))
	}
	switch {
	case u.noted > maxKept:
		return fmt.Errorf("%w of %d bytes of folders", ErrLimit, maxKept)
	case u.records > maxRecords:
		return fmt.Errorf("%w of %d bytes of folders' attributes", ErrLimit, maxRecords)
	}
	if i, ok := u.index[e.path]; ok {
		u.folders[i] = e
		return nil
	}
	u.index[e.path] = len(u.folders)
	u.folders = append(u.folders, e)
	return nil
}

// kept is what dress needs of a header.
func (u *unpacker) kept(h *tar.Header) *tar.Header {
	own := &tar.Header{Typeflag: h.Typeflag, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime}
	if u.opts.Xattrs {
		own.PAXRecords = maps.Clone(h.PAXRecords)
		maps.DeleteFunc(own.PAXRecords, func(key, _ string) bool { return !strings.HasPrefix(key, xattrPrefix) })
	}
	return own
}

// finish gives folders what their entries say, the innermost first. One that somebody
// replaced meanwhile is left alone.
func (u *unpacker) finish() error {
	slices.SortFunc(u.folders, func(a, b folderEntry) int { return strings.Compare(b.path, a.path) })
	var first error
	for _, e := range u.folders {
		f, _, err := u.tree.enter(parts(e.path), false)
		if err != nil {
			continue
		}
		st, err := f.stat()
		if err != nil || st.dev != e.dev || st.ino != e.ino {
			continue
		}
		if err := u.dress(f.asFile(), e.header); err != nil && first == nil {
			first = &EntryError{e.path, err}
		}
	}
	u.folders = nil
	return first
}

// A madeSet is the names that a tar made. It keeps a number for each, and none of their text: one short entry can make
// a thousand folders in each other. Numbers that are equal by chance keep a name that a whiteout would have removed.
type madeSet struct {
	seed maphash.Seed
	sums map[uint64]struct{}
}

func newMadeSet() *madeSet {
	return &madeSet{maphash.MakeSeed(), map[uint64]struct{}{}}
}

func (m *madeSet) sum(path []string) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, part := range path {
		_, _ = h.WriteString(part) // never fails
		_ = h.WriteByte('/')
	}
	return h.Sum64()
}

// add reports whether the name is new.
func (m *madeSet) add(path []string) bool {
	sum := m.sum(path)
	if _, ok := m.sums[sum]; ok {
		return false
	}
	m.sums[sum] = struct{}{}
	return true
}

func (m *madeSet) has(path []string) bool {
	if m == nil {
		return false
	}
	_, ok := m.sums[m.sum(path)]
	return ok
}

// removeAll removes a name with all in it, through no link.
func (u *unpacker) removeAll(parent folder, name string) error {
	_, err := removeBelow(parent, name, nil, nil)
	return err
}

// removeBelow removes a name with all in it but what keep has, whose paths begin with path.
// kept says that something of it stays.
func removeBelow(parent folder, name string, path []string, keep *madeSet) (kept bool, err error) {
	st, err := parent.lstat(name)
	if errors.Is(err, errAbsent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	kept = keep.has(path)
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
func removeIn(f folder, path []string, keep *madeSet) (some bool, err error) {
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
