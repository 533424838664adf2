package guest

import (
	"strings"
	"unicode/utf8"
)

// replacement is U+FFFD in UTF-8.
const replacement = "\uFFFD"

// lossy makes text of b as Rust's String::from_utf8_lossy does: each longest run of
// bytes that begins a character and does not complete it becomes one U+FFFD. (Go's own
// conversions use one for each byte, or one for a whole run of bad bytes.)
//
// The result has at most limit bytes, counted after the replacement, and ends with a
// whole character; cut says that something is missing.
func lossy(b []byte, limit int) (text string, cut bool) {
	if utf8.Valid(b) {
		if len(b) <= limit {
			return string(b), false
		}
		for limit > 0 && !utf8.RuneStart(b[limit]) {
			limit--
		}
		return string(b[:limit]), true
	}
	var s strings.Builder
	s.Grow(min(len(b)+len(b)/8, limit))
	for len(b) > 0 {
		n, ok := sequence(b)
		piece := b[:n]
		if !ok {
			piece = []byte(replacement)
		}
		if s.Len()+len(piece) > limit {
			return s.String(), true
		}
		s.Write(piece)
		b = b[n:]
	}
	return s.String(), false
}

// sequence reports how many bytes at the start of b belong together, and whether they
// are a character: if not, they are what one U+FFFD replaces.
func sequence(b []byte) (n int, ok bool) {
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError || size > 1 {
		return size, true
	}
	want, low, high := lead(b[0])
	n = 1
	for n < want && n < len(b) && low <= b[n] && b[n] <= high {
		n, low, high = n+1, 0x80, 0xBF
	}
	return n, false
}

// lead says of a first byte how long its sequence is and what its second byte may be
// (table 3-7 of the Unicode Standard).
func lead(c byte) (want int, low, high byte) {
	switch {
	case 0xC2 <= c && c <= 0xDF:
		return 2, 0x80, 0xBF
	case c == 0xE0:
		return 3, 0xA0, 0xBF
	case c == 0xED:
		return 3, 0x80, 0x9F
	case 0xE1 <= c && c <= 0xEF:
		return 3, 0x80, 0xBF
	case c == 0xF0:
		return 4, 0x90, 0xBF
	case 0xF1 <= c && c <= 0xF3:
		return 4, 0x80, 0xBF
	case c == 0xF4:
		return 4, 0x80, 0x8F
	}
	return 1, 0, 0
}

// wholeChars returns how many bytes at the start of b are whole characters when only
// its end is an incomplete one, and whether that is so.
func wholeChars(b []byte) (n int, ok bool) {
	if utf8.Valid(b) {
		return len(b), true
	}
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		i := len(b) - back
		if !utf8.RuneStart(b[i]) {
			continue
		}
		if !utf8.FullRune(b[i:]) && utf8.Valid(b[:i]) {
			return i, true
		}
		break
	}
	return 0, false
}

// jsonLen is an upper bound of s's length as a JSON string, with the quotes, when HTML is
// not escaped.
func jsonLen[T string | []byte](s T) int64 {
	n := int64(2)
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20, c == 0x7F:
			n += 6
		case c == '"', c == '\\':
			n += 2
		case c == 0xE2: // U+2028 and U+2029 are escaped, which doubles their three bytes
			n += 4
		default:
			n++
		}
	}
	return n
}
