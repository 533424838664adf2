package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// errEnded answers whoever still has something for a command that is gone.
var errEnded = errors.New("the command has ended")

// A stdin is the writing end of a command's standard input, or its terminal.
type stdin struct {
	file     *os.File
	terminal bool
	open     bool // takes input requests

	turn chan struct{} // holds a value while somebody writes: input is written in turn

	mu    sync.Mutex
	eof   bool
	ended bool
}

func newStdin(f *os.File, terminal, open bool) *stdin {
	return &stdin{file: f, terminal: terminal, open: open, turn: make(chan struct{}, 1)}
}

// first starts to give the command the stdin that came with the request. It returns when
// that is done or left to a goroutine, which close ends; done is closed then.
func (s *stdin) first(data string) (done <-chan struct{}) {
	closed := make(chan struct{})
	s.turn <- struct{}{}
	go func() {
		defer close(closed)
		defer func() { <-s.turn }()
		_, err := s.file.WriteString(data)
		if !s.open && err == nil {
			_ = s.finish() // the command is gone, or its terminal is
		}
	}()
	return closed
}

// write gives data to the command and returns when it has taken it, which may be never:
// ctx and close end the wait.
func (s *stdin) write(ctx context.Context, data []byte, eof bool) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.ready(); err != nil {
		return err
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.file.SetWriteDeadline(past)
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // before the next write sets the deadline back
		}
	}()
	if len(data) > 0 {
		if n, err := s.file.Write(data); err != nil {
			return s.explain(ctx, err, n, len(data))
		}
	}
	if eof {
		return s.finish()
	}
	return nil
}

// ready lets a write wait, unless there can be none.
func (s *stdin) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return errEnded
	case s.eof:
		return errors.New("stdin was closed by an earlier eof")
	}
	return s.file.SetWriteDeadline(time.Time{})
}

// takes reports whether input may still be given.
func (s *stdin) takes() bool {
	if s == nil || !s.open {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.eof && !s.ended
}

func (s *stdin) explain(ctx context.Context, err error, n, of int) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w after %d of %d bytes", ctx.Err(), n, of)
	case errors.Is(err, unix.EPIPE):
		return fmt.Errorf("the command closed its stdin (broken pipe) after %d of %d bytes", n, of)
	case errors.Is(err, os.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.EIO):
		return errEnded
	}
	return err
}

// finish is the end of the input. A terminal has none to close: it is given the
// character that means it.
func (s *stdin) finish() error {
	if s.terminal {
		_, err := s.file.Write([]byte{s.veof()})
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eof = true
	return s.file.Close()
}

// veof is the terminal's end-of-file character, usually ^D.
func (s *stdin) veof() byte {
	char := byte(4)
	conn, err := s.file.SyscallConn()
	if err != nil {
		return char
	}
	_ = conn.Control(func(fd uintptr) {
		if t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			char = t.Cc[unix.VEOF]
		}
	})
	return char
}

// close ends every write; the command is gone. The terminal's file is the pump's to close.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.terminal {
		s.file.SetWriteDeadline(past)
		return
	}
	s.file.Close()
}
