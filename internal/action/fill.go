package action

import "strings"

// Placeholders lists what a person must fill in before a command can run, such as <PID>,
// <file name>, <YOUR_TOKEN> and {{name}}, each once, as it is written, in order. What
// the shell itself reads as something else, a redirection above all, is none, nor is what
// a program makes of quoted text: markup, generics, patterns, templates. In comments and
// here-documents, and where it cannot be told how a value would have to be quoted, there
// are none.
func Placeholders(command string) []string {
	var names []string
	seen := make(map[string]bool)
	for _, h := range holes(command) {
		if !seen[h.name] {
			seen[h.name] = true
			names = append(names, h.name)
		}
	}
	return names
}

// Fill puts values, by what Placeholders calls them, into a command. Each becomes exactly
// one shell word, or a part of the one it stands in, whatever it holds: it is quoted as
// its place asks for, and a second time where the words are handed to a second shell, as
// by sh -c and ssh. NUL, which no word can hold, is left out. A placeholder without a
// value stays.
func Fill(command string, values map[string]string) string {
	var b strings.Builder
	done := 0
	for _, h := range holes(command) {
		value, ok := values[h.name]
		if !ok {
			continue
		}
		b.WriteString(command[done:h.start])
		b.WriteString(h.quote(strings.ReplaceAll(value, "\x00", "")))
		done = h.end
	}
	b.WriteString(command[done:])
	return b.String()
}

// A hole is a placeholder's place in a command.
type hole struct {
	name       string
	start, end int
	quote      func(value string) string // for this place
}

// bareWord makes one word of a value outside quotes. What can stand as it is does, unless
// the shell would take the word, because of what follows, for something else: 2 before > is
// a descriptor, a before = a variable.
func bareWord(next string) func(string) string {
	next = strings.TrimLeftFunc(next, func(r rune) bool { return r == '}' || r < 0x80 && isWordByte(byte(r)) })
	special := next != "" && strings.IndexByte("<>(=+[", next[0]) >= 0
	return func(value string) string {
		if plainWord(value) && !special {
			return value
		}
		return "'" + inSingle(value) + "'"
	}
}

// twiceBare is bareWord for words that are joined and read by a second shell.
func twiceBare(value string) string {
	if plainWord(value) {
		return "'" + value + "'" // no word of the first shell's grammar, and plain for the second
	}
	return "'" + inSingle("'"+inSingle(value)+"'") + "'"
}

// inSingle is text as it stands between single quotes.
func inSingle(s string) string { return strings.ReplaceAll(s, "'", `'\''`) }

// inDouble is text as it stands between double quotes.
func inDouble(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s)
}

// plainWord reports whether a value is a word to every shell without quotes, and one that
// is no keyword.
func plainWord(s string) bool {
	if s == "" || keywords[s] {
		return false
	}
	for _, c := range []byte(s) {
		if !isWordByte(c) && !strings.ContainsRune("./:@%-", rune(c)) {
			return false
		}
	}
	return true
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
