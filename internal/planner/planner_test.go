package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"airlock/internal/action"
	"airlock/internal/planner"
)

// A model follows a script, one turn a request, and keeps what it was asked.
type model struct {
	info  planner.Info
	turns []turn

	mu       sync.Mutex
	requests []*planner.Request
}

// A turn is an answer or an error, and the pieces that come before it.
type turn struct {
	deltas []planner.Delta
	answer planner.Answer
	err    error
	do     func(ctx context.Context, req *planner.Request) (*planner.Answer, error) // in place of the rest
}

func (m *model) Info() planner.Info { return m.info }

func (m *model) Answer(ctx context.Context, req *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, req)
	m.mu.Unlock()
	if n >= len(m.turns) {
		return nil, &planner.Error{Fault: planner.FaultRejected, Text: "the script has no more turns"}
	}
	t := m.turns[n]
	if t.do != nil {
		return t.do(ctx, req)
	}
	for _, d := range t.deltas {
		on(d)
	}
	if t.err != nil {
		return nil, t.err
	}
	a := t.answer
	return &a, nil
}

// script makes a model of the formats given, with a turn for each text.
func script(formats []planner.Format, turns ...turn) *model {
	return &model{
		info:  planner.Info{Provider: "script", Model: "m1", Endpoint: "http://127.0.0.1:1/v1", Local: true, Formats: formats},
		turns: turns,
	}
}

func text(s string) turn { return turn{answer: planner.Answer{Text: s, Stop: planner.StopEnd}} }

var textOnly = []planner.Format{planner.FormatText}

const listing = `{"kind":"command_sequence","summary":"List the files","steps":[{"id":"step1","description":"List","shell_command":"ls -l"}]}`

func TestATextAnswer(t *testing.T) {
	m := script(textOnly, text("It lists files."))
	p := planner.New(m, nil)
	ask := &planner.Ask{Verb: planner.Explain, Words: "what does ls do?"}
	first, err := json.Marshal(p.First(ask))
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Plan(t.Context(), ask, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.Plan.Kind != action.AnswerOnly || out.Plan.Summary != "It lists files." || out.Requests != 1 {
		t.Errorf("Plan: %+v, %d requests", out.Plan, out.Requests)
	}
	sent, err := json.Marshal(m.requests[0])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, sent) {
		t.Errorf("First gives\n%s\nsent was\n%s", first, sent)
	}
}

func TestAPlanIsMendedOnce(t *testing.T) {
	m := script(textOnly, text(`{"kind":"command_sequence"}`), text("Here:\n```json\n"+listing+"\n```\nGood luck!"))
	out, err := planner.New(m, nil).Plan(t.Context(), &planner.Ask{Verb: planner.Run, Words: "list files"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.Plan.Kind != action.CommandSequence || len(out.Plan.Steps) != 1 || out.Requests != 2 {
		t.Errorf("Plan: %+v, %d requests", out.Plan, out.Requests)
	}
	if len(out.Messages) != 2 {
		t.Errorf("Messages: %+v", out.Messages)
	}
}

func TestAFaultIsAnError(t *testing.T) {
	m := script(textOnly, turn{err: &planner.Error{Fault: planner.FaultKey}})
	_, err := planner.New(m, nil).Plan(t.Context(), &planner.Ask{Verb: planner.Run, Words: "list files"}, nil)
	var fault *planner.Error
	if !errors.As(err, &fault) || fault.Fault != planner.FaultKey {
		t.Errorf("Plan: %v", err)
	}
}

func TestTheBoundOfAnAnswerIsSent(t *testing.T) {
	m := script(textOnly, text(listing))
	if _, err := planner.New(m, &planner.Options{MaxTokens: 123}).Plan(t.Context(), &planner.Ask{Verb: planner.Run, Words: "list"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := m.requests[0].MaxTokens; got != 123 {
		t.Errorf("MaxTokens = %d, want 123", got)
	}
}
