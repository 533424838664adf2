package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"airlock/internal/planner"
)

// shown is a request as it would have been sent.
type shown struct {
	method, url string
	body        []byte
}

// noModel stands where no model is configured and what would be sent is to be shown all the
// same.
type noModel struct{}

func (noModel) Info() planner.Info {
	return planner.Info{Formats: []planner.Format{planner.FormatSchema, planner.FormatText}}
}

func (noModel) Answer(context.Context, *planner.Request, func(planner.Delta)) (*planner.Answer, error) {
	return nil, ErrNoModel
}

// chooseToShow chooses the model whose requests are shown instead of being sent.
func (r *aiRun) chooseToShow(ctx context.Context) error {
	chosen, err := r.p.Model(ctx, &ModelOptions{
		Provider: r.f.provider, Model: r.f.model, BaseURL: r.f.baseURL,
		Show: func(method, url string, body []byte) { r.shown = &shown{method, url, bytes.Clone(body)} },
	})
	if errors.Is(err, ErrNoModel) {
		r.p.complain(err)
		r.chosen = &ChosenModel{Model: noModel{}}
		return nil
	}
	if err != nil {
		return fail(exitFailed, err)
	}
	r.chosen = chosen
	return nil
}

// showContext prints what would be sent, and sends nothing.
func (r *aiRun) showContext(ctx context.Context, ask *planner.Ask) error {
	if err := r.planner.Check(ask); err != nil {
		return usage("%w", err)
	}
	first := r.planner.First(ask)
	_, err := r.chosen.Model.Answer(ctx, first, nil)
	if r.shown == nil && !errors.Is(err, ErrNoModel) {
		return fail(exitFailed, fmt.Errorf("show what would be sent: %w", err))
	}
	if r.f.json {
		body, err := json.Marshal(first)
		if r.shown != nil {
			body = r.shown.body
		}
		if err != nil {
			return fail(exitFailed, err)
		}
		r.f.answered = true
		return r.p.print(string(body) + "\n")
	}
	out := &strings.Builder{}
	if r.shown == nil {
		fmt.Fprint(out, "No model is configured. One would be told:\n")
	} else {
		info := r.chosen.Model.Info()
		fmt.Fprintf(out, "%s %s\n%s %s (%s), %s in all; --json prints the body as it is\n", r.shown.method, printable(r.shown.url),
			printable(info.Provider), printable(info.Model), printable(r.chosen.Why), plural(len(r.shown.body), "byte"))
	}
	part := func(name, text string) {
		fmt.Fprintf(out, "\n── %s ──\n%s\n", name, printableLines(strings.TrimRight(text, "\n")))
	}
	part("system", first.System)
	for _, m := range first.Messages {
		part(string(m.Role), m.Text)
	}
	for _, t := range first.Tools {
		var schema bytes.Buffer
		if json.Compact(&schema, t.Schema) != nil {
			schema.Write(t.Schema)
		}
		part("tool "+t.Name, t.Description+"\n"+schema.String())
	}
	return r.p.print(out.String())
}
