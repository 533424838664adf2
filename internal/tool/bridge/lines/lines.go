// Package lines speaks protocol 1.1 with the process of a bridged agent: messages, each a
// JSON object on a line of its own, by which the agent says how far it has come, calls
// tools, asks the person and answers, and is told when its time is over. docs/bridge.md
// states it. The package knows neither the gate nor what a configuration is.
package lines

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/proc"
)

// The protocols that there are.
const (
	Protocol = "1.1"
	Original = "1.0"
)

// grace is how long an agent that was told to end is left to do so.
const grace = 2 * time.Second

// ErrSilent is an agent whose time passed without a byte from it. As a rule it waits for the
// end of a stdin that stays open.
var ErrSilent = errors.New("it said nothing: a protocol 1.1 agent reads one line of stdin, not all of it")

// A Session is one attempt at a call, as the agent and who called see it.
type Session struct {
	Tool    string          // the agent's name
	Call    string          // the call's ID
	Attempt int             // from 1
	Args    json.RawMessage // the parameters: an object, checked; none is an empty one

	// Back takes what the agent asks for. Nil: nobody does. Calls fail, questions find
	// nobody, and what is shown is dropped.
	Back tool.Back

	// Document is the answer of a bridged agent in the Result of a call, nil where that is
	// another tool's. Nil: no result has one.
	Document func(res tool.Result) json.RawMessage

	Log *slog.Logger // nil discards
}

// Do runs an agent and talks to it until it has ended. Params' Stdin and Input are Do's to set,
// and no Grace is two seconds. All that it begins has ended when it returns, which is soon
// after r's limit or ctx's end and the Grace.
//
// Stdout of the outcome is what was no message. final is the value of the agent's result,
// nil where it gave none, or none that counts. The error is what is to be said of an agent
// that did not keep to the protocol, one sentence in printable characters: it was ended for
// that, or gave an answer that cannot be read, or (ErrSilent, with TimedOut) said nothing.
// Parameters that cannot be sent are an error and the outcome's Err; nothing is started then.
func Do(ctx context.Context, r *proc.Run, s *Session) (out proc.Outcome, final json.RawMessage, err error) {
	first, err := opening(s, r.Limit)
	if err != nil {
		return proc.Outcome{Err: err}, nil, nil //nolint:nilerr // it is the outcome's
	}
	run := *r
	run.Params.Stdin, run.Params.Input = string(first), true
	if run.Grace <= 0 {
		run.Grace = grace
	}
	t := newTalk(ctx, s, run.MaxOutput)
	defer t.calls.Wait()
	defer t.end()
	p, err := run.Start(ctx, nil, t)
	if err != nil {
		return proc.Outcome{Err: err}, nil, nil //nolint:nilerr // it is the outcome's
	}
	out = t.attend(ctx, p)
	return t.ended(out, p.Reason())
}

// attend does what there is to do while the agent runs, and returns when it has ended and
// nothing goes on any more.
func (t *talk) attend(ctx context.Context, p *proc.Running) proc.Outcome {
	feeding, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { t.feed.run(feeding, p) })
	others.Go(func() { t.pace.run(p.Done()) })
	select {
	case <-p.Done():
	case <-p.Over():
		if !t.cancel(p.Reason()) {
			p.End()
		}
		t.end()
	}
	out := p.Wait()
	t.end()
	t.calls.Wait()
	stop()
	others.Wait()
	return out
}

// ended is what came of it.
func (t *talk) ended(out proc.Outcome, over proc.Reason) (proc.Outcome, json.RawMessage, error) {
	if t.fault == nil && !out.TooMuch {
		out.TooMuch = errors.Is(t.last(), proc.ErrTooMuch)
	}
	out.Stdout = t.answer
	if over == proc.Timeout && out.Err == nil && !out.TooMuch && (out.Result.ExitCode != 0 || out.Result.Canceled || out.Result.TimedOut) {
		out.TimedOut = true // it may have ended by itself, but not well
	}
	if t.fault != nil {
		if errors.Is(out.Err, t.fault) {
			out.Err = nil
		}
		return out, nil, errors.New(changes.Printable(t.fault.Error()))
	}
	switch {
	case out.TimedOut && !t.heard:
		return out, nil, ErrSilent
	case out.TimedOut, out.Canceled, out.TooMuch, out.Err != nil:
		return out, nil, nil
	case t.final == nil && t.bad != nil && out.Result.ExitCode == 0:
		return out, nil, errors.New(changes.Printable(t.bad.Error()))
	}
	return out, t.final, nil
}
