package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"airlock/agent"
	"airlock/internal/executor"
)

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// connect gives the request its streams.
func (p *Program) connect(f *runFlags, req *executor.Request) (*session, error) {
	in, inFile := p.Stdin.(*os.File)
	stdinTTY := inFile && terminal(in)
	s := &session{restore: func() {}}
	p.outputs(f, req, s)
	if stdinTTY && !foreground(in) {
		// A job in the background: reading the terminal, or changing it, would stop it.
		return s, nil
	}
	s.interactive = stdinTTY && isTerminal(p.Stderr)
	req.Stdin = p.Stdin
	stop := func() {}
	if inFile {
		r, err := newInterruptReader(in)
		if err != nil {
			return nil, err
		}
		req.Stdin, stop = r, r.stop
	}
	giveBack := func() {}
	if f.tty || stdinTTY && isTerminal(p.Stdout) && !f.json && !f.noTTY {
		var err error
		if giveBack, err = p.makeTerminal(req, in, stdinTTY); err != nil {
			stop()
			return nil, err
		}
	}
	s.restore = sync.OnceFunc(func() {
		stop()
		giveBack()
	})
	return s, nil
}

// foreground reports whether this process may use the terminal. One that is not its
// controlling terminal has no foreground.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// answers is where a person's answers come from, until ctx ends. What was typed before
// now was typed without having seen the question, and is no answer to it.
func answers(ctx context.Context, in io.Reader) (io.Reader, func()) {
	f, ok := in.(*os.File)
	if !ok {
		return in, func() {}
	}
	_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // not a terminal: nothing to forget
	r, err := newInterruptReader(f)
	if err != nil {
		return in, func() {}
	}
	detach := context.AfterFunc(ctx, r.stop)
	return r, func() {
		detach()
		r.stop()
	}
}

// makeTerminal asks for a terminal in the sandbox, and makes this one, if there is one,
// a mere carrier of keys: raw, its size handed on.
func (p *Program) makeTerminal(req *executor.Request, in *os.File, stdinTTY bool) (restore func(), err error) {
	req.TTY = &agent.TTY{Rows: 24, Cols: 80}
	if _, ok := req.Env["TERM"]; !ok {
		req.Env["TERM"] = "xterm"
	}
	if !stdinTTY {
		return func() {}, nil
	}
	if size, ok := sizeOf(in); ok {
		req.TTY = &size
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("make the terminal raw: %w", err)
	}
	changed, sizes, quit := make(chan os.Signal, 1), make(chan agent.TTY, 1), make(chan struct{})
	signal.Notify(changed, unix.SIGWINCH)
	req.Resizes = sizes
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-changed:
				if size, ok := sizeOf(in); ok {
					select {
					case sizes <- size:
					case <-quit:
					}
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(quit)
		<-done
		_ = term.Restore(int(in.Fd()), old) // it may be gone
	}, nil
}

func sizeOf(f *os.File) (agent.TTY, bool) {
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || cols <= 0 || rows <= 0 || cols > 65535 || rows > 65535 {
		return agent.TTY{}, false
	}
	return agent.TTY{Rows: uint16(rows), Cols: uint16(cols)}, true
}

// interruptReader reads a file until it is stopped. A Read that waits when it is stopped
// ends without having taken anything, so that the next reader of the file, such as a
// question on the terminal, misses nothing.
type interruptReader struct {
	f          *os.File
	quit, wake *os.File // a pipe: closing wake ends a waiting Read
	once       sync.Once
}

func newInterruptReader(f *os.File) (*interruptReader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &interruptReader{f: f, quit: r, wake: w}, nil
}

// stop ends reading. The reader's own pipe end stays open until the program ends: a Read
// may still be looking at it.
func (r *interruptReader) stop() { r.once.Do(func() { r.wake.Close() }) }

func (r *interruptReader) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(r.f.Fd()), Events: unix.POLLIN}, {Fd: int32(r.quit.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return r.f.Read(p)
		case fds[1].Revents != 0:
			return 0, io.EOF
		}
		return r.f.Read(p)
	}
}
