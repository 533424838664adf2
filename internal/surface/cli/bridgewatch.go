package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"airlock/internal/event"
	"airlock/internal/surface/cli/live"
)

// A bridgeWatch shows what agents tell while they run. Each line of theirs begins with the
// agent's name, also where it goes on below, so that none can pass for one of Airlock's own;
// and while a question stands on the screen nothing of theirs comes after it. It is safe for
// concurrent use.
type bridgeWatch struct {
	mu     sync.Mutex
	out    io.Writer // takes events as lines; nil: they are shown on screen
	screen io.Writer
	over   <-chan struct{} // closed when all is to end
	stuck  bool            // then, nobody took what was written

	shown  bool   // a line of progress stands there
	open   string // the agent whose line has no end yet; "": none
	column int    // where that line goes on

	held bool // a question stands on the screen
	last *event.Progress
	late []late
	size int // bytes of late
	lost int // bytes for which there was no room in it
}

// late is what is shown once a question has its answer.
type late struct {
	to   io.Writer
	text string
}

// maxLate is how many bytes are kept until then.
const maxLate = 256 << 10

func (p *Program) newBridgeWatch(f *bridgeFlags) *bridgeWatch {
	w := &bridgeWatch{screen: p.Stderr}
	if f.events {
		w.out = p.Stdout
	}
	p.Terminal.share(w)
	return w
}

// width is the screen's, where it is a terminal; 0: it is none.
func (w *bridgeWatch) width() int {
	file, ok := w.screen.(*os.File)
	if !ok || !isTerminal(w.screen) {
		return 0
	}
	if n, _, err := term.GetSize(int(file.Fd())); err == nil && n > 20 {
		return n
	}
	return 80
}

// hold keeps what agents tell from the screen until release: a question stands there.
func (w *bridgeWatch) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearLocked()
	w.held = true
}

// release shows what has come since hold.
func (w *bridgeWatch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	for _, l := range w.late {
		w.putLocked(l.to, l.text)
	}
	if w.lost > 0 {
		w.endLocked()
		w.putLocked(w.screen, fmt.Sprintf("airlock: %d bytes more that agents told meanwhile are not shown\n", w.lost))
	}
	w.late, w.size, w.lost = nil, 0, 0
	if e := w.last; e != nil {
		w.last = nil
		w.progressLocked(*e)
	}
}

// writeLocked writes text to one of the two, or keeps it until it may be shown.
func (w *bridgeWatch) writeLocked(to io.Writer, text string) {
	switch {
	case !w.held || to != w.screen && !isTerminal(to):
		w.putLocked(to, text)
	case w.size+len(text) > maxLate:
		w.lost += len(text)
	default:
		w.late = append(w.late, late{to, text})
		w.size += len(text)
	}
}

// stuckAfter is how long, when all is to end, who reads has to take what is being written.
const stuckAfter = 2 * time.Second

// putLocked writes text, and does not wait for a reader that has stopped reading when all is
// to end.
func (w *bridgeWatch) putLocked(to io.Writer, text string) {
	if w.stuck {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(to, text) // nobody reads it any more where that fails
	}()
	select {
	case <-done:
		return
	case <-w.over:
	}
	select {
	case <-done:
	case <-time.After(stuckAfter):
		w.stuck = true
	}
}

// Publish shows an event.
func (w *bridgeWatch) Publish(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out != nil {
		w.lineLocked(e)
		return
	}
	switch e := e.(type) {
	case event.Progress:
		w.progressLocked(e)
	case event.Partial:
		var text string
		if json.Unmarshal(e.Data, &text) != nil {
			text = string(e.Data) + "\n"
		}
		w.sayLocked(e.Tool, printableLines(text))
	}
}

// progressLocked shows how far an agent has come, in one line that the next takes the place of.
func (w *bridgeWatch) progressLocked(e event.Progress) {
	if w.held {
		w.last = &e
		return
	}
	text := cut(printable(e.Message), 500)
	if e.Total != nil {
		text += fmt.Sprintf(" (%g/%g)", e.Done, *e.Total)
	}
	width := w.width()
	if width == 0 {
		w.sayLocked(e.Tool, text+"\n")
		return
	}
	w.endLocked()
	w.writeLocked(w.screen, "\r"+live.Fit(mark(e.Tool, width)+"| "+text, width-1)+"\x1b[K")
	w.shown = true
}

// sayLocked shows printable text of an agent's, which may end within a line.
func (w *bridgeWatch) sayLocked(name, text string) {
	if w.shown || w.open != name {
		w.clearLocked()
	}
	width := w.width()
	var b strings.Builder
	begin := func(sign string) {
		head := mark(name, width) + sign
		b.WriteString(head)
		w.open, w.column = name, len(head)
	}
	for _, c := range text {
		if w.open == "" {
			begin("| ")
		}
		if c == '\n' {
			b.WriteByte('\n')
			w.open = ""
			continue
		}
		wide := 1
		if c >= utf8.RuneSelf {
			wide = 2 // it may be
		}
		if width > 0 && w.column+wide >= width {
			b.WriteByte('\n')
			begin("> ")
		}
		b.WriteRune(c)
		w.column += wide
	}
	w.writeLocked(w.screen, b.String())
}

// mark is an agent's name as its lines begin with it.
func mark(name string, width int) string {
	name = printable(name)
	if width > 0 {
		name = cut(name, max(width/3, 8))
	}
	return name
}

// lineLocked writes an event for a program, on one line to every reader.
func (w *bridgeWatch) lineLocked(e event.Event) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	var value any
	switch e := e.(type) {
	case event.Progress:
		value = struct {
			Event string `json:"event"`
			event.Progress
		}{e.Name(), e}
	case event.Partial:
		value = struct {
			Event string `json:"event"`
			event.Partial
		}{e.Name(), e}
	default:
		return
	}
	if enc.Encode(value) == nil {
		w.writeLocked(w.out, harmlessJSON(b.String()))
	}
}

// clear takes a line of progress away, and ends one that has no end.
func (w *bridgeWatch) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearLocked()
}

func (w *bridgeWatch) clearLocked() {
	if w.shown {
		w.writeLocked(w.screen, "\r\x1b[K")
		w.shown = false
	}
	w.endLocked()
}

func (w *bridgeWatch) endLocked() {
	if w.open != "" {
		w.writeLocked(w.screen, "\n")
		w.open = ""
	}
}

// stderr takes what an agent writes to stderr, and shows it a line at a time, with the
// agent's name.
func (w *bridgeWatch) stderr(name string) *stderrLines { return &stderrLines{w: w, name: name} }

type stderrLines struct {
	w    *bridgeWatch
	name string
	rest []byte
}

// maxStderrLine is how long a shown line may be.
const maxStderrLine = 4 << 10

func (s *stderrLines) Write(data []byte) (int, error) {
	n := len(data)
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			s.rest = append(s.rest, data[:min(len(data), maxStderrLine)]...)
			data = data[min(len(data), maxStderrLine):]
			if len(s.rest) >= maxStderrLine {
				s.flush()
			}
			continue
		}
		s.rest = append(s.rest, data[:min(end, maxStderrLine)]...)
		data = data[end+1:]
		s.say()
	}
	return n, nil
}

func (s *stderrLines) flush() {
	if len(s.rest) > 0 {
		s.say()
	}
}

func (s *stderrLines) say() {
	text := strings.TrimSuffix(string(s.rest), "\r")
	s.rest = s.rest[:0]
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.endLocked()
	s.w.sayLocked(s.name, printable(text)+"\n")
}
