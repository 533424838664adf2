package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"airlock/agent"
)

// openPTY makes a pseudo-terminal of this size: the agent's end, and the command's,
// which belongs to uid.
//
// The agent's end must stay non-blocking, so that a read of it can be ended; package
// pty's helpers would make it blocking.
func openPTY(size agent.TTY, uid int) (master *os.File, tty int, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, -1, fmt.Errorf("unlock the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, -1, fmt.Errorf("name the terminal: %w", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	tty, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("open %s: %w", name, err)
	}
	if uid != os.Geteuid() {
		// As grantpt does: the user may open /dev/tty's own name again.
		_ = unix.Fchown(tty, uid, -1)
		_ = unix.Fchmod(tty, 0o620)
	}
	if err := setSize(fd, size); err != nil {
		unix.Close(tty)
		return nil, -1, fmt.Errorf("set the terminal's size: %w", err)
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), tty, nil
}

func setSize(fd int, size agent.TTY) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// resize changes the size of the terminal whose agent's end is master; the kernel sends
// SIGWINCH to those on it.
func resize(master *os.File, size agent.TTY) error {
	conn, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = setSize(int(fd), size) }); err != nil {
		return errEnded
	}
	return failed
}
