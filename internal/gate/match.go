package gate

import (
	"path"
	"slices"
	"strings"

	"airlock/internal/gate/shellrisk"
	"airlock/internal/tool"
)

// A matcher holds rules against subjects.
type matcher struct{ places *places }

// about reports whether a rule is about the place and the tool of a subject at all.
func (r *rule) about(s *subject) bool {
	switch {
	case s.where == tool.OnHost && !r.host, s.where == tool.InSandbox && !r.sandbox:
		return false
	case len(r.tools) == 0:
		return !s.commit
	}
	return anyGlob(r.tools, s.tool)
}

// mayMatch says whether a rule that denies or asks is about a subject: every condition
// must hold, as far as it can be told.
func (m matcher) mayMatch(r *rule, s *subject) tri {
	if !r.about(s) || len(r.actions) > 0 && !anyGlob(r.actions, s.action) {
		return no
	}
	if s.opaque {
		return maybe
	}
	result := yes
	if len(r.programs) > 0 {
		if result = r.commandMay(s); result == no {
			return no
		}
	}
	if result != no && len(r.users) > 0 {
		result = min(result, wordsMay(r.users, s.users))
	}
	if result != no && len(r.hosts) > 0 {
		result = min(result, wordsMay(r.hosts, s.hosts))
	}
	if result != no && r.risks != 0 {
		result = min(result, r.riskMay(s))
	}
	if result != no && len(r.paths) > 0 {
		result = min(result, m.pathsMay(r, s))
	}
	if result != no && r.notInert && s.inert != nil && s.inert() {
		return no
	}
	return result
}

// commandMay holds a rule's program and args against a command, and its program against
// those that run the command; what these are given beside it is not known.
func (r *rule) commandMay(s *subject) tri {
	if !s.command {
		return no
	}
	best := no
	if s.base == "" {
		best = min(maybe, mayMatch(r.args, append(slices.Clone(s.args), word{})))
	}
	for _, p := range r.programs {
		if found := p.matches(s.name, s.base); s.base != "" && found > best {
			best = max(best, min(found, mayMatch(r.args, s.args)))
		}
		for _, w := range s.wrappers {
			switch {
			case !p.name.matches(path.Base(w)):
			case len(r.args) == 0:
				return yes
			default:
				best = max(best, maybe)
			}
		}
	}
	return best
}

func wordsMay(globs []glob, words []word) tri {
	best := no
	for _, w := range words {
		switch {
		case !w.known:
			best = max(best, maybe)
		case anyGlob(globs, w.value):
			return yes
		}
	}
	return best
}

func (r *rule) riskMay(s *subject) tri {
	if r.risks.has(riskIndex(s.risk)) || slices.ContainsFunc(s.effects, func(e effect) bool { return r.risks.has(riskIndex(e.risk)) }) {
		return yes
	}
	return no
}

// pathsMay says whether a subject touches what the rule's paths name. Who deletes a folder
// deletes what is in it; who writes to one may.
func (m matcher) pathsMay(r *rule, s *subject) tri {
	best := no
	look := func(t *touch) {
		if r.ops != 0 && t.op&r.ops == 0 {
			return
		}
		for i := range r.paths {
			best = max(best, m.touchMay(r.paths[i], t, s.workDir))
		}
	}
	for i := range s.touches {
		look(&s.touches[i])
	}
	for i := range s.effects {
		if t := s.effects[i].touch; t != nil && best != yes {
			look(t)
		}
	}
	return best
}

func (m matcher) touchMay(p *pathPattern, t *touch, workDir string) tri {
	if !t.known {
		return m.openMay(p, t, workDir)
	}
	found := m.places.compare(p, t.path, workDir)
	if found != maybe {
		return found
	}
	switch { // the path is a folder above what the pattern names
	case t.op == opDelete, t.op == opRead && t.deep:
		return yes
	case t.op == opRead || t.exact:
		return no
	}
	return maybe
}

