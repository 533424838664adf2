package gemini_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
)

func TestAnEndpointThatWaitsIsGivenUp(t *testing.T) {
	short := &endpoint.Options{FirstByte: 100 * time.Millisecond, Idle: 100 * time.Millisecond}
	for name, turn := range map[string]modeltest.Turn{
		"before the first byte": {Silent: true},
		"after the first piece": {Text: "a text of several pieces", Chunk: 4, Stall: true},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			m := model(t, newModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{turn}}), short)
			if e := fault(t, m, ask("hello")); e.Fault != planner.FaultTimeout || !e.Again {
				t.Errorf("the fault is %q, Again %v, want a timeout", e.Fault, e.Again)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("it took %s", d)
			}
		})
	}
}

func TestAnAnswerEndsSoonAfterItsContext(t *testing.T) {
	stalled := modeltest.Turn{Text: "a text of several pieces", Chunk: 4, Stall: true}
	t.Run("in the middle", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := model(t, newModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{stalled}}), nil)
		hasReturned, calls := false, 0
		start := time.Now()
		_, err := m.Answer(ctx, ask("hello"), func(planner.Delta) {
			calls++
			if hasReturned {
				t.Error("on is called after Answer has returned")
			}
			cancel()
		})
		hasReturned = true
		checkCanceled(t, err, context.Canceled, planner.FaultCanceled)
		if d := time.Since(start); d > time.Minute || calls == 0 {
			t.Errorf("it took %s and %d pieces", d, calls)
		}
	})
	t.Run("at its deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		m := model(t, newModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{stalled}}), nil)
		_, err := m.Answer(ctx, ask("hello"), nil)
		checkCanceled(t, err, context.DeadlineExceeded, planner.FaultTimeout)
	})
	t.Run("before it begins", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		script := &modeltest.Script{Turns: []modeltest.Turn{stalled}}
		_, err := model(t, newModel, modeltest.Gemini(t, script), nil).Answer(ctx, ask("hello"), nil)
		checkCanceled(t, err, context.Canceled, planner.FaultCanceled)
		if len(script.Requests()) != 0 {
			t.Error("a request was sent")
		}
	})
}

func checkCanceled(t *testing.T, err, want error, fault planner.Fault) {
	t.Helper()
	var e *planner.Error
	if !errors.As(err, &e) || e.Fault != fault || !errors.Is(err, want) {
		t.Errorf("Answer: %v, want the fault %q of %v", err, fault, want)
	}
}

func TestNobodyAtTheAddressIsTold(t *testing.T) {
	if e := fault(t, model(t, newModel, "http://127.0.0.1:1", nil), ask("hello")); e.Fault != planner.FaultUnreachable {
		t.Errorf("the fault is %q, want it unreachable", e.Fault)
	}
}
