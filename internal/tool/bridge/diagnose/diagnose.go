// Package diagnose looks at what a bridge needs: interpreters, their packages, files,
// the workspace, variables. It says what is missing and how it is mended, and mends what
// can be mended without a doubt. It runs interpreters, on trivial programs and to parse
// scripts, but nothing of an agent.
package diagnose

import (
	"context"
	"os"

	"airlock/internal/tool/bridge/setup"
)

// Options are what is looked at. Nothing of them is changed.
type Options struct {
	Path    string      // of the configuration, as it was given; "" where there is none
	File    *setup.File // what it says; nil where it could not be read
	Problem error       // why it could not be read
	Metrics string      // the file of the metrics; "" where there is none
	Env     []string    // the bridge's environment; nil: that of this process
	Fix     bool        // mend what can be mended safely
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

// Run looks at everything there is, section after section. It returns soon after ctx is done, with
// what it has found until then and an error that says so.
func Run(ctx context.Context, o *Options) []Finding {
	d := &doctor{file: o.File, opts: o, env: o.Env}
	if d.env == nil {
		d.env = os.Environ()
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
	file     *setup.File
	env      []string
	findings []Finding
}
