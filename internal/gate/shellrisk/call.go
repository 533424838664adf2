package shellrisk

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call walks a simple command: what it sets, its words, and then what they run.
func (w *walker) call(c *syntax.CallExpr, sc *scope, fr frame, redirs string) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			w.assign(a, sc, fr)
		}
		if fr.base != nil && len(fr.base.Effects) > 0 {
			p := fr.part()
			p.Text = redirs
			w.append(p)
		}
		return
	}
	args := w.fields(c.Args, sc, fr)
	if len(c.Assigns) > 0 {
		p := fr.part()
		for _, a := range c.Assigns {
			f := w.assignedValue(a, sc, fr)
			if !w.passVariable(a.Name.Value, &f) {
				p.add(Unknown, a.Name.Value+"=… can change what the program does")
			}
			sc.forget(a.Name.Value, false)
		}
		fr.base = &p
	}
	if redirs != "" {
		p := fr.part()
		p.Text = redirs
		fr.base = &p
	}
	w.command(args, sc, fr)
}

// assignedValue expands what an assignment sets.
func (w *walker) assignedValue(a *syntax.Assign, sc *scope, fr frame) field {
	if a.Index != nil {
		w.arithm(a.Index, sc, fr)
	}
	if a.Array == nil {
		return w.one(a.Value, sc, fr)
	}
	all := field{Word: Word{Value: "(…)"}, many: true}
	for _, e := range a.Array.Elems {
		if e.Index != nil {
			w.arithm(e.Index, sc, fr)
		}
		if e.Value == nil {
			continue
		}
		for _, f := range w.appendFields(nil, e.Value, sc, fr) {
			all.unsafe = all.unsafe || f.unsafe || f.Known && !safeNumber(f.Value)
		}
	}
	return all
}

// assign sets a variable of the shell's.
func (w *walker) assign(a *syntax.Assign, sc *scope, fr frame) {
	f := w.assignedValue(a, sc, fr)
	name := a.Name.Value
	if !w.quietVariable(name) {
		w.strange(fr, name+"=… changes what programs do")
	}
	w.setVariable(name, f, a.Append || a.Index != nil || a.Array != nil, sc)
}

func (w *walker) setVariable(name string, f field, partly bool, sc *scope) {
	safe := !f.unsafe && (!f.Known || safeNumber(f.Value))
	if !partly && !w.fixed[name] {
		f.Glob = f.Glob || strings.ContainsAny(f.Value, "*?[")
		f.many = f.many || !f.Known && !f.num
		sc.set(name, variable{field: f, safe: safe})
		return
	}
	old, ok := sc.lookup(name)
	sc.forget(name, false)
	if safe && (!ok || old.safe) {
		v := sc.vars[name]
		v.safe = true
		sc.vars[name] = v
	}
}

// declare walks declare, export, local, readonly and typeset.
func (w *walker) declare(d *syntax.DeclClause, sc *scope, fr frame) {
	exported, readonly := d.Variant.Value == "export", d.Variant.Value == "readonly"
	p := fr.part()
	p.Program, p.Argv, p.Text = d.Variant.Value, []Word{{Value: d.Variant.Value, Known: true}}, printable(w.source(d))
	for _, a := range d.Args {
		if a.Naked && a.Name == nil {
			f := w.one(a.Value, sc, fr)
			switch {
			case f.Known && strings.HasPrefix(f.Value, "-"):
				p.attributes(f.Value)
				readonly = readonly || strings.Contains(f.Value, "r")
				exported = exported || strings.Contains(f.Value, "x")
			default:
				sc.goWild()
				p.add(Unknown, "it sets a variable whose name cannot be told")
			}
			continue
		}
		if readonly {
			w.readonly(a.Name.Value)
		}
		if a.Index != nil {
			w.arithm(a.Index, sc, fr)
		}
		if a.Naked {
			if exported && !w.passVariable(a.Name.Value, nil) && !w.quietVariable(a.Name.Value) {
				p.add(Unknown, a.Name.Value+" is handed to programs and can change what they do")
			}
			continue
		}
		f := w.assignedValue(a, sc, fr)
		if !w.quietVariable(a.Name.Value) && !w.passVariable(a.Name.Value, &f) || exported && !w.passVariable(a.Name.Value, &f) {
			p.add(Unknown, a.Name.Value+"=… can change what programs do")
		}
		w.setVariable(a.Name.Value, f, a.Append || a.Index != nil || a.Array != nil, sc)
	}
	w.append(p)
}

// attributes notes what makes later assignments mean something else: n, another variable;
// i, arithmetic; l, u and c, another case.
func (p *Part) attributes(options string) {
	if strings.ContainsAny(options, "niluc") {
		p.add(Unknown, "it changes what setting a variable does")
	}
}

