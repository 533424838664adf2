package shellrisk

import (
	"embed"
	"fmt"
	"strings"
	"sync"
)

// The tables. tables/README.md has their grammar.
//
//go:embed tables/*.risk
var tableFiles embed.FS

// A program is what a table says of a program, or of a sub-command of one.
type program struct {
	name     string
	parent   *program
	risk     Risk   // of every use, unless an option says that it only looks
	why      string // in place of the one made of the risk
	given    Risk   // of a use with operands
	uses     []use  // of the operands by position; the last repeats
	needs    []string
	do       string // the handler
	skip     int    // operands before the command, of a wrapper
	strict   bool   // an option that is not listed is Unknown
	longDash bool   // -name is one option, not a bundle
	posix    bool   // options end at the first operand
	loose    bool   // a word that is not known is no option
	prints   output // what it prints
	filter   int    // it prints lines of what it reads where it has so many operands; -1: it does not
	inherit  bool   // its sub-commands have its options too
	remote   bool   // a wrapper's command runs elsewhere
	eq       Risk   // of a use with an operand that holds a =
	bare     bool   // its risk is not that of a use without operands
	exact    bool   // it knows no abbreviated options
	joined   bool   // a wrapper's words are joined and read by a shell
	given2   Risk   // of a use with two operands or more
	danger   bool   // it has options that do more than read
	opts     map[string]*option
	longs    []string // of opts, those that may be abbreviated
	subs     map[string]*program
	patterns []pattern // of subs, those whose name ends in *
}

type pattern struct {
	stem    string // what the name starts with
	program *program
}

// An option is what a table says of an option.
type option struct {
	value    bool // takes one, attached or the next word
	optional bool // takes one only if attached
	only     bool // with it the program only looks: what it does otherwise does not happen
	alone    bool // where there is nothing else, the program only looks
	shift    bool // it stands in place of the first operand
	effect   bool // it has a risk or a use
	exec     string
	prints   output // with it the program prints this
	equal    string // only where its value is this
	same     bool   // it leaves what kind of output there is as it is
	risk     Risk
	why      string
	use      use
}

// A use says what is done with a word.
type use string

const (
	useText   use = "text"
	useRead   use = "read"
	useWrite  use = "write"  // replaced
	useMake   use = "make"   // made, or written to without losing what was in it
	useDelete use = "delete" // deleted
	useMove   use = "move"   // taken away from there
	useHost   use = "host"
	useURL    use = "url"
	useCopy   use = "copy" // operands only: the last is written, the others are read
	useMoves  use = "moves"
)

// programs gives the tables, which are read when they are first needed.
var programs = sync.OnceValue(func() map[string]*program {
	all := make(map[string]*program, 1024)
	names, err := tableFiles.ReadDir("tables")
	if err != nil {
		panic("shellrisk: the embedded tables: " + err.Error())
	}
	for _, entry := range names {
		data, err := tableFiles.ReadFile("tables/" + entry.Name())
		if err == nil {
			err = readTable(string(data), all)
		}
		if err != nil { // the tests read the same bytes: this build was never tested
			panic("shellrisk: " + entry.Name() + ": " + err.Error())
		}
	}
	return all
})

