package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"airlock/internal/action"
)

// maxAnswer bounds an answer, in bytes of text and arguments.
const maxAnswer = 4 << 20

// maxBack bounds what of an invalid answer goes back to the model that has to mend it.
const maxBack = 32 << 10

// maxAtOnce bounds how many calls of tools one answer may have.
const maxAtOnce = 128

// A conversation is an ask that is being worked out. It is used by one goroutine.
type conversation struct {
	p        *Planner
	verb     Verb
	watch    func(Progress)
	out      *Outcome
	messages []Message

	rounds, calls, bytes int
	last                 bool // the model was told that no more tools can be used
	answered             map[string]kept
	mended               bool
	mending              int // where in messages the answer that had to be mended is, with what was said of it
}

// work asks until there is an answer.
func (c *conversation) work(ctx context.Context) error {
	for round := 1; ; round++ {
		answer, err := c.ask(ctx, round)
		if err != nil {
			return err
		}
		if wantsTools(answer) {
			if c.last {
				return c.endless(answer)
			}
			if answer.Stop == StopLength {
				return c.tooLong()
			}
			if len(answer.Calls) > maxAtOnce {
				return c.garbled(fmt.Sprintf("it calls %d tools at once, at most %d are answered", len(answer.Calls), maxAtOnce))
			}
			if err := c.useTools(ctx, answer); err != nil {
				return err
			}
			continue
		}
		done, err := c.settle(answer)
		if done || err != nil {
			return err
		}
	}
}

// wantsTools reports whether the answer calls anything but the proposal alone: a proposal
// beside other calls was made without their results, and is asked for again.
func wantsTools(a *Answer) bool {
	for _, call := range a.Calls {
		if call.Name != propose {
			return true
		}
	}
	return false
}

// endless ends an ask whose model goes on calling tools: with its plan, if it has made one
// beside the calls, whose results it knew that it would not get.
func (c *conversation) endless(a *Answer) error {
	own := &Answer{Text: a.Text, Stop: a.Stop}
	for _, call := range a.Calls {
		if call.Name == propose {
			own.Calls = append(own.Calls, call)
		}
	}
	if plan, _, _ := read(own); plan != nil && a.Stop != StopRefused {
		c.finish(plan)
		return nil
	}
	return c.garbled(fmt.Sprintf("it goes on calling tools instead of answering, after %d calls in %d rounds", c.calls, c.rounds))
}

// garbled says that the model does what leads to no answer.
func (c *conversation) garbled(text string) error {
	return &Error{
		Fault: FaultGarbled, Endpoint: c.p.info.Endpoint, Text: text,
		Mend: "say the request in other words, with what it needs to know, or take another model",
	}
}

// tooLong says that the answer was cut off.
func (c *conversation) tooLong() error {
	return &Error{
		Fault: FaultCut, Endpoint: c.p.info.Endpoint,
		Text: "the model stopped in the middle: its answer came to the endpoint's bound for one",
		Mend: "ask for less at once, or take a model or a server setting with longer answers",
	}
}

// settle makes the outcome of an answer without calls of tools. It is not done where the
// model has to mend it.
func (c *conversation) settle(a *Answer) (bool, error) {
	plan, wrong, text := read(a)
	prose := strings.TrimSpace(text) != "" && plan == nil && wrong == nil
	switch {
	case a.Stop == StopRefused:
		if strings.TrimSpace(text) == "" {
			text = "The model, or a filter before it, would not answer this."
		}
		c.finish(textPlan(text))
		return true, nil
	case plan != nil:
		c.finish(plan)
		return true, nil
	case a.Stop == StopLength && prose && c.verb.Answers():
		c.finish(textPlan(cut(text, action.MaxSummary-100) + "\n[The answer was cut off at the endpoint's bound.]"))
		return true, nil
	case a.Stop == StopLength:
		return false, c.tooLong()
	case prose && c.verb.Answers():
		c.finish(textPlan(text))
		return true, nil
	case prose:
		wrong = problem("a JSON object that is an AiAction", "a text without one")
	case wrong == nil:
		wrong = problem("a JSON object that is an AiAction", "nothing")
	}
	if !c.mended {
		c.mend(a, wrong)
		return false, nil
	}
	if strings.TrimSpace(text) == "" {
		return false, c.garbled("it answered nothing, twice")
	}
	c.out.Invalid = wrong.Problems
	c.finish(textPlan(text))
	return true, nil
}

