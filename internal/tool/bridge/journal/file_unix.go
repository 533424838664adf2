//go:build unix

package journal

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	openFlags  = unix.O_NOFOLLOW | unix.O_NONBLOCK
	closeFirst = false // a file need not be closed to be renamed
)

// ours reports whether a file is this user's or the superuser's. The superuser writes to
// anybody's, since a home folder's log may be one.
func ours(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid() || os.Geteuid() == 0)
}

// lock takes the file's lock if it is free; ok says so. It waits for nobody. To close the
// file unlocks it as well, and unlock does nothing then.
func lock(f *os.File) (unlock func(), ok bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, false
	}
	flock := func(how int) (err error) {
		// Not by its number alone: another file may have that one once this is closed.
		if gone := raw.Control(func(fd uintptr) { err = unix.Flock(int(fd), how) }); gone != nil {
			return gone
		}
		return err
	}
	if flock(unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil, false
	}
	return func() { _ = flock(unix.LOCK_UN) }, true
}

// mayWrite asks whether this user may write to a file or a folder.
func mayWrite(path string) error {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return &fs.PathError{Op: "write to " + path, Path: path, Err: err}
	}
	return nil
}
