package prompt

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
)

// An editor is the reading of one request.
type editor struct {
	opts    *Options
	tty     *tty
	history *history

	line  line
	at    int    // the entry of the history that is shown; len: none
	draft string // what was typed before one was shown
	find  *search

	notice string // said below the text, until the next key
	drawn  drawing
	failed *event // what ended the input, of nextByte
}

// A drawing is what stands on the terminal.
type drawing struct {
	rows        []int // columns used
	row, column int   // of the cursor
}

// errDone ends the reading with the text.
var errDone = errors.New("done")

func (e *editor) read(ctx context.Context) (string, error) {
	e.at = len(e.history.entries)
	e.draw()
	for {
		ev := e.tty.next(forever)
		if ev.kind == evResize {
			e.drawn.resize(e.tty.columns())
			e.draw()
			continue
		}
		err := e.event(ctx, &ev)
		if e.failed != nil {
			err = e.ends(ctx, e.failed)
		}
		if err == nil {
			if !e.tty.pending() { // a paste is shown as a whole
				e.draw()
			}
			continue
		}
		text := e.line.string()
		e.find = nil
		e.finish(err)
		if errors.Is(err, errDone) {
			return text, nil
		}
		if errors.Is(err, ErrInterrupted) {
			return text, err
		}
		return "", err
	}
}

func (e *editor) event(ctx context.Context, ev *event) error {
	if ev.kind != evByte {
		return e.ends(ctx, ev)
	}
	e.notice = ""
	return e.press(ctx, readKey(ev.b, e))
}

// ends is the error for an event that is no key.
func (e *editor) ends(ctx context.Context, ev *event) error {
	switch ev.kind {
	case evInterrupt:
		return ErrInterrupted
	case evCanceled:
		return ctx.Err()
	case evEnd:
		return ev.err
	}
	return nil
}

// nextByte gives readKey the bytes of a key.
func (e *editor) nextByte(soon bool) (byte, bool) {
	wait := forever
	if soon {
		wait = escapeWait
	}
	for e.failed == nil {
		switch ev := e.tty.next(wait); ev.kind {
		case evByte:
			return ev.b, true
		case evResize:
			e.drawn.resize(e.tty.columns())
		case evTimeout:
			return 0, false
		default:
			e.failed = &ev
		}
	}
	return 0, false
}

// press does what a key means. errDone: the text is finished.
func (e *editor) press(ctx context.Context, k key) error {
	if e.find != nil && e.searching(k) {
		return nil
	}
	switch k.do {
	case actEnter:
		return e.enter()
	case actInterrupt:
		return ErrInterrupted
	case actEndOfInput:
		if len(e.line.text) == 0 {
			return io.EOF
		}
		e.edit(actDelete)
	case actInsert:
		e.ok(e.line.insert(k.text, true))
	case actPaste:
		e.ok(k.text == "" || e.line.insert(k.text, false))
	case actNewline:
		e.ok(e.line.insert("\n", false))
	case actComplete:
		e.complete()
	case actSearch, actSearchForward:
		e.beginSearch()
	case actClear:
		e.tty.write("\x1b[H\x1b[2J")
		e.drawn = drawing{}
	case actEdit:
		return e.elsewhere(ctx)
	case actSuspend:
		e.suspend()
	default:
		e.edit(k.do)
		e.move(k.do)
	}
	return nil
}

// ok rings the bell where there was nothing to do.
func (e *editor) ok(done bool) {
	if !done {
		e.tty.write("\a")
	}
}

// enter finishes the text, unless it goes on. What has more behind it at once is pasted
// into a terminal that does not say so: it does not run by itself.
func (e *editor) enter() error {
	if e.tty.pending() {
		e.line.insert("\n", false)
		return nil
	}
	text, more := continued(e.opts, e.line.string())
	if !more {
		return errDone
	}
	if text != e.line.string() {
		e.line.pos = len(e.line.text)
		e.line.remove(e.line.pos-1, e.line.pos, false)
	}
	e.line.pos = len(e.line.text)
	e.line.insert("\n", false)
	return nil
}

// edit changes the text.
func (e *editor) edit(do action) {
	l := &e.line
	switch do {
	case actDelete:
		e.ok(l.remove(l.pos, l.right(), false))
	case actBackspace:
		e.ok(l.remove(l.left(), l.pos, false))
	case actKillEnd:
		end := l.end()
		if end == l.pos {
			end = min(end+1, len(l.text)) // the newline
		}
		e.ok(l.remove(l.pos, end, true))
	case actKillStart:
		e.ok(l.remove(l.start(), l.pos, true))
	case actKillWord:
		e.ok(l.remove(l.argLeft(), l.pos, true))
	case actKillWordRight:
		e.ok(l.remove(l.pos, l.wordRight(), true))
	case actYank:
		e.ok(len(l.killed) > 0 && l.insert(string(l.killed), false))
	case actUndo:
		e.ok(l.back())
	}
}

