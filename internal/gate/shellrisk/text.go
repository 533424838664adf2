package shellrisk

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// printable escapes what would not show, or would show as something else.
func printable(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// invisible names the first character of a line that does not show; "" where there is none.
func invisible(s string) string {
	for i, r := range s {
		switch {
		case r >= ' ' && r < 0x7f || r == '\n' || r == '\t':
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return fmt.Sprintf("the byte %#02x", s[i])
			}
		case !unicode.IsGraphic(r) || unicode.IsSpace(r):
			return fmt.Sprintf("the character %U", r)
		}
	}
	return ""
}

// lookalike names the first character of a command's name that is not plain ASCII.
func lookalike(s string) string {
	for _, r := range s {
		if r <= ' ' || r >= 0x7f {
			return fmt.Sprintf("the character %U", r)
		}
	}
	return ""
}

// describe fills in the part's words and text.
func (w *walker) describe(p *Part, args []field) {
	p.Argv = make([]Word, len(args))
	n := len(p.Text) + 1
	for i := range args {
		p.Argv[i] = args[i].Word
		n += len(args[i].Value) + 3
	}
	redirs := p.Text
	b := make([]byte, 0, n)
	for _, wrapper := range p.Wrappers {
		b = append(append(b, wrapper...), ' ')
	}
	for i := range args {
		if i > 0 {
			b = append(b, ' ')
		}
		if args[i].Known {
			b = appendQuoted(b, args[i].Value)
		} else {
			b = append(b, args[i].Value...)
		}
	}
	if redirs != "" {
		b = append(append(b, ' '), redirs...)
	}
	p.Text = printable(string(b))
}

// appendQuoted quotes a literal word where it needs that.
func appendQuoted(b []byte, s string) []byte {
	plain := s != ""
	for i := 0; i < len(s) && plain; i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_./=:,+@%^", c) >= 0
	}
	if plain {
		return append(b, s...)
	}
	b = append(b, '\'')
	b = append(b, strings.ReplaceAll(s, "'", `'\''`)...)
	return append(b, '\'')
}

// redirText is what the line says of its redirections, without here-documents' text.
func (w *walker) redirText(redirs []*syntax.Redirect) string {
	var b strings.Builder
	for _, r := range redirs {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if r.N != nil {
			b.WriteString(r.N.Value)
		}
		b.WriteString(r.Op.String())
		if r.Word != nil {
			b.WriteString(w.source(r.Word))
		}
	}
	return printable(b.String())
}
