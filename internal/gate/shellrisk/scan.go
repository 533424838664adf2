package shellrisk

import (
	"strings"
)

// A scan is a command's words taken apart as its table says.
type scan struct {
	prog     *program // of the sub-command, where there is one
	sub      string
	opts     []found
	operands []field
	only     bool // an option says that it only looks
	shift    bool // an option stands in place of the first operand
	rest     int  // of a program whose options end at the first operand: where that is
	vague    bool // a word could be an option
	stranger string
	dashes   bool // there was a --
	dashAt   int  // the operands before it
}

// A found is an option as it was found.
type found struct {
	name  string
	value field
	has   bool
	opt   *option
}

// take takes words apart. It follows sub-commands.
func (c *call) take(prog *program, words []field) scan {
	s := scan{prog: prog, rest: len(words)}
	for i := 0; i < len(words); i++ {
		f := &words[i]
		start := f.start()
		switch {
		case s.dashes || f.num || f.plain:
			s.operand(c, f, i)
		case f.Known && f.Value == "--":
			s.dashes, s.dashAt = true, len(s.operands)
			if s.prog.posix {
				s.rest = i + 1
				s.operands = append(s.operands, words[i+1:]...)
				return s
			}
		case f.glob && start == "" && c.hasNone(c.sc.cwd, "-"):
			s.operand(c, f, i)
		case !f.Known && (start == "" || start[0] == '-') || f.many:
			s.loose(f, start)
			s.operands = append(s.operands, *f)
		case f.Known && s.prog.opts[start] != nil && start[0] == '+':
			s.found(start, field{}, false)
			continue
		case start != "" && start[0] == '+' && s.prog.opts["+"] != nil:
			s.found("+", *f, true)
			continue
		case len(start) > 1 && start[0] == '-':
			i = s.option(words, i)
			continue
		default:
			s.operand(c, f, i)
		}
		if s.prog.posix && len(s.operands) > 0 {
			s.rest = i
			s.operands = append(s.operands, words[i+1:]...)
			return s
		}
	}
	return s
}

// loose notes a word that could be an option, or several.
func (s *scan) loose(f *field, start string) {
	name, _, whole := strings.Cut(start, "=")
	if whole && !f.many && strings.HasPrefix(name, "--") { // --since="$x"
		s.found(name, field{Word: Word{Value: f.Value}}, true)
		return
	}
	if len(start) > 2 && !f.many && start[0] == '-' && start[1] != '-' { // -n"$x"
		if o := s.prog.option(start[:2]); o != nil && o.value {
			s.found(start[:2], field{Word: Word{Value: f.Value}}, true)
			return
		}
	}
	s.vague = true
}

func (s *scan) operand(c *call, f *field, at int) {
	if len(s.operands) == 0 && (s.prog.subs != nil || s.prog.patterns != nil) && f.Known {
		if sub := s.prog.sub(f.Value); sub != nil {
			s.prog = sub
			if s.sub != "" {
				s.sub += " "
			}
			s.sub += f.Value
			return
		}
	}
	s.operands = append(s.operands, *f)
}

// option takes the option at i, and gives the index of the last word it took.
func (s *scan) option(words []field, i int) int {
	text := words[i].start()
	if !words[i].Known {
		s.loose(&words[i], text)
		return i
	}
	if strings.HasPrefix(text, "--") || s.prog.longDash {
		name, value, has := strings.Cut(text, "=")
		if o := s.prog.option(name); o != nil && o.value && !has && i+1 < len(words) {
			return s.valued(name, words, i)
		}
		s.found(name, literal(value), has)
		return i
	}
	if o := s.prog.option(text); o != nil && !o.value { // -10, or one that is listed as a whole
		s.found(text, field{}, false)
		return i
	}
	for j := 1; j < len(text); j++ {
		name := text[:1] + text[j:j+1]
		o := s.prog.option(name)
		switch {
		case o != nil && o.value && j+1 < len(text):
			s.found(name, literal(strings.TrimPrefix(text[j+1:], "=")), true)
			return i
		case o != nil && o.value && i+1 < len(words):
			return s.valued(name, words, i)
		case o != nil && o.optional && j+1 < len(text):
			s.found(name, literal(text[j+1:]), true)
			return i
		}
		s.found(name, field{}, false)
	}
	return i
}

// valued notes an option whose value is the next word. Where that word would be an option
// with an effect it counts as one too: the table could be wrong about this program's build.
func (s *scan) valued(name string, words []field, i int) int {
	next := words[i+1].start()
	s.found(name, words[i+1], true)
	if len(next) > 1 && next[0] == '-' {
		long, _, _ := strings.Cut(next, "=")
		if o := s.prog.option(long); o != nil && o.effect {
			return i
		}
		if o := s.prog.option(next[:2]); o != nil && o.effect {
			return i
		}
	}
	return i + 1
}

func (s *scan) found(name string, value field, has bool) {
	o := s.prog.option(name)
	s.opts = append(s.opts, found{name: name, value: value, has: has, opt: o})
	if has && value.many && !value.plain {
		s.vague = true
	}
	if o == nil {
		if s.stranger == "" && name != "--help" && name != "--version" {
			s.stranger = name
		}
		return
	}
	// Behind an option that is not known, this could be its value.
	s.only = s.only || o.only && s.stranger == ""
	s.shift = s.shift || o.shift
}
