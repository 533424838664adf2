package bridge

import (
	"context"
	"encoding/json"

	"airlock/internal/tool/bridge/proc"
)

// acp runs an agent that speaks the Agent Client Protocol for one turn.
func (j *job) acp(context.Context, *proc.Run) (proc.Outcome, json.RawMessage) {
	return proc.Outcome{}, encode(failure{Status: "error", Error: "Agent speaks the Agent Client Protocol, which is not here yet"})
}
