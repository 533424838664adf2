package redact

import "strings"

// A cursor reads on from a word. Where it is asked for a byte that is not there yet, it
// says that there is none and remembers it: what was concluded from that is undecided.
type cursor struct {
	v     view
	i     int
	short bool
	far   int // the last byte that was looked at
}

// peek is the next byte, 0 at the end.
func (c *cursor) peek() byte { return c.ahead(0) }

func (c *cursor) ahead(n int) byte {
	if c.v.open(c.i + n) {
		c.short = true
	}
	c.far = max(c.far, c.i+n)
	return c.v.at(c.i + n)
}

// skip passes at most n bytes of a set.
func (c *cursor) skip(n int, of *alphabet) string {
	from := c.i
	for c.i-from < n && of[c.peek()] {
		c.i++
	}
	return c.v.text[from:c.i]
}

// take passes one byte if it is that one.
func (c *cursor) take(b byte) bool {
	if c.peek() != b || b == 0 {
		return false
	}
	c.i++
	return true
}

// until passes at most n bytes, up to the first one of a set or the text's end.
func (c *cursor) until(n int, stop *alphabet) string {
	from := c.i
	for c.i-from < n {
		if b := c.peek(); stop[b] || b == 0 && c.i >= len(c.v.text) {
			break
		}
		c.i++
	}
	return c.v.text[from:c.i]
}

// settle is the answer, unless it hangs on what is not there yet.
func (c *cursor) settle(found span) span {
	if c.short {
		return undecided
	}
	found.reach = c.far + 1
	return found
}

// Sets that rules read by.
var (
	blank     = letters("  \t\t")
	space     = letters("  \t\t\r\r\n\n")
	keyChars  = letters("azAZ09__--..")
	lineEnd   = letters("\r\r\n\n")
	quoteEnd  = letters("\r\r\n\n\"\"''``")
	valueEnd  = letters("  \t\t\r\r\n\n\"\"''``;;<<>>||")
	queryEnd  = letters("  \t\t\r\r\n\n\"\"''``;;&&##<<>>")
	tagEnd    = letters("<<\r\r\n\n")
	authority = letters("  \t\t\r\r\n\n\"\"''``//<<>>\\\\")
)

// longest is how long a value may be, in bytes.
const longest = 16 << 10

// quote passes an opening quote, which in a text within a text has backslashes before it,
// and says how many; ok is false where there is none.
func (c *cursor) quote() (mark byte, slashes int, ok bool) {
	for slashes < 8 && c.ahead(slashes) == '\\' {
		slashes++
	}
	switch mark = c.ahead(slashes); mark {
	case '"', '\'', '`':
		c.i += slashes + 1
		return mark, slashes, true
	}
	return 0, 0, false
}

// quoted passes what stands up to the closing quote, or to the line's end.
func (c *cursor) quoted(mark byte, slashes int) string {
	from, before := c.i, 0
	for c.i-from < longest {
		b := c.peek()
		switch {
		case b == '\n' || b == 0 && c.i >= len(c.v.text):
			return c.v.text[from:c.i]
		case b == mark && (before <= slashes && slashes > 0 || slashes == 0 && before%2 == 0):
			return c.v.text[from:max(from, c.i-min(before, slashes))]
		case b == '\\':
			before++
		default:
			before = 0
		}
		c.i++
	}
	return c.v.text[from:c.i]
}

// harmless reports whether a value is not the secret itself: a placeholder, a reference
// to a variable, a word that says that there is none, or what was redacted before.
func harmless(value string) bool {
	value = strings.Trim(value, " \t\\")
	switch {
	case value == "" || strings.Trim(value, "*xX.•-_?") == "":
		return true
	case isMark(value):
		return true
	case value[0] == '$' || value[0] == '%' || value[0] == '<' || strings.HasPrefix(value, "{{"):
		return true
	}
	return emptyWords[lower(strings.TrimRight(value, ",;)}]"))]
}

// isMark reports whether a value begins with what stands in a secret's place; of the rest,
// a rule that has been there did not think it secret.
func isMark(value string) bool {
	rest, ok := strings.CutPrefix(value, markStart)
	name, _, _ := strings.Cut(rest, "]") // which may have been trimmed from it
	return ok && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// emptyWords are values that say that there is no secret, or of which type one is.
var emptyWords = wordSet("true false yes no on off none null nil undefined empty required optional invalid missing unset " +
	"string str text varchar char bytes byte int integer number bool boolean any object void unknown never " +
	"read write password passwd secret token changeme redacted hidden masked")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// digits reports whether a value is a number.
func digits(value string) bool {
	return value != "" && strings.Trim(value, "0123456789") == ""
}
