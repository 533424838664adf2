// Package diagnose looks at what a bridge needs: interpreters, their packages, files,
// the workspace, variables. It says what is missing and how it is mended, and mends what
// can be mended without a doubt. It runs interpreters, on trivial programs and to parse
// scripts, but nothing of an agent.
package diagnose

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"airlock/internal/changes"
	"airlock/internal/redact"
	"airlock/internal/tool/bridge/setup"
)

// Options are what is looked at.
type Options struct {
	Path    string      // of the configuration, as it was given; "" where there is none
	File    *setup.File // what it says; nil where it could not be read
	Problem error       // why it could not be read
	Metrics string      // the file of the metrics; "" where there is none
	Env     []string    // the bridge's environment; nil: that of this process
	Fix     bool        // mend what can be mended safely

	// Reload reads the configuration again once it is mended; nil: another run does.
	Reload func() (*setup.File, error)

	Limit time.Duration // of one program that is tried; 0: ten seconds
}

// A Level is how bad a finding is. The zero value is an error.
type Level string

// The levels.
const (
	Error   Level = "error" // a call fails
	Warning Level = "warning"
	Info    Level = "info"
	OK      Level = "ok"
)

// The sections, in the order of the report.
const (
	Configuration = "configuration"
	Python        = "python"
	Dependencies  = "dependencies"
	Files         = "files"
	Workspace     = "workspace"
	Gemini        = "gemini"
	Environment   = "environment"
	Smoke         = "smoke tests"
)

// A Finding is what was found about one thing. Its texts may hold what others wrote, and are
// harmless to print: one line each, without secrets.
type Finding struct {
	Section string `json:"section"`
	Name    string `json:"name"` // of the thing: an agent, a file
	Level   Level  `json:"level"`
	Text    string `json:"text"`
	Mend    string `json:"mend,omitempty"`  // what to do
	Fixed   bool   `json:"fixed,omitempty"` // it was mended, and Text says how
}

// Run looks at everything there is, section after section. It returns soon after ctx is
// done, with what it has found until then and an error among it that says so.
func Run(ctx context.Context, o *Options) []Finding {
	opts := *o
	d := &doctor{opts: &opts, file: o.File, env: o.Env, limit: o.Limit}
	if d.env == nil {
		d.env = os.Environ()
	}
	if d.limit <= 0 {
		d.limit = runTime
	}
	d.configuration()
	if d.file != nil {
		d.programs()
	}
	for _, section := range []func(context.Context){
		d.python, d.dependencies, d.files, d.workspace, d.gemini, d.environment, d.smoke,
	} {
		if ctx.Err() == nil {
			section(ctx)
		}
	}
	if ctx.Err() != nil {
		d.add(Configuration, Error, "diagnose", "it was stopped before its end: what is not listed was not looked at", "")
	}
	return d.findings
}

// Failed reports whether an error is left: the exit code is 1 then.
func Failed(findings []Finding) bool {
	for i := range findings {
		if f := &findings[i]; f.Level != OK && f.Level != Info && f.Level != Warning && !f.Fixed {
			return true
		}
	}
	return false
}

// A doctor gathers what is found.
type doctor struct {
	opts     *Options
	file     *setup.File // nil: it could not be read
	env      []string
	limit    time.Duration
	used     []*program // in the order of the entries
	findings []Finding
}

// add takes a finding. Its texts may be anybody's.
func (d *doctor) add(section string, level Level, name, text, mend string) {
	d.findings = append(d.findings, Finding{Section: section, Name: words(name), Level: level, Text: words(text), Mend: changes.Printable(redact.Text(mend))})
}

// fixed takes what was mended.
func (d *doctor) fixed(section, name, text string) {
	d.findings = append(d.findings, Finding{Section: section, Name: words(name), Level: OK, Text: words(text), Fixed: true})
}

// configuration says whether the file could be read.
func (d *doctor) configuration() {
	path := d.opts.Path
	if path == "" {
		return
	}
	name := filepath.Base(path)
	mended := d.othersWrite(Configuration, name, path, "it decides what is run")
	if d.file == nil && mended && d.opts.Reload != nil {
		d.file, d.opts.Problem = d.opts.Reload()
	}
	switch {
	case d.file != nil:
		d.add(Configuration, OK, name, "it is right; agents: "+strconv.Itoa(len(d.file.Agents)), "")
	case d.opts.Problem != nil:
		d.add(Configuration, Error, name, d.opts.Problem.Error(), "")
	default:
		d.add(Configuration, Error, name, "it could not be read", "name the bridge's config.yaml with --config")
	}
}

// A program is an interpreter, or what else entries start, with those that do.
type program struct {
	path   string
	python bool
	agents []*setup.Agent
	err    error // why it cannot be started
	well   bool  // it could be tried, and works
}

// programs gathers what is started. The script of an entry without an interpreter is not
// one of them.
func (d *doctor) programs() {
	for i := range d.file.Agents {
		a := &d.file.Agents[i]
		if a.Interpreter == "" {
			continue
		}
		p := d.program(a.Interpreter)
		if p == nil {
			p = &program{path: a.Interpreter}
			alone := *a
			alone.Script = ""
			p.err = alone.Look(d.file.Workspace)
			d.used = append(d.used, p)
		}
		p.python = p.python || a.Python || kindOf(p.path) == kindPython
		p.agents = append(p.agents, a)
	}
}

func (d *doctor) program(path string) *program {
	for _, p := range d.used {
		if p.path == path {
			return p
		}
	}
	return nil
}

// names are the agents that a program runs.
func (p *program) names() string {
	names := make([]string, len(p.agents))
	for i, a := range p.agents {
		names[i] = a.Name
	}
	return strings.Join(names, ", ")
}

// tryable reports whether a program may be run here, and on this machine: it is one that
// is known to run programs and is not itself the agent, and what runs only in a sandbox is
// not from where that sandbox's agents could have changed it.
func (d *doctor) tryable(p *program) bool {
	if p.err != nil || kindOf(p.path) == kindUnknown && !p.python {
		return false
	}
	for _, a := range p.agents {
		if !a.Sandbox {
			return true
		}
	}
	real, err := filepath.EvalSymlinks(p.path)
	return err == nil && !within(d.file.Workspace, p.path) && !within(d.file.Workspace, real)
}

// within reports whether a path is in a folder; both are absolute.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
