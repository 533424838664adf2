//go:build unix

package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A tty reads a terminal byte by byte, and no byte more than it is asked for, so that what
// is left is there for whoever reads the terminal next.
type tty struct {
	in, out *os.File
	saved   *term.State // raw: what to go back to

	told, tell *os.File // a pipe: what else happens, a byte each
	signals    chan os.Signal
	quit, done chan struct{}
}

func newTTY(ctx context.Context, in, out *os.File) (*tty, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	t := &tty{
		in: in, out: out, told: r, tell: w,
		signals: make(chan os.Signal, 4), quit: make(chan struct{}), done: make(chan struct{}),
	}
	signal.Notify(t.signals, unix.SIGWINCH, os.Interrupt)
	go t.watch(ctx)
	return t, nil
}

// How long is waited for a pipe to take a byte, and for a stop to come.
const (
	tellWait = 100 * time.Millisecond
	stopWait = 300 * time.Millisecond
)

// watch tells next what happens beside keys.
func (t *tty) watch(ctx context.Context) {
	defer close(t.done)
	canceled := ctx.Done()
	for {
		what := evCanceled
		select {
		case <-t.quit:
			return
		case <-canceled:
			canceled = nil
		case sig := <-t.signals:
			what = evResize
			if sig == os.Interrupt {
				what = evInterrupt
			}
		}
		// The pipe holds far more than can come while a key is worked on; that it is full
		// must not hold up the end.
		_ = t.tell.SetWriteDeadline(time.Now().Add(tellWait))
		_, _ = t.tell.Write([]byte{byte(what)})
	}
}

func (t *tty) terminal() bool {
	return term.IsTerminal(int(t.in.Fd())) && term.IsTerminal(int(t.out.Fd()))
}

// raw takes the keys as they are pressed, and forgets those from before.
func (t *tty) raw() error {
	saved, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("make the terminal raw: %w", err)
	}
	t.saved = saved
	t.forget()
	t.write("\x1b[?2004h")
	return nil
}

// forget drops what was typed before now.
func (t *tty) forget() { forget(int(t.in.Fd())) }

// restore makes the terminal what it was.
func (t *tty) restore() {
	if t.saved == nil {
		return
	}
	t.write("\x1b[?2004l")
	_ = term.Restore(int(t.in.Fd()), t.saved) // it may be gone
	t.saved = nil
}

func (t *tty) close() {
	t.restore()
	signal.Stop(t.signals)
	close(t.quit)
	<-t.done
	t.told.Close()
	t.tell.Close()
}

func (t *tty) write(s string) { _, _ = io.WriteString(t.out, s) } // a terminal that is gone ends the input too

// next waits for what happens next, so many milliseconds.
func (t *tty) next(wait int) event {
	fds := []unix.PollFd{{Fd: int32(t.told.Fd()), Events: unix.POLLIN}, {Fd: int32(t.in.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return event{kind: evEnd, err: fmt.Errorf("wait for a key: %w", err)}
		case n == 0:
			return event{kind: evTimeout}
		}
		var b [1]byte
		if fds[0].Revents != 0 {
			if _, err := t.told.Read(b[:]); err == nil {
				return event{kind: eventKind(b[0])}
			}
		}
		switch n, err := t.in.Read(b[:]); {
		case n == 1:
			return event{kind: evByte, b: b[0]}
		case err == nil, errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.EIO): // the terminal was hung up
			return event{kind: evEnd, err: io.EOF}
		default:
			return event{kind: evEnd, err: err}
		}
	}
}

// drop forgets what happened meanwhile, such as an interrupt that was another program's,
// and reports whether the context has ended.
func (t *tty) drop() (canceled bool) {
	fds := []unix.PollFd{{Fd: int32(t.told.Fd()), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(fds, 0); n != 1 || err != nil {
			return canceled
		}
		var b [1]byte
		if _, err := t.told.Read(b[:]); err != nil {
			return canceled
		}
		canceled = canceled || eventKind(b[0]) == evCanceled
	}
}

// pending reports whether more keys have come already.
func (t *tty) pending() bool {
	fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
}

func (t *tty) columns() int {
	columns, _ := t.size()
	return columns
}

func (t *tty) lines() int {
	_, lines := t.size()
	return lines
}

func (t *tty) size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(t.out.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return 80, 24
	}
	return columns, lines
}

// stop stops this job as the terminal itself does on Ctrl-Z, and returns when it is
// continued. Where nobody could continue it, the system does not stop it.
func stop() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(0, unix.SIGTSTP) != nil {
		return
	}
	select {
	case <-continued:
	case <-time.After(stopWait): // of running: a program that is stopped does not wait
	}
}
