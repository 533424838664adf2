//go:build unix && !linux

package prompt

import "golang.org/x/sys/unix"

const flushRead = 1 // FREAD

// forget drops what was typed and not read.
func forget(fd int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, flushRead) } // keeping it does no harm
