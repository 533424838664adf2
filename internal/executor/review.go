package executor

import (
	"context"

	"airlock/internal/action"
	"airlock/internal/tool"
)

// A Review is what is known of a step before anything runs.
type Review struct {
	Step         action.Step
	WorkDir      string // where it would run
	Placeholders []string
	Judgement    tool.Judgement
}

// Review judges a plan's steps as if they were run there, and runs nothing. m needs no
// Client. What a step changes that a later one is judged by is not known yet: each is
// judged again when its turn comes.
func (c *Caller) Review(ctx context.Context, plan *action.Plan, m *tool.Machine) []Review {
	out := make([]Review, 0, len(plan.Steps))
	for _, step := range plan.Steps {
		dir := stepDir(m.WorkDir, step)
		q := stepQuestion(step, map[string]any{"command": step.ShellCommand, "working_directory": dir}, m)
		j, bad := c.Judge(ctx, q)
		if bad != nil {
			j = tool.Judgement{Risk: tool.RiskUnknown, Rule: "arguments", Why: bad.Stderr}
		}
		out = append(out, Review{step, dir, action.Placeholders(step.ShellCommand), j})
	}
	return out
}
