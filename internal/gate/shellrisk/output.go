package shellrisk

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// An output is what is known of the words that a command prints, which another may be given.
type output int

const (
	printsText    output = iota // anything
	printsNames                 // names that no program takes for an option, whatever there are
	printsNumbers               // numbers, which arithmetic can take as well
)

// output says what a command prints, where its table tells: an option that is not said to
// leave that alone makes it anything.
func (c *call) output() output {
	s := &c.scan
	out, filter := s.prog.prints, s.prog.filter == len(s.operands)
	for i := range s.opts {
		o := &s.opts[i]
		switch {
		case o.opt == nil && len(o.name) == 2 && o.name[1] >= '0' && o.name[1] <= '9':
		case o.opt == nil:
			return printsText
		case o.opt.prints != printsText && (o.opt.equal == "" || o.value.Known && o.value.Value == o.opt.equal):
			out = o.opt.prints
			if o.name == "+" && !(o.value.Known && dateOfNumbers(o.value.Value)) {
				return printsText
			}
			filter = false
		case !o.opt.same:
			return printsText
		}
	}
	c.part.filter = filter && !s.vague
	if s.vague || s.dashes {
		return printsText
	}
	for i := range s.operands { // some are printed as they are given
		f := &s.operands[i]
		if out == printsNumbers && !f.num && !(f.Known && strings.Trim(f.Value, "0123456789+-*/%()<>=!&|") == "") {
			return printsText
		}
		if out == printsNames && (!f.Known || strings.ContainsAny(f.Value, " \t\n*?[\\")) {
			return printsText
		}
	}
	return out
}

// dateOfNumbers reports whether date's format makes numbers alone.
func dateOfNumbers(format string) bool {
	format = strings.TrimPrefix(format, "+")
	if format == "" || format[0] == '-' {
		return false
	}
	for i := 0; i < len(format); i++ {
		if strings.IndexByte("0123456789.:,/_-", format[i]) >= 0 {
			continue
		}
		if format[i] != '%' || i+1 == len(format) || strings.IndexByte("sYmdHMSNjueVyFT", format[i+1]) < 0 {
			return false
		}
		i++
	}
	return true
}

// substitution walks $( ), and gives what it prints.
func (w *walker) substitution(c *syntax.CmdSubst, sc *scope, fr frame) output {
	first := len(w.parts)
	fr = fr.inner()
	fr.base = nil
	w.stmts(c.Stmts, sc.child(), fr)
	if len(w.parts) == first || len(c.Stmts) != 1 {
		return printsText
	}
	list := []*syntax.Stmt{c.Stmts[0]}
	if b, ok := list[0].Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe && len(list[0].Redirs) == 0 {
		list = w.pipeline(b)
	}
	reads := false
	for _, s := range list {
		reads = reads || slices.ContainsFunc(s.Redirs, isInput)
		if _, ok := s.Cmd.(*syntax.CallExpr); !ok || !quietErrors(s.Redirs) {
			return printsText
		}
	}
	parts := w.parts[first:]
	if parts[len(parts)-1].prints == printsNumbers {
		return printsNumbers
	}
	if _, changed := sc.lookup("IFS"); changed || reads || sc.wild || len(parts) != len(list) || parts[0].prints == printsText {
		return printsText
	}
	for i := range parts[1:] {
		if !parts[i+1].filter {
			return printsText
		}
	}
	return parts[0].prints
}

// isInput reports whether a redirection is what a command reads, in place of a pipe.
func isInput(r *syntax.Redirect) bool { return r.Op == syntax.RdrIn || r.Op == syntax.WordHdoc }

// quietErrors reports whether redirections leave alone what is printed: errors that go
// nowhere do, errors among the output do not.
func quietErrors(list []*syntax.Redirect) bool {
	for _, r := range list {
		if isInput(r) {
			continue
		}
		if r.N == nil || r.N.Value != "2" || r.Op != syntax.RdrOut {
			return false
		}
	}
	return true
}
