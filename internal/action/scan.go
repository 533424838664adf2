package action

import (
	"strings"
	"sync"
)

// A scanner walks a shell command for placeholders, keeping account of quotes. It reads
// what sh and bash read alike. Where it cannot be sure of how a place is quoted, it fails,
// and then there is no placeholder in the whole command: a value in the wrong kind of
// quotes would be a command.
type scanner struct {
	s      string
	i      int
	holes  []hole
	docs   []heredoc // whose bodies begin after the line
	depth  int       // of substitutions
	nested int       // shells inside shells
	failed bool

	word int // where the word began that i is in; -1: in none
	cmd  simple

	lower     func() string // s in lower case
	templates func() bool   // s holds a template language's code
	special   int           // the last one found that ends literal text between double quotes
}

// A heredoc is a here-document that was announced.
type heredoc struct {
	end  string // the line that ends it
	tabs bool   // leading tabs are stripped
}

// Bounds of what is worth looking at. Beyond them nothing is found.
const (
	maxSubstitutions = 24
	maxShells        = 3
)

// holes finds the placeholders of a command.
func holes(s string) []hole { return holesIn(s, 0) }

func holesIn(s string, nested int) []hole {
	if nested > maxShells || strings.Contains(s, "\x00") { // which no shell can be given
		return nil
	}
	sc := scanner{
		s: s, nested: nested, special: -1,
		lower:     sync.OnceValue(func() string { return strings.ToLower(s) }),
		templates: sync.OnceValue(func() bool { return template.MatchString(s) }),
	}
	sc.command("")
	if sc.failed {
		return nil
	}
	return sc.holes
}

// at reports whether the text goes on with one of these.
func (sc *scanner) at(prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(sc.s[min(sc.i, len(sc.s)):], p) {
			return true
		}
	}
	return false
}

func (sc *scanner) prev() byte {
	if sc.i == 0 {
		return 0
	}
	return sc.s[sc.i-1]
}

// command scans until the end of the text, or past the closing parenthesis.
func (sc *scanner) command(until string) {
	outerWord, outerCmd := sc.word, sc.cmd
	sc.word, sc.cmd = -1, simple{open: true, piped: outerCmd.piped}
	sc.depth++
	if sc.depth > maxSubstitutions {
		sc.failed = true
	}
	for sc.i < len(sc.s) && !sc.failed {
		if sc.at(")") && until != "" {
			break
		}
		sc.step()
	}
	sc.endCommand()
	if until != "" {
		sc.failed = sc.failed || sc.i >= len(sc.s) || len(sc.docs) > 0
		sc.i++
	}
	sc.depth--
	sc.word, sc.cmd = outerWord, outerCmd
}

// step scans one thing outside quotes.
func (sc *scanner) step() {
	switch c := sc.s[sc.i]; {
	case c == '\n':
		sc.endCommand()
		sc.i++
		sc.bodies()
	case c == ' ' || c == '\t':
		sc.endWord()
		sc.i++
	case sc.at("\\\n"):
		sc.joinLines()
	case sc.separator():
		sc.endCommand()
		sc.i++
	case c == '&' || c == '|': // of a redirection
		sc.endWord()
		sc.i++
	case sc.at("((") && !sc.cmd.bracket:
		sc.endWord()
		sc.i++
		sc.arithmetic()
	case c == '(' && sc.cmd.bracket: // a part of a comparison
		sc.failed = sc.depth > 1
		sc.endWord()
		sc.i++
	case c == '(':
		// ?(a) is a pattern to some shells and a mistake to others.
		sc.failed = sc.i > 0 && strings.IndexByte("?*+@!", sc.prev()) >= 0
		sc.endWord()
		sc.i++
		sc.command(")")
	case c == '#' && sc.word < 0:
		sc.skipTo("\n")
	case c == '<' || c == '>':
		sc.redirection()
	default:
		sc.inWord()
	}
}

// joinLines skips a line's end that does not count. Where it stands within what a shell
// reads as one, such as $ and a name, everything after it could mean something else.
func (sc *scanner) joinLines() {
	switch sc.prev() {
	case 0, ' ', '\t', '\n':
	default:
		sc.failed = true
	}
	sc.i += 2
}

// separator reports whether a simple command ends here.
func (sc *scanner) separator() bool {
	switch sc.s[sc.i] {
	case ';', ')':
		return true
	case '|':
		return sc.prev() != '>'
	case '&':
		return sc.prev() != '>' && sc.prev() != '<' && !sc.at("&>")
	}
	return false
}

