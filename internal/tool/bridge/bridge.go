// Package bridge makes tools of the agents and scripts that a config.yaml names: each is run
// as docs/bridge.md says, on the host or in a sandbox, and what it prints is its answer.
//
// The answer is a JSON document, which Document takes out of a tool's Result. The package
// starts processes through guest agents alone, and knows neither the gate nor who calls.
package bridge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/setup"
)

// Run is the action that each of the tools has, and no other.
const Run = "run"

// Options are what the tools of a bridge have beside its file. Nil is the zero value.
type Options struct {
	// Environ is the bridge's own environment, as os.Environ gives it: what an agent's entry
	// names is handed on from it. Nothing else of this process's environment is.
	Environ []string

	// Log takes what the original logged, in its words. The attribute "logger" is the agent's
	// name where a line is what that wrote to its stderr. Nil discards.
	Log *slog.Logger

	// Metrics are told of each call, and asked by health_check. Nil: none are kept.
	Metrics Metrics
}

// New makes the tools of a bridge: one for each of the file's agents, in their order, and
// health_check. The file may not change from here on. Nothing is started or looked for. The error names the entry
// that cannot be a tool, with its line.
func New(f *setup.File, opts *Options) ([]tool.Tool, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	environ := variables(o.Environ)
	w := &world{
		file: f.Path, workspace: f.Workspace, environ: environ,
		log: journal{o.Log, secrets(f.Agents, environ)}, metrics: o.Metrics,
	}
	tools := make([]tool.Tool, 0, len(f.Agents)+1)
	for i := range f.Agents {
		a := &f.Agents[i]
		b, err := newAgent(a, &f.Security, w)
		if err != nil {
			return nil, fmt.Errorf("%s:%d:%d: agents.%s: %w", f.Path, a.Line, a.Column, a.Name, err)
		}
		tools = append(tools, b)
	}
	return append(tools, newHealth(w)), nil
}

// A world is what the tools of a bridge share.
type world struct {
	file, workspace string
	environ         map[string]string
	log             journal
	metrics         Metrics // nil: none
}

// variables are an environment by name.
func variables(environ []string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" {
			vars[name] = value
		}
	}
	return vars
}

// An agentTool is one agent. It implements tool.Tool and tool.Preparer.
type agentTool struct {
	*world
	info  *tool.Info
	agent *setup.Agent
	rules *params.Rules
}

func newAgent(a *setup.Agent, s *setup.Security, w *world) (*agentTool, error) {
	rules, err := params.New(a, s)
	if err != nil {
		return nil, err
	}
	about := cmp.Or(a.Description, "Runs the agent "+a.Name+".")
	t := &agentTool{world: w, agent: a, rules: rules, info: &tool.Info{
		Name: a.Name, Description: about, Kind: tool.Bridge, WorkDir: w.workspace,
		Source:      fmt.Sprintf("%s:%d", w.file, a.Line),
		HostNetwork: a.Sandbox && a.HostNetwork,
		Actions: []tool.Action{{
			Name: Run, Description: about, Schema: params.Published(a), Risk: risk(a), Place: place(a),
		}},
	}}
	if _, err := tool.NewRegistry(t); err != nil {
		return nil, err
	}
	return t, nil
}

// risk is what an agent does at worst. Nothing is known of it: in a sandbox it can do no
// more than write there, and reach out where it is let.
func risk(a *setup.Agent) tool.Risk {
	switch {
	case !a.Sandbox:
		return tool.RiskUnknown
	case a.HostNetwork:
		return tool.RiskNetwork
	}
	return tool.RiskWritesInside
}

func place(a *setup.Agent) tool.Place {
	if a.Sandbox {
		return tool.AnyPlace
	}
	return tool.HostOnly
}

// Info implements tool.Tool.
func (t *agentTool) Info() *tool.Info { return t.info }

// Prepare implements tool.Preparer: it lays defaults below the parameters, and says what does
// not hold of them. A call that ends here is counted as one that failed.
func (t *agentTool) Prepare(call tool.Call) (tool.Call, *tool.Result) {
	prepared, cut, err := t.rules.Prepare(call.Args)
	if err != nil {
		a := t.invalid(err)
		t.log.failed(t.agent.Name, 0, a)
		t.count(a, 0)
		return call, new(a.result())
	}
	for _, name := range cut {
		t.log.cut(t.agent.Name, name)
	}
	call.Args = prepared
	return call, nil
}

// noArguments is the schema of what takes none.
func noArguments() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false}`)
}
