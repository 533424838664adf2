package changes

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable reports whether a terminal shows r, as itself, where it stands. What is
// invisible, reorders its surroundings or controls the terminal is not.
func printable(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
		r != '\u2800' // the blank of Braille
}

// Printable shows text that others wrote on one line: what controls a terminal, is
// invisible, reorders what stands beside it or is not UTF-8 is written as in a Go string,
// a line feed as \n. A backslash stays as it is, so that text which was made printable
// once is not changed again; names that have to be told apart are listed by List.
func Printable(s string) string { return escapeBut(s, `\`) }

// escape shows s on one line, so that no two strings look the same: what is not
// printable, and the backslash, are written as in a Go string.
func escape(s string) string { return escapeBut(s, "") }

// escapeBut leaves the characters of keep as they are.
func escapeBut(s, keep string) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || r == '\\' || !printable(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r == '\\':
			b.WriteString(`\\`)
		case printable(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// size is n for a person.
func size(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n), 0
	for f >= 1023.95 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// count is "1 change" or "2 changes".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// A paint colours text for a terminal; false leaves it plain.
type paint bool

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (p paint) in(color, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}
