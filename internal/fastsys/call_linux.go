//go:build linux && !amd64

package fastsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// gVisor makes no calls cheaper on other processors.

// Openat is unix.Openat.
func Openat(dir int, name string, flags int, perm uint32) (int, error) {
	return unix.Openat(dir, name, flags, perm)
}

// Mkdirat is unix.Mkdirat.
func Mkdirat(dir int, name string, perm uint32) error { return unix.Mkdirat(dir, name, perm) }

// Read is unix.Read.
func Read(fd int, p []byte) (int, error) { return unix.Read(fd, p) }

// Write is unix.Write.
func Write(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

// Close is unix.Close.
func Close(fd int) error { return unix.Close(fd) }

// Fstat is unix.Fstat.
func Fstat(fd int, st *unix.Stat_t) error { return unix.Fstat(fd, st) }

// Fchmod is unix.Fchmod.
func Fchmod(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }

// Fchown is unix.Fchown.
func Fchown(fd, uid, gid int) error { return unix.Fchown(fd, uid, gid) }

// Futimens sets the times of an open file, for which package unix has no function: utimensat without a name.
func Futimens(fd int, times *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