// openMay is touchMay of a path that is not known: a pattern that the shell expands, or a
// word with a variable in it.
func (m matcher) openMay(p *pathPattern, t *touch, workDir string) tri {
	name := t.path
	if rest, ok := strings.CutPrefix(name, "~/"); ok && len(m.places.homes) > 0 {
		name = m.places.homes[0] + "/" + rest
	}
	if name == "" || strings.ContainsAny(name, "$`\"'\\{}()<>~") {
		return maybe
	}
	if name[0] != '/' {
		name = workDir + "/" + name
	}
	// All there is in a folder is as good as the folder, to those who delete.
	if i := strings.LastIndexByte(name, '/'); strings.Trim(name[i:], "/*?.") == "" && t.op == opDelete {
		for strings.Trim(name[i:], "/*?.") == "" && i > 0 {
			name = name[:i]
			i = strings.LastIndexByte(name, '/')
		}
		if strings.Trim(name, "/*?.") == "" {
			name = "/"
		}
		if !strings.ContainsAny(name, "*?[") {
			known := touch{path: m.places.resolve(name), op: opDelete, known: true}
			return m.touchMay(p, &known, workDir)
		}
	}
	// What stands before the first component that is a pattern is where it all lies.
	first := strings.IndexAny(name, "*?[")
	if first < 0 || strings.Contains(name, "/../") {
		return maybe
	}
	dir := name[:strings.LastIndexByte(name[:first], '/')]
	if dir == "" {
		dir = "/"
	}
	real := m.places.resolve(dir)
	if real == "" {
		return maybe
	}
	rest := strings.TrimPrefix(name[len(strings.TrimSuffix(dir, "/")):], "/")
	return m.globMay(p, real, rest, workDir)
}

// globMay says whether what a shell's pattern below dir expands to may be named by a rule.
func (m matcher) globMay(p *pathPattern, dir, pattern, workDir string) tri {
	found := m.places.compare(p, dir, workDir)
	if found == yes {
		return yes // all of dir is meant
	}
	first, _, more := strings.Cut(pattern, "/")
	if p.root == '@' {
		if found == maybe && m.places.sets()[p.set].visible(dir, first) {
			return maybe
		}
		return no
	}
	if last := len(p.segs) - 1; last >= 0 && !more && p.segs[last] != "**" && !expands(first, p.segs[last]) {
		return no
	}
	for _, root := range m.places.roots(p, workDir) {
		rel, inside := relative(root, dir)
		if !inside {
			if _, above := relative(dir, root); above {
				return maybe
			}
			continue
		}
		depth := 0
		if rel != "" {
			depth = strings.Count(rel, "/") + 1
		}
		switch n := slices.Index(p.segs, "**"); {
		case n >= 0 && n <= depth:
			return maybe
		case depth < len(p.segs) && below(p.segs[:depth], rel) == yes && expands(first, p.segs[depth]):
			return maybe
		}
	}
	return no
}

// expands reports whether a component with shell patterns may stand for what a rule's
// component names. A * does not stand for a dot at a name's beginning.
func expands(shell, seg string) bool {
	switch {
	case strings.ContainsRune(shell, '[') || !glob(seg).literal():
		return true
	case seg[0] == '.' && shell[0] != '.':
		return false
	}
	return glob(shell).matches(seg)
}

// covers reports whether an allow rule covers an effect of a subject: all of it is known,
// and nothing of it is more than the rule says.
func (m matcher) covers(r *rule, s *subject, e *effect) bool {
	risk := riskIndex(e.risk)
	switch {
	case r.risks != 0 && !r.risks.has(risk), r.risks == 0 && mustBeNamed.has(risk):
		return false
	case e.risk == tool.RiskUnknown && !s.ownEffect(e):
		return false
	case len(r.hosts) > 0 && (e.host == "" || !anyGlob(r.hosts, e.host)):
		return false
	case len(r.paths) == 0:
		return !m.aside(s, e)
	case e.touch == nil:
		return e.host == "" && m.summary(r, s)
	}
	return m.coversTouch(r, s, e.touch)
}

