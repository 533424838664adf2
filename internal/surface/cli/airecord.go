package cli

import (
	"context"
	"time"

	"airlock/internal/planner"
)

// rowAI is the kind of row that the record keeps of a request to a model.
const rowAI = "ai_request"

// aiRow is what the record keeps of a request: who was asked for what, and what it cost. What
// the model's tools were used for is in rows of their own.
type aiRow struct {
	Verb       planner.Verb  `json:"verb,omitempty"`
	Words      string        `json:"words"`
	Material   []string      `json:"material,omitempty"` // names
	Provider   string        `json:"provider"`
	Model      string        `json:"model"`
	Endpoint   string        `json:"endpoint"`
	Kind       string        `json:"kind,omitempty"` // of the plan
	Steps      int           `json:"steps"`
	Requests   int           `json:"requests"`
	ToolUses   int           `json:"tool_uses"`
	Usage      planner.Usage `json:"usage"`
	DurationMS int64         `json:"duration_ms"`
	Error      string        `json:"error,omitempty"`
}

// write writes a request down. The record takes out what looks like a secret by itself; those
// that are known here, such as the provider's key, are taken out before.
func (r *aiRun) write(ctx context.Context, ask *planner.Ask, out *planner.Outcome, failed error, took time.Duration) error {
	log, err := r.p.Record()
	if err != nil {
		return err
	}
	row := &aiRow{Verb: ask.Verb, Words: cut(r.redactor.Text(ask.Words), 2000), DurationMS: took.Milliseconds()}
	for _, piece := range ask.Material {
		row.Material = append(row.Material, r.redactor.Text(piece.Name))
	}
	info := r.chosen.Model.Info()
	row.Provider, row.Model, row.Endpoint = info.Provider, info.Model, info.Endpoint
	if out != nil {
		row.Requests, row.ToolUses, row.Usage = out.Requests, len(out.Uses), out.Usage
		if out.Plan != nil {
			row.Kind, row.Steps = string(out.Plan.Kind), len(out.Plan.Steps)
		}
	}
	if failed != nil {
		row.Error = r.redactor.Text(failed.Error())
	}
	if failed == nil && len(out.Plan.Steps) > 0 {
		// What comes next, the plan's own beginning, is waited for, and this is written with it.
		_, err = log.Queue(rowAI, "", row)
		return err
	}
	return log.Record(ctx, rowAI, "", row)
}
