// Package plugin makes tools of executables that speak the envelope: a tool.Call as one
// line of JSON on stdin, a tool.Result as one JSON object on stdout, whatever they want
// to say to a person on stderr. A manifest beside the executable says what it can do;
// docs/plugins.md is the contract with who writes one.
//
// Manifests and answers come from outside and are trusted with nothing: a manifest
// cannot take another tool's name, lead out of its folder or make its risk smaller than
// where it runs; an answer is bounded, and has exactly the envelope's shape.
//
// The package does not know the gate, the registry or how a sandbox is made.
package plugin

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"airlock/internal/changes"
	"airlock/internal/tool"
)

// Options are Load's settings. Nil is all defaults.
type Options struct {
	// Taken are the names of tools that there are already. A plugin of such a name is a
	// Problem.
	Taken []string

	// Optional are those of the folders that may be absent, such as the one that is
	// searched by default. Any other that is absent is a Problem.
	Optional []string

	// Logger takes what plugins write to stderr, a line each at level info, with the
	// plugin's name. Nil discards.
	Logger *slog.Logger
}

// A Problem is a manifest, or a folder of them, that was not loaded.
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

// A plugin is one executable as a tool.
type plugin struct {
	info       tool.Info
	dir        string // absolute, every link resolved
	executable string // absolute
	manifest   string // absolute
	timeout    time.Duration
	maxOutput  int64
	env        []string // the names that it may see beyond the usual ones
	host       bool     // it runs on the host
	log        *slog.Logger
}

// Info describes the tool. It does not change.
func (p *plugin) Info() *tool.Info { return &p.info }

// newPlugin makes a tool of a manifest that was found right.
func newPlugin(m *manifest, dir, file string, log *slog.Logger) *plugin {
	p := &plugin{
		info: tool.Info{
			Name: m.name, Description: m.description, Kind: tool.Plugin,
			Source:  fmt.Sprintf("%s (version %s)", changes.Printable(file), m.version),
			Actions: m.actions,
		},
		dir: dir, executable: filepath.Join(dir, m.executable), manifest: file,
		timeout: m.timeout, maxOutput: m.maxOutput, env: m.env, host: m.host, log: log,
	}
	for i := range p.info.Actions {
		a := &p.info.Actions[i]
		a.Needs = m.needs
		a.Risk = m.risk(a)
		if m.host {
			a.Place = tool.HostOnly
		}
	}
	return p
}
