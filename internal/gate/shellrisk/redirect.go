package shellrisk

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects judges a command's redirections: the part they make, and what the command
// then reads, if they change that.
func (w *walker) redirects(redirs []*syntax.Redirect, sc *scope, fr frame) (Part, *input) {
	p := fr.part()
	var in *input
	for _, r := range redirs {
		w.step()
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
			name := strings.Trim(r.N.Value, "{}")
			sc.forget(name, true)
			if !w.quietVariable(name) {
				p.add(Unknown, name+" changes what programs do")
			}
		}
		f := field{}
		if r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc {
			f = w.one(r.Word, sc, fr)
			if f.Glob { // with one match it is that file
				f.Known = false
			}
		}
		switch r.Op {
		case syntax.RdrIn:
			w.file(&p, &f, useRead, sc, &fr)
			in = &input{net: strings.HasPrefix(f.start(), "/dev/tcp/")}
		case syntax.Hdoc, syntax.DashHdoc:
			in = w.heredoc(r, sc, fr)
		case syntax.WordHdoc:
			in = &input{text: f.Value, known: f.Known}
		case syntax.DplIn:
			in = &input{}
		case syntax.DplOut:
			if f.num || f.Known && strings.Trim(f.Value, "0123456789-") == "" {
				continue
			}
			w.file(&p, &f, useWrite, sc, &fr)
		case syntax.AppOut, syntax.AppAll, syntax.RdrInOut, syntax.AppClob, syntax.AppAllClob:
			w.file(&p, &f, useMake, sc, &fr)
		default:
			w.file(&p, &f, useWrite, sc, &fr)
		}
	}
	return p, in
}

// heredoc reads a here-document, which is expanded unless its end is quoted.
func (w *walker) heredoc(r *syntax.Redirect, sc *scope, fr frame) *input {
	if r.Hdoc == nil {
		return &input{known: true}
	}
	for _, part := range r.Word.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(lit.Value, `\`) {
			return &input{text: r.Hdoc.Lit(), known: r.Hdoc.Lit() != ""}
		}
	}
	f := w.one(&syntax.Word{Parts: []syntax.WordPart{&syntax.DblQuoted{Parts: r.Hdoc.Parts}}}, sc, fr)
	return &input{text: f.Value, known: f.Known}
}
