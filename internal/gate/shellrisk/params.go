package shellrisk

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// param takes a parameter expansion.
func (r *wordReader) param(p *syntax.ParamExp) {
	w := r.w
	if p.Exp != nil && p.Exp.Word != nil {
		f := w.one(p.Exp.Word, r.sc, r.fr) // for what it runs
		r.cur.unsafe = r.cur.unsafe || standsIn(p.Exp.Op) && (f.unsafe || f.Known && !safeNumber(f.Value))
	}
	if p.Repl != nil {
		w.one(p.Repl.Orig, r.sc, r.fr)
		w.one(p.Repl.With, r.sc, r.fr)
	}
	if p.Slice != nil {
		w.arithm(p.Slice.Offset, r.sc, r.fr)
		w.arithm(p.Slice.Length, r.sc, r.fr)
	}
	if p.Index != nil {
		w.arithm(p.Index, r.sc, r.fr)
	}
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil {
		r.unknown("", true, false)
		w.strange(r.fr, "an expansion that is not read")
		return
	}
	name := p.Param.Value
	if p.Excl && p.Names == 0 && !isAll(p.Index) {
		w.strange(r.fr, "${!"+name+"} expands what another variable names")
	}
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && !isTransform(p.Exp.Word) {
		w.strange(r.fr, "${"+name+"@…} can run what the variable holds")
	}
	if p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
		r.sc.forget(name, false)
		if !w.quietVariable(name) {
			w.strange(r.fr, name+" changes what programs do")
		}
	}
	if p.Length || strings.Contains("?#$!-", name) || r.countsItself(name) {
		r.unknown("0", false, true)
		return
	}
	plain := !p.Excl && !p.Width && !p.IsSet && p.Index == nil && p.Slice == nil && p.Repl == nil &&
		p.Names == 0 && len(p.Modifiers) == 0 && p.Exp == nil
	v := w.variable(name, r.sc)
	if plain && v.Known && !(v.Glob && !r.quoted && !r.single) {
		if v.Value != "" && !r.quoted && !r.single {
			if _, changed := r.sc.lookup("IFS"); changed {
				r.unknown("", true, false)
				return
			}
		}
		r.value(v.Value)
		return
	}
	many := !r.quoted && !v.num || name == "@" || isAll(p.Index)
	if plain && v.prefix != "" && !r.single {
		r.unknown(v.prefix, many && v.many, false)
	} else {
		kept := v.plain && plain && r.cur.Known && (len(r.buf) == 0 || r.buf[0] != '-') && !r.ifsChanged()
		r.unknown(map[bool]string{true: v.prefix}[plain], many, v.num && plain)
		r.plain(kept)
	}
	if _, set := r.sc.lookup(name); set && !v.safe || !set && (readIn[name] || strings.Trim(name, "0123456789@*") == "") {
		r.cur.unsafe = true
	}
}

var numericNames = map[string]bool{"RANDOM": true, "SECONDS": true, "UID": true, "EUID": true, "PPID": true, "LINENO": true, "BASHPID": true, "EPOCHSECONDS": true}

// readIn are the variables into which the shell puts what it reads. The words that a shell
// or a function is given, $1 and so on, are of that kind as well.
var readIn = map[string]bool{"REPLY": true, "MAPFILE": true, "OPTARG": true, "BASH_REMATCH": true, "COPROC": true}

// standsIn reports whether what follows an operator can be the expansion's value.
func standsIn(op syntax.ParExpOperator) bool {
	switch op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull,
		syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return true
	}
	return false
}

func (r *wordReader) ifsChanged() bool {
	_, changed := r.sc.lookup("IFS")
	return changed || r.sc.wild
}

// countsItself reports whether a variable is one of the shell's own numbers, and the line
// did not make it another.
func (r *wordReader) countsItself(name string) bool {
	_, set := r.sc.lookup(name)
	return numericNames[name] && !set && !r.sc.wild
}

// isAll reports whether an index is @ or *.
func isAll(index syntax.ArithmExpr) bool {
	word, ok := index.(*syntax.Word)
	return ok && (word.Lit() == "@" || word.Lit() == "*")
}

