package action

import (
	"regexp"
	"strings"
)

var (
	// angled is <PID>, <file name>, <your-token>; pathlike is <path/to/file>, <your.domain>.
	angled   = regexp.MustCompile(`^<([A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+)*)>`)
	pathlike = regexp.MustCompile(`^<((?i:path/to|your)[A-Za-z0-9]*(?:[ _./-][A-Za-z0-9]+)*)>`)
	// braced is {{name}}.
	braced = regexp.MustCompile(`^\{\{ ?([A-Za-z_][A-Za-z0-9_-]*) ?\}\}`)
	// template is what only a template language has between double braces.
	template = regexp.MustCompile(`\{\{-? *(?:[^}\w ]|(?:end|else|if|range|with|json|block|define|template)\b)|\b(?:ansible|jinja|helm)`)
	// redirected is what makes the word before it a redirection's end: >&2, >/dev/null.
	redirected = regexp.MustCompile(`^(?:&[0-9-]|/dev/)`)
	// descriptor ends "in 2" of <in 2>log.
	descriptor = regexp.MustCompile(` [0-9]+$`)
)

// maxName bounds a placeholder.
const maxName = 64

// inputs are names that, behind < and before > and something more, are files: cat <in> out.
var inputs = set("in input infile stdin readme license copying changelog makefile dockerfile notice")

// reserved are names between < and > that mean something to a program.
var reserved = set("STDIN STDOUT STDERR ARGV DATA")

// markup are elements' names: in quotes, what begins with one is markup.
var markup = set(`a abbr address article aside audio b base bdi bdo big blockquote body br button canvas caption
	center cite code col colgroup dd del details dfn dialog div dl dt em embed fieldset figcaption figure font
	footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend
	li link main map mark menu meta nav noscript object ol optgroup option output p param picture pre progress q
	rp rt ruby s samp script section select slot small span strike strong style sub summary sup svg table tbody td
	textarea tfoot th thead time title tr track tt u ul var video wbr xml`)

// nouns are what, alone between quotes and < and >, is for a person to say.
var nouns = set("message pid pattern password passphrase filename username hostname namespace commit")

// hole takes the placeholder that begins here outside quotes, if one does.
func (sc *scanner) hole() bool {
	name, full := sc.match()
	if full == "" || (full[0] == '<' && !bareAngle(name, sc.prev(), sc.s[sc.i+len(full):])) {
		return false
	}
	start, end := sc.i, sc.i+len(full)
	c := &sc.cmd
	alone := sc.word < 0 || sc.word == start
	if sc.word < 0 {
		sc.word = start
	}
	sc.i = end
	quote := bareWord(sc.s[end:])
	switch {
	case c.here && c.program != anyProgram, c.program == assigner, subscript.MatchString(sc.s[sc.word:start]):
		return true
	case c.target:
	case c.program == joiner:
		quote = twiceBare
	case (c.program == filter || c.program == shell && c.script) && (!alone || !sc.boundary()):
		return true // a part of a program
	}
	sc.holes = append(sc.holes, hole{full, start, end, quote})
	return true
}

// holeIn takes the placeholder that begins here between quotes, if one does. The quoted
// text goes from one position to the other.
func (sc *scanner) holeIn(from, to int, quote func(string) string) bool {
	name, full := sc.match()
	if full == "" || sc.i+len(full) > to {
		return false
	}
	if sc.word >= 0 && subscript.MatchString(sc.s[sc.word:sc.i]) {
		return false
	}
	whole := sc.i == from && sc.i+len(full) == to
	if full[0] == '<' && !sc.quotedAngle(name, sc.s[from:sc.i], whole) {
		return false
	}
	sc.holes = append(sc.holes, hole{full, sc.i, sc.i + len(full), quote})
	sc.i += len(full)
	return true
}

// match is the text here that has a placeholder's form, and the name in it.
func (sc *scanner) match() (name, full string) {
	rest := sc.s[sc.i:min(len(sc.s), sc.i+maxName+4)]
	switch sc.prev() {
	case '$', '\\', '<', '{': // what was put in would be read with what is before it
		return "", ""
	}
	for _, form := range []*regexp.Regexp{angled, pathlike} {
		if m := form.FindStringSubmatch(rest); m != nil && len(m[1]) <= maxName {
			if descriptor.MatchString(m[1]) || reserved[m[1]] {
				return "", ""
			}
			return m[1], m[0]
		}
	}
	if m := braced.FindStringSubmatch(rest); m != nil && !strings.HasPrefix(sc.s[sc.i+len(m[0]):], "}") && !sc.templates() {
		return m[1], m[0]
	}
	return "", ""
}

// bareAngle reports whether <name> outside quotes is a placeholder, rather than a
// redirection from name and another one to what follows.
func bareAngle(name string, prev byte, rest string) bool {
	if redirected.MatchString(rest) {
		return false
	}
	after := strings.TrimLeft(rest, " \t")
	impossible := after == "" || strings.IndexByte(";|)&\n<", after[0]) >= 0 // > needs a target
	if !impossible && inputs[strings.ToLower(name)] {
		return false
	}
	if strings.ToUpper(name) == name {
		return len(name) > 1 || !isWordByte(prev)
	}
	if isWordByte(prev) && (!impossible || strings.ToLower(name) != name) {
		return false // a<b>c, List<String>
	}
	if impossible {
		return true
	}
	switch rest[0] {
	case ' ', '\t': // who redirects twice writes < in > out or <in >out
		return true
	case '@', ':', '=', ',', '-', '_', '%', '+':
		return true
	case '/', '.':
		return len(name) > 1
	}
	return false
}

// quotedAngle reports whether <name> in quoted text is a placeholder.
func (sc *scanner) quotedAngle(name, before string, whole bool) bool {
	first, _, several := strings.Cut(name, " ")
	if markup[strings.ToLower(first)] || strings.Contains(sc.lower(), "</"+strings.ToLower(name)) {
		return false
	}
	var prev byte
	if before != "" {
		prev = before[len(before)-1]
	}
	lower := strings.ToLower(name)
	if isWordByte(prev) && !strings.Contains(name, "_") {
		return false // List<STRING>
	}
	switch {
	case strings.ToUpper(name) == name:
		return len(name) > 1
	case strings.HasPrefix(lower, "your"), strings.HasPrefix(lower, "path/to"):
		return true
	case strings.Contains(before[strings.LastIndexAny(before, " \t\n")+1:], "://"):
		return true
	}
	// grep -q "<not supported>" looks for what some program writes.
	return whole && (nouns[lower] || several && sc.cmd.program != matcher)
}
