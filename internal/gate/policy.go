package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"airlock/internal/gate/shellrisk"
	"airlock/internal/tool"
)

// The layers, in the order in which they are shown. Of rules that match, the strictest
// wins, whatever its layer.
const (
	layerBuiltin = "builtin"
	layerSystem  = "system"
	layerUser    = "user"
	layerProject = "project"
)

// A policy is one file's.
type policy struct {
	layer, file string
	defaults    [numRisks]*tool.Verdict // by risk; nil where the file does not say
	rules       []*rule
}

// A rule is what a file says of some calls. A condition that is absent holds for all.
type rule struct {
	layer, name, file string
	line              int
	verdict           tool.Verdict
	why, what         string
	host, sandbox     bool // where it holds

	tools, actions []glob
	programs       []program
	args           []argument
	paths          []*pathPattern
	ops            opSet // with paths; 0: any
	hosts, users   []glob
	risks          riskSet // 0: any; of an allow rule: any but those that must be named
	certain        bool    // holds only where it certainly does
	notInert       bool    // not where nothing runs what a commit would write
	match, noMatch []example
}

// id is how a verdict names the rule.
func (r *rule) id() string { return r.layer + "/" + r.name }

// An example is a test of a rule: a line, or a call.
type example struct {
	text string // for messages
	call tool.Call
	line int
	col  int
}

// decodePolicy reads a policy; that it is right by its own tests is for check to say.
func decodePolicy(layer, file string, text []byte) (*policy, error) {
	d := &document{file: file}
	root, err := d.parse(text)
	if err != nil {
		return nil, err
	}
	p := &policy{layer: layer, file: file}
	if root == nil {
		return nil, &LoadError{File: file, Text: `it is empty; a policy begins with "version: 1"`}
	}
	version := ""
	err = d.mapping(root, "a policy", map[string]member{
		"version":  d.version(&version),
		"defaults": func(n ast.Node) error { return d.defaults(n, p) },
		"rules":    func(n ast.Node) error { return d.rules(n, p) },
	})
	if err != nil {
		return nil, err
	}
	if version == "" {
		return nil, d.fail(root, `the version is missing; write "version: 1"`)
	}
	return p, nil
}

func (d *document) version(into *string) member {
	return func(n ast.Node) error {
		s, err := d.text(n, "version")
		if err == nil && s != "1" {
			err = d.fail(n, "version %s is not known; this program reads version 1", s)
		}
		*into = s
		return err
	}
}

// defaults reads the verdicts by risk.
func (d *document) defaults(n ast.Node, p *policy) error {
	members := map[string]member{}
	for i, risk := range tool.Risks {
		read := func(n ast.Node) error {
			v, err := d.verdict(n)
			if err != nil {
				return err
			}
			if v == tool.Allow && mustBeNamed.has(i) {
				return d.fail(n, "%s cannot be allowed by default; write a rule with verdict: allow and risk: [%s] for what is meant", risk, risk)
			}
			p.defaults[i] = &v
			return nil
		}
		for _, spelling := range []string{"-", " ", "_"} {
			members[strings.ReplaceAll(string(risk), "-", spelling)] = read
		}
	}
	return d.mapping(n, "defaults", members)
}

func (d *document) verdict(n ast.Node) (tool.Verdict, error) {
	s, err := d.text(n, "a verdict")
	if err != nil {
		return tool.Deny, err
	}
	v, ok := verdicts[s]
	if !ok {
		return tool.Deny, d.fail(n, "a verdict is deny, ask or allow, not %q%s", s, meant(s, verdicts))
	}
	return v, nil
}

var verdicts = map[string]tool.Verdict{"deny": tool.Deny, "ask": tool.Ask, "allow": tool.Allow}

func (d *document) rules(n ast.Node, p *policy) error {
	if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		return nil
	}
	nodes, err := d.items(n, "rules", maxRules)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, node := range nodes {
		r, err := d.rule(node)
		if err != nil {
			return err
		}
		if names[r.name] {
			return d.fail(node, "there are two rules named %q", r.name)
		}
		names[r.name] = true
		r.layer, r.file = p.layer, p.file
		p.rules = append(p.rules, r)
	}
	return nil
}

// A draft is a rule as it is written, before its parts are put together.
type draft struct {
	name, why                                           string
	tools, actions, programs, args, paths, ops, hosts   []string
	users, risks                                        []string
	nameNode, pathsNode, argsNode, programNode, opsNode ast.Node
}

