package changes

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncAll waits until everything written below dir's file system is on the disk.
func syncAll(dir string) (err error) {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(d.Fd())))
}

// nameless gives data as a file that is on no disk and goes with its last descriptor.
func nameless(_ string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("airlock content", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return filled(os.NewFile(uintptr(fd), "content"), data)
}