// isTransform reports whether ${x@word} only changes how the value looks.
func isTransform(word *syntax.Word) bool {
	if word == nil {
		return false
	}
	op := word.Lit()
	return len(op) == 1 && strings.Contains("UuLQEAaKk", op)
}

// variable looks a variable up: what the line set, else what the environment holds.
func (w *walker) variable(name string, sc *scope) variable {
	v, ok := sc.lookup(name)
	switch {
	case ok:
		return v
	case sc.wild:
	case name == "PWD" && sc.cwd != "":
		return variable{field: literal(sc.cwd)}
	case name == "HOME" && w.home != "":
		return variable{field: literal(w.home)}
	case name == "IFS":
		if ifs, ok := w.opts.Env["IFS"]; !ok || ifs == " \t\n" {
			return variable{field: literal(" \t\n")}
		}
	case name == "PWD" || name == "HOME" || name == "OLDPWD":
		return variable{field: field{prefix: "/"}}
	default:
		if value, ok := w.opts.Env[name]; ok {
			return variable{field: field{Word: Word{Value: value, Known: true, Glob: strings.ContainsAny(value, "*?[")}}, safe: safeNumber(value)}
		}
	}
	return variable{field: field{many: true}}
}

// safeNumber reports whether a value can be used in arithmetic: none that could run a
// command in an index.
func safeNumber(value string) bool { return !strings.ContainsAny(value, "[$`") }

// arithm walks an arithmetic expression, in which a variable's value is itself read as one.
func (w *walker) arithm(x syntax.ArithmExpr, sc *scope, fr frame) {
	if x == nil || !w.enter() {
		return
	}
	defer w.leave()
	switch x := x.(type) {
	case *syntax.Word:
		f := w.one(x, sc, fr)
		w.arithmField(&f, sc, fr)
	case *syntax.BinaryArithm:
		w.arithm(x.X, sc, fr)
		w.arithm(x.Y, sc, fr)
		if name, ok := assigned(x); ok {
			w.assignNumber(name, sc, fr)
		}
	case *syntax.UnaryArithm:
		w.arithm(x.X, sc, fr)
		if word, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.Inc || x.Op == syntax.Dec) {
			w.assignNumber(word.Lit(), sc, fr)
		}
	case *syntax.ParenArithm:
		w.arithm(x.X, sc, fr)
	case *syntax.FlagsArithm:
		w.strange(fr, "an expansion that is not read")
	}
}

func assigned(x *syntax.BinaryArithm) (string, bool) {
	word, ok := x.X.(*syntax.Word)
	switch x.Op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return word.Lit(), ok
	}
	return "", false
}

func (w *walker) assignNumber(name string, sc *scope, fr frame) {
	if name == "" {
		return
	}
	sc.forget(name, true)
	if !w.quietVariable(name) {
		w.strange(fr, name+" changes what programs do")
	}
}

// arithmField judges a value that the shell reads as an expression.
func (w *walker) arithmField(f *field, sc *scope, fr frame) {
	if f.unsafe || f.Known && strings.ContainsAny(f.Value, "$`") {
		w.strange(fr, "arithmetic on a value that could run a command")
		return
	}
	if !f.Known {
		return
	}
	if strings.Contains(f.Value, "[") {
		w.strange(fr, "arithmetic on a value that could run a command")
	}
	if !w.numbersOnly(f.Value, sc, 0) {
		w.strange(fr, "arithmetic on a variable whose value could run a command")
	}
}

// maxNested is how many variables' values that are names of others are followed.
const maxNested = 8

// numbersOnly reports whether the names in an expression stand for what is safe in one,
// the names that their values hold as well.
func (w *walker) numbersOnly(text string, sc *scope, depth int) bool {
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isNameRune(r) }) {
		w.step()
		v, ok := sc.lookup(name)
		if w.over || !ok && readIn[name] || ok && !v.safe || depth > maxNested {
			return false
		}
		if ok && v.Known && v.Value != text && !w.numbersOnly(v.Value, sc, depth+1) {
			return false
		}
	}
	return true
}

func isNameRune(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
