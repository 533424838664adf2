package shellrisk

import "mvdan.cc/sh/v3/syntax"

// endless notes a loop without an end that starts one job after the other.
func (w *walker) endless(c *syntax.WhileClause, fr frame) {
	if len(c.Cond) != 1 {
		return
	}
	call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) != 1 || !constant[call.Args[0].Lit()] {
		return
	}
	w.startsJobs(c, fr)
}

// startsJobs notes the jobs that a loop without an end starts.
func (w *walker) startsJobs(loop syntax.Node, fr frame) {
	syntax.Walk(loop, func(n syntax.Node) bool {
		w.step()
		if s, ok := n.(*syntax.Stmt); ok && (s.Background || s.Disown) {
			w.strange(fr, "a loop without an end starts jobs that may never stop")
			return false
		}
		return true
	})
}

var constant = map[string]bool{":": true, "true": true, "false": true}
