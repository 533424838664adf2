package material

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Secrets are looked for in more than is kept: one that the cut goes through is found whole.
// A private key has up to 64 KiB.
const (
	slack      = 80 << 10
	tailWindow = 1 << 20 // of a text whose end is kept, as much as is looked at
)

// runeStart is the largest place up to i at which a character begins.
func runeStart(s string, i int) int {
	for n := 0; i > 0 && i < len(s) && n < utf8.UTFMax && !utf8.RuneStart(s[i]); n++ {
		i--
	}
	return i
}

// firstBytes is the beginning of s, at most n bytes of it, up to a line's end where one is near.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:runeStart(s, n)]
	if i := strings.LastIndexByte(s, '\n'); i >= 0 && i >= len(s)-nearLine(n) {
		return s[:i+1]
	}
	return s
}

// lastBytes is the end of s, at most n bytes of it, from a line's beginning where one is near.
func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	if s[at-1] == '\n' {
		return s[at:]
	}
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && i < nearLine(n) && at+i+1 < len(s) {
		return s[at+i+1:]
	}
	return s[at:]
}

// nearLine is how much a cut may give up of n bytes to go along a line.
func nearLine(n int) int { return min(n/2, 8<<10) }

// lastWindow is as much of the end of s as is looked at.
func lastWindow(s string) string { return lastBytes(s, tailWindow) }

// plainText is what a terminal would show of s, roughly: without escape sequences, control
// characters but for line feeds and tabs, and what is invisible or reorders text. A line that
// was written over by a carriage return stays, as a line of its own. What is not UTF-8 is
// replaced.
func plainText(s string) string {
	if plainAlready(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] == esc {
			i += escapeLen(s[i:])
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == csi8:
			i += size + csiLen(s[i+size:])
			continue
		case r == '\r':
			if i+1 < len(s) && s[i+1] != '\n' {
				b.WriteByte('\n')
			}
		case r == '\n' || r == '\t' || !invisible(r):
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

const (
	esc  = 0x1b
	csi8 = '\u009b'
)

func plainAlready(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || r != '\n' && r != '\t' && invisible(r) {
			return false
		}
	}
	return true
}

// invisible reports whether r controls a terminal, or is not seen.
func invisible(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs)
}

// escapeLen is the length of the escape sequence that s begins with (ECMA-48): what has no
// end ends with the line.
func escapeLen(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		return 2 + csiLen(s[2:])
	case ']', 'P', 'X', '^', '_': // strings, up to ST or BEL
		for i := 2; i < len(s); i++ {
			switch {
			case s[i] == '\a':
				return i + 1
			case s[i] == esc && i+1 < len(s) && s[i+1] == '\\':
				return i + 2
			case s[i] == '\n', s[i] == esc:
				return i
			}
		}
		return len(s)
	}
	i := 1
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f { // intermediate bytes
		i++
	}
	if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
		i++
	}
	return i
}

// csiLen is the length of a control sequence behind its introducer.
func csiLen(s string) int {
	i := 0
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x3f {
		i++
	}
	if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
		i++
	}
	return i
}

// isText reports whether data is UTF-8 without NUL. more says that the data goes on, so that
// its last character may be incomplete.
func isText(data []byte, more bool) bool {
	if bytes.IndexByte(data, 0) >= 0 {
		return false
	}
	if more {
		data = wholeRunes(data)
	}
	return utf8.Valid(data)
}

// wholeRunes is data without the beginning of a character at its end.
func wholeRunes(data []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if tail := data[len(data)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-i]
			}
			break
		}
	}
	return data
}

// bytesOf is n for a person.
func bytesOf(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
