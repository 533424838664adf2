package gate

import (
	"os"
	"strings"

	"airlock/internal/tool"
)

// An Overview is what is in effect in a working folder.
type Overview struct {
	Layers   []Layer                    `json:"layers"`
	Defaults map[tool.Risk]tool.Verdict `json:"defaults"` // on the host
	Notes    []string                   `json:"notes,omitempty"`
	Error    string                     `json:"error,omitempty"` // why everything is denied; "" is well
}

// A Layer is one policy file.
type Layer struct {
	Name  string `json:"name"` // builtin, system, user or project
	File  string `json:"file"`
	State string `json:"state"` // "in effect", "absent", or what is wrong
	Rules []Rule `json:"rules,omitempty"`
}

// A Rule is a rule for a person.
type Rule struct {
	Name    string       `json:"name"` // with its layer, as verdicts name it
	Line    int          `json:"line"`
	Verdict tool.Verdict `json:"verdict"`
	Where   string       `json:"where"`
	What    string       `json:"what"` // its conditions
	Why     string       `json:"why"`
	Void    bool         `json:"void,omitempty"` // it has no effect
}

// Show gives what is in effect in a working folder.
func (g *Gate) Show(workDir string) Overview {
	set := g.layers.current(workDir, true)
	out := Overview{Defaults: map[tool.Risk]tool.Verdict{}, Notes: set.notes}
	if set.broken != nil {
		out.Error = set.broken.Error()
	}
	for i, v := range set.defaults {
		out.Defaults[tool.Risks[i]] = v
	}
	byFile := map[string]*policy{}
	for _, p := range set.policies {
		byFile[p.file] = p
	}
	out.Layers = append(out.Layers, layerOf(set.policies[0]))
	for _, s := range g.layers.sources(workDir) {
		l := Layer{Name: s.layer, File: show(s.path), State: "absent"}
		if p := byFile[s.path]; p != nil {
			l = layerOf(p)
		} else if s.info != nil || s.err != nil {
			l.State = "cannot be read"
		}
		out.Layers = append(out.Layers, l)
	}
	return out
}

func layerOf(p *policy) Layer {
	l := Layer{Name: p.layer, File: show(p.file), State: "in effect"}
	for _, r := range p.rules {
		where := "any"
		if !r.sandbox {
			where = "host"
		} else if !r.host {
			where = "sandbox"
		}
		l.Rules = append(l.Rules, Rule{r.id(), r.line, r.verdict, where, show(r.what), r.why, p.layer == layerProject && r.verdict == tool.Allow})
	}
	return l
}

// Check reads a policy file and holds it against its own tests, as a user's would be. The
// error is a *LoadError.
func (g *Gate) Check(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return loadError(file, err)
	}
	defer f.Close()
	s := source{layer: layerUser, path: file}
	text, err := s.readAll(f)
	if err == nil {
		_, err = g.load(layerUser, file, text)
	}
	if err != nil {
		return loadError(file, err)
	}
	return nil
}

// conditions says in a line what a rule is about.
func (w *draft) conditions() string {
	var out []string
	for _, c := range []struct {
		name  string
		words []string
	}{
		{"tool", w.tools},
		{"action", w.actions},
		{"program", w.programs},
		{"args", w.args},
		{"paths", w.paths},
		{"op", w.ops},
		{"hosts", w.hosts},
		{"user", w.users},
		{"risk", w.risks},
	} {
		if len(c.words) > 0 {
			out = append(out, c.name+" "+strings.Join(c.words, ", "))
		}
	}
	return strings.Join(out, "; ")
}
