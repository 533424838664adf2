//go:build unix

package choice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// keyTime is how long a key command may take: it may ask for a passphrase.
const keyTime = 60 * time.Second

// runKeyCommand runs a line of the person's own, with all that is theirs: environment,
// folder and terminal. Nothing of it is left when it returns.
func runKeyCommand(ctx context.Context, line string, stdin io.Reader, stderr io.Writer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	var out keyBuffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Env = os.Environ()
	cmd.Stdout, cmd.Stderr = &out, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	tty, done := terminal(stdin)
	defer done()
	if tty != nil {
		cmd.Stdin = tty
		defer lend(cmd, tty)()
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind; there is nothing as a rule
	switch {
	case out.full:
		return "", errKeyTooLong
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("it gave no key within %v", keyTime)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("it failed (%w); run it by hand to see why", err)
	}
	return string(out.buf), nil
}

// terminal is the terminal that a question can be answered on: stdin, or this process's; nil
// where there is none.
func terminal(stdin io.Reader) (*os.File, func()) {
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f, func() {}
	}
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, func() {}
	}
	return f, func() { f.Close() }
}

// lend makes the command's group the one that may read from the terminal, and that Ctrl-C
// ends. What it returns takes the terminal back.
func lend(cmd *exec.Cmd, tty *os.File) func() {
	fd, own := int(tty.Fd()), unix.Getpgrp()
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || front != own {
		return func() {} // not ours to lend
	}
	cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, fd
	return func() {
		// A group in the background that takes the terminal is stopped, unless it ignores that.
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, own) // the terminal may be gone by now
	}
}
