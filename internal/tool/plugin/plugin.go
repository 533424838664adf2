// Package plugin makes tools of executables that speak the envelope: a tool.Call as one
// line of JSON on stdin, a tool.Result as one JSON object on stdout, whatever they want
// to say to a person on stderr. A manifest beside the executable says what it can do;
// docs/plugins.md is the contract with who writes one.
//
// Manifests and answers come from outside and are trusted with nothing: a manifest
// cannot take another tool's name, lead out of its folder or make its risk smaller than
// where it runs; an answer is bounded, and has exactly the envelope's shape.
//
// The package does not know the gate, nor how a sandbox is made.
package plugin

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/plugin/manifest"
)

// Options are Load's settings. Nil is all defaults.
type Options struct {
	// Taken are the names of tools that there are already. A plugin of such a name is a
	// Problem, and so is one whose name begins with the same word: what a person allows
	// the tools of "fs." is not for plugins.
	Taken []string

	// Optional are those of the folders that may be absent, such as the one that is
	// searched by default. Any other that is absent is a Problem.
	Optional []string

	// Logger takes what plugins write to stderr, a line each at level info, with the
	// plugin's name. Nil discards.
	Logger *slog.Logger
}

// A Problem is a manifest, or a folder of them, that was not loaded.
type Problem = manifest.Problem

// A plugin is one executable as a tool.
type plugin struct {
	info       tool.Info
	dir        string // absolute, every link resolved
	executable string // absolute
	manifest   string // absolute
	size       int64  // of the executable when it was loaded
	changed    time.Time
	timeout    time.Duration
	maxOutput  int64
	env        []string // the names that it may see beyond the usual ones
	host       bool     // it runs on the host
	log        *slog.Logger
}

// Info describes the tool. It does not change.
func (p *plugin) Info() *tool.Info { return &p.info }

// newPlugin makes a tool of a manifest that was found right.
func newPlugin(m *manifest.Manifest, dir, file string, log *slog.Logger) *plugin {
	return &plugin{
		info: tool.Info{
			Name: m.Name, Description: m.Description, Kind: tool.Plugin,
			Source:  fmt.Sprintf("%s (version %s)", changes.Printable(file), m.Version),
			Actions: m.Actions,
		},
		dir: dir, executable: filepath.Join(dir, m.Executable), manifest: file,
		timeout: m.Timeout, maxOutput: m.MaxOutput, env: m.Env, host: m.Host, log: log,
	}
}
