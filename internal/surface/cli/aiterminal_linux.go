package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// backToTerminal puts the person's terminal in the place of standard input, after what was
// piped in has been read, so that questions can be answered. Without a terminal, input stays
// at its end.
func (p *Program) backToTerminal() {
	in, ok := p.Stdin.(*os.File)
	if !ok || !isTerminal(p.Stderr) {
		return
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer tty.Close()
	_ = unix.Dup3(int(tty.Fd()), int(in.Fd()), 0) // else nobody is asked
}
