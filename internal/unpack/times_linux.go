package unpack

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// futimens sets the times of an open file: utimensat without a name, for which package unix has no function.
func futimens(fd int, ts *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
