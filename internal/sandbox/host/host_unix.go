//go:build unix

package host

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart keeps a terminal's signals from the agent: they are for whoever asked.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func sockets() (near, far *os.File, err error) {
	syscall.ForkLock.RLock() // what is started just now would have both ends, and keep the agent from seeing this process's end
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "agent"), os.NewFile(uintptr(fds[1]), "agent"), nil
}
