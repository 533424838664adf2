package prompt

import "strconv"

// An event is what happens while a request is read.
type event struct {
	kind eventKind
	b    byte
	err  error // of evEnd
}

type eventKind int

const (
	evTimeout eventKind = iota
	evByte
	evResize
	evInterrupt // a signal
	evCanceled  // the context has ended
	evEnd       // of the input
)

// How long is waited, in milliseconds. A sequence of a terminal's comes at once; a person
// presses Escape and then waits.
const (
	forever    = -1
	escapeWait = 60
)

// Going about on the terminal.
func up(n int) string    { return step(n, 'A') }
func down(n int) string  { return step(n, 'B') }
func right(n int) string { return step(n, 'C') }

func step(n int, to byte) string {
	if n <= 0 {
		return ""
	}
	return "\x1b[" + strconv.Itoa(n) + string(rune(to))
}
