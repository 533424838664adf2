package gate

import (
	"errors"
	"path"
	"slices"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/tool"
)

// A tri is whether a condition holds.
type tri int

const (
	no    tri = iota
	maybe     // it cannot be told: a word is not known
	yes
)

// maxShown is how much of a text from outside a verdict repeats.
const maxShown = 2000

// show makes text from outside fit for a person: printable, on one line, not endless.
func show(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + " …"
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return changes.Printable(s)
		}
	}
	return s
}

const numRisks = 9

// A riskSet is a set of indices into tool.Risks.
type riskSet uint16

func (s riskSet) has(i int) bool { return s>>i&1 == 1 }

// mustBeNamed are the risks that an allow rule covers only where it names them, and that
// no default allows.
var mustBeNamed = riskSet(1<<riskIndex(tool.RiskUnknown) | 1<<riskIndex(tool.RiskPrivileged) | 1<<riskIndex(tool.RiskDestructive))

// riskIndex is a risk's place in the order of severity; what is not a risk is unknown.
func riskIndex(r tool.Risk) int {
	if i := slices.Index(tool.Risks, r); i >= 0 {
		return i
	}
	return slices.Index(tool.Risks, tool.RiskUnknown)
}

// worse is the more severe of two risks.
func worse(a, b tool.Risk) tool.Risk { return tool.Risks[max(riskIndex(a), riskIndex(b))] }

// A glob is a word in which * stands for any characters and ? for one.
type glob string

func globs(words []string) []glob {
	out := make([]glob, 0, len(words))
	for _, w := range words {
		out = append(out, glob(w))
	}
	return out
}

func (g glob) literal() bool { return !strings.ContainsAny(string(g), "*?") }

// matches takes time in proportion to the product of the lengths at worst.
func (g glob) matches(s string) bool {
	p := string(g)
	star, mark, i, j := -1, 0, 0, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(p[i:], "*") == ""
}

func anyGlob(globs []glob, s string) bool {
	return slices.ContainsFunc(globs, func(g glob) bool { return g.matches(s) })
}

// A program is a rule's program: a name, or an absolute path.
type program struct {
	name glob   // of the file
	path string // "" where any folder will do
}

func parseProgram(s string) (program, error) {
	if !strings.Contains(s, "/") {
		return program{name: glob(s)}, nil
	}
	if !path.IsAbs(s) || path.Clean(s) != s {
		return program{}, errors.New("write a name, or an absolute path, with no . or .. in it")
	}
	return program{name: glob(path.Base(s)), path: s}, nil
}

// matches compares with a command word: base is its last component.
func (p program) matches(word, base string) tri {
	switch {
	case !p.name.matches(base):
		return no
	case p.path == "" || glob(p.path).matches(word):
		return yes
	case word == base:
		return maybe // the search path decides
	}
	return no
}

// trusted are the folders of programs that a bare name in an allow rule may stand for
// where the line gives a path.
var trusted = []string{"/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/"}

// certainly reports whether a command word is the program that an allow rule names.
func (p program) certainly(word, base string) bool {
	if p.matches(word, base) != yes {
		return false
	}
	return p.path != "" || word == base || slices.Contains(trusted, strings.TrimSuffix(word, base))
}

// An argument is one element of a rule's args: alternatives between bars.
type argument struct {
	alts   []glob
	option bool // an alternative begins with a dash: it may stand anywhere
}

func parseArgument(s string) argument {
	a := argument{}
	for alt := range strings.SplitSeq(s, "|") {
		a.alts = append(a.alts, glob(alt))
		if len(alt) > 1 && alt[0] == '-' && alt != "--" {
			a.option = true
		}
	}
	return a
}

// A word is one argument of a command.
type word struct {
	value string
	known bool // it is what the program is given; otherwise it may be any number of words
}

// mayMatch reports whether args would be found by elements of a rule that denies or asks:
// each option anywhere, bundled, joined with its value or shortened; the other words in
// their order, whatever stands between them.
func mayMatch(elements []argument, args []word) tri {
	result, from := yes, 0
	open := slices.ContainsFunc(args, func(w word) bool { return !w.known })
	for _, e := range elements {
		found := no
		if e.option {
			found = e.among(args)
		} else {
			for i := from; i < len(args); i++ {
				if args[i].known && anyGlob(e.alts, args[i].value) {
					found, from = yes, i+1
					break
				}
			}
		}
		if found == no && open {
			found = maybe
		}
		if result = min(result, found); result == no {
			return no
		}
	}
	return result
}

// among looks for an option among args.
func (e argument) among(args []word) tri {
	best := no
	for _, alt := range e.alts {
		if letters := alt.bundle(); letters != "" && bundled(letters, args) {
			return yes
		}
		for _, a := range args {
			if !a.known {
				continue
			}
			name, _, joined := strings.Cut(a.value, "=")
			switch {
			case alt.matches(a.value), joined && alt.matches(name):
				return yes
			case strings.HasPrefix(name, "--") && len(name) > 3 && strings.HasPrefix(string(alt), name):
				best = maybe // many programs take the beginning of an option for it
			}
		}
	}
	return best
}

// bundle gives the letters of an option that can stand among others behind one dash.
func (g glob) bundle() string {
	s := string(g)
	if len(s) < 2 || len(s) > 4 || s[0] != '-' || s[1] == '-' || !g.literal() {
		return ""
	}
	return s[1:]
}

// bundled reports whether each of letters is in some word with a single dash.
func bundled(letters string, args []word) bool {
	for i := range len(letters) {
		if !slices.ContainsFunc(args, func(w word) bool {
			return w.known && len(w.value) > 1 && w.value[0] == '-' && w.value[1] != '-' && strings.IndexByte(w.value, letters[i]) > 0
		}) {
			return false
		}
	}
	return true
}

// certainlyMatch reports whether args are what an allow rule says: the first operands in
// their order, and every option as it is written, before a --. operands are what is no
// option nor an option's value, where that is known; otherwise every word without a dash
// is one.
func certainlyMatch(elements []argument, args, operands []word) bool {
	var before []word // what stands before a --
	for i, a := range args {
		if !a.known {
			return false
		}
		if a.value == "--" {
			if operands == nil {
				operands = append(plain(before), args[i+1:]...)
			}
			break
		}
		before = append(before, a)
	}
	if operands == nil {
		operands = plain(before)
	}
	n := 0
	for _, e := range elements {
		if e.option {
			if !slices.ContainsFunc(before, func(w word) bool { return anyGlob(e.alts, w.value) }) {
				return false
			}
			continue
		}
		if n >= len(operands) || !operands[n].known || !anyGlob(e.alts, operands[n].value) {
			return false
		}
		n++
	}
	return true
}

// plain are the words that are no options.
func plain(args []word) []word {
	out := []word{}
	for _, a := range args {
		if len(a.value) < 2 || a.value[0] != '-' {
			out = append(out, a)
		}
	}
	return out
}

// hostName is a host as rules compare it: without port, in small letters.
func hostName(s string) string {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if host, port, ok := strings.Cut(s, ":"); ok && strings.Trim(port, "0123456789") == "" {
		s = strings.TrimSuffix(host, ".")
	}
	return s
}
