package bridge

import (
	"context"

	"airlock/internal/tool"
)

// HealthCheck is the name of the bridge's own tool.
const HealthCheck = "health_check"

// A healthTool says how the calls of a bridge went.
type healthTool struct {
	*world
	info *tool.Info
}

func newHealth(w *world) *healthTool {
	const about = "Says how the calls of the agents went: how many there were, how many failed, how long they took."
	return &healthTool{world: w, info: &tool.Info{
		Name: HealthCheck, Description: about, Kind: tool.Bridge, Source: w.file, WorkDir: w.workspace,
		Actions: []tool.Action{{
			Name: Run, Description: about, Schema: noArguments(), Risk: tool.RiskReadOnly,
			Place: tool.HostOnly, // what it reads is kept there
		}},
	}}
}

// Info implements tool.Tool.
func (t *healthTool) Info() *tool.Info { return t.info }

// Invoke implements tool.Tool.
func (t *healthTool) Invoke(ctx context.Context, _ *tool.Machine, _ tool.Call) tool.Result {
	if t.metrics == nil {
		a := problem(OutcomeLost, tool.NotFound, "No metrics are kept; set performance.collect_metrics to true in "+t.file)
		return a.result()
	}
	health, err := t.metrics.Health(ctx)
	if err != nil {
		a := problem(OutcomeLost, tool.IOError, "The metrics cannot be read: "+err.Error())
		return a.result()
	}
	if health.Agents == nil {
		health.Agents = map[string]AgentHealth{}
	}
	a := answer{ok: true, outcome: OutcomeOK, document: encode(struct {
		Status string `json:"status"`
		Health Health `json:"health"`
	}{"success", health})}
	return a.result()
}
