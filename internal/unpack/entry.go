package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// mkdir makes a folder, or takes the one that is there. What else it has is set at the end.
func (u *unpacker) mkdir(parent folder, path []string, h *tar.Header) error {
	name := path[len(path)-1]
	err := parent.mkdir(name, 0o700)
	if errors.Is(err, errThere) {
		if err := u.clear(parent, path, true); err != nil {
			return err
		}
		if err = parent.mkdir(name, 0o700); errors.Is(err, errThere) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	f, _, err := u.tree.enter(path, false) // what follows is mostly in it
	if err != nil {
		return err
	}
	return u.note(f, path, h)
}

// again does what makes a name anew, once what has the name is put away.
func (u *unpacker) again(parent folder, path []string, make func(name string) error) error {
	name := path[len(path)-1]
	err := make(name)
	if errors.Is(err, errThere) {
		if err := u.clear(parent, path, false); err != nil {
			return err
		}
		err = make(name)
	}
	return err
}

func (u *unpacker) symlink(parent folder, path []string, h *tar.Header) error {
	if len(h.Linkname) > u.opts.Max.Path {
		return fmt.Errorf("%w of %d bytes of a link's text", ErrLimit, u.opts.Max.Path)
	}
	err := u.again(parent, path, func(name string) error { return parent.symlink(h.Linkname, name) })
	if err != nil {
		return err
	}
	name := path[len(path)-1]
	if uid, gid, ok := u.owner(h); ok {
		if err := u.owned(parent.lown(name, uid, gid), uid, gid); err != nil {
			return err
		}
	}
	return parent.ltimes(name, h.ModTime)
}

// link makes a hard link: another name of something below the folder.
func (u *unpacker) link(path []string, h *tar.Header) error {
	old, err := u.path(h.Linkname)
	if err != nil || len(old) == 0 {
		return fmt.Errorf("hard link to %.300q: %w", h.Linkname, errors.Join(err, ErrName))
	}
	base := old[len(old)-1]
	at, real, err := u.tree.dir(old[:len(old)-1], false)
	if err != nil {
		return fmt.Errorf("hard link to %.300q: %w", h.Linkname, err)
	}
	if slices.Equal(append(slices.Clip(real), base), path) {
		return fmt.Errorf("hard link to itself: %w", ErrName)
	}
	from, err := at.dup() // going on closes it
	if err != nil {
		return err
	}
	defer from.close()
	parent, _, err := u.tree.enter(path[:len(path)-1], false)
	if err != nil {
		return err
	}
	err = u.again(parent, path, func(name string) error { return parent.link(from, base, name) })
	if err != nil {
		return fmt.Errorf("hard link to %.300q: %w", h.Linkname, err)
	}
	return nil
}

func (u *unpacker) fifo(parent folder, path []string, h *tar.Header) error {
	name := path[len(path)-1]
	if st, err := parent.lstat(name); err == nil && st.kind == kindFIFO {
		if err := parent.remove(name, false); err != nil { // a pipe takes a pipe's place
			return err
		}
	}
	return u.again(parent, path, func(name string) error {
		f, err := parent.mkfifo(name)
		if err != nil {
			return err
		}
		return errors.Join(u.dress(f, h), f.close())
	})
}

// file writes a file. Where something has its name already, it gets that name when it is complete.
func (u *unpacker) file(parent folder, path []string, h *tar.Header) error {
	if limit := u.opts.Max.Bytes; limit > 0 && h.Size > limit-u.res.Bytes {
		return fmt.Errorf("%w of %d bytes", ErrLimit, limit)
	}
	name := path[len(path)-1]
	perm := uint32(h.Mode) & 0o777
	if _, _, ok := u.owner(h); ok {
		perm &= 0o700 // until it is its owner's
	}
	temp := name
	f, err := parent.create(name, perm)
	if errors.Is(err, errThere) {
		if err := u.clearFolder(parent, path); err != nil {
			return err
		}
		u.temps++
		temp = ".airlock-" + strconv.FormatUint(u.temps, 36)
		f, err = parent.create(temp, perm)
	}
	if err != nil {
		return err
	}
	err = u.fill(f, h)
	if err == nil {
		err = u.dress(f, h)
	}
	if closed := f.close(); err == nil {
		err = closed
	}
	if err == nil && temp != name {
		err = parent.rename(temp, name)
	}
	if err != nil {
		_ = parent.remove(temp, false) // the error that counts is the one before
	}
	return err
}

// clearFolder is clear for a name that a rename takes from anything but a folder.
func (u *unpacker) clearFolder(parent folder, path []string) error {
	st, err := parent.lstat(path[len(path)-1])
	switch {
	case errors.Is(err, errAbsent):
		return nil
	case err != nil:
		return err
	case !st.isFolder() && (!st.isSpecial() || u.opts.Replace == ReplaceAll):
		return nil
	}
	return u.clear(parent, path, false)
}

// sparse tells a file that the tar keeps with its holes.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// fill writes the content.
func (u *unpacker) fill(f file, h *tar.Header) error {
	holes := h.Size > 0 && sparse(h)
	if holes {
		// At once, so that a size no file can have does not take its time.
		if err := f.truncate(h.Size); err != nil {
			return err
		}
	}
	for left := h.Size; left > 0; {
		if err := u.in.ctx.Err(); err != nil {
			return err // in a hole nothing is read that would end
		}
		n, err := u.tar.Read(u.buf[:min(left, bufferSize)])
		if n > 0 {
			if holes && empty(u.buf[:n]) {
				if err := f.hole(int64(n)); err != nil {
					return err
				}
			} else if _, err := f.Write(u.buf[:n]); err != nil {
				return err
			}
			left -= int64(n)
			if u.res.Bytes += int64(n); u.res.Bytes-u.last >= progressBytes {
				u.progress()
			}
		}
		if err != nil && (err != io.EOF || left > 0) {
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
				return fmt.Errorf("%w: it is cut off in this file", ErrFormat)
			}
			return err
		}
	}
	return nil
}