func (d *document) rule(n ast.Node) (*rule, error) {
	r, w := &rule{}, &draft{}
	keep := func(at *ast.Node, m member) member {
		return func(n ast.Node) error {
			*at = n
			return m(n)
		}
	}
	one := func(into *string, what string) member {
		return func(n ast.Node) (err error) {
			*into, err = d.text(n, what)
			return err
		}
	}
	err := d.mapping(n, "a rule", map[string]member{
		"name": keep(&w.nameNode, one(&w.name, "name")),
		"verdict": func(n ast.Node) (err error) {
			r.verdict, err = d.verdict(n)
			return err
		},
		"why":     one(&w.why, "why"),
		"where":   func(n ast.Node) error { return d.where(n, r) },
		"tool":    d.words(&w.tools, "tool", nonempty),
		"action":  d.words(&w.actions, "action", nonempty),
		"program": keep(&w.programNode, d.words(&w.programs, "program", nonempty)),
		"args":    keep(&w.argsNode, d.words(&w.args, "args", nonempty)),
		"paths":   keep(&w.pathsNode, d.words(&w.paths, "paths", nonempty)),
		"op":      keep(&w.opsNode, d.words(&w.ops, "op", known(ops))),
		"hosts":   d.words(&w.hosts, "hosts", nonempty),
		"user":    d.words(&w.users, "user", nonempty),
		"risk":    d.words(&w.risks, "risk", riskName),
		"certain": func(n ast.Node) error { return d.flag(n, "certain", &r.certain) },
		"unless":  func(n ast.Node) error { return d.unless(n, r) },
		"match":   func(n ast.Node) error { return d.examples(n, "match", &r.match) },
		"no_match": func(n ast.Node) error {
			return d.examples(n, "no_match", &r.noMatch)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := d.named(n, w, r); err != nil {
		return nil, err
	}
	return r, d.assemble(n, w, r)
}

// named checks the rule's name, and notes where it stands.
func (d *document) named(n ast.Node, w *draft, r *rule) error {
	if w.nameNode == nil {
		return d.fail(n, "a rule has no name; a verdict could not say which rule gave it")
	}
	if !plainName(w.name) {
		return d.fail(w.nameNode, "the name %q is not one of at most 64 letters, digits, dots, dashes and underscores", w.name)
	}
	r.name, r.line = w.name, position(w.nameNode).Line
	if r.why = show(w.why); r.why == "" {
		r.why = "a rule of the policy says so"
	}
	if !r.host && !r.sandbox {
		r.host, r.sandbox = true, true
	}
	return nil
}

// assemble makes conditions of what was written.
func (d *document) assemble(n ast.Node, w *draft, r *rule) error {
	if len(w.tools)+len(w.actions)+len(w.programs)+len(w.args)+len(w.paths)+len(w.hosts)+len(w.users)+len(w.risks) == 0 {
		return d.fail(n, `rule %s has no condition; for one that holds always, write tool: "*"`, w.name)
	}
	if len(w.args) > 0 && len(w.programs) == 0 {
		return d.fail(w.argsNode, "rule %s has args without a program", w.name)
	}
	if w.opsNode != nil && len(w.paths) == 0 {
		return d.fail(w.opsNode, "rule %s has op without paths", w.name)
	}
	if r.certain && r.verdict == tool.Allow {
		return d.fail(n, "rule %s: an allow rule is always certain; take certain out", w.name)
	}
	if r.notInert && r.verdict == tool.Allow {
		return d.fail(n, "rule %s: unless is for rules that deny or ask", w.name)
	}
	r.what = w.conditions()
	r.tools, r.actions, r.users = globs(w.tools), globs(w.actions), globs(w.users)
	for _, h := range w.hosts {
		r.hosts = append(r.hosts, glob(hostName(h)))
	}
	for _, p := range w.programs {
		// It would match nothing, and nobody would notice: a pattern is no regular expression.
		if strings.ContainsAny(p, "|;&()<> \t") && p != shellrisk.ForkBomb {
			return d.fail(w.programNode, "program %q is no program's name; write several as a list: [git, hg]", p)
		}
		c, err := parseProgram(p)
		if err != nil {
			return d.fail(w.programNode, "program %s: %v", p, err)
		}
		r.programs = append(r.programs, c)
	}
	for _, a := range w.args {
		r.args = append(r.args, parseArgument(a))
	}
	for _, p := range w.paths {
		c, err := parsePath(p)
		if err != nil {
			return d.fail(w.pathsNode, "paths: %s: %v", p, err)
		}
		r.paths = append(r.paths, c)
	}
	for _, o := range w.ops {
		r.ops |= ops[o]
	}
	for _, risk := range w.risks {
		r.risks |= 1 << riskIndex(tool.Risk(risk))
	}
	return nil
}

func (d *document) where(n ast.Node, r *rule) error {
	s, err := d.text(n, "where")
	if err != nil {
		return err
	}
	if _, ok := wheres[s]; !ok {
		return d.fail(n, "where is host, sandbox or any, not %q%s", s, meant(s, wheres))
	}
	r.host, r.sandbox = s != "sandbox", s != "host"
	return nil
}

// unless reads what a rule is not about.
func (d *document) unless(n ast.Node, r *rule) error {
	s, err := d.text(n, "unless")
	if err == nil && s != "inert" {
		err = d.fail(n, "unless is inert: the rule is not about what a commit writes and nothing runs")
	}
	r.notInert = true
	return err
}

var wheres = map[string]bool{"host": true, "sandbox": true, "any": true}

func (d *document) flag(n ast.Node, what string, into *bool) error {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return d.fail(n, "%s is true or false", what)
	}
	*into = b.Value
	return nil
}

// plainName reports whether s can name a rule.
func plainName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == "" &&
		!strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r <= ' ' || r == '/' || r == '"' })
}

func nonempty(s string) (string, error) {
	if s == "" {
		return "", errors.New("an element is empty")
	}
	return s, nil
}

// known checks that a word is one of a table's.
func known[V any](table map[string]V) func(string) (string, error) {
	return func(s string) (string, error) {
		if _, ok := table[s]; ok {
			return s, nil
		}
		names := make([]string, 0, len(table))
		for name := range table {
			names = append(names, name)
		}
		slices.Sort(names)
		return "", fmt.Errorf("%q is not one of %s%s", s, strings.Join(names, ", "), meant(s, table))
	}
}

// riskName takes the three spellings of a risk.
func riskName(s string) (string, error) {
	return known(riskNames)(strings.NewReplacer(" ", "-", "_", "-").Replace(s))
}

var riskNames = func() map[string]bool {
	out := map[string]bool{}
	for _, r := range tool.Risks {
		out[string(r)] = true
	}
	return out
}()