// inWord scans a piece of a word.
func (sc *scanner) inWord() {
	start := sc.i
	if sc.word < 0 {
		sc.word = sc.i
	}
	switch c := sc.s[sc.i]; {
	case c == '\\':
		sc.i = min(sc.i+2, len(sc.s))
	case c == '\'':
		sc.single(start)
	case c == '"':
		sc.i++
		sc.double(start)
	case c == '`':
		sc.backquotes()
	case c == '$':
		sc.dollar(false)
	case c == '{' && sc.hole():
	default:
		sc.i++
	}
}

// redirection scans what begins with < or >, which may be a placeholder.
func (sc *scanner) redirection() {
	switch {
	case sc.at("<(", ">("):
		if sc.word < 0 {
			sc.word = sc.i
		}
		sc.i += 2
		sc.command(")")
	case sc.at("<<<"):
		sc.endWord()
		sc.i += 3
		sc.cmd.target, sc.cmd.here = true, true
	case sc.at("<<"):
		sc.endWord()
		sc.i += 2
		sc.heredoc()
	case sc.hole():
	default:
		if sc.word >= 0 && strings.Trim(sc.s[sc.word:sc.i], "0123456789") == "" {
			sc.word = -1 // a descriptor
		}
		sc.endWord()
		sc.i++
		sc.cmd.target = true
	}
}

// single scans 'text'.
func (sc *scanner) single(start int) {
	sc.i++
	from := sc.i
	if !sc.skipTo("'") {
		sc.failed = true
		return
	}
	to := sc.i
	sc.i++
	sc.noBodyInside(from, to)
	switch sc.cmd.quotes() {
	case asText:
		sc.quoted(from, to, func(v string) string { return inSingle(v) })
	case asScript:
		sc.script(start, from, to, inSingle)
	}
}

// double scans "text", from behind the first quote.
func (sc *scanner) double(start int) {
	from := sc.i
	use := sc.cmd.quotes()
	literal := true
	for sc.i < len(sc.s) && !sc.failed {
		switch c := sc.s[sc.i]; {
		case c == '"':
			to := sc.i
			sc.i++
			sc.noBodyInside(from, to)
			if use == asScript && literal {
				sc.script(start, from, to, inDouble)
			}
			return
		case sc.at("\\\n"):
			sc.joinLines()
			literal = false
		case c == '\\':
			sc.i += 2
			literal = false
		case c == '`':
			sc.backquotes()
			literal = false
		case c == '$':
			sc.dollar(true)
			literal = false
		case use == asText && (c == '<' || c == '{') && sc.holeIn(from, sc.closing(), inDouble):
		default:
			sc.i++
		}
	}
	sc.failed = true
}

// closing is where double quotes end if nothing in them is special; else the text's end.
func (sc *scanner) closing() int {
	if sc.special < sc.i { // a long text full of < is not searched to its end for each
		n := strings.IndexAny(sc.s[sc.i:], "\"\\$`")
		if n < 0 {
			n = len(sc.s)
		}
		sc.special = sc.i + n
	}
	if sc.special < len(sc.s) && sc.s[sc.special] == '"' {
		return sc.special
	}
	return len(sc.s)
}

// quoted looks for placeholders in literal text between quotes.
func (sc *scanner) quoted(from, to int, quote func(string) string) {
	after := sc.i
	for sc.i = from; sc.i < to; {
		if c := sc.s[sc.i]; (c == '<' || c == '{') && sc.holeIn(from, to, quote) {
			continue
		}
		sc.i++
	}
	sc.i = after
}

// script looks for placeholders in text that another shell reads, provided that the text is
// a word of its own: of a part nobody knows how it is quoted there.
func (sc *scanner) script(start, from, to int, quote func(string) string) {
	if sc.word != start || !sc.boundary() {
		return
	}
	for _, h := range holesIn(sc.s[from:to], sc.nested+1) {
		inner := h.quote
		h.quote = func(v string) string { return quote(inner(v)) }
		h.start += from
		h.end += from
		sc.holes = append(sc.holes, h)
	}
	sc.cmd.whole = true
}

// boundary reports whether no word goes on here.
func (sc *scanner) boundary() bool {
	return sc.i >= len(sc.s) || strings.IndexByte(" \t\n;|&()<>", sc.s[sc.i]) >= 0
}

// noBodyInside fails where a line ends between quotes while a here-document waits: shells
// differ on where its body begins.
func (sc *scanner) noBodyInside(from, to int) {
	if len(sc.docs) > 0 && strings.Contains(sc.s[from:to], "\n") {
		sc.failed = true
	}
}

// skipTo goes to the next of a text, or to the end.
func (sc *scanner) skipTo(text string) bool {
	n := strings.Index(sc.s[min(sc.i, len(sc.s)):], text)
	if n < 0 {
		sc.i = len(sc.s)
		return false
	}
	sc.i += n
	return true
}
