package params

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"airlock/internal/lazyregexp"
)

// A place is where a value stands in the parameters. It is put into words only where it
// has to be told.
type place struct {
	up    *place
	name  string // of an object's member
	index int    // of a list's element; below 0 where it is a member
}

// maxPlace is how long a place in words may get, about.
const maxPlace = 300

var plainName = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)

// String is such as filters.name or items[3].
func (p *place) String() string {
	var parts []string
	for ; p != nil; p = p.up {
		switch {
		case p.index >= 0:
			parts = append(parts, "["+strconv.Itoa(p.index)+"]")
		case !plainName.MatchString(p.name) && p.up != nil:
			parts = append(parts, "["+quote(p.name)+"]")
		case !plainName.MatchString(p.name):
			parts = append(parts, quote(p.name))
		case p.up != nil:
			parts = append(parts, "."+p.name)
		default:
			parts = append(parts, p.name)
		}
	}
	b := strings.Builder{}
	for i := len(parts) - 1; i >= 0 && b.Len() < maxPlace; i-- {
		b.WriteString(parts[i])
	}
	return b.String()
}

// kindWord names a JSON value's type.
func kindWord(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "an object"
}

// quote shows text from outside: cut, with what is not ASCII's printable part escaped.
func quote(s string) string { return strconv.QuoteToASCII(clip(s)) }

// clip cuts text to about 80 bytes, between two characters.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
