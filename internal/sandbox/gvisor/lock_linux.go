package gvisor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// takeLock opens the file, making it where flags have O_CREATE, and locks it if nobody has
// it; the lock is held until every descriptor of this opening is closed, so that a child
// that inherits one holds it too.
func takeLock(path string, flags int) (f *os.File, ok bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, true, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, false, err
}
