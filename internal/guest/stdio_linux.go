package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A stdio is both ends of what a program's descriptors 0, 1, 2 and 3 will be.
type stdio struct {
	theirs  []uintptr // for the child, in order; they are this process's to close
	outputs []*os.File
	stdin   *stdin
	master  *os.File

	// held is the command's end of its terminal, kept open here until the command has
	// ended: many close theirs before they exit, and a terminal without that end hangs up,
	// which would end them by SIGHUP instead. -1: none.
	held int
}

func openStdio(p *program) (s *stdio, err error) {
	s = &stdio{held: -1}
	defer func() {
		if err != nil {
			s.closeTheirs()
			s.closeOurs()
		}
	}()
	if p.tty != nil {
		err = s.openTerminal(p)
	} else {
		err = s.openPipes(p)
	}
	if err == nil && p.code != "" {
		err = s.openCode(p.code)
	}
	return s, err
}

func (s *stdio) openTerminal(p *program) error {
	master, tty, err := openPTY(*p.tty, p.uid)
	if err != nil {
		return err
	}
	if s.held, err = unix.FcntlInt(uintptr(tty), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		s.held = -1
		unix.Close(tty)
		master.Close()
		return fmt.Errorf("keep the terminal: %w", err)
	}
	fd := uintptr(tty)
	s.theirs = []uintptr{fd, fd, fd}
	s.outputs = []*os.File{master}
	s.master = master
	s.stdin = newStdin(master, true, true)
	return nil
}

func (s *stdio) openPipes(p *program) error {
	if p.stdin == "" && !p.input {
		null, err := openNull()
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		s.theirs = append(s.theirs, uintptr(null))
	} else {
		read, write, err := openPipe()
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		s.theirs = append(s.theirs, uintptr(read))
		s.stdin = newStdin(ours(write, "stdin"), false, p.input)
		s.give(p, read)
	}
	for _, name := range []string{"stdout", "stderr"} {
		read, write, err := openPipe()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.theirs = append(s.theirs, uintptr(write))
		s.outputs = append(s.outputs, ours(read, name))
		s.give(p, write)
	}
	return nil
}

// give makes a pipe the user's, who can then open /dev/stdin or /dev/stderr again.
func (s *stdio) give(p *program, fd int) {
	if p.cred != nil && p.uid != os.Geteuid() {
		_ = unix.Fchown(fd, p.uid, -1)
	}
}

// openCode puts code into a file that has no name.
func (s *stdio) openCode(code string) error {
	fd, err := unix.MemfdCreate("code", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("keep the code: %w", err)
	}
	s.theirs = append(s.theirs, uintptr(fd))
	for len(code) > 0 {
		n, err := unix.Write(fd, []byte(code[:min(len(code), chunkSize)]))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("keep the code: %w", err)
		}
		code = code[max(n, 0):]
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return fmt.Errorf("keep the code: %w", err)
	}
	return nil
}

// closeTheirs closes the child's ends in this process.
func (s *stdio) closeTheirs() {
	for i, fd := range s.theirs {
		if i == 0 || fd != s.theirs[i-1] {
			unix.Close(int(fd))
		}
	}
	s.theirs = nil
}

// closeOurs closes the agent's ends, of a program that did not start.
func (s *stdio) closeOurs() {
	if s.stdin != nil {
		s.stdin.file.Close()
	}
	for _, f := range s.outputs {
		f.Close()
	}
	letGo(s.held)
}

// letGo closes what was held of a terminal, if anything was.
func letGo(held int) {
	if held >= 0 {
		unix.Close(held)
	}
}

// openPipe makes a pipe, both ends blocking: the child's end must be.
func openPipe() (read, write int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	return fds[0], fds[1], nil
}

// ours makes one end of a pipe the agent's: non-blocking, so that deadlines hold. The
// other end is a file of its own and stays as it is.
func ours(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// openNull opens /dev/null, or what reads like it where there is none.
func openNull() (int, error) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd, nil
	}
	read, write, err := openPipe()
	if err != nil {
		return -1, err
	}
	unix.Close(write)
	return read, nil
}
