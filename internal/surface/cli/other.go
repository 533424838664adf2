//go:build !linux

package cli

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"airlock/internal/executor"
)

const signalPipe = 13

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func signalNumber(string) int { return 0 }

func ignoreBrokenPipes() (restore func()) { return func() {} }

// connect makes a plain session: no sandbox can be started here that would want more.
func (p *Program) connect(f *runFlags, req *executor.Request) (*session, error) {
	s := &session{restore: func() {}}
	req.Stdin = p.Stdin
	p.outputs(f, req, s)
	return s, nil
}

// answers is where a person's answers come from.
func answers(_ context.Context, in io.Reader) (io.Reader, func()) { return in, func() {} }
