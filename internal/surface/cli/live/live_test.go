package live_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"

	"airlock/internal/surface/cli/live"
)

// A screen understands what a Region writes: lines, "up and clear".
type screen struct {
	mu    sync.Mutex
	lines []string // the last one is where the cursor stands
	wrong string
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(p)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			up := 0
			for rest[0] >= '0' && rest[0] <= '9' {
				up, rest = up*10+int(rest[0]-'0'), rest[1:]
			}
			if rest, ok = strings.CutPrefix(rest, "A\r\x1b[J"); !ok || up > len(s.lines)-1 {
				s.wrong = text
				return len(p), nil
			}
			s.lines = append(s.lines[:len(s.lines)-1-up], "")
			text = rest
			continue
		}
		line, rest, ok := strings.Cut(text, "\n")
		if !ok {
			s.wrong = text
			return len(p), nil
		}
		s.lines[len(s.lines)-1] += line
		s.lines = append(s.lines, "")
		text = rest
	}
	return len(p), nil
}

func TestRegion(t *testing.T) {
	s := &screen{lines: []string{"before", ""}}
	drawn := make(chan int, 100)
	r := live.Start(s, 20, 4, func(frame int) []string {
		select {
		case drawn <- frame:
		default: // whoever looks has stopped, and End waits for this
		}
		return strings.Split(strings.Repeat("a long line of many words\n", frame), "\n")
	})
	for <-drawn < 5 {
	}
	r.End()
	r.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := cmp.Diff([]string{"before", ""}, s.lines); d != "" || s.wrong != "" {
		t.Errorf("the screen after End (-want +got):\n%s%q", d, s.wrong)
	}
}

func TestRegionKeepsItsSize(t *testing.T) {
	var b bytes.Buffer
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	r := live.Start(&b, 30, 5, func(int) []string {
		defer once()
		return slices.Repeat([]string{strings.Repeat("漢", 40)}, 100)
	})
	<-first
	r.End()
	shown, _, _ := strings.Cut(b.String(), "\x1b")
	lines := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
	if len(lines) != 4 {
		t.Errorf("%d lines on a terminal of 5", len(lines))
	}
	for _, l := range lines {
		if w := uniseg.StringWidth(l); w > 29 {
			t.Errorf("a line takes %d columns of 30: %q", w, l)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"short text stays", "a b", []string{"a b"}},
		{"it breaks between words", "one two three four", []string{"one two", "three four"}},
		{"a word that is too long is cut", "abcdefghijklmnop", []string{"abcdefghij", "klmnop"}},
		{"wide characters count twice", "漢字漢字漢字", []string{"漢字漢字漢", "字"}},
		{"what is one character stays whole", "क" + strings.Repeat("ा", 12), []string{"क" + strings.Repeat("ा", 12)}},
		{"lines stay lines", "a\n\nb", []string{"a", "", "b"}},
		{"nothing is one empty line", "", []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, live.Wrap(tt.text, 10)); d != "" {
				t.Errorf("Wrap (-want +got):\n%s", d)
			}
		})
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three", 10)
	f.Add("漢字 \u0301a\u200d", 3)
	f.Add("ab क"+strings.Repeat("ा", 15)+" cd", 10) // one character, whose marks take more columns than there are
	f.Add("b काାााताााााााााा", 10)
	f.Fuzz(func(t *testing.T, text string, width int) {
		if len(text) > 4096 || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) || r == utf8.RuneError }) {
			return // it is printable text that is wrapped
		}
		got := live.Wrap(text, width)
		for _, l := range got {
			if w := uniseg.StringWidth(l); w > max(width, 10) && uniseg.GraphemeClusterCount(l) > 1 {
				t.Errorf("Wrap(%q, %d): %q takes %d columns", text, width, l, w)
			}
		}
		if squash(strings.Join(got, "")) != squash(text) {
			t.Errorf("Wrap(%q, %d) = %q", text, width, got)
		}
	})
}

func squash(s string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(s)
}
