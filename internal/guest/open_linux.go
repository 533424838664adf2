package guest

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// pathError is what a client reads of a file operation that failed.
func pathError(op, path string, err error) error {
	return fmt.Errorf("%s %s: %w", op, clip(path), err)
}

// checkPath validates a path member. A relative path is relative to the agent's own
// folder, which is / where the agent is PID 1.
func checkPath(name string, path *string) error {
	switch {
	case path == nil:
		return missing(name)
	case *path == "":
		return invalid("%s is empty", name)
	case strings.IndexByte(*path, 0) >= 0:
		return invalid("%s has a NUL byte", name)
	}
	return nil
}

// kindOf names a file's type as agent.FileInfo does.
func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

// notRegular says why a file that is none is not read or written.
func notRegular(mode uint32) error {
	what := map[string]string{
		"dir": "a folder", "fifo": "a named pipe", "socket": "a socket", "symlink": "a symbolic link",
	}[kindOf(mode)]
	if what == "" {
		what = "a device"
	}
	return errors.New("is " + what + ", not a regular file")
}

// openRegular opens a regular file and nothing else, without waiting for anybody. It is
// looked at before it is opened, because opening a device or a pipe can have effects,
// and after, because it may have been replaced.
func openRegular(path string, flags int, mode uint32) (fd int, st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Stat(path, &st) })
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, st, notRegular(st.Mode)
	}
	if err != nil && (flags&unix.O_CREAT == 0 || !errors.Is(err, unix.ENOENT)) {
		return -1, st, err
	}
	err = retry(func() error {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
		return err
	})
	if err != nil {
		return -1, st, err
	}
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, st, notRegular(st.Mode)
	}
	return fd, st, nil
}

// readUpTo reads at most limit bytes of fd from offset on; more says that it stopped
// there and not at the end. hint is how much is expected. An offset of -1 reads on from
// where the file stands, which is the only way with some files of /proc.
func readUpTo(fd int, offset, limit, hint int64) (data []byte, more bool, err error) {
	data = make([]byte, 0, max(min(hint, limit), 511)+1)
	for int64(len(data)) <= limit {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		room := data[len(data):min(int64(cap(data)), limit+1)]
		var n int
		err := retry(func() (err error) {
			if offset < 0 {
				n, err = unix.Read(fd, room)
			} else {
				n, err = unix.Pread(fd, room, offset+int64(len(data)))
			}
			return err
		})
		if errors.Is(err, unix.EAGAIN) {
			return nil, false, errors.New("has nothing to read right now, and would have to be waited for")
		}
		if err != nil {
			return nil, false, err
		}
		if n == 0 {
			return data, false, nil
		}
		data = data[:len(data)+n]
	}
	return data[:limit], true, nil
}

// readSmall reads a configuration file, whatever a command may have put in its place.
func readSmall(path string) ([]byte, error) {
	const most = 4 << 20
	fd, st, err := openRegular(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, pathError("read", path, err)
	}
	defer unix.Close(fd)
	data, more, err := readUpTo(fd, -1, most, st.Size)
	if more {
		err = fmt.Errorf("is larger than %d bytes", most)
	}
	if err != nil {
		return nil, pathError("read", path, err)
	}
	return data, nil
}

// retry repeats a system call that a signal interrupted.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
