package planner

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options are a Planner's. Nil is valid.
type Options struct {
	Tools  Tools               // what the model may use; nil: nothing
	Redact func(string) string // takes secrets out of all that is sent and kept; nil: redact.Text
	Limits Limits
	Logger *slog.Logger // nil: none

	MaxTokens int64 // of each answer; 0: the provider's own bound
}

// A Planner makes plans with a model. It is safe for concurrent use, and remembers only what
// the model's endpoint turned out not to have.
type Planner struct {
	model  Model
	info   Info
	tools  *toolbox
	scrub  scrubber
	limits Limits
	log    *slog.Logger
	tokens int64 // of an answer

	mu       sync.Mutex
	formats  []Format // that are still worth trying
	noTools  bool
	noChoice bool
}

// New makes a Planner that asks model.
func New(model Model, opts *Options) *Planner {
	if opts == nil {
		opts = &Options{}
	}
	p := &Planner{
		model:  model,
		info:   model.Info(),
		tools:  newToolbox(opts.Tools),
		scrub:  newScrubber(opts.Redact),
		limits: opts.Limits.withDefaults(),
		log:    opts.Logger,
		tokens: opts.MaxTokens,
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.formats = slices.Clone(p.info.Formats)
	if !slices.Contains(p.formats, FormatText) {
		p.formats = append(p.formats, FormatText)
	}
	return p
}

// withDefaults puts the defaults where nothing is said.
func (l Limits) withDefaults() Limits {
	set := func(to *int, value int) {
		if *to <= 0 {
			*to = value
		}
	}
	if l.Time <= 0 {
		l.Time = 5 * time.Minute
	}
	if l.MaxWait <= 0 {
		l.MaxWait = 30 * time.Second
	}
	set(&l.Rounds, 8)
	set(&l.Calls, 24)
	set(&l.ToolBytes, 32<<10)
	set(&l.AllBytes, 128<<10)
	set(&l.Retries, 2)
	return l
}

// First is the request that Plan sends first for an ask, byte for byte, secrets taken out. It is
// nil for an ask that Plan refuses.
func (p *Planner) First(ask *Ask) *Request {
	messages, err := p.begin(ask)
	if err != nil {
		return nil
	}
	return p.request(messages, false)
}

// Check says what is wrong with an ask, for a person, where Plan would refuse it unasked.
func (p *Planner) Check(ask *Ask) error {
	_, err := p.begin(ask)
	return err
}

// Plan works an ask out: it asks the model, lets it use tools, has it mend an answer that is
// no valid plan, and gives what it all came to. watch, which may be nil, is told how it goes; it
// is called by one goroutine at a time, and never after Plan has returned.
//
// The error is an *Error where the model or its endpoint failed, with FaultCanceled where
// ctx ended, and says what to leave out or to add where the ask cannot be sent. Beside an
// error the Outcome has no Plan and tells what was used until then; it is never nil.
func (p *Planner) Plan(ctx context.Context, ask *Ask, watch func(Progress)) (*Outcome, error) {
	out := &Outcome{Model: p.info}
	messages, err := p.begin(ask)
	if err != nil {
		return out, err
	}
	if watch == nil {
		watch = func(Progress) {}
	}
	bounded, cancel := context.WithTimeout(ctx, p.limits.Time)
	defer cancel()
	c := &conversation{
		p: p, verb: ask.Verb, watch: watch, out: out, messages: messages,
		answered: map[string]kept{},
	}
	began := time.Now()
	err = c.work(bounded)
	p.log.DebugContext(ctx, "worked out an ask", "requests", out.Requests, "uses", len(out.Uses), "took", time.Since(began), "failed", err != nil)
	if err == nil {
		return out, nil
	}
	out.Plan, out.Proposed, out.Invalid = nil, nil, nil
	if ctx.Err() == nil && bounded.Err() != nil {
		err = &Error{
			Fault: FaultTimeout, Endpoint: p.info.Endpoint, Err: bounded.Err(),
			Text: "there was no answer within " + p.limits.Time.String() + ", which all of it may take",
			Mend: "ask for less at once, or take a faster model",
		}
	}
	return out, err
}

// begin is the conversation as an ask begins it.
func (p *Planner) begin(ask *Ask) ([]Message, error) {
	text, err := p.scrub.compose(ask)
	if err != nil {
		return nil, err
	}
	return append(p.earlier(ask.Earlier), Message{Role: User, Text: text}), nil
}

// earlier is what is sent of an earlier conversation: its latest turns, each whole, from
// what the person said to the answer.
func (p *Planner) earlier(all []Message) []Message {
	begin, size := len(all), 0
	for i := len(all) - 1; i >= 0; i-- {
		size += all[i].size()
		if size > MaxEarlier {
			break
		}
		if all[i].Role == User && len(all[i].Results) == 0 {
			begin = i
		}
	}
	out := make([]Message, 0, len(all)-begin+1)
	for i := begin; i < len(all); i++ {
		out = append(out, p.scrub.message(&all[i]))
	}
	return out
}

// size is what a message counts against MaxEarlier.
func (m *Message) size() int {
	n := len(m.Text) + len(m.Opaque) + 100
	for _, c := range m.Calls {
		n += len(c.Args) + 100
	}
	for _, r := range m.Results {
		n += len(r.Text) + 100
	}
	return n
}

// request asks for the next message. Last: no more tools can be used.
func (p *Planner) request(messages []Message, last bool) *Request {
	p.mu.Lock()
	format, noTools, noChoice := p.formats[0], p.noTools, p.noChoice
	p.mu.Unlock()
	req := &Request{System: system(), Messages: slices.Clone(messages), Format: format, MaxTokens: p.tokens}
	if !last && !noTools {
		req.Tools = p.tools.offered()
	}
	switch format {
	case FormatSchema:
		req.Schema = Schema()
	case FormatTool:
		req.Tools = append(req.Tools, proposal())
		req.MustCall = !noChoice
	}
	if len(req.Tools) == 0 {
		// Endpoints refuse a conversation with calls of tools that they are not told of.
		req.Messages = p.scrub.flatten(req.Messages)
	}
	return req
}

// lower goes on without what the endpoint does not have. It is false where that changes
// nothing.
func (p *Planner) lower(e *Error, req *Request) (Lowered, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	drop := func(format Format) {
		if i := slices.Index(p.formats, format); i >= 0 && i < len(p.formats)-1 {
			p.formats = slices.Delete(p.formats, i, i+1)
		}
	}
	switch e.Feature {
	case FeatureSchema, FeatureJSON:
		if req.Format == FormatText {
			return Lowered{}, false
		}
		drop(req.Format)
	case FeatureTools:
		if len(req.Tools) == 0 {
			return Lowered{}, false
		}
		p.noTools = true
		drop(FormatTool)
	case FeatureChoice:
		if !req.MustCall {
			return Lowered{}, false
		}
		p.noChoice = true
	default:
		return Lowered{}, false
	}
	return Lowered{From: req.Format, To: p.formats[0], Feature: e.Feature}, true
}