// read finds the plan in an answer, and the text that the answer is otherwise.
func read(a *Answer) (*action.Plan, *action.InvalidError, string) {
	switch len(a.Calls) {
	case 0:
		plan, wrong := extract(a.Text)
		return plan, wrong, a.Text
	case 1:
		args := string(a.Calls[0].Args)
		plan, wrong := parse(args)
		return plan, wrong, args
	}
	return nil, problem("one call of "+propose, fmt.Sprintf("%d calls of it", len(a.Calls))), a.Text
}

// textPlan is an answer that is a text.
func textPlan(text string) *action.Plan {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > action.MaxSummary {
		text = cut(text, action.MaxSummary-len("…")) + "…"
	}
	return &action.Plan{Kind: action.AnswerOnly, Summary: text}
}

// mend has the model answer once more, and says what is wrong.
func (c *conversation) mend(a *Answer, wrong *action.InvalidError) {
	c.watch(Mending{Problems: wrong.Problems})
	c.mended, c.mending = true, len(c.messages)
	what := "The answer is no valid AiAction: " + strings.TrimPrefix(wrong.Error(), "invalid plan: ") +
		"\nRespond once more, with the whole AiAction mended: one JSON object and nothing else."
	said := c.said(a)
	if len(said.Calls) == 0 {
		if said.Text == "" {
			said.Text = "(no answer)" // endpoints refuse an empty message
		}
		c.messages = append(c.messages, said, Message{Role: User, Text: string(c.p.scrub.text(what))})
		return
	}
	back := Message{Role: User}
	for _, call := range said.Calls {
		back.Results = append(back.Results, ToolResult{ID: call.ID, Name: call.Name, Text: string(c.p.scrub.text(what)), Failed: true})
	}
	c.messages = append(c.messages, said, back)
}

// said is the model's message as it is kept, and sent back: bounded, and with names of tools
// that an endpoint takes.
func (c *conversation) said(a *Answer) Message {
	m := c.p.scrub.message(&Message{Role: Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque})
	m.Text = cut(m.Text, maxBack)
	for i := range m.Calls {
		call := &m.Calls[i]
		most := maxArgs
		if call.Name == propose {
			most = action.MaxSize
		}
		if len(call.Args) > most {
			call.Args = json.RawMessage("{}")
		}
		if !wireName(call.Name) || string(c.p.scrub.text(call.Name)) != call.Name {
			call.Name = "unknown"
		}
	}
	return m
}

// finish makes a plan the outcome.
func (c *conversation) finish(plan *action.Plan) {
	if c.mended {
		// The next turn learns nothing from an answer that was none.
		c.messages = append(c.messages[:c.mending:c.mending], c.messages[c.mending+2:]...)
	}
	c.out.Messages = append(c.messages, Message{Role: Assistant, Text: string(c.p.scrub.text(string(action.Marshal(plan))))})
	if c.verb.Answers() && len(plan.Steps) > 0 {
		c.out.Proposed = plan.Steps
		plan = &action.Plan{Kind: action.AnswerOnly, Summary: plan.Summary}
		if strings.TrimSpace(plan.Summary) == "" {
			plan = textPlan(sentences(c.out.Proposed))
		}
	}
	c.out.Plan = plan
}

// sentences says what steps are for.
func sentences(steps []action.Step) string {
	var texts []string
	for i := range steps {
		if text := strings.TrimSpace(steps[i].Description); text != "" {
			texts = append(texts, strings.TrimRight(text, ".")+".")
		}
	}
	if len(texts) == 0 {
		return "These commands would do it."
	}
	return strings.Join(texts, " ")
}

// asError is what went wrong as an *Error.
func (p *Planner) asError(ctx context.Context, err error) *Error {
	var known *Error
	isKnown := errors.As(err, &known)
	switch {
	case ctx.Err() != nil && (!isKnown || known.Fault != FaultCanceled):
		return &Error{Fault: FaultCanceled, Endpoint: p.info.Endpoint, Err: ctx.Err()}
	case isKnown:
		return known
	}
	return &Error{Fault: FaultServer, Endpoint: p.info.Endpoint, Text: string(printable(p.scrub.text(cut(err.Error(), 500)))), Err: err}
}
