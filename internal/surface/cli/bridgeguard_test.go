package cli_test

import (
	"testing"

	"airlock/internal/changes"
	"airlock/internal/surface/cli"
	"airlock/internal/tool/bridge/setup"
)

func TestACommitDoesNotMakeAgentsOfTheHost(t *testing.T) {
	host := setup.Agent{Name: "host", Script: "/w/agents/label/main.py", Interpreter: "/w/env/bin/python", Argv: []string{"/w/env/bin/python", "/w/agents/label/main.py"}}
	root := setup.Agent{Name: "root", Script: "/w/run", Argv: []string{"/w/run"}}
	boxed := setup.Agent{Name: "boxed", Script: "/w/boxed/main.py", Argv: []string{"/usr/bin/python3", "/w/boxed/main.py"}, Sandbox: true}
	file, program := &changes.Node{Type: changes.File, Mode: 0o644}, &changes.Node{Type: changes.File, Mode: 0o755}
	dir, link := &changes.Node{Type: changes.Dir, Mode: 0o755}, &changes.Node{Type: changes.Symlink}
	for _, tt := range []struct {
		name   string
		agents []setup.Agent
		path   changes.Path
		node   *changes.Node
		stays  bool
	}{
		{"the configuration", []setup.Agent{boxed}, "/w/config.yaml", file, true},
		{"a script", []setup.Agent{boxed, host}, "/w/agents/label/main.py", file, true},
		{"what lies beside it", []setup.Agent{boxed, host}, "/w/agents/label/data.json", file, true},
		{"a folder above it that goes", []setup.Agent{boxed, host}, "/w/agents", nil, true},
		{"a folder above it that becomes a link", []setup.Agent{boxed, host}, "/w/agents", link, true},
		{"a folder above it whose rights change", []setup.Agent{boxed, host}, "/w/agents", dir, false},
		{"an interpreter's library", []setup.Agent{boxed, host}, "/w/env/lib/site.txt", file, true},
		{"a module that Python would find", []setup.Agent{boxed, host}, "/w/json.py", file, true},
		{"a link that it would find", []setup.Agent{boxed, host}, "/w/json", link, true},
		{"a program", []setup.Agent{boxed, host}, "/w/tool", program, true},
		{"a script at the workspace's root", []setup.Agent{root, boxed}, "/w/run", file, true},
		{"what lies beside that", []setup.Agent{root, boxed}, "/w/notes.md", file, false},
		{"text", []setup.Agent{boxed, host}, "/w/notes.md", file, false},
		{"what goes", []setup.Agent{boxed, host}, "/w/notes.md", nil, false},
		{"a folder", []setup.Agent{boxed, host}, "/w/new", dir, false},
		{"code where no agent runs on the host", []setup.Agent{boxed}, "/w/json.py", file, false},
		{"code elsewhere, which is not let out by itself", []setup.Agent{boxed, host}, "/x/json.py", file, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &cli.Bridge{File: &setup.File{Path: "/w/config.yaml", Workspace: "/w", Agents: tt.agents}}
			why := cli.Guard(b)(&changes.Change{Path: tt.path, New: tt.node})
			if (why != "") != tt.stays {
				t.Errorf("%s: %q, want it to stay behind: %t", tt.path, why, tt.stays)
			}
		})
	}
}
