package shellrisk

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A walker reads one line at a time.
type walker struct {
	bash, posix *syntax.Parser
	opts        *Options
	tables      map[string]*program
	home        string
	workDir     string // resolved; "" where nothing is inside
	src         string // what is being walked now
	posixMode   bool
	depth       int
	steps       int
	over        bool     // a limit was passed
	ownDirs     []string // those of PATH that lie in the working folder, or go with the shell
	globbing    bool     // the line changes what patterns become
	parts       []Part
	parseError  string
	fixed       map[string]bool    // variables that are read-only
	effects     map[string]changes // what the line's functions change when they are called
}

// A frame is what surrounds a command: whoever runs it, and what it reads.
type frame struct {
	base    *Part  // what its parts start from: the wrappers, their effects
	stdin   *input // nil: the line's own
	remote  bool   // it runs elsewhere: its files are not ours
	noFuncs bool   // the shell's functions and builtins do not count
	forks   bool   // it runs beside what started it
	fn      string // the function whose body it is in
}

// An input is what a command reads.
type input struct {
	text  string
	known bool
	net   bool // some of it comes from other machines
}

// inner is the frame of a command that another one starts for itself.
func (fr frame) inner() frame {
	fr.stdin, fr.forks = nil, false
	return fr
}

// part makes a part that starts as the frame says.
func (fr *frame) part() Part {
	if fr.base == nil {
		return Part{}
	}
	p := *fr.base
	p.Effects, p.Paths, p.Hosts = slices.Clip(p.Effects), slices.Clip(p.Paths), slices.Clip(p.Hosts)
	p.Needs, p.Wrappers = slices.Clip(p.Needs), slices.Clip(p.Wrappers)
	return p
}

// step counts one of the things that are looked at.
func (w *walker) step() {
	if w.steps++; w.steps > maxSteps {
		w.tooMuch()
	}
}

// enter goes one level in; where it gives false there is nothing to leave.
func (w *walker) enter() bool {
	if w.over || w.depth >= maxDepth {
		w.tooMuch()
		return false
	}
	w.depth++
	return true
}

func (w *walker) leave() { w.depth-- }

func (w *walker) tooMuch() {
	if !w.over {
		w.over = true
		w.append(Part{Text: "…", Effects: []Effect{{Risk: Unknown, Why: "it is too long or too deeply nested to be judged"}}})
	}
}

func (w *walker) append(p Part) {
	p.settle()
	w.parts = append(w.parts, p)
}

// strange adds a part for what is no command and yet cannot be told.
func (w *walker) strange(fr frame, why string) {
	p := fr.part()
	p.Text = "…"
	p.add(Unknown, why)
	w.append(p)
}

// text walks a shell's text.
func (w *walker) text(line string, sc *scope, fr frame) {
	if !w.enter() {
		return
	}
	defer w.leave()
	if w.steps += len(line) / 64; len(line) > maxLine || open(line) > maxOpen || keywords(line) > maxWords {
		w.tooMuch()
		return
	}
	if at := invisible(line); at != "" {
		w.strange(fr, "the line holds "+at+", which does not show")
	}
	// To a shell it is a character like others; the parser drops it before the end of a line, and would take
	// a backslash before it for one before the end.
	line = strings.ReplaceAll(line, "\r", "␍")
	parser := w.bash
	posix := w.opts.Dialect == POSIX
	if posix {
		parser = w.posix
	}
	file, err := parse(parser, line)
	if err != nil {
		text := printable(err.Error())
		if w.parseError == "" {
			w.parseError = text
		}
		w.strange(fr, "it cannot be read: "+text)
		return
	}
	src, was := w.src, w.posixMode
	w.src, w.posixMode = line, posix
	w.stmts(file.Stmts, sc, fr)
	w.src, w.posixMode = src, was
}

// parse gives the syntax tree. A parser that panics has not read the line.
func parse(p *syntax.Parser, line string) (file *syntax.File, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the parser failed: %v", cause)
		}
	}()
	return p.Parse(strings.NewReader(line), "")
}

// open counts how many brackets could be open at once.
func open(line string) int {
	most, now := 0, 0
	for i := range len(line) {
		switch line[i] {
		case '`':
			if i == 0 || line[i-1] != '\\' {
				continue
			}
			now++
		case '(', '{', '[', '!':
			now++
		case ')', '}', ']':
			now = max(0, now-1)
		}
		most = max(most, now)
	}
	return most
}

// keywords counts the words that could each open a command within another, in a line that
// is long enough for them to cost much.
func keywords(line string) (n int) {
	if len(line) < 4<<10 {
		return 0
	}
	for _, word := range []string{"if", "while", "until", "do", "then", "else", "time", "coproc", "for", "case"} {
		n += strings.Count(line, word+" ") + strings.Count(line, word+"\n") + strings.Count(line, word+"\t")
	}
	return n
}

// source is what the line says of a node.
func (w *walker) source(node syntax.Node) string {
	from, to := int(node.Pos().Offset()), int(node.End().Offset())
	if from < 0 || from >= to || to > len(w.src) {
		return "…"
	}
	return w.src[from:to]
}

func (w *walker) stmts(stmts []*syntax.Stmt, sc *scope, fr frame) {
	for _, s := range stmts {
		w.stmt(s, sc, fr)
	}
}

