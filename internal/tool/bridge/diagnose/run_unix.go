//go:build unix

package diagnose

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inGroup starts a program in a process group of its own, all of which is ended with it.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}

// killGroup ends what a program that has ended left in its group, whose number nobody else
// gets as long as something is in it; and nothing is where that number is free.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
