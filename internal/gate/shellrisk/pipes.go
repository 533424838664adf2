package shellrisk

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// binary walks pipes, && and ||.
func (w *walker) binary(b *syntax.BinaryCmd, sc *scope, fr frame) {
	if b.Op == syntax.Pipe || b.Op == syntax.PipeAll {
		w.pipe(b, sc, fr)
		return
	}
	// The chain is one of left branches: a long one is walked without going deeper.
	chain := []*syntax.BinaryCmd{b}
	for {
		s := chain[len(chain)-1].X
		next, ok := s.Cmd.(*syntax.BinaryCmd)
		if !ok || len(s.Redirs) > 0 || s.Negated || next.Op == syntax.Pipe || next.Op == syntax.PipeAll {
			break
		}
		chain = append(chain, next)
	}
	sub := sc.child()
	w.stmt(chain[len(chain)-1].X, sub, fr)
	sc.adopt(sub) // the first is run whatever comes
	sub = sc.child()
	for _, link := range slices.Backward(chain) {
		w.step()
		if link.Op == syntax.OrStmt {
			c := sub.child()
			w.stmt(link.Y, c, fr)
			sub.join(c)
		} else {
			w.stmt(link.Y, sub, fr)
		}
	}
	sc.join(sub)
}

// pipe walks a pipeline, each command of which is a shell of its own.
func (w *walker) pipe(b *syntax.BinaryCmd, sc *scope, fr frame) {
	list := w.pipeline(b)
	in := fr.stdin
	for i, s := range list {
		w.step()
		inner := fr
		inner.stdin, inner.forks = in, true
		c := sc.child()
		first := len(w.parts)
		w.stmt(s, c, inner)
		sc.join(c) // some shells run the last one themselves
		if i < len(list)-1 {
			in = w.output(s, sc, fr, in, w.parts[first:])
		}
	}
}

func (w *walker) pipeline(b *syntax.BinaryCmd) []*syntax.Stmt {
	var list []*syntax.Stmt
	todo := []*syntax.Stmt{b.Y, b.X}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if c, ok := s.Cmd.(*syntax.BinaryCmd); ok && (c.Op == syntax.Pipe || c.Op == syntax.PipeAll) && len(s.Redirs) == 0 && !s.Negated {
			todo = append(todo, c.Y, c.X)
			continue
		}
		list = append(list, s)
	}
	return list
}

// output is what a command of a pipeline hands to the next.
func (w *walker) output(s *syntax.Stmt, sc *scope, fr frame, in *input, parts []Part) *input {
	out := &input{net: in != nil && in.net}
	for i := range parts {
		for _, e := range parts[i].Effects {
			out.net = out.net || e.Risk == Network
		}
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(s.Redirs) > 0 || len(parts) != 1 {
		return out
	}
	if p := &parts[0]; (p.Program == "echo" || p.Program == "printf") && len(p.Wrappers) == 0 {
		out.text, out.known = echoed(p.Argv)
	}
	return out
}

// echoed is what echo or printf writes, near enough to judge it.
func echoed(argv []Word) (string, bool) {
	var b strings.Builder
	for i, a := range argv[1:] {
		if !a.Known {
			return "", false
		}
		if i == 0 && len(a.Value) > 1 && a.Value[0] == '-' && strings.Trim(a.Value[1:], "neE") == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.Value)
	}
	text := b.String()
	if strings.ContainsAny(text, `\%`) { // it decodes: what comes out is not what went in
		return text, false
	}
	return text, true
}
