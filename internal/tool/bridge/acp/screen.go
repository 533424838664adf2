package acp

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// A screen keeps the last part of what a command prints.
type screen struct {
	most int

	mu    sync.Mutex
	data  []byte
	cut   bool
	ended bool
}

// Write does not fail.
func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = append(s.data, data...)
	if len(s.data) > 2*s.most+utf8.UTFMax { // so that each byte is moved once at most
		s.data = append(s.data[:0], s.data[len(s.data)-s.most:]...)
		s.cut = true
	}
	return len(data), nil
}

func (s *screen) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// text is what is kept: of at most most bytes, and beginning with a whole character.
func (s *screen) text() (text string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := s.data
	if !s.ended {
		data = data[:wholeRunes(data)] // the rest of a character may still come
	}
	data = []byte(strings.ToValidUTF8(string(data), "�"))
	from := max(len(data)-s.most, 0)
	for from < len(data) && !utf8.RuneStart(data[from]) {
		from++
	}
	return string(data[from:]), s.cut || from > 0
}

// wholeRunes is how much of data does not end within a character.
func wholeRunes(data []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if b := data[len(data)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return len(data) - i
			}
			break
		}
	}
	return len(data)
}
