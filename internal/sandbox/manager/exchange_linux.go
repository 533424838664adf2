package manager

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange gives a folder its place, and what is there the other's, in one step, so that whoever looks finds the
// one or the other.
func exchange(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		return os.Rename(from, to) // there is none yet
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return replace(from, to) // the file system cannot
	}
	return err
}
