package setup

import (
	"context"
	"strings"

	"airlock/internal/tool"
	"airlock/internal/yamlfile"
)

const (
	maxRetries = 100
	maxOutput  = 1 << 30 // bytes
	maxName    = 64
)

// An entry reads what the file says of one agent.
type entry struct {
	r     *reader
	key   yamlfile.Node // where its name stands
	agent *Agent
	given map[string]yamlfile.Node // the members that are there

	path, python string
	command      []string
	network      string
}

// readAgents reads the agents, in the file's order.
func (r *reader) readAgents() error {
	if r.agents.Empty() {
		return nil
	}
	members, err := r.agents.Free("agents")
	if err != nil {
		return err
	}
	if len(members) > maxAgents {
		return r.agents.Fail("there are more than %d agents", maxAgents)
	}
	r.file.Agents = make([]Agent, 0, len(members))
	for _, m := range members {
		if err := checkName(m); err != nil {
			return err
		}
		a := Agent{Name: m.Name, Kind: Script, Protocol: "1.0", MaxOutput: 8 << 20}
		a.Line, a.Column = m.Key.Place()
		e := &entry{r: r, key: m.Key, agent: &a, given: map[string]yamlfile.Node{}}
		if err := e.read(m.Value); err != nil {
			return err
		}
		r.file.Agents = append(r.file.Agents, a)
	}
	return nil
}

func checkName(m yamlfile.Member) error {
	switch {
	case m.Name == "health_check":
		return m.Key.Fail("agents: health_check is the bridge's own; give the agent another name")
	case len(m.Name) > maxName || !goodName(m.Name):
		return m.Key.Fail("agents: %q is no name; write 1 to %d of a-z, A-Z, 0-9, _, - and ., the first a letter or _", m.Name, maxName)
	case m.Value.Null():
		return m.Key.Fail("agents: %s has no members; write its path: below it", m.Name)
	}
	return nil
}

func goodName(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

func (e *entry) read(n yamlfile.Node) error {
	table := e.members()
	for name, set := range table {
		table[name] = func(name string, n yamlfile.Node) error {
			e.given[name] = n
			return set(name, n)
		}
	}
	if err := n.Mapping("agents: "+e.agent.Name, table); err != nil {
		return err
	}
	for _, check := range []func() error{e.checkKind, e.checkPlace, e.findProgram} {
		if err := check(); err != nil {
			return err
		}
	}
	e.agent.fillIn(e.has)
	return nil
}

func (e *entry) has(member string) bool {
	_, ok := e.given[member]
	return ok
}

// members are what an agent's entry may hold.
func (e *entry) members() yamlfile.Members {
	a := e.agent
	return yamlfile.Members{
		"path":         yamlfile.Line(&e.path),
		"python":       yamlfile.Line(&e.python),
		"command":      command(&e.command),
		"description":  prose(&a.Description),
		"kind":         yamlfile.OneOf(&a.Kind, Script, ACP),
		"args":         options(&a.Args),
		"schema":       schema(a),
		"defaults":     values(&a.Defaults),
		"params":       rules(&a.Params),
		"timeout":      timeout(&a.Timeout),
		"retries":      yamlfile.Whole(&a.Retries, 0, maxRetries),
		"env":          env(a),
		"sandbox":      sandbox(&a.Sandbox),
		"network":      yamlfile.OneOf(&e.network, "none", "host"),
		"protocol":     yamlfile.OneOf(&a.Protocol, "1.0", "1.1"),
		"mixed_output": boolean(&a.Mixed),
		"max_output":   outputSize(&a.MaxOutput),
	}
}

// checkKind refuses what an agent of its kind cannot have.
func (e *entry) checkKind() error {
	if e.agent.Kind != ACP {
		return nil
	}
	e.agent.Protocol = ""
	for _, name := range []string{"path", "python"} {
		if n, there := e.given[name]; there {
			return n.Fail("%s is not for kind: acp; write the program as command: [/where/it/is, its, options]", name)
		}
	}
	for _, name := range []string{"args", "schema", "protocol", "mixed_output", "retries"} {
		if n, there := e.given[name]; there {
			return n.Fail("%s is not for kind: acp; take it out", name)
		}
	}
	if !e.has("command") {
		return e.key.Fail("agents: %s: command is missing; write the program as command: [/where/it/is, its, options]", e.agent.Name)
	}
	return nil
}

// checkPlace refuses a network that nothing would see to.
func (e *entry) checkPlace() error {
	n, there := e.given["network"]
	switch {
	case !there:
	case e.agent.Sandbox:
		e.agent.HostNetwork = e.network == "host"
	case e.network == "none":
		return n.Fail("network: without a sandbox the agent reaches what this machine reaches, and nothing keeps it from that; write sandbox: airlock beside it, or take it out")
	default:
		return n.Fail("network: host is for sandbox: airlock; without a sandbox the agent has this machine's network anyway; take it out")
	}
	return nil
}

// sandbox is none or airlock.
func sandbox(to *bool) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		if n.IsMapping() {
			return n.Fail("%s: an agent runs over its workspace, which an image does not have; write airlock for a sandbox over the workspace, or none", name)
		}
		word := ""
		if err := yamlfile.OneOf(&word, "none", "airlock")(name, n); err != nil {
			return err
		}
		*to = word == "airlock"
		return nil
	}
}

// schema is a JSON Schema of the parameters. What it holds is looked at here, where the place
// is known.
func schema(a *Agent) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		text, err := n.JSON(name)
		if err != nil {
			return err
		}
		probe := probe{Name: a.Name, Kind: tool.Bridge, Actions: []tool.Action{{Name: "run", Schema: text, Risk: tool.Risks[0]}}}
		if _, err := tool.NewRegistry(&probe); err != nil {
			_, text, _ := strings.Cut(err.Error(), "action run: ")
			return n.Fail("%s: %s", name, strings.ReplaceAll(text, "\n", "; "))
		}
		a.Schema = text
		return nil
	}
}

// A probe is a tool that a schema is tried with.
type probe tool.Info

func (p *probe) Info() *tool.Info { return (*tool.Info)(p) }

func (p *probe) Invoke(context.Context, *tool.Machine, tool.Call) tool.Result { return tool.Result{} }
