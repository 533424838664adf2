package bridge

import (
	"encoding/json"

	"airlock/internal/tool"
)

// Answer is Document of a Result of t's: what kept a call from an agent is an error in the
// bridge's form, whatever it was.
func Answer(t tool.Tool, res tool.Result) json.RawMessage {
	_, reached := res.Meta[MetaOutcome]
	if t == nil || t.Info().Kind != tool.Bridge || reached || res.OK {
		return Document(res)
	}
	text := refusal(&res)
	if text == "" {
		text = res.Stderr
	}
	return encode(failure{Status: "error", Error: text})
}

// Note logs and counts a call of t that ended before it reached the agent: the gate or the
// registry did not let it pass. Of what reached the agent, and of tools that are none of a
// bridge's agents, there is nothing to note.
func Note(t tool.Tool, res tool.Result) {
	agent, ours := t.(*agentTool)
	if _, reached := res.Meta[MetaOutcome]; !ours || reached || res.OK {
		return
	}
	a := answer{outcome: OutcomeInvalid, code: res.Code(), text: read(Answer(t, res)).text}
	switch a.code {
	case tool.PermissionDenied:
		a.outcome = OutcomeRefused
	case tool.InvalidArgs, tool.ParseError:
	default:
		a.outcome = OutcomeNotStarted // there was no machine to run it on
	}
	agent.log.failed(agent.agent.Name, 0, a)
	agent.count(a, 0)
}
