package cli

import (
	"fmt"
	"io"
	"sync/atomic"
)

// screen follows what a command writes to the person's terminal, so that what Airlock
// says below it can be read.
type screen struct {
	midLine atomic.Bool
	tidied  bool // tidy was called; it is the saying goroutine's
}

// writer is w, followed.
func (s *screen) writer(w io.Writer) io.Writer { return &screenWriter{s, w} }

type screenWriter struct {
	s *screen
	w io.Writer
}

func (w *screenWriter) Write(p []byte) (int, error) {
	if len(p) > 0 {
		w.s.midLine.Store(p[len(p)-1] != '\n')
	}
	return w.w.Write(p)
}

// sane ends what a program can leave a terminal in that would hide or garble the lines
// below: another screen, margins, colours and their meaning, drawing characters, held-back
// output, reports of the mouse and of pasting. Unlike a full reset it keeps the screen.
const sane = "\x1b[?1047l" + // the normal screen
	"\x1b[?2026l" + // shown at once
	"\x1b7\x1b[?69l\x1b[r\x1b8" + // no margins; setting them moves the cursor
	"\x1b7\x1b[!p\x1b8\x1b[4l\x1b[?7h" + // a soft reset, overwriting, wrapping
	"\x1b(B\x1b)B\x0f" + // letters are letters
	"\x1b[0m\x1b[?5l\x1b[?25h" + // plain, not reversed, with a cursor
	"\x1b]104\x07\x1b]110\x07\x1b]111\x07" + // the palette, foreground and background
	"\x1b[?1l\x1b>" + // plain keys
	"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l"

// tidy makes the terminal fit to read, once, before the first thing that is said.
func (s *screen) tidy(w io.Writer) {
	if s == nil || s.tidied {
		return
	}
	s.tidied = true
	fmt.Fprint(w, sane)
	if s.midLine.Load() {
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\r\x1b[J") // wherever it left the cursor, nothing of its own stands below
}
