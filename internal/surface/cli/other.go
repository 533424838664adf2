//go:build !linux

package cli

import (
	"os"

	"golang.org/x/term"

	"airlock/internal/executor"
)

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func signalNumber(string) int { return 0 }

// session is how a run is connected to the person.
type session struct {
	interactive bool
	captured    *captured
	restore     func()
}

// connect makes a plain session: no sandbox can be started here that would want more.
func (p *Program) connect(f *runFlags, req *executor.Request) (*session, error) {
	s := &session{restore: func() {}}
	req.Stdin, req.Stdout, req.Stderr = p.Stdin, p.Stdout, p.Stderr
	if f.json {
		s.captured = &captured{}
		req.Stdout, req.Stderr = &s.captured.stdout, &s.captured.stderr
	}
	return s, nil
}