// move changes the place, or the entry of the history.
func (e *editor) move(do action) {
	l := &e.line
	switch do {
	case actLeft:
		l.pos = l.left()
	case actRight:
		l.pos = l.right()
	case actWordLeft:
		l.pos = l.wordLeft()
	case actWordRight:
		l.pos = l.wordRight()
	case actHome:
		l.pos = l.start()
	case actEnd:
		l.pos = l.end()
	case actUp:
		if !l.up() {
			e.show(e.at - 1)
		}
	case actDown:
		if !l.down() {
			e.show(e.at + 1)
		}
	case actPrevious:
		e.show(e.at - 1)
	case actNext:
		e.show(e.at + 1)
	case actOldest:
		e.show(0)
	case actNewest:
		e.show(len(e.history.entries))
	default:
		return
	}
	l.typing = false
}

// show shows an entry of the history, or behind the last one what was typed.
func (e *editor) show(i int) {
	n := len(e.history.entries)
	if i < 0 || i > n || i == e.at {
		e.ok(false)
		return
	}
	if e.at == n {
		e.draft = e.line.string()
	}
	e.at = i
	text := e.draft
	if i < n {
		text = e.history.entries[i]
	}
	e.line.set(text)
}

// elsewhere lets the person change the text with another program.
func (e *editor) elsewhere(ctx context.Context) error {
	if e.opts.Edit == nil {
		e.ok(false)
		return nil
	}
	before := e.line.string()
	e.leave(e.drawn.top() + "\x1b[J")
	text, err := e.opts.Edit(ctx, before)
	if again := e.tty.raw(); again != nil {
		return again
	}
	if e.tty.drop() {
		return ctx.Err()
	}
	if err != nil {
		e.notice = err.Error()
		return nil
	}
	if text = clean(strings.TrimRight(text, "\n")); text != before && len(text) <= maxText {
		e.line.set(text)
	}
	return nil
}

// suspend stops the program, as Ctrl-Z does everywhere, until it is continued.
func (e *editor) suspend() {
	e.draw()
	e.leave(e.drawn.below() + "\r\n")
	stop()
	if err := e.tty.raw(); err != nil {
		e.failed = &event{kind: evEnd, err: err}
	}
}

// leave gives the terminal back for a while.
func (e *editor) leave(end string) {
	e.tty.write(end)
	e.drawn = drawing{}
	e.tty.restore()
}

// finish leaves the text as it was read on the screen.
func (e *editor) finish(err error) {
	e.notice = ""
	e.draw()
	end := "\r\n"
	if errors.Is(err, ErrInterrupted) {
		end = "^C\r\n"
	}
	e.tty.write(e.drawn.below() + end)
}

// draw shows the text in place of what stands there.
func (e *editor) draw() {
	width, height := e.tty.columns(), e.tty.lines()
	prompt, more := e.opts.Prompt, e.opts.More
	if e.find != nil {
		prompt = e.find.prompt()
	}
	l := lay(prompt, more, e.line.text, e.line.pos, width)
	if e.notice != "" {
		l.rows = append(l.rows, row{shown(e.notice, width-1), 0})
	}
	first := max(0, min(l.row-height/2, len(l.rows)-height)) // of those that fit
	rows := l.rows[first:min(len(l.rows), first+height)]

	var b strings.Builder
	b.WriteString(e.drawn.top() + "\x1b[J")
	e.drawn.rows = e.drawn.rows[:0]
	for i, r := range rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(r.text)
		e.drawn.rows = append(e.drawn.rows, r.used)
	}
	e.drawn.row, e.drawn.column = len(rows)-1, 0
	b.WriteString("\r" + up(len(rows)-1-(l.row-first)) + right(l.column))
	e.drawn.row, e.drawn.column = l.row-first, l.column
	e.tty.write(b.String())
}

// top goes to the first row.
func (d *drawing) top() string { return "\r" + up(d.row) }

// below goes behind the last row.
func (d *drawing) below() string {
	n := len(d.rows)
	if n == 0 {
		return ""
	}
	return "\r" + down(n-1-d.row) + right(d.rows[n-1])
}

// resize follows what a terminal of another width makes of the rows: those that do not
// fit any more are broken.
func (d *drawing) resize(width int) {
	width = max(width, 1)
	var rows []int
	at := 0
	for i, used := range d.rows {
		if i == d.row {
			at = len(rows) + d.column/width
		}
		for ; used > width; used -= width {
			rows = append(rows, width)
		}
		rows = append(rows, used)
	}
	d.rows, d.row, d.column = slices.Clip(rows), at, d.column%width
}
