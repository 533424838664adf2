// Package manifest reads what a plugin says of itself: a small, strict part of YAML, each
// mistake with its line and column. It looks at no file by itself; whether an executable is
// there and can be trusted is package plugin's to find out.
package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"airlock/internal/changes"
	"airlock/internal/tool"
)

const (
	maxActions       = 64
	maxDescription   = 1000 // characters
	maxNames         = 64   // of variables, and of arguments that are paths or hosts
	defaultTimeout   = time.Minute
	maxTimeout       = time.Hour
	defaultMaxOutput = 1 << 20
	leastMaxOutput   = 1 << 10
	mostMaxOutput    = 8 << 20
)

// A Manifest is what a plugin's author says of it.
type Manifest struct {
	Name        string
	Version     string
	Description string
	Executable  string        // the name of a file beside the manifest
	Actions     []tool.Action // with Risk, Needs and Place as the gate is to be told
	Timeout     time.Duration
	MaxOutput   int64    // bytes of an answer
	Host        bool     // it runs on the host
	Env         []string // the names that it may see beyond the usual ones

	// Where things are said, for Problems that only a look at the files shows.
	NameAt, ExecutableAt Place
	ActionsAt            []Place

	needs []tool.Need
}

// A Place is a line and a column, from 1.
type Place struct{ Line, Column int }

// A Problem is what is wrong with a manifest, or with the folder of one.
type Problem struct {
	File   string // the manifest or folder
	Line   int    // from 1; 0 where no line is to blame
	Column int    // from 1, in characters
	Text   string // what is wrong
	Mend   string // what can be done about it; may be empty
	Err    error  // the cause; may be nil
}

// Error is "FILE:LINE:COLUMN: what is wrong; what can be done", made of printable
// characters.
func (p *Problem) Error() string {
	text := changes.Printable(p.File)
	if p.Line > 0 {
		text += fmt.Sprintf(":%d:%d", p.Line, p.Column)
	}
	text += ": " + changes.Printable(p.Text)
	if p.Mend != "" {
		text += "; " + changes.Printable(p.Mend)
	}
	return text
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// At makes a Problem of this place.
func (p Place) At(format string, args ...any) *Problem {
	return &Problem{Line: p.Line, Column: p.Column, Text: fmt.Sprintf(format, args...)}
}

// risk is what the gate is told of an action. The manifest's word can only make it worse:
// nobody but the author has looked at what the executable does.
func (m *Manifest) risk(a *tool.Action) tool.Risk {
	least := tool.RiskReadOnly
	if slices.Contains(m.needs, tool.NeedNetwork) || len(a.Hosts) > 0 {
		least = tool.RiskNetwork
	}
	if m.Host {
		least = tool.RiskUnknown
	}
	if slices.Index(tool.Risks, a.Risk) < slices.Index(tool.Risks, least) {
		return least
	}
	return a.Risk
}

var (
	nameGrammar     = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)
	actionGrammar   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	variableGrammar = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	fileGrammar     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
)

const maxName = 64

// A field reads one member of an object.
type field struct {
	name     string
	required bool
	read     func(*node) *Problem
}

