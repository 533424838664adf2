package shellrisk

import (
	"path"
	"slices"
	"strings"
)

// command judges a command from its words.
func (w *walker) command(args []field, sc *scope, fr frame) {
	if !w.enter() {
		return
	}
	defer w.leave()
	w.step()
	if len(args) == 0 {
		if fr.base != nil {
			p := fr.part()
			if len(p.Wrappers) == 0 || len(p.Effects) > 0 {
				w.append(p)
			}
		}
		return
	}
	head := &args[0]
	if !head.Known {
		w.refuse(args, &fr, "the command's name is not literal: "+printable(head.Value))
		return
	}
	name := head.Value
	if at := lookalike(name); at != "" || name == "" {
		w.refuse(args, &fr, "the command's name holds "+at)
		return
	}
	if !fr.noFuncs && sc.function(name) {
		w.called(args, sc, fr)
		if !specialBuiltins[name] { // those a shell may prefer to a function
			return
		}
	}
	w.globbing = w.globbing || name == "shopt"
	base := name
	if strings.Contains(name, "/") {
		clean := path.Clean(name)
		if !strings.HasPrefix(clean, "/") || !programDirs[path.Dir(clean)] {
			w.refuse(args, &fr, printable(name)+" is a program outside of the system's folders")
			return
		}
		base = path.Base(clean)
	}
	if base == name && w.ownDirs != nil && !fr.remote && w.isOwn(name, sc) {
		w.refuse(args, &fr, printable(name)+" can be a program of the working folder's, which PATH leads to")
		return
	}
	prog := w.tables[base]
	if prog == nil || base == "=" {
		w.refuse(args, &fr, "what "+printable(base)+" does is not known")
		return
	}
	p := fr.part()
	w.describe(&p, args)
	p.Program = base
	if base != name {
		p.Path = name
	}
	c := &call{walker: w, part: &p, prog: prog, args: args, sc: sc, fr: fr, name: base}
	c.scan = c.take(prog, args[1:])
	c.fill()
	if h := handlerOf(c.scan.prog.do); h != nil {
		h(c)
		return
	}
	c.judge()
	w.append(p)
}

var specialBuiltins = map[string]bool{
	"eval": true, "exec": true, ".": true, "source": true, "trap": true, "set": true, "unset": true,
	"export": true, "readonly": true, ":": true, "exit": true, "return": true, "command": true, "builtin": true,
}

var programDirs = map[string]bool{
	"/bin": true, "/sbin": true, "/usr/bin": true, "/usr/sbin": true, "/usr/local/bin": true,
	"/usr/local/sbin": true, "/opt/homebrew/bin": true, "/snap/bin": true, "/run/current-system/sw/bin": true,
}

// refuse makes a part of a command that cannot be judged.
func (w *walker) refuse(args []field, fr *frame, why string) {
	p := fr.part()
	w.describe(&p, args)
	if args[0].Known {
		p.Program, p.Path = path.Base(args[0].Value), args[0].Value
		if !strings.Contains(p.Path, "/") {
			p.Path = ""
		}
		for i := range args[1:] {
			p.Operands = append(p.Operands, args[i+1].Word)
		}
	}
	p.add(Unknown, why)
	w.append(p)
}

// A call is one command while it is judged.
type call struct {
	*walker
	part *Part
	prog *program // of the program itself
	scan scan
	args []field
	sc   *scope
	fr   frame
	name string
}

// fill puts what was taken apart into the part.
func (c *call) fill() {
	s, p := &c.scan, c.part
	p.Sub = s.sub
	if len(s.opts) > 0 {
		p.Options = make([]Option, len(s.opts))
		for i := range s.opts {
			o := &s.opts[i]
			p.Options[i] = Option{Name: o.name, Value: o.value.Value, Known: !o.has || o.value.Known}
		}
	}
	if len(s.operands) > 0 {
		p.Operands = make([]Word, len(s.operands))
		for i := range s.operands {
			p.Operands[i] = s.operands[i].Word
		}
	}
}

// judge adds the effects that the tables tell of.
func (c *call) judge() {
	s, p := &c.scan, c.part
	prog := s.prog
	for q := prog; q != nil; q = q.parent {
		for _, n := range q.needs {
			p.need(n)
		}
	}
	if c.asksHelp() {
		return
	}
	if len(s.opts) == 1 && s.opts[0].opt != nil && s.opts[0].opt.alone && len(s.operands) == 0 && s.sub == "" {
		s.only = true
	}
	if s.stranger != "" && !prog.risk.Less(Unknown) {
		s.only = false // who knows what they do together
	}
	c.options()
	if s.only {
		return
	}
	p.prints = c.output()
	c.base()
	c.operandUses()
}

// asksHelp reports whether a command does nothing but say how it is used.
func (c *call) asksHelp() bool {
	s := &c.scan
	if len(s.opts) != 1 || len(c.args) != 2+strings.Count(s.sub, " ")+min(len(s.sub), 1) || c.prog.do != "" {
		return false
	}
	o := &s.opts[0]
	return (o.name == "--help" || o.name == "--version") && !o.has && o.opt == nil && s.prog.risk.Severity() <= Unknown.Severity()
}

