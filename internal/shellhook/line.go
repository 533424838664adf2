package shellhook

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A place is where in a command line airlock is called.
type place int

const (
	placeUnknown place = iota // it cannot be said what ran before
	placeAlone                // nothing of the line ran before
	placeAfter                // after a command of the same line
)

// A part is what of a line ran before its call of airlock.
type part struct {
	place   place
	command string // for placeAfter
	piped   bool   // in a pipeline, of which the shell knows the end's exit code alone
	unsure  bool   // the exit code on entry need not be the command's
}

// before finds what of a command line ran before the airlock that it calls: of a || b;
// c && airlock it is c, what airlock was joined to. Nothing is evaluated. What cannot be
// read, and a call in a loop, a condition or a group, is placeUnknown.
func before(shell, line string) part {
	line = strings.TrimSpace(line)
	if line == "" || len(line) > maxCommand || strings.ContainsRune(line, 0) {
		return part{place: foremost(line)}
	}
	if shell == "fish" {
		return beforeFish(line)
	}
	lang := syntax.LangBash
	if shell == "zsh" {
		lang = syntax.LangZsh
	}
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) == 0 {
		return part{place: foremost(line)}
	}
	got := beforeStmts(line, file.Stmts)
	if got.place == placeAfter && (got.command == "" || documents(file)) {
		return part{}
	}
	return got
}

// documents reports whether there are here-documents, whose text is not where they begin.
func documents(file *syntax.File) (found bool) {
	syntax.Walk(file, func(node syntax.Node) bool {
		if r, ok := node.(*syntax.Redirect); ok && r.Hdoc != nil {
			found = true
		}
		return !found
	})
	return found
}

// foremost is the place in a line that cannot be read.
func foremost(line string) place {
	word := func() (w string) {
		line = strings.TrimLeft(line, " \t")
		if i := strings.IndexAny(line, " \t\r\n"); i >= 0 {
			w, line = line[:i], line[i:]
			return w
		}
		w, line = line, ""
		return w
	}
	w := word()
	if w == "command" {
		w = word()
	}
	if named(strings.TrimPrefix(w, `\`)) {
		return placeAlone
	}
	return placeUnknown
}

// beforeStmts looks through the statements of a line.
func beforeStmts(line string, stmts []*syntax.Stmt) part {
	at := -1
	for i, s := range stmts {
		switch n := callsIn(s); {
		case n == 0:
		case at >= 0 && !(onlyCalls(stmts[:i]) && simple(s)), n > 1:
			return part{} // which of them this is cannot be said
		default:
			at = i
		}
	}
	switch {
	case at < 0 && len(stmts) == 1 && simple(stmts[0]):
		return part{place: placeAlone} // by another name
	case at < 0:
		return part{}
	case onlyCalls(stmts[:at]):
		return beforeStmt(line, stmts[at], nil)
	default:
		return beforeStmt(line, stmts[at], stmts[at-1])
	}
}

// beforeStmt finds what ran before the one call in a statement; last is the one before it.
func beforeStmt(line string, s, last *syntax.Stmt) part {
	var got part
	switch {
	case last == nil:
		got.place = placeAlone
	case !last.Background && !last.Coprocess && !last.Disown:
		got = part{place: placeAfter, command: textOf(line, last)}
	}
	piped := false
	for {
		switch cmd := s.Cmd.(type) {
		case *syntax.CallExpr:
			got.unsure, got.piped = substitutes(cmd), piped
			return got
		case *syntax.BinaryCmd:
			list := cmd.Op == syntax.AndStmt || cmd.Op == syntax.OrStmt
			piped = piped || !list
			switch {
			case callsIn(cmd.X) > 0:
				s = cmd.X
			case list:
				got = part{place: placeAfter, command: textOf(line, cmd.X)}
				s = cmd.Y
			default:
				s = cmd.Y
			}
		default:
			return part{}
		}
	}
}

// textOf is a statement as it was written.
func textOf(line string, s *syntax.Stmt) string {
	from, to := s.Pos().Offset(), s.End().Offset()
	if from >= to || to > uint(len(line)) {
		return ""
	}
	return strings.TrimRight(line[from:to], " \t\r\n;")
}

// simple reports whether a statement is one command, or one pipeline of such.
func simple(s *syntax.Stmt) bool {
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		return true
	case *syntax.BinaryCmd:
		return (cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll) && simple(cmd.X) && simple(cmd.Y)
	default:
		return false
	}
}

// onlyCalls reports whether each statement is a call of airlock and nothing else.
func onlyCalls(stmts []*syntax.Stmt) bool {
	for _, s := range stmts {
		if cmd, ok := s.Cmd.(*syntax.CallExpr); !ok || !isCall(cmd) {
			return false
		}
	}
	return true
}

// callsIn counts the calls of airlock in a statement.
func callsIn(s *syntax.Stmt) (n int) {
	syntax.Walk(s, func(node syntax.Node) bool {
		if cmd, ok := node.(*syntax.CallExpr); ok && isCall(cmd) {
			n++
		}
		return true
	})
	return n
}

// isCall reports whether a command is airlock.
func isCall(cmd *syntax.CallExpr) bool {
	for i, w := range cmd.Args {
		text := strings.TrimPrefix(word(w), `\`)
		if i == 0 && text == "command" {
			continue
		}
		return named(text)
	}
	return false
}

// word is a word's text where nothing in it is expanded.
func word(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return ""
				}
				b.WriteString(lit.Value)
			}
		case *syntax.ParamExp:
			b.WriteString("$") // of a path, the end says it
		default:
			return ""
		}
	}
	return b.String()
}

// named reports whether a command's name is airlock's, or ai, the short one.
func named(name string) bool {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = path.Base(name[i:])
	}
	return name == "airlock" || name == "ai"
}

// substitutes reports whether other commands run before a command of a line does.
func substitutes(cmd *syntax.CallExpr) (found bool) {
	syntax.Walk(cmd, func(node syntax.Node) bool {
		switch node.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			found = true
		}
		return !found
	})
	return found
}