func (w *walker) stmt(s *syntax.Stmt, sc *scope, fr frame) {
	if s == nil || !w.enter() {
		return
	}
	defer w.leave()
	w.step()
	if s.Background || s.Coprocess || s.Disown {
		sc, fr.forks = sc.child(), true
	}
	call, simple := s.Cmd.(*syntax.CallExpr)
	if simple && len(s.Redirs) == 0 {
		w.call(call, sc, fr, "")
		return
	}
	if len(s.Redirs) > 0 {
		p, in := w.redirects(s.Redirs, sc, fr)
		if in != nil {
			fr.stdin = in
		}
		if s.Cmd == nil || len(p.Effects) > 0 && !simple {
			alone := p
			alone.Text = w.redirText(s.Redirs)
			w.append(alone)
		}
		if simple {
			fr.base = &p
		}
	}
	if simple {
		w.call(call, sc, fr, w.redirText(s.Redirs))
		return
	}
	w.compound(s.Cmd, sc, fr)
}

func (w *walker) compound(cmd syntax.Command, sc *scope, fr frame) {
	switch c := cmd.(type) {
	case nil:
	case *syntax.BinaryCmd:
		w.binary(c, sc, fr)
	case *syntax.Subshell:
		w.stmts(c.Stmts, sc.child(), fr)
	case *syntax.Block:
		w.stmts(c.Stmts, sc, fr)
	case *syntax.IfClause:
		w.ifClause(c, sc, fr)
	case *syntax.WhileClause:
		w.endless(c, fr)
		w.loop(c, sc)
		w.branch(append(slices.Clip(c.Cond), c.Do...), sc, fr)
	case *syntax.ForClause:
		w.forClause(c, sc, fr)
	case *syntax.CaseClause:
		w.caseClause(c, sc, fr)
	case *syntax.FuncDecl:
		w.function(c, sc, fr)
	case *syntax.ArithmCmd:
		w.arithm(c.X, sc, fr)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			w.arithm(x, sc, fr)
		}
	case *syntax.TestClause:
		w.testExpr(c.X, sc, fr)
	case *syntax.DeclClause:
		w.declare(c, sc, fr)
	case *syntax.TimeClause:
		w.stmt(c.Stmt, sc, fr)
	case *syntax.CoprocClause:
		fr.forks = true
		if c.Name != nil && !w.quietVariable(c.Name.Lit()) {
			w.strange(fr, "coproc sets a variable that changes what programs do")
		}
		w.stmt(c.Stmt, sc.child(), fr)
	default:
		w.strange(fr, "a construct that is not read")
	}
}

// branch walks what may or may not happen.
func (w *walker) branch(stmts []*syntax.Stmt, sc *scope, fr frame) {
	c := sc.child()
	w.stmts(stmts, c, fr)
	sc.join(c)
}

func (w *walker) ifClause(c *syntax.IfClause, sc *scope, fr frame) {
	w.stmts(c.Cond, sc, fr)
	w.branch(c.Then, sc, fr)
	for c = c.Else; c != nil; c = c.Else {
		w.step()
		w.branch(append(slices.Clip(c.Cond), c.Then...), sc, fr)
	}
}

func (w *walker) forClause(c *syntax.ForClause, sc *scope, fr frame) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		w.loop(c, sc)
		w.wordIter(l, sc, fr)
	case *syntax.CStyleLoop:
		w.arithm(l.Init, sc, fr)
		w.loop(c, sc)
		w.arithm(l.Cond, sc, fr)
		w.arithm(l.Post, sc, fr)
		if l.Cond == nil {
			w.startsJobs(c, fr)
		}
	}
	w.branch(c.Do, sc, fr)
}

// wordIter sets a loop's variable to what its items have in common.
func (w *walker) wordIter(l *syntax.WordIter, sc *scope, fr frame) {
	items := w.fields(l.Items, sc, fr)
	v := variable{field: field{Word: Word{Value: "$" + l.Name.Value}, num: true, plain: true}, safe: true}
	if len(items) == 0 {
		v.safe, v.num, v.plain, v.many = false, false, false, true
	}
	for i := range items {
		f := &items[i]
		v.safe = v.safe && !f.unsafe && (f.num || f.Known && safeNumber(f.Value))
		v.num = v.num && (f.num || f.Known && f.Value != "" && strings.Trim(f.Value, "0123456789") == "")
		v.plain = v.plain && (f.num || f.plain && !f.Glob)
		v.many = v.many || f.many || f.Glob || strings.ContainsAny(f.Value, " \t\n")
		start := f.start()
		if i == 0 {
			v.prefix = start
		}
		v.prefix = common(v.prefix, start)
	}
	if len(items) == 1 && items[0].Known {
		v.field = items[0]
		v.Glob = strings.ContainsAny(v.Value, "*?[")
	}
	if !w.quietVariable(l.Name.Value) {
		w.strange(fr, l.Name.Value+" changes what programs do")
	}
	sc.set(l.Name.Value, v)
}

func common(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

func (w *walker) caseClause(c *syntax.CaseClause, sc *scope, fr frame) {
	w.one(c.Word, sc, fr)
	for _, item := range c.Items {
		for _, pattern := range item.Patterns {
			w.one(pattern, sc, fr)
		}
		w.branch(item.Stmts, sc, fr)
	}
}

// testExpr walks what stands in [[ ]].
func (w *walker) testExpr(x syntax.TestExpr, sc *scope, fr frame) {
	if x == nil || !w.enter() {
		return
	}
	defer w.leave()
	switch x := x.(type) {
	case *syntax.Word:
		w.one(x, sc, fr)
	case *syntax.ParenTest:
		w.testExpr(x.X, sc, fr)
	case *syntax.UnaryTest:
		word, ok := x.X.(*syntax.Word)
		if ok && (x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar) {
			w.arithm(word, sc, fr)
			return
		}
		w.testExpr(x.X, sc, fr)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if word, ok := side.(*syntax.Word); ok {
					w.arithm(word, sc, fr)
				}
			}
		default:
			w.testExpr(x.X, sc, fr)
			w.testExpr(x.Y, sc, fr)
		}
	}
}
