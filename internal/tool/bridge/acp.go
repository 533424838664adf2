package bridge

import (
	"context"
	"encoding/json"

	"airlock/internal/tool/bridge/acp"
	"airlock/internal/tool/bridge/proc"
)

// acp runs an agent that speaks the Agent Client Protocol for one turn.
func (j *job) acp(ctx context.Context, r *proc.Run) (proc.Outcome, json.RawMessage) {
	var args struct {
		Prompt string   `json:"prompt"`
		Files  []string `json:"files"`
	}
	_ = json.Unmarshal(j.args, &args) // they match the schema
	return acp.Do(ctx, r, &acp.Session{
		Tool: j.t.agent.Name, Call: j.id, Workspace: j.t.workspace, Prompt: args.Prompt, Files: args.Files,
		Where: j.m.Where, Back: j.m.Back, Log: j.t.log.log,
	})
}
