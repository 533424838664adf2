package event

import (
	"os"
	"sync"
	"unicode/utf8"
)

// MaxData bounds an Output's Data, in bytes.
const MaxData = 16 << 10

// A Splitter makes Output events of the bytes that are written to it. Its Write
// fails only after Close. It is safe for concurrent use.
type Splitter struct {
	sink           Sink
	stepID, stream string

	mu     sync.Mutex
	held   []byte // the beginning of a character
	closed bool
}

// Split returns a Splitter that publishes what a step's command writes to a stream, "stdout"
// or "stderr". Each byte that is no part of a character becomes U+FFFD; a character
// whose end has not come is held back. A nil sink takes nothing.
func Split(sink Sink, stepID, stream string) *Splitter {
	return &Splitter{sink: sink, stepID: stepID, stream: stream}
}

// Write publishes what of p makes whole characters, in pieces of at most MaxData.
func (s *Splitter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, os.ErrClosed
	}
	text := p
	if len(s.held) > 0 {
		text = append(s.held, p...)
	}
	s.held = append([]byte(nil), s.publishLocked(text, false)...)
	return len(p), nil
}

// Close publishes what is held back. It may be called again.
func (s *Splitter) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.publishLocked(s.held, true)
	s.held = nil
	return nil
}

// publishLocked publishes a text and returns what of it must wait for its end.
func (s *Splitter) publishLocked(text []byte, end bool) (rest []byte) {
	piece := make([]byte, 0, min(len(text)+2*utf8.UTFMax, MaxData))
	flush := func() {
		if len(piece) > 0 && s.sink != nil {
			s.sink.Publish(Output{StepID: s.stepID, Stream: s.stream, Data: string(piece)})
		}
		piece = piece[:0]
	}
	for len(text) > 0 {
		if !end && !utf8.FullRune(text) {
			break
		}
		r, n := utf8.DecodeRune(text)
		if len(piece)+utf8.RuneLen(r) > MaxData {
			flush()
		}
		piece = utf8.AppendRune(piece, r)
		text = text[n:]
	}
	flush()
	return text
}
