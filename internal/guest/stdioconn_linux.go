package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A stdioConn is one connection on a reader and a writer. It is a source of just this
// connection.
type stdioConn struct {
	io.Reader
	io.Writer
	closers []io.Closer
}

// openStdioConn takes the process's standard input and output for the protocol. When
// they are the real ones, nothing that the agent starts or prints can get at them: they
// are moved to other descriptors, /dev/null takes the place of the input, and stderr
// that of the output.
func openStdioConn(stdin io.Reader, stdout io.Writer) (*stdioConn, error) {
	c := &stdioConn{Reader: stdin, Writer: stdout}
	for i, std := range []any{stdin, stdout} {
		f, ok := std.(*os.File)
		if ok && f.Fd() == uintptr(i) {
			moved, err := moveAway(i)
			if err != nil {
				return nil, fmt.Errorf("take descriptor %d for the protocol: %w", i, err)
			}
			f = moved
			if i == unix.Stdin {
				c.Reader = f
			} else {
				c.Writer = f
			}
		}
		if closer, ok := std.(io.Closer); ok && f == nil {
			c.closers = append(c.closers, closer)
		} else if f != nil {
			c.closers = append(c.closers, f)
		}
	}
	return c, nil
}

// moveAway gives what descriptor std means to a file of its own that can be interrupted,
// and puts something harmless in its place.
func moveAway(std int) (*os.File, error) {
	fd, err := nonblocking(std)
	if err != nil {
		return nil, err
	}
	if std == unix.Stdout {
		err = unix.Dup3(unix.Stderr, unix.Stdout, 0)
	} else {
		var null int
		if null, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
			err = unix.Dup3(null, unix.Stdin, 0)
			unix.Close(null)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "protocol"), nil
}

// nonblocking opens again what descriptor std means, in non-blocking mode. That mode
// belongs to the open file, which others may share: a pipe or a terminal is opened by
// name, which makes a file of its own. A socket cannot be; it is switched itself.
func nonblocking(std int) (int, error) {
	flags := unix.O_RDONLY
	if std == unix.Stdout {
		flags = unix.O_WRONLY
	}
	var st unix.Stat_t
	if err := unix.Fstat(std, &st); err != nil {
		return -1, err
	}
	if kindOf(st.Mode) != "socket" {
		name := "/proc/self/fd/" + strconv.Itoa(std)
		if fd, err := unix.Open(name, flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0); err == nil {
			return fd, nil
		}
	}
	fd, err := unix.FcntlInt(uintptr(std), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetNonblock(fd, true)
}

// serve implements source.
func (c *stdioConn) serve(ctx context.Context, a *Agent) error { return a.Serve(ctx, c) }

// Close implements io.Closer.
func (c *stdioConn) Close() error {
	var errs []error
	for _, closer := range c.closers {
		if err := closer.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