// options adds the effects of the options.
func (c *call) options() {
	s, p := &c.scan, c.part
	for i := range s.opts {
		o := &s.opts[i]
		if o.opt == nil {
			continue
		}
		if o.opt.use != "" && o.has {
			c.file(p, &o.value, o.opt.use, c.sc, &c.fr)
		}
		if o.opt.risk != "" {
			p.add(o.opt.risk, because(o.opt.why, o.opt.risk, c.title()+" "+o.name))
		}
		if o.opt.exec != "" {
			c.optionRuns(o)
		}
	}
	if s.prog.strict && s.stranger != "" {
		p.add(Unknown, c.title()+" has an option that is not known: "+printable(s.stranger))
	}
	if s.vague && s.prog.risky() {
		p.add(Unknown, c.title()+" is given a word that could be an option")
	}
}

// optionRuns judges what an option's value makes run.
func (c *call) optionRuns(o *found) {
	fr := c.fr
	fr.base, fr.stdin = c.wrapped(), nil
	switch {
	case o.opt.exec == "shell" && o.value.Known:
		c.text(o.value.Value, c.sc.child(), fr)
	case o.opt.exec == "program" && o.value.Known:
		c.command([]field{literal(o.value.Value), {many: true, Word: Word{Value: "…"}}}, c.sc, fr)
	case o.opt.exec == "shell", o.opt.exec == "program":
		c.part.add(Unknown, c.title()+" "+o.name+" runs a program that cannot be told")
	case o.opt.exec == "assign":
		c.setsName(&o.value)
	case o.opt.exec == "user":
		c.part.User = printable(o.value.Value)
	case o.opt.exec == "git-config":
		c.gitConfig(&o.value)
	}
}

// base adds what every use of the program does.
func (c *call) base() {
	s, p := &c.scan, c.part
	prog := s.prog
	if prog.risk != ReadOnly && !(prog.bare && len(s.operands) == 0) {
		why := because(prog.why, prog.risk, c.title())
		if prog.subs != nil && prog.risk == Unknown && len(s.operands) > 0 {
			why = "what " + c.title() + " " + printable(s.operands[0].Value) + " does is not known"
		}
		p.add(prog.risk, why)
	}
	if prog.given != "" && len(s.operands) > 0 {
		p.add(prog.given, because(prog.why, prog.given, c.title()))
	}
	for i := range s.operands {
		if f := &s.operands[i]; prog.eq != "" && (!f.Known || strings.Contains(f.Value, "=")) {
			p.add(prog.eq, because(prog.why, prog.eq, c.title()))
		}
	}
	if prog.given2 != "" && len(s.operands) > 1 {
		p.add(prog.given2, because(prog.why, prog.given2, c.title()))
	}
}

// operandUses adds what is done with the operands.
func (c *call) operandUses() {
	s := &c.scan
	uses, list := s.prog.uses, s.operands
	if len(uses) == 0 {
		return
	}
	if s.shift && len(uses) > 1 {
		uses = uses[1:]
	}
	several := false // words went before that may be none or many: what follows may be at any place
	for i := range list {
		u := uses[min(i, len(uses)-1)]
		if several = several || list[i].many || list[i].Glob; several && u != useCopy && u != useMoves {
			for _, later := range uses[min(i, len(uses)-1):] {
				c.file(c.part, &list[i], later, c.sc, &c.fr)
			}
			continue
		}
		if u == useCopy || u == useMoves {
			switch {
			case i == len(list)-1 && i > 0:
				u = useWrite
			case u == useCopy:
				u = useRead
			default:
				u = useMove
			}
		}
		c.file(c.part, &list[i], u, c.sc, &c.fr)
	}
}

// title is what a person calls the command.
func (c *call) title() string {
	if c.scan.sub != "" {
		return c.name + " " + c.scan.sub
	}
	return c.name
}

// because is why something is a risk: the table's reason, else one made of the risk.
func because(why string, r Risk, what string) string {
	if why != "" {
		return what + ": " + why
	}
	switch r {
	case WritesInside:
		return what + " writes files"
	case Network:
		return what + " speaks to other machines"
	case Package:
		return what + " changes what software there is"
	case Service:
		return what + " changes services"
	case WritesOutside:
		return what + " writes outside of the working folder"
	case Privileged:
		return what + " needs the superuser's rights"
	case Destructive:
		return what + " can lose what cannot be brought back"
	}
	return "what " + what + " does cannot be told"
}

// wrapped is the base for the parts of what this command runs: what it does itself counts
// for each of them.
func (c *call) wrapped() *Part {
	p := *c.part
	p.Wrappers = append(slices.Clip(p.Wrappers), c.name)
	p.Argv, p.Options, p.Operands, p.Text, p.Program, p.Path, p.Sub = nil, nil, nil, "", "", "", ""
	return &p
}
