package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON redacts the texts in a JSON value, the names of its members among them: what Text
// finds in each of them, what stands below a member with a name such as password, and what
// follows an option such as --password in a list. The result is valid JSON, and the same as
// before but for what was redacted. What is not valid JSON becomes one string.
func JSON(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return encode(Text(valid(string(raw))))
	}
	w := walker{in: raw}
	w.value("")
	if w.done == 0 {
		return raw
	}
	return append(w.out, raw[w.done:]...)
}

// A walker goes through valid JSON.
type walker struct {
	in   []byte
	i    int
	out  []byte
	done int // what of in stands in out, redacted; 0 while nothing was
}

// replace puts text, as a JSON string, in the place of what stands from i to where the
// walker is.
func (w *walker) replace(i int, text string) {
	w.out = append(append(w.out, w.in[w.done:i]...), encode(text)...)
	w.done = w.i
}

// next passes blanks and gives the byte that follows.
func (w *walker) next() byte {
	for w.i < len(w.in) {
		switch c := w.in[w.i]; c {
		case ' ', '\t', '\n', '\r':
			w.i++
		default:
			return c
		}
	}
	return 0
}

// value passes a value, which stands below a name of that rule's.
func (w *walker) value(below string) {
	switch w.next() {
	case '{':
		w.object(below)
	case '[':
		w.list(below)
	case '"':
		w.text(below, "")
	default:
		from := w.i
		for w.i < len(w.in) && strings.IndexByte(",]} \t\r\n", w.in[w.i]) < 0 {
			w.i++
		}
		if c := w.in[from]; below == "password" && '0' <= c && c <= '9' && w.i-from >= 4 {
			w.replace(from, mark(below)) // fewer digits count something
		}
	}
}

func (w *walker) object(below string) {
	w.i++ // {
	for w.next() != '}' {
		name := w.text("", "")
		w.next()
		w.i++ // :
		rule := nameRule(name)
		if rule == "" {
			rule = below
		}
		w.value(rule)
		if w.next() == ',' {
			w.i++
		}
	}
	w.i++
}

func (w *walker) list(below string) {
	w.i++ // [
	option, before := "", ""
	for c := w.next(); c != ']'; c = w.next() {
		rule := below
		if option != "" {
			rule = option
		}
		option = ""
		if c == '"' {
			text := w.text(rule, before)
			before = ahead(before, text)
			if strings.HasPrefix(text, "-") {
				option = nameRule(strings.TrimLeft(text, "-"))
			}
		} else {
			before = ""
			w.value(below)
		}
		if w.next() == ',' {
			w.i++
		}
	}
	w.i++
}

// ahead is what stands before the next word of a list that is a command, if that may be an
// option's value: the last two words.
func ahead(before, word string) string {
	if word == "" {
		return before // a hundred thousand of them would be as many blanks
	}
	if len(word) > 64 || strings.ContainsAny(word, " \t\r\n") {
		return ""
	}
	if i := strings.LastIndexByte(strings.TrimRight(before, " "), ' '); i >= 0 {
		before = before[i+1:]
	}
	return before + word + " "
}

// text passes a string, redacts it, and gives what it was. before is what stands before it in
// a command.
func (w *walker) text(below, before string) string {
	from := w.i
	escaped := false
	for w.i++; w.in[w.i] != '"'; w.i++ {
		if w.in[w.i] == '\\' {
			escaped = true
			w.i++
		}
	}
	w.i++
	text := string(w.in[from+1 : w.i-1])
	if escaped && json.Unmarshal(w.in[from:w.i], &text) != nil {
		text = string(w.in[from+1 : w.i-1])
	}
	text = valid(text)
	switch {
	case below != "" && !harmless(text):
		w.replace(from, mark(below))
	case below == "":
		clean := Text(text)
		if clean == text && strings.Contains(before, "-") {
			if after, ok := strings.CutPrefix(Text(before+text), before); ok {
				clean = after
			}
		}
		if clean != text {
			w.replace(from, clean)
		}
	}
	return text
}

// nameRule is the rule of which a name says that what it names is secret; "" where it
// does not. What the name is once it is redacted counts as well: that is all that is seen
// of it the next time.
func nameRule(name string) string {
	if rule := wordRule(unmarked(name)); rule != "" {
		return rule
	}
	if clean := Text(name); clean != name {
		return wordRule(unmarked(clean))
	}
	return ""
}

// unmarked blanks what stands in the place of secrets: [redacted:password] is no password's
// name.
func unmarked(name string) string {
	for {
		i := strings.Index(name, markStart)
		if i < 0 {
			return name
		}
		rest := name[i+len(markStart):]
		if end := strings.IndexByte(rest, ']'); end >= 0 {
			rest = rest[end+1:]
		}
		name = name[:i] + " " + rest
	}
}

func wordRule(name string) string {
	low := lower(name)
	switch low {
	case "authorization", "proxy-authorization":
		return "authorization"
	case "cookie", "set-cookie":
		return "cookie"
	case "pass", "pin":
		return "password"
	}
	if len(name) > lookBack {
		return ""
	}
	for _, r := range namingRules {
		for _, word := range r.words {
			i := strings.LastIndex(low, word)
			if i < 0 {
				continue
			}
			if end := i + len(word); sensitive(name[:i], name[i:end], name[end:]) {
				return r.id
			}
		}
	}
	return ""
}

var namingRules = []struct {
	id    string
	words []string
}{{"password", passwordWords}, {"secret", secretWords}}

// valid replaces what is not UTF-8, as every encoder of JSON does, before it is looked at.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// encode is s as a JSON string.
func encode(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return []byte(`""`) // a string can always be encoded
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Name reports whether a name, such as a variable's, says that what it names is secret.
func Name(name string) bool { return nameRule(name) != "" }
