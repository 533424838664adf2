package material

import (
	"strings"
)

// A variable is an assignment in an .env file.
type variable struct {
	name  string
	value string // as written between its quotes, or up to a comment
	whole string // all behind the sign up to the line's end, comment included
	quote byte   // 0 where there is none
}

// envLines goes through an .env file as the common readers take it: NAME=value lines, with
// export before them or not, quoted values over several lines, comments. each is called with
// what stands before a value, the assignment, and what ends it; a line that is none comes
// with v nil, in before. All together are the text.
func envLines(text string, each func(before string, v *variable, end string)) {
	for len(text) > 0 {
		line, rest := cutLine(text)
		name, at, ok := assignmentIn(line)
		if !ok {
			each(line, nil, "")
			text = rest
			continue
		}
		v, n := valueAt(text[at:])
		v.name = name
		end := at + n
		stop := end
		for stop < len(text) && (text[stop] == '\r' || text[stop] == '\n') {
			stop++
			if text[stop-1] == '\n' {
				break
			}
		}
		each(text[:at], v, text[end:stop])
		text = text[stop:]
	}
}

func cutLine(text string) (line, rest string) {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text, ""
}

// assignmentIn finds NAME= or NAME: at a line's beginning, in a comment too: what was
// switched off may still be secret. at is where the value begins.
func assignmentIn(line string) (name string, at int, ok bool) {
	i := skip(line, 0, " \t\ufeff#;")
	for _, word := range []string{"export", "set", "declare", "-x", "local", "setenv"} {
		if rest, found := strings.CutPrefix(line[i:], word); found && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
			i = skip(line, i+len(word), " \t")
		}
	}
	from := i
	for i < len(line) && nameChar(line[i]) {
		i++
	}
	name = line[from:i]
	i = skip(line, i, " \t")
	if name == "" || i >= len(line) || line[i] != '=' && line[i] != ':' {
		return "", 0, false
	}
	if i++; line[i-1] == ':' && i < len(line) && line[i] == '=' {
		i++
	}
	return name, skip(line, i, " \t"), true
}

func skip(s string, i int, of string) int {
	for i < len(s) && strings.IndexByte(of, s[i]) >= 0 {
		i++
	}
	return i
}

func nameChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-'
}

// maxQuoted is how long a value over several lines may be: a key.
const maxQuoted = 64 << 10

// valueAt reads the value that text begins with, and gives its length up to its last line's
// end.
func valueAt(text string) (*variable, int) {
	line, _ := cutLine(text)
	line = strings.TrimRight(line, "\r\n")
	if line != "" && strings.IndexByte("\"'`", line[0]) >= 0 {
		if inner, closed := quotedIn(text[:min(len(text), maxQuoted)], line[0]); closed {
			end := len(inner) + 2
			rest, _ := cutLine(text[end:])
			end += len(strings.TrimRight(rest, "\r\n"))
			return &variable{value: inner, whole: text[:end], quote: line[0]}, end
		}
	}
	value := line
	for i := 1; i < len(value); i++ {
		if value[i] == '#' && (value[i-1] == ' ' || value[i-1] == '\t') {
			value = value[:i]
			break
		}
	}
	if strings.HasPrefix(value, "#") {
		value = ""
	}
	return &variable{value: strings.TrimRight(value, " \t"), whole: line}, len(line)
}

// quotedIn is what stands between the quote that text begins with and the one that closes it.
func quotedIn(text string, mark byte) (inner string, closed bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && mark != '\'':
			i++
		case text[i] == mark:
			return text[1:i], true
		}
	}
	return "", false
}

// values are the forms in which the value may be met elsewhere: as it is written, and as it
// is read.
func (v *variable) values() []string {
	out := []string{v.value}
	if v.quote == '"' || v.quote == '`' {
		if read := unescaped(v.value); read != v.value {
			out = append(out, read)
		}
	}
	if whole := strings.TrimSpace(v.whole); v.quote == 0 && whole != v.value {
		out = append(out, whole) // some readers know no comments behind a value
	}
	return out
}

var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`")

func unescaped(s string) string { return escapes.Replace(s) }

const envMark = "[redacted:env]"

// redactEnv takes every value out of an .env file, whatever it is. Names stay, and comments
// without assignments; what is neither is taken for the rest of a value.
func redactEnv(text string, clean func(string) string) string {
	var b strings.Builder
	envLines(text, func(before string, v *variable, end string) {
		switch {
		case v == nil:
			b.WriteString(otherLine(before, clean))
		case v.whole == "" || v.whole == envMark:
			b.WriteString(before + v.whole + end)
		default:
			b.WriteString(before + envMark + end)
		}
	})
	return b.String()
}

// otherLine is a line without an assignment.
func otherLine(line string, clean func(string) string) string {
	body := strings.TrimRight(line, "\r\n")
	end := line[len(body):]
	switch trimmed := strings.TrimLeft(body, " \t\ufeff"); {
	case trimmed == "" || trimmed == envMark:
		return line
	case trimmed[0] == '#':
		return clean(body) + end
	}
	return envMark + end
}