func (m matcher) coversTouch(r *rule, s *subject, t *touch) bool {
	return t.known && (r.ops == 0 || t.op&^r.ops == 0) &&
		slices.ContainsFunc(r.paths, func(p *pathPattern) bool { return m.places.within(p, t.path, s.workDir) })
}

// fileTools do nothing but to the files they name: what is said of one without a path is
// a summary of what is said with them.
var fileTools = map[string]bool{
	"chgrp": true, "chmod": true, "chown": true, "cp": true, "install": true, "ln": true, "mkdir": true, "mv": true,
	"rm": true, "rmdir": true, "sed": true, "tee": true, "touch": true, "truncate": true, "unlink": true,
}

// summary reports whether an effect without a path is one of paths that a rule covers.
func (m matcher) summary(r *rule, s *subject) bool {
	named := func(e effect) bool { return e.touch != nil && !m.aside(s, &e) }
	return fileTools[s.base] && slices.ContainsFunc(s.effects, named) &&
		all(s.effects, func(e effect) bool { return e.touch == nil || m.coversTouch(r, s, e.touch) })
}

// ownEffect reports whether an unknown effect is the program's own, and not one of what
// stands around it, such as a variable that changes what programs do: then the same words
// alone have it. Where it may run in another folder, nothing unknown is covered.
func (s *subject) ownEffect(e *effect) bool {
	if !s.command {
		return true
	}
	if s.moved || slices.Contains(s.wrappers, "env") {
		return false
	}
	argv := []string{s.name}
	for _, a := range s.args {
		argv = append(argv, a.value)
	}
	bare := shellrisk.AnalyzeArgv(argv, &shellrisk.Options{WorkDir: s.dir})
	return len(bare.Parts) == 1 && slices.ContainsFunc(bare.Parts[0].Effects, func(b shellrisk.Effect) bool {
		return b.Risk == shellrisk.Unknown && b.Why == e.why
	})
}

// aside reports whether an effect is on a file that is not one of a command's words: a
// redirection beside it is not the program's doing. A folder among the words stands for
// what is in it.
func (m matcher) aside(s *subject, e *effect) bool {
	if !s.command || e.touch == nil {
		return false
	}
	return !e.touch.known || !slices.ContainsFunc(s.args, func(w word) bool {
		return m.names(s, w.value, e.touch.path)
	})
}

// names reports whether a word, or what stands behind its =, is the path or a folder above.
func (m matcher) names(s *subject, value, file string) bool {
	if _, after, ok := strings.Cut(value, "="); ok && m.names(s, after, file) {
		return true
	}
	if value == "" {
		return false
	}
	if value[0] != '/' {
		value = s.dir + "/" + value
	}
	real := m.places.resolve(value)
	_, in := relative(real, file)
	return in && real != "" && real != "/" && real != m.places.resolve(s.dir)
}

// plainWrappers run a command as it is: an allow rule that names the command is about it
// behind them, too.
var plainWrappers = map[string]bool{
	"command": true, "env": true, "ionice": true, "nice": true, "nohup": true, "stdbuf": true, "time": true, "timeout": true,
}

// allows reports whether an allow rule is about a subject, for certain.
func (r *rule) allows(s *subject) bool {
	if !r.about(s) || len(r.actions) > 0 && !anyGlob(r.actions, s.action) || s.opaque {
		return false
	}
	known := func(w word) bool { return w.known }
	if s.command && (s.base == "" || !all(s.args, known) || !all(s.wrappers, func(w string) bool { return plainWrappers[w] })) {
		return false
	}
	if len(r.programs) > 0 && (!s.command || !slices.ContainsFunc(r.programs, func(p program) bool { return p.certainly(s.name, s.base) })) {
		return false
	}
	if len(r.users) > 0 && !all(s.users, func(w word) bool { return w.known && anyGlob(r.users, w.value) }) {
		return false
	}
	if len(r.hosts) > 0 && !all(s.hosts, func(w word) bool { return w.known && anyGlob(r.hosts, w.value) }) {
		return false
	}
	return len(r.args) == 0 || certainlyMatch(r.args, s.args, s.operands)
}

func all[T any](list []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(list, func(t T) bool { return !holds(t) })
}
