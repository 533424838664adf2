package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// inParent runs call with a handle of the folder that p is in and p's name there.
func (h *hostFS) inParent(what string, p Path, call func(dir int, name string) error) error {
	if p == "/" {
		return fmt.Errorf("%s %s: %w", what, shown(p), fs.ErrInvalid)
	}
	dir, err := h.openAt(p.Parent(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return hostError(what, p, err)
	}
	defer unix.Close(dir)
	if _, err := retry(func() (int, error) { return 0, call(dir, p.Base()) }); err != nil {
		return fmt.Errorf("%s %s: %w", what, shown(p), err)
	}
	return nil
}

// Create makes a new file at p, which nobody else can open yet, and fails where anything is there.
func (h *hostFS) Create(p Path) (*os.File, error) {
	var f *os.File
	err := h.inParent("create", p, func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(fd), string(p))
		}
		return err
	})
	return f, err
}

// Mkdir makes a folder that only its owner may enter.
func (h *hostFS) Mkdir(p Path) error {
	return h.inParent("make the folder", p, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o700) })
}

// Symlink makes a link at p.
func (h *hostFS) Symlink(target, p Path) error {
	return h.inParent("make the link", p, func(dir int, name string) error { return unix.Symlinkat(string(target), dir, name) })
}

// Mkfifo makes a FIFO at p.
func (h *hostFS) Mkfifo(p Path) error {
	return h.inParent("make the FIFO", p, func(dir int, name string) error {
		return unix.Mknodat(dir, name, unix.S_IFIFO|0o600, 0)
	})
}

// Remove removes what is at p: no folder that holds anything.
func (h *hostFS) Remove(p Path) error {
	return h.inParent("remove", p, func(dir int, name string) error {
		err := unix.Unlinkat(dir, name, 0)
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			if derr := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(derr, unix.ENOTDIR) {
				return derr
			}
		}
		return err
	})
}

// between runs call with handles of the folders of two places and their names there.
func between(what string, from, to place, call func(fd int, fn string, td int, tn string) error) error {
	return from.fs.inParent(what, from.path, func(fd int, fn string) error {
		return to.fs.inParent("to", to.path, func(td int, tn string) error { return call(fd, fn, td, tn) })
	})
}

// link gives the file at from a second name.
func link(from, to place) error {
	return between("link", from, to, func(fd int, fn string, td int, tn string) error {
		return unix.Linkat(fd, fn, td, tn, 0)
	})
}

// renameNew renames from to a name that nothing has; errExists where something has it.
func renameNew(from, to place) error {
	return between("rename", from, to, func(fd int, fn string, td int, tn string) error {
		err := unix.Renameat2(fd, fn, td, tn, unix.RENAME_NOREPLACE)
		if !noSuchFlag(err) {
			return err
		}
		// NFS and its kind. A link is as strict about the new name, but for a folder
		// there is only a look before the leap.
		if err := unix.Linkat(fd, fn, td, tn, 0); err == nil || errors.Is(err, unix.EEXIST) {
			if err == nil {
				err = unix.Unlinkat(fd, fn, 0)
			}
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstatat(td, tn, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
			return unix.EEXIST
		}
		return unix.Renameat(fd, fn, td, tn)
	})
}

// swap exchanges two names of one folder in one step; errNoSwap where that is not offered.
func (h *hostFS) swap(a, b Path) error {
	return h.inParent("replace", b, func(dir int, name string) error {
		err := unix.Renameat2(dir, a.Base(), dir, name, unix.RENAME_EXCHANGE)
		if noSuchFlag(err) {
			return errNoSwap
		}
		return err
	})
}

func noSuchFlag(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

// setMeta gives what is at p the owner, mode, user attributes and modification time of want.
func (h *hostFS) setMeta(p Path, want *Node) (given, error) {
	fd, err := h.handle(p)
	if err != nil {
		return given{}, err
	}
	defer unix.Close(fd)
	return setMetaOf(fd, p, want)
}

// setFileMeta is setMeta for an open file, whatever has become of its name.
func setFileMeta(f *os.File, p Path, want *Node) (given, error) {
	g, err := setMetaOf(int(f.Fd()), p, want)
	runtime.KeepAlive(f)
	return g, err
}

func setMetaOf(fd int, p Path, want *Node) (given, error) {
	var g given
	now, err := nodeOf(fd)
	if err == nil && now.Type != want.Type {
		err = fmt.Errorf("it is a %s now, not a %s", now.Type, want.Type)
	}
	if err == nil {
		err = setXattrs(fd, now, want)
	}
	if err == nil {
		g, err = setOwnerMode(fd, now, want)
	}
	if err == nil && !want.MTime.IsZero() {
		err = setMTime(fd, want)
	}
	if err != nil {
		return g, fmt.Errorf("set the mode, owner and times of %s: %w", shown(p), err)
	}
	return g, nil
}

func setXattrs(fd int, now, want *Node) error {
	name := procPath(fd)
	for key, value := range want.Xattrs {
		if had, ok := now.Xattrs[key]; ok && slices.Equal(had, value) {
			continue
		}
		if err := unix.Setxattr(name, key, value, 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("attribute %q: %w", key, err)
		}
	}
	for key := range now.Xattrs {
		if _, keep := want.Xattrs[key]; !keep {
			if err := unix.Removexattr(name, key); err != nil && !errors.Is(err, unix.ENODATA) {
				return fmt.Errorf("attribute %q: %w", key, err)
			}
		}
	}
	return nil
}

// setOwnerMode sets the owner before the mode, because a change of owner takes set-uid
// off. Where the owner cannot be given, set-uid would be another's power, so it goes.
func setOwnerMode(fd int, now, want *Node) (given, error) {
	var g given
	owned := now.UID != want.UID || now.GID != want.GID
	if owned {
		err := unix.Fchownat(fd, "", int(want.UID), int(want.GID), unix.AT_EMPTY_PATH)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
			g.owner = true
			if now.GID != want.GID && now.UID == want.UID || unix.Geteuid() != 0 {
				// The group alone may be one of ours; its refusal is what g says.
				_ = unix.Fchownat(fd, "", -1, int(want.GID), unix.AT_EMPTY_PATH)
			}
		} else if err != nil {
			return g, err
		}
	}
	if want.Type == Symlink {
		return g, nil
	}
	mode := want.Mode & 0o7777
	if g.owner && want.Type == File && mode&0o6000 != 0 {
		mode, g.suid = mode&^0o6000, true
	}
	if !owned && mode == now.Mode {
		return g, nil
	}
	return g, unix.Chmod(procPath(fd), mode)
}

func setMTime(fd int, want *Node) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(want.MTime.UnixNano())}
	err := unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	if noSuchFlag(err) && want.Type != Symlink {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), times, 0)
	}
	return err
}

