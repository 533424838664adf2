package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"airlock/internal/tool"
)

// Where a policy's tests take place: nowhere that exists, so that they say the same on
// every machine. ~ is testHome, ./ is testDir.
const (
	testHome = "/home/you"
	testDir  = "/home/you/project"
)

// maxExamples is how many tests a rule may have on each side.
const maxExamples = 50

// commitTool is the tool that rules name to be about commits.
const commitTool = "changes.commit"

// examples reads the tests of a rule: lines, or calls.
func (d *document) examples(n ast.Node, what string, into *[]example) error {
	nodes, err := d.items(n, what, maxExamples)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		e := example{line: position(node).Line, col: position(node).Column}
		if _, ok := node.(ast.MapNode); ok {
			if err := d.exampleCall(node, &e); err != nil {
				return err
			}
		} else {
			line, err := d.text(node, what)
			if err != nil {
				return err
			}
			args, _ := json.Marshal(map[string]string{"command": line}) // strings can be marshalled
			e.text, e.call = line, tool.Call{Tool: "cmd.run", Action: "execute", Args: args}
		}
		*into = append(*into, e)
	}
	return nil
}

// exampleCall reads a call that is a test.
func (d *document) exampleCall(n ast.Node, e *example) error {
	args := map[string]any{}
	err := d.mapping(n, "a test", map[string]member{
		"tool":   func(n ast.Node) (err error) { e.call.Tool, err = d.text(n, "tool"); return err },
		"action": func(n ast.Node) (err error) { e.call.Action, err = d.text(n, "action"); return err },
		"args": func(n ast.Node) error {
			if err := yaml.NodeToValue(n, &args); err != nil {
				return d.fail(n, "args must be a mapping")
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if e.call.Args, err = json.Marshal(args); err != nil {
		return d.fail(n, "args: %v", err)
	}
	if e.call.Tool == "" {
		return d.fail(n, "a test that is no line names a tool")
	}
	e.text = e.call.Tool + " " + e.call.Action + " " + string(e.call.Args)
	return nil
}

// selfTest holds the rules of a policy against their own tests.
func (g *Gate) selfTest(p *policy) error {
	if !slices.ContainsFunc(p.rules, func(r *rule) bool { return len(r.match)+len(r.noMatch) > 0 }) {
		return nil
	}
	state := []string{path.Join(testHome, ".local/state/airlock"), path.Join(testHome, ".config/airlock"), "/etc/airlock"}
	world := &Gate{opts: Options{Homes: []string{testHome}, State: state, HostIdentity: "you@here:test", Actions: g.opts.Actions, Now: g.opts.Now, imagined: true}}
	world.places = newPlaces(&world.opts)
	for _, r := range p.rules {
		for _, side := range []struct {
			examples []example
			want     bool
			says     string
		}{{r.match, true, "match: the rule does not match %q"}, {r.noMatch, false, "no_match: the rule matches %q"}} {
			for _, e := range side.examples {
				got, err := world.holds(r, &e)
				text := fmt.Sprintf(side.says, show(e.text))
				if err != nil {
					got, text = !side.want, fmt.Sprintf("its test %q cannot be judged: %v", show(e.text), err)
				}
				if got != side.want {
					return &LoadError{File: p.file, Line: e.line, Column: e.col, Text: "rule " + r.name + ": " + text}
				}
			}
		}
	}
	return nil
}

// holds reports whether a rule decides about a test. A rule that denies or asks does if
// it is about some part of a line; one that allows, if it covers every part that is more
// than read-only.
func (g *Gate) holds(r *rule, e *example) (bool, error) {
	q := &tool.Question{Call: e.call, WorkDir: testDir, Env: map[string]string{"HOME": testHome, "PWD": testDir, "USER": "you"}}
	where := tool.OnHost
	if !r.host {
		where = tool.InSandbox
	}
	var subjects []subject
	if e.call.Tool == commitTool {
		args, err := members(e.call.Args)
		if err != nil {
			return false, err
		}
		paths, err := args.words("path")
		if err != nil || len(paths) != 1 {
			return false, fmt.Errorf("a test of %s has one path, args: {path: …}", commitTool)
		}
		p := CommitPath{Path: g.touchesOf(paths[0], testDir, opWrite)[0].path, Kind: e.call.Action, Type: typeFile}
		if texts, err := args.words("content"); err == nil && len(texts) == 1 {
			p.Content = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(texts[0])), nil }
		}
		if types, err := args.words("type"); err == nil && len(types) == 1 {
			p.Type = types[0]
		}
		subjects = []subject{g.commitSubject(p, testDir)}
		if strings.HasPrefix(paths[0], "~/") {
			subjects[0].touches[0].path = testHome + paths[0][1:]
		}
	} else {
		var err error
		q.Action = g.actionOf(&e.call)
		if subjects, err = g.subjects(q, where); err != nil {
			return false, err
		}
	}
	m := matcher{g.places}
	if r.verdict == tool.Allow {
		covered := func(s subject) bool {
			return s.risk == tool.RiskReadOnly && len(subjects) > 1 || r.allows(&s) && all(s.effects, func(e effect) bool { return m.covers(r, &s, &e) })
		}
		return len(subjects) > 0 && all(subjects, covered), nil
	}
	return slices.ContainsFunc(subjects, func(s subject) bool {
		found := m.mayMatch(r, &s)
		return found == yes || found == maybe && !r.certain
	}), nil
}

// actionOf is what is known of a test's action, or what its arguments' names say of it.
func (g *Gate) actionOf(c *tool.Call) *tool.Action {
	if g.opts.Actions != nil {
		if a := g.opts.Actions(c.Tool, c.Action); a != nil {
			return a
		}
	}
	if c.Tool == "cmd.run" {
		return &tool.Action{Name: c.Action, Risk: tool.RiskUnknown, Command: "command"}
	}
	a := &tool.Action{Name: c.Action, Risk: tool.RiskWritesInside, Paths: []string{"path", "paths"}, Hosts: []string{"host", "hosts"}}
	switch verb, _, _ := strings.Cut(c.Action, "_"); verb {
	case "read", "list", "stat", "search", "get", "status":
		a.Risk = tool.RiskReadOnly
	case "delete", "remove":
		a.Risk = tool.RiskDestructive
	}
	return a
}

// A CommitPath is a path that a commit would change.
type CommitPath struct {
	Path string // absolute
	Kind string // added, modified, deleted or metadata
	Type string // of what would be there: file, dir, symlink …; "" is not known

	// Content opens what a file would hold, for rules that are only about what something
	// runs. Nil: it cannot be told.
	Content func() (io.ReadCloser, error)
}

// A CommitFinding is what the policy says of a path that a commit would change. Deny: it
// is not let out. Ask: only if a person names it.
type CommitFinding struct {
	CommitPath
	Verdict tool.Verdict
	Rule    string
	Why     string
}

// JudgeCommit gives the paths of a change set that may not be let out just so, in their
// order. Only rules that name the tool changes.commit, or match its name, are about
// commits. Where a policy cannot be read, no path may be let out.
func (g *Gate) JudgeCommit(ctx context.Context, paths []CommitPath, workDir string) []CommitFinding {
	g.places.forget()
	set := g.layers.current(workDir, true)
	var out []CommitFinding
	for _, p := range paths {
		f := finding{verdict: tool.Deny, rule: "builtin/interrupted", why: "the commit was given up"}
		switch {
		case set.broken != nil:
			f.rule, f.why = set.layer+"/unreadable", set.broken.Error()
		case ctx.Err() == nil:
			s := g.commitSubject(p, workDir)
			f = set.decide(matcher{g.places}, &s)
		}
		if f.verdict != tool.Allow {
			out = append(out, CommitFinding{p, f.verdict, f.rule, show(f.why)})
		}
	}
	return out
}

// commitSubject is a path of a commit as rules see it.
func (g *Gate) commitSubject(p CommitPath, workDir string) subject {
	op := opWrite
	if p.Kind == "deleted" {
		op = opDelete
	}
	return subject{
		tool: commitTool, action: p.Kind, where: tool.OnHost, workDir: workDir, commit: true, risk: tool.RiskWritesInside,
		why: "it is part of the change set", text: show(p.Path), users: []word{g.caller()},
		touches: []touch{{path: path.Clean(p.Path), op: op, known: path.IsAbs(p.Path), exact: true}},
		inert:   p.inert,
	}
}