// empty tells bytes that are all 0: the first is, and each is as the one before.
func empty(p []byte) bool { return p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1]) }

// owner is whom an entry is given to, if it is given to anybody.
func (u *unpacker) owner(h *tar.Header) (uid, gid int, ok bool) {
	switch u.opts.Owners {
	case OwnersOne:
		return u.opts.UID, u.opts.GID, true
	case OwnersKeep, OwnersTry:
		return h.Uid, h.Gid, true
	}
	return 0, 0, false
}

// owned is what a try to give something away means.
func (u *unpacker) owned(err error, uid, gid int) error {
	if err == nil || u.opts.Owners == OwnersTry && notOurs(err) {
		return nil
	}
	return fmt.Errorf("give it to %d:%d: %w", uid, gid, err)
}

// perm is the mode that an entry ends with.
func (u *unpacker) perm(h *tar.Header) uint32 {
	perm := uint32(h.Mode) & 0o7777
	if !u.opts.SetID && h.Typeflag != tar.TypeDir {
		perm &^= 0o6000
	}
	return perm
}

// dress sets what a file has besides its content. The order matters: a new owner takes
// the set-id bits and capabilities away.
func (u *unpacker) dress(f file, h *tar.Header) error {
	if uid, gid, ok := u.owner(h); ok {
		if err := u.owned(f.own(uid, gid), uid, gid); err != nil {
			return err
		}
	}
	if err := f.chmod(u.perm(h)); err != nil {
		return err
	}
	if err := u.setXattrs(f, h); err != nil {
		return err
	}
	return f.times(h.ModTime)
}

const xattrPrefix = "SCHILY.xattr."

func (u *unpacker) setXattrs(f file, h *tar.Header) error {
	if !u.opts.Xattrs {
		return nil
	}
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || !strings.HasPrefix(name, "user.") && (name != "security.capability" || !isRoot() || h.Typeflag == tar.TypeDir) {
			continue
		}
		if err := f.xattr(name, value); err != nil && !unsupported(err) {
			return fmt.Errorf("attribute %.100q: %w", name, err)
		}
	}
	return nil
}
