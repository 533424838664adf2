package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/tool/bridge/setup"
)

// A commitGuard says why a change is let out only where a person names its path; "" where
// nothing speaks against it. Nil: nothing ever does.
type commitGuard func(c *changes.Change) string

// runnable are the ends of names that programs which agents are written in load by
// themselves, or that people run.
var runnable = []string{
	".py", ".pyc", ".pyo", ".pth", ".so", ".js", ".cjs", ".mjs", ".ts", ".node", ".wasm", ".jar", ".class",
	".sh", ".bash", ".zsh", ".rb", ".pl", ".pm", ".php", ".lua",
}

// guard keeps an agent in a sandbox from becoming one on this machine by what it changes: the
// configuration says where agents run, and those that run on this machine load their code
// from the workspace, wherever it is named so that they find it.
func (b *Bridge) guard() commitGuard {
	var roots []changes.Path // of what agents on this machine are made of
	host := false
	for i := range b.File.Agents {
		a := &b.File.Agents[i]
		if a.Sandbox {
			continue
		}
		host = true
		roots = append(roots, agentFiles(a, b.File.Workspace)...)
	}
	config := changes.Path(b.File.Path)
	return func(c *changes.Change) string {
		switch {
		case touches(c, config):
			return "it is what says where agents run"
		case !host || !c.Path.Below(changes.Path(b.File.Workspace)):
			return ""
		case slices.ContainsFunc(roots, func(root changes.Path) bool { return touches(c, root) || c.Path.Below(root) }):
			return "agents on this machine are made of it"
		case c.New == nil || c.New.Type == changes.Dir:
			return ""
		case c.New.Type != changes.File, c.New.Mode&0o111 != 0, slices.Contains(runnable, strings.ToLower(filepath.Ext(string(c.Path)))):
			return "agents on this machine could run it"
		}
		return ""
	}
}

// touches reports whether a change is of a path, or takes it away by what it makes of a
// folder above it.
func touches(c *changes.Change, path changes.Path) bool {
	return c.Path == path || path.Below(c.Path) && (c.New == nil || c.New.Type != changes.Dir)
}

// agentFiles are where in the workspace an agent's program and script are: the folder of a
// script, and that of an interpreter with what belongs to it, unless that is the workspace.
func agentFiles(a *setup.Agent, workspace string) []changes.Path {
	var out []changes.Path
	add := func(path string, up int) {
		if path == "" || !changes.Path(path).Below(changes.Path(workspace)) {
			return
		}
		for ; up > 0 && filepath.Dir(path) != workspace && path != workspace; up-- {
			path = filepath.Dir(path)
		}
		out = append(out, changes.Path(path))
	}
	add(a.Script, 1)
	add(a.Interpreter, 2)
	for _, word := range a.Argv {
		if filepath.IsAbs(word) {
			add(word, 0)
		}
	}
	return out
}
