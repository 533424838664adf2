package prompt

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// A layout is text as rows of a terminal, and where its place is in them.
type layout struct {
	width  int
	rows   []row
	row    int // of the place
	column int
}

type row struct {
	text string
	used int // columns
}

// lay lays a text out behind its prompts, for a terminal of some columns.
func lay(prompt, more string, text []rune, pos, columns int) *layout {
	l := &layout{width: max(columns, 8), rows: []row{{}}}
	l.words(prompt)
	for i, r := range text {
		if i == pos {
			l.mark()
		}
		if r == '\n' {
			l.rows = append(l.rows, row{})
			l.words(more)
			continue
		}
		l.put(r)
	}
	if pos >= len(text) {
		l.mark()
	}
	return l
}

func (l *layout) words(s string) {
	for _, r := range s {
		l.put(r)
	}
}

// mark says that the place is here.
func (l *layout) mark() {
	if l.rows[len(l.rows)-1].used >= l.width {
		l.rows = append(l.rows, row{})
	}
	l.row, l.column = len(l.rows)-1, l.rows[len(l.rows)-1].used
}

// put shows a character: what could control the terminal, or hide or reorder what is
// seen, is escaped.
func (l *layout) put(r rune) {
	switch {
	case r == '\t':
		for range 4 {
			l.cell(" ", 1)
		}
	case r < 0x20 || r == 0x7f:
		l.cell("^", 1)
		l.cell(string(r^0x40), 1)
	case combines(r):
		l.rows[len(l.rows)-1].text += string(r)
	case r == ' ' || unicode.IsPrint(r):
		l.cell(string(r), columnsOf(r))
	default:
		for _, c := range strings.Trim(strconv.QuoteRuneToASCII(r), "'") {
			l.cell(string(c), 1)
		}
	}
}

func (l *layout) cell(s string, columns int) {
	if l.rows[len(l.rows)-1].used+columns > l.width {
		l.rows = append(l.rows, row{})
	}
	last := &l.rows[len(l.rows)-1]
	last.text += s
	last.used += columns
}

// combines reports whether a character is shown with the one before it.
func combines(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me) }

// columnsOf is how wide a printable character is.
func columnsOf(r rune) int {
	if r < 0x300 {
		return 1
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// columns is how wide a text is, shown.
func columns(s string) int {
	l := &layout{width: 1 << 30, rows: []row{{}}}
	l.words(s)
	return l.rows[0].used
}

// shown is a text as it can be shown, in at most so many columns.
func shown(s string, limit int) string {
	l := &layout{width: max(limit, 1), rows: []row{{}}}
	for _, r := range s {
		if r == '\n' {
			r = ' '
		}
		if l.put(r); len(l.rows) > 1 {
			break
		}
	}
	return l.rows[0].text
}
