package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"airlock/internal/event"
	"airlock/internal/surface/cli/live"
)

// A bridgeWatch shows what agents tell while they run. It is safe for concurrent use.
type bridgeWatch struct {
	mu     sync.Mutex
	out    io.Writer // takes events as lines; nil: they are shown on screen
	screen io.Writer
	width  int  // of the screen, where it is a terminal; 0: it is none
	shown  bool // a line of progress stands there
}

func (p *Program) newBridgeWatch(f *bridgeFlags) *bridgeWatch {
	w := &bridgeWatch{screen: p.Stderr}
	if f.events {
		w.out = p.Stdout
	}
	if file, ok := p.Stderr.(*os.File); ok && isTerminal(p.Stderr) {
		w.width = 80
		if n, _, err := term.GetSize(int(file.Fd())); err == nil && n > 20 {
			w.width = n
		}
	}
	return w
}

// Publish shows an event.
func (w *bridgeWatch) Publish(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out != nil {
		w.line(e)
		return
	}
	switch e := e.(type) {
	case event.Progress:
		text := printable(e.Tool) + ": " + cut(printable(e.Message), 500)
		if e.Total != nil {
			text += fmt.Sprintf(" (%g/%g)", e.Done, *e.Total)
		}
		if w.width > 0 {
			fmt.Fprint(w.screen, "\r"+live.Fit(text, w.width-1)+"\x1b[K")
			w.shown = true
			return
		}
		fmt.Fprintln(w.screen, text)
	case event.Partial:
		w.clearLocked()
		var text string
		if json.Unmarshal(e.Data, &text) != nil {
			text = string(e.Data) + "\n"
		}
		fmt.Fprint(w.screen, printableLines(text))
	}
}

// line writes an event for a program. Nobody reads it any more where that fails.
func (w *bridgeWatch) line(e event.Event) {
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
		_, _ = w.out.Write(b.Bytes())
	}
}

// clear takes a line of progress away.
func (w *bridgeWatch) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearLocked()
}

func (w *bridgeWatch) clearLocked() {
	if w.shown {
		fmt.Fprint(w.screen, "\r\x1b[K")
		w.shown = false
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
	s.w.clearLocked()
	fmt.Fprintf(s.w.screen, "%s| %s\n", printable(s.name), printable(text))
}
