package shellrisk

import "maps"

// A variable is what is known of a shell variable that the line sets.
type variable struct {
	field
	safe bool // in arithmetic, where a value can run a command
}

// A scope is what the line has set so far: a child's changes are its parent's only where
// they are joined.
type scope struct {
	parent *scope
	vars   map[string]variable
	funcs  map[string]bool // false: unset again
	cwd    string          // "" where it is not known
	wild   bool            // names that are not literal were set: what was not set since is not known
	end    bool            // what the parents set does not count
	fresh  bool            // nor do the functions they define: another shell's
}

func (s *scope) child() *scope {
	return &scope{parent: s, cwd: s.cwd, wild: s.wild}
}

func (s *scope) lookup(name string) (variable, bool) {
	for q := s; q != nil; q = q.parent {
		if v, ok := q.vars[name]; ok {
			return v, true
		}
		if q.end {
			break
		}
	}
	return variable{}, false
}

func (s *scope) set(name string, v variable) {
	if s.vars == nil {
		s.vars = map[string]variable{}
	}
	s.vars[name] = v
}

// forget makes a variable one that is not known. safe: it can only hold a number.
func (s *scope) forget(name string, safe bool) {
	s.set(name, variable{field: field{many: !safe, num: safe, Word: Word{Value: "$" + name}}, safe: safe})
}

func (s *scope) function(name string) bool {
	for q := s; q != nil; q = q.parent {
		if is, ok := q.funcs[name]; ok {
			return is
		}
		if q.fresh {
			break
		}
	}
	return false
}

func (s *scope) define(name string, is bool) {
	if s.funcs == nil {
		s.funcs = map[string]bool{}
	}
	s.funcs[name] = is
}

// join takes over what may or may not have happened in a child.
func (s *scope) join(c *scope) {
	for name, v := range c.vars {
		old, ok := s.lookup(name)
		if ok && old == v {
			continue
		}
		s.forget(name, v.safe && (!ok || old.safe))
	}
	for name, is := range c.funcs {
		if !is {
			s.define(name, false)
		}
	}
	if c.end {
		s.goWild()
	}
	if s.cwd != c.cwd {
		s.cwd = ""
	}
}

// adopt takes over what did happen in a child.
func (s *scope) adopt(c *scope) {
	if c.end {
		s.goWild()
	}
	if s.vars == nil {
		s.vars = c.vars
	} else {
		maps.Copy(s.vars, c.vars)
	}
	if s.funcs == nil {
		s.funcs = c.funcs
	} else {
		maps.Copy(s.funcs, c.funcs)
	}
	s.cwd = c.cwd
}

// goWild forgets every variable.
func (s *scope) goWild() {
	s.vars, s.wild, s.end = nil, true, true
}

// shell is the scope of a shell that is started here.
func (s *scope) shell() *scope {
	c := s.child()
	c.goWild()
	c.fresh = true
	return c
}