// object reads an object whose members are fields and nothing else.
func object(n *node, what string, fields []field) *Problem {
	members, ok := n.value.([]member)
	if !ok {
		return n.at("%s must be an object, and this is %s", what, n.kind())
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	given := map[string]bool{}
	for i := range members {
		m := &members[i]
		at := slices.Index(names, m.name)
		if at < 0 {
			p := m.at("%s has no member %q", what, m.name)
			p.Mend = instead(m.name, names)
			return p
		}
		given[m.name] = true
		if p := fields[at].read(m.value); p != nil {
			p.Text = m.name + ": " + p.Text
			return p
		}
	}
	for _, f := range fields {
		if f.required && !given[f.name] {
			p := n.at("%s has no %q", what, f.name)
			p.Mend = "add " + f.name + ":"
			return p
		}
	}
	return nil
}

// Parse reads a manifest. readFile gives the content of a file beside it, by its name; it
// is asked for schemas. Whether a schema is one is for the registry to say.
func Parse(data []byte, readFile func(name string) ([]byte, error)) (*Manifest, *Problem) {
	root, problem := parseYAML(data)
	if problem != nil {
		return nil, problem
	}
	m := &Manifest{Timeout: defaultTimeout, MaxOutput: defaultMaxOutput}
	var needsAt *node
	problem = object(root, "the manifest", []field{
		{"name", true, func(n *node) *Problem { m.NameAt = n.place(); return n.name(&m.Name, nameGrammar) }},
		{"version", true, func(n *node) *Problem { return n.version(&m.Version) }},
		{"description", true, func(n *node) *Problem { return n.line1(&m.Description, maxDescription) }},
		{"executable", true, func(n *node) *Problem { m.ExecutableAt = n.place(); return n.file(&m.Executable) }},
		{"actions", true, func(n *node) *Problem { return m.readActions(n, readFile) }},
		{"timeout", false, func(n *node) *Problem { return n.duration(&m.Timeout) }},
		{"max_output", false, func(n *node) *Problem { return n.size(&m.MaxOutput) }},
		{"needs", false, func(n *node) *Problem { needsAt = n; return m.readNeeds(n) }},
		{"run", false, func(n *node) *Problem { return m.readRun(n) }},
		{"env", false, func(n *node) *Problem { return m.readEnv(n) }},
	})
	if problem != nil {
		return nil, problem
	}
	for _, need := range m.needs {
		if !m.Host && need != tool.NeedNetwork {
			p := needsAt.at("needs: a sandbox does not have the host's %s", need)
			p.Mend = "leave it out, or say run: host"
			return nil, p
		}
	}
	for i := range m.Actions {
		a := &m.Actions[i]
		a.Needs, a.Risk = m.needs, m.risk(a)
		if m.Host {
			a.Place = tool.HostOnly
		}
	}
	return m, nil
}

func (m *Manifest) readActions(n *node, readFile func(string) ([]byte, error)) *Problem {
	list, ok := n.value.([]*node)
	switch {
	case !ok:
		return n.at("must be a list, and this is %s", n.kind())
	case len(list) == 0:
		return n.at("the list is empty: a plugin has one action at least")
	case len(list) > maxActions:
		return n.at("%d actions are more than %d", len(list), maxActions)
	}
	for i, item := range list {
		var a tool.Action
		var nameAt *node
		problem := object(item, fmt.Sprintf("action %d", i+1), []field{
			{"name", true, func(n *node) *Problem {
				nameAt = n
				return n.name(&a.Name, actionGrammar)
			}},
			{"description", true, func(n *node) *Problem { return n.line1(&a.Description, maxDescription) }},
			{"schema", true, func(n *node) *Problem { return n.schema(&a.Schema, readFile) }},
			{"risk", false, func(n *node) *Problem { return n.oneOf((*string)(&a.Risk), words(tool.Risks)) }},
			{"paths", false, func(n *node) *Problem { return n.names(&a.Paths) }},
			{"hosts", false, func(n *node) *Problem { return n.names(&a.Hosts) }},
			{"command", false, func(n *node) *Problem { return n.line1(&a.Command, maxName) }},
		})
		if problem != nil {
			return problem
		}
		if a.Risk == "" {
			a.Risk = tool.RiskUnknown
		}
		if slices.ContainsFunc(m.Actions, func(b tool.Action) bool { return b.Name == a.Name }) {
			return nameAt.at("there are two actions %q", a.Name)
		}
		m.Actions = append(m.Actions, a)
		m.ActionsAt = append(m.ActionsAt, item.place())
	}
	return nil
}

func (m *Manifest) readNeeds(n *node) *Problem {
	known := []string{string(tool.NeedNetwork), string(tool.NeedServices), string(tool.NeedPackages), string(tool.NeedHardware), string(tool.NeedProcesses)}
	list, ok := n.value.([]*node)
	if !ok {
		return n.at("must be a list, and this is %s", n.kind())
	}
	for _, item := range list {
		var need string
		if problem := item.oneOf(&need, known); problem != nil {
			return problem
		}
		if slices.Contains(m.needs, tool.Need(need)) {
			return item.at("%q is there twice", need)
		}
		m.needs = append(m.needs, tool.Need(need))
	}
	return nil
}

func (m *Manifest) readRun(n *node) *Problem {
	var where string
	problem := n.oneOf(&where, []string{"sandbox", "host"})
	m.Host = where == "host"
	return problem
}

func (m *Manifest) readEnv(n *node) *Problem {
	if problem := n.names(&m.Env); problem != nil {
		return problem
	}
	for i, name := range m.Env {
		at := n.value.([]*node)[i]
		if !variableGrammar.MatchString(name) {
			return at.at("%q is not the name of a variable", name)
		}
		if strings.HasPrefix(name, "AIRLOCK_") {
			return at.at("%s: names that begin with AIRLOCK_ are Airlock's", name)
		}
	}
	return nil
}
