package prompt

import "golang.org/x/sys/unix"

// forget drops what was typed and not read.
func forget(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) } // keeping it does no harm