// readonly notes a variable that cannot be set again: the shell may go on with the old value.
func (w *walker) readonly(name string) {
	if w.fixed == nil {
		w.fixed = map[string]bool{}
	}
	w.fixed[name] = true
}

// A changes is what a piece of the line could set.
type changes struct {
	names []change
	wild  bool // names that cannot be told
	cwd   bool
}

// A change is a variable's name, and whether arithmetic sets it.
type change struct {
	name   string
	number bool
}

var setters = map[string]bool{"read": true, "mapfile": true, "readarray": true, "printf": true, "getopts": true, "unset": true, "declare": true, "typeset": true, "export": true, "readonly": true, "local": true, "let": true, "wait": true}

// changed collects what a node's commands could set, without walking them.
func (w *walker) changed(node syntax.Node) changes {
	var out changes
	add := func(lit *syntax.Lit, number bool) {
		if lit != nil {
			out.names = append(out.names, change{lit.Value, number})
		}
	}
	syntax.Walk(node, func(n syntax.Node) bool {
		w.step()
		switch n := n.(type) {
		case *syntax.Assign:
			add(n.Name, n.Value != nil && len(n.Value.Parts) == 1 && isArithm(n.Value.Parts[0]))
		case *syntax.WordIter:
			add(n.Name, false)
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				add(n.Param, false)
			}
		case *syntax.BinaryArithm:
			if name, ok := assigned(n); ok {
				out.names = append(out.names, change{name, true})
			}
		case *syntax.UnaryArithm:
			if word, ok := n.X.(*syntax.Word); ok {
				out.names = append(out.names, change{word.Lit(), true})
			}
		case *syntax.Redirect:
			if n.N != nil {
				out.names = append(out.names, change{strings.Trim(n.N.Value, "{}"), true})
			}
		case *syntax.CallExpr:
			out.call(n)
		}
		return !w.over
	})
	return out
}

// call adds what a simple command could set.
func (out *changes) call(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		return
	}
	name := c.Args[0].Lit()
	switch {
	case name == "cd" || name == "pushd" || name == "popd":
		out.cwd = true
	case name == "" || strings.ContainsAny(name, `\{*?[~`) || name == "eval" || name == "source" || name == "." || name == "command" || name == "builtin":
		// A quoted command word could be any of these.
		out.cwd, out.wild = true, true
	case setters[name]:
		for _, word := range c.Args[1:] {
			if lit := word.Lit(); lit != "" {
				out.names = append(out.names, change{lit, false})
			} else if name != "printf" {
				out.wild = true
			}
		}
	}
}

// forget takes what could have changed for unknown.
func (s *scope) forgetAll(c changes) {
	if c.wild {
		s.goWild()
	}
	for _, n := range c.names {
		s.forget(n.name, false)
	}
	if c.cwd {
		s.cwd = ""
	}
}

// loop takes what a loop's body sets for unknown in the body already. A variable that is
// only ever counted stays a number.
func (w *walker) loop(node syntax.Node, sc *scope) {
	c := w.changed(node)
	if c.wild {
		sc.goWild()
	}
	for _, n := range c.names {
		old, ok := sc.lookup(n.name)
		sc.forget(n.name, n.number && ok && old.safe)
	}
	if c.cwd {
		sc.cwd = ""
	}
}

func isArithm(part syntax.WordPart) bool {
	_, ok := part.(*syntax.ArithmExp)
	return ok
}

// function walks a function's body once, where it is defined, with nothing known of the
// state in which it will be called.
func (w *walker) function(c *syntax.FuncDecl, sc *scope, fr frame) {
	if c.Name == nil {
		w.strange(fr, "a function that is not read")
		return
	}
	name := c.Name.Value
	if at := lookalike(name); at != "" {
		w.strange(fr, "a function's name holds "+at)
	}
	change := w.changed(c.Body)
	sc.forgetAll(change)
	if w.effects == nil {
		w.effects = map[string]changes{}
	}
	if was, ok := w.effects[name]; ok {
		change.names = append(change.names, was.names...)
		change.wild, change.cwd = change.wild || was.wild, change.cwd || was.cwd
	}
	w.effects[name] = change
	body := sc.child()
	body.goWild()
	body.cwd = ""
	body.define(name, true)
	fr.fn, fr.forks, fr.stdin = name, false, nil
	w.stmt(c.Body, body, fr)
	sc.define(name, true)
}

// ForkBomb is the program of a part that starts itself over and over: a name that no
// program has, so that a rule can be about it.
const ForkBomb = "fork bomb"

// called judges a call of a function that the line defines: its body is a part already.
func (w *walker) called(args []field, sc *scope, fr frame) {
	name := args[0].Value
	p := fr.part()
	w.describe(&p, args)
	p.Program = name
	if fr.fn == name && fr.forks {
		p.Program = ForkBomb
		p.add(Destructive, "a function that starts itself again and again uses up the machine")
	}
	w.append(p)
	sc.forgetAll(w.effects[name])
}
