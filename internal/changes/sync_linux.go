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