// chmod sets the mode alone of the folder at p.
func (h *hostFS) chmod(p Path, mode uint32) error {
	fd, err := h.openAt(p, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err == nil {
		err = unix.Chmod(procPath(fd), mode&0o7777)
		unix.Close(fd)
	}
	if err != nil {
		return hostError("change the mode of", p, err)
	}
	return nil
}

// carry copies what a Node does not tell of the old file to the new one: access-control
// lists and the security label. It is best effort: not every file system has them.
func (h *hostFS) carry(old Path, to *os.File) {
	fd, err := h.handle(old)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, key := range []string{"system.posix_acl_access", "security.selinux"} {
		value, err := xattrBytes(func(buf []byte) (int, error) { return unix.Getxattr(procPath(fd), key, buf) })
		if err == nil && len(value) > 0 {
			_ = unix.Fsetxattr(int(to.Fd()), key, value, 0)
		}
	}
}

// MayWrite reports why names in the folder at p may not be changed, or nil.
func (h *hostFS) MayWrite(p Path) error {
	fd, err := h.openAt(p, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return hostError("write in", p, err)
	}
	defer unix.Close(fd)
	if err := unix.Faccessat(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("write in the folder %s: %w", shown(p), err)
	}
	return nil
}

// mount tells mounts apart, so that a rename that would leave one is known beforehand.
func (h *hostFS) mount(p Path) (uint64, error) {
	fd, err := h.handle(p)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID|unix.STATX_INO, &st); err != nil {
		return 0, fmt.Errorf("find the mount of %s: %w", shown(p), err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, errNoSwap
	}
	// Two subvolumes of btrfs are one mount, and yet a rename between them fails.
	return st.Mnt_id<<20 ^ uint64(st.Dev_major)<<12 ^ uint64(st.Dev_minor), nil
}

// syncDir brings the names in the folder at p to the disk; with whole, all of its file system.
func (h *hostFS) syncDir(p Path, whole bool) error {
	fd, err := h.openAt(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	for errors.Is(err, unix.EACCES) && p != "/" {
		// A folder that may be written but not read: its file system is known by those above.
		p, whole = p.Parent(), true
		fd, err = h.openAt(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	}
	if err == nil {
		if whole {
			err = unix.Syncfs(fd)
		} else {
			err = unix.Fsync(fd)
		}
		unix.Close(fd)
	}
	if err != nil && !noSuchFlag(err) {
		return fmt.Errorf("bring %s to the disk: %w", shown(p), err)
	}
	return nil
}

// dataRuns calls f with each run of data in the file; what lies between is holes.
func dataRuns(f *os.File, size int64, run func(from, to int64) error) error {
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return run(at, size) // a file system that knows no holes
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			to = size
		}
		if from, to = max(from, at), min(to, size); from < to {
			if err := run(from, to); err != nil {
				return err
			}
		}
		at = to
	}
	return nil
}
