package cli

import (
	"strconv"
	"strings"
	"unicode"
)

// printable shows text that others wrote: what could control a terminal, or hide or
// reorder what is seen, is escaped.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == ' ' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// plural is "1 change", "2 changes" or "2 sandboxes".
func plural(n int, one string) string {
	s := strconv.Itoa(n) + " " + one
	switch {
	case n == 1:
		return s
	case strings.HasSuffix(one, "x"):
		return s + "es"
	}
	return s + "s"
}

// quoted is a word as a person would type it into a shell.
func quoted(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./=:@%+,", r))
	}) < 0
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(printable(s), "'", `'\''`) + "'"
}