// readTable adds the programs of a table to all.
func readTable(text string, all map[string]*program) error {
	open := []*program{{subs: all}} // the programs that lines may belong to, by indentation
	for number, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		level := (len(line) - len(trimmed)) / 2
		if level >= len(open) {
			return fmt.Errorf("line %d: too far in: %s", number+1, trimmed)
		}
		open = open[:level+1]
		head, rest, ok := strings.Cut(trimmed, ":")
		if !ok {
			return fmt.Errorf("line %d: no colon: %s", number+1, trimmed)
		}
		owner := open[level]
		var err error
		if level > 0 && (head[0] == '-' || head[0] == '+') {
			err = owner.readOptions(head, rest)
		} else {
			var p *program
			if p, err = owner.readSub(head, rest, level == 0); err == nil {
				open = append(open, p)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	return nil
}

func (p *program) readOptions(head, rest string) error {
	if p.opts == nil {
		p.opts = map[string]*option{}
	}
	words, why := tableWords(rest)
	for name := range strings.FieldsSeq(head) {
		o := &option{why: why}
		switch {
		case strings.HasSuffix(name, "=?"):
			o.optional, name = true, name[:len(name)-2]
		case strings.HasSuffix(name, "="):
			o.value, name = true, name[:len(name)-1]
		}
		if p.opts[name] != nil {
			return fmt.Errorf("%s: %s is there twice", p.name, name)
		}
		for _, word := range words {
			if err := o.set(word); err != nil {
				return fmt.Errorf("%s %s: %w", p.name, name, err)
			}
		}
		p.opts[name] = o
		p.danger = p.danger || o.effect
		if strings.HasPrefix(name, "--") {
			p.longs = append(p.longs, name)
		}
	}
	return nil
}

func (o *option) set(word string) error {
	key, value, _ := strings.Cut(word, "=")
	switch r := Risk(word); {
	case word == "same":
		o.same = true
	case word == "numeric":
		o.prints = printsNumbers
	case key == "names":
		o.prints, o.equal = printsNames, value
	case word == "only":
		o.only = true
	case word == "alone":
		o.alone = true
	case word == "shift":
		o.shift = true
	case word == "shell" || word == "program" || word == "git-config" || word == "cd" || word == "assign" || word == "delimiter" || word == "user" || word == "module":
		o.exec, o.effect = word, true
	case word == "read" || word == "text":
		o.use = use(word)
	case isUse(use(word)):
		o.use, o.effect = use(word), true
	case r.known():
		o.risk, o.effect = r, true
	default:
		return fmt.Errorf("%q is no word of an option's", word)
	}
	return nil
}

func isUse(u use) bool {
	switch u {
	case useText, useRead, useWrite, useMake, useDelete, useMove, useHost, useURL, useCopy, useMoves:
		return true
	}
	return false
}

func (p *program) readSub(head, rest string, top bool) (*program, error) {
	words, why := tableWords(rest)
	names := strings.FieldsFunc(head, func(r rune) bool { return r == ',' || r == ' ' })
	for i := range names {
		if names[i] == "%colon" { // a colon ends the names
			names[i] = ":"
		}
	}
	s := &program{name: names[0], risk: Unknown, why: why, filter: -1}
	if !top {
		s.parent, s.longDash, s.exact, s.inherit = p, p.longDash, p.exact, p.inherit
	}
	for _, word := range words {
		if err := s.set(word); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if s.do == "wrap" {
		s.strict, s.posix = true, true
	}
	s.danger = s.danger || s.strict
	if p.subs == nil {
		p.subs = map[string]*program{}
	}
	for _, name := range names {
		if stem, ok := strings.CutSuffix(name, "*"); ok {
			p.patterns = append(p.patterns, pattern{stem, s})
			continue
		}
		if p.subs[name] != nil {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		p.subs[name] = s
	}
	return s, nil
}

func (p *program) set(word string) error {
	if r := Risk(word); r.known() {
		p.risk = r
		return nil
	}
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "given":
		p.given = Risk(value)
		if !p.given.known() {
			return fmt.Errorf("%q is no risk", value)
		}
	case "given2":
		p.given2 = Risk(value)
		if !p.given2.known() {
			return fmt.Errorf("%q is no risk", value)
		}
	case "remote":
		p.remote = true
	case "eq":
		p.eq = Risk(value)
		if !p.eq.known() {
			return fmt.Errorf("%q is no risk", value)
		}
	case "bare":
		p.bare = true
	case "exact":
		p.exact = true
	case "joined":
		p.joined = true
	case "operands":
		for u := range strings.SplitSeq(value, ",") {
			if !isUse(use(u)) {
				return fmt.Errorf("%q is no use", u)
			}
			p.uses = append(p.uses, use(u))
		}
	case "needs":
		p.needs = strings.Split(value, ",")
	case "do":
		p.do = value
	case "wrap":
		p.do, p.skip = "wrap", int(value[0]-'0')
	case "strict":
		p.strict = true
	case "longdash":
		p.longDash = true
	case "posix":
		p.posix = true
	case "loose":
		p.loose = true
	case "numeric":
		p.prints = printsNumbers
	case "names":
		p.prints = printsNames
	case "filter":
		p.filter = int(value[0] - '0')
	case "inherit":
		p.inherit = true
	default:
		return fmt.Errorf("%q is no word of a program's", word)
	}
	return nil
}

// tableWords splits what follows a colon into its words and the reason in quotes.
func tableWords(rest string) (words []string, why string) {
	rest, why, _ = strings.Cut(rest, `"`)
	why, after, _ := strings.Cut(why, `"`)
	return append(strings.Fields(rest), strings.Fields(after)...), why
}

// sub finds a sub-command.
func (p *program) sub(name string) *program {
	if s := p.subs[name]; s != nil {
		return s
	}
	for _, s := range p.patterns {
		if strings.HasPrefix(name, s.stem) && !strings.Contains(name, "/") {
			return s.program
		}
	}
	return nil
}

// option finds an option by its name; exact or, for a long one, all that it may abbreviate.
func (p *program) option(name string) *option {
	for q := p; q != nil; q = q.parent {
		if o := q.opts[name]; o != nil {
			return o
		}
		if q.parent == nil || !q.parent.inherit {
			break
		}
	}
	return p.abbreviated(name)
}

// abbreviated finds what an abbreviation may stand for: of several the one with an effect.
func (p *program) abbreviated(name string) *option {
	if len(name) < 3 || name[1] != '-' || p.exact {
		return nil
	}
	var found *option
	for q := p; q != nil; q = q.parent {
		for _, long := range q.longs {
			o := q.opts[long]
			if strings.HasPrefix(long, name) && (found == nil || !found.effect || o.effect && found.risk.Less(o.risk)) {
				found = o
			}
		}
		if q.parent == nil || !q.parent.inherit {
			break
		}
	}
	if found != nil && found.only { // only the whole word makes something milder
		return nil
	}
	return found
}

// risky reports whether some option of the program does more than read.
func (p *program) risky() bool {
	return !p.loose && (p.danger || p.parent != nil && p.parent.inherit && p.parent.risky())
}
