//go:build !unix

package prompt

import (
	"context"
	"errors"
	"io"
	"os"
)

// A tty reads lines as the system lets the person edit them: there is no other way here.
type tty struct{ in, out *os.File }

func newTTY(_ context.Context, in, out *os.File) (*tty, error) { return &tty{in, out}, nil }

func (t *tty) close()         {}
func (t *tty) terminal() bool { return false }
func (t *tty) raw() error     { return errors.ErrUnsupported }
func (t *tty) forget()        {}
func (t *tty) restore()       {}
func (t *tty) drop() bool     { return false }
func (t *tty) pending() bool  { return false }
func (t *tty) columns() int   { return 80 }
func (t *tty) lines() int     { return 24 }

func (t *tty) write(s string) { _, _ = io.WriteString(t.out, s) } // nobody is left to tell

func (t *tty) next(int) event {
	var b [1]byte
	if n, err := t.in.Read(b[:]); n == 0 {
		return event{kind: evEnd, err: errors.Join(err, io.EOF)}
	}
	return event{kind: evByte, b: b[0]}
}

func stop() {}
