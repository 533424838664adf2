package guest

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// goneCheck tells for a connection whether its other end reads no more: that a socket is
// closed and not only shut down for writing, or that a pipe has no reader. It is nil for
// a connection that cannot be asked.
func goneCheck(conn io.ReadWriteCloser) func() bool {
	var w any = conn
	if std, ok := conn.(*stdioConn); ok {
		w = std.Writer
	}
	sc, ok := w.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return func() bool {
		gone := false
		err := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd)}} // errors and hang-ups are always told
			_, err := unix.Poll(fds, 0)
			gone = err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
		})
		return gone || err != nil
	}
}
