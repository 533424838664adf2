package executor

import (
	"context"
	"strings"

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
		holes := action.Placeholders(step.ShellCommand)
		// Any word will do for what is not known yet: the placeholder is no word at all.
		words := map[string]string{}
		for _, hole := range holes {
			words[hole] = strings.Trim(hole, "<>{} ")
		}
		command := action.Fill(step.ShellCommand, words)
		q := stepQuestion(step, map[string]any{"command": command, "working_directory": dir}, m)
		j, bad := c.Judge(ctx, q)
		if bad != nil {
			j = tool.Judgement{Risk: tool.RiskUnknown, Rule: "arguments", Why: bad.Stderr}
		}
		out = append(out, Review{step, dir, holes, j})
	}
	return out
}
