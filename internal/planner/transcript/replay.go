package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"airlock/internal/planner"
	"airlock/internal/tool"
)

// maxDifferences bounds how many differences are told.
const maxDifferences = 50

// A Replay is a transcript that is played again. It is safe for concurrent use, but plays only one
// conversation.
type Replay struct {
	path  string
	head  head
	asks  []ask
	tools []offer

	mu          sync.Mutex
	rest        []entry
	system      string
	messages    []message // of the last request
	differences []string
}

// An entry is a line that was found right. It is read anew when its turn comes: as values, lines
// are larger than the file.
type entry struct {
	n    int // its number
	kind kind
	raw  []byte
}

// Open reads a transcript.
func Open(path string) (*Replay, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for somebody
		return nil, fmt.Errorf("replay %s: it is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer file.Close()
	return Read(path, file)
}

// Read reads a transcript from r; path is what it is called.
func Read(path string, r io.Reader) (*Replay, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("replay %s: it has more than %d bytes, which no transcript has", path, MaxFile)
	}
	p := &Replay{path: path}
	n := 0
	for len(data) > 0 {
		n++
		text, rest, ended := bytes.Cut(data, []byte("\n"))
		data = rest
		switch {
		case !ended:
			err = errors.New("it does not end: the transcript was cut off")
		case len(text) > MaxLine:
			err = fmt.Errorf("it has %d bytes, at most %d are taken", len(text), MaxLine)
		case n > maxLines:
			err = fmt.Errorf("there are more than %d lines", maxLines)
		default:
			err = p.take(n, text)
		}
		if err != nil {
			return nil, fmt.Errorf("replay %s: line %d: %w", path, n, err)
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("replay %s: it is empty", path)
	}
	return p, nil
}

// take takes a line in.
func (p *Replay) take(n int, text []byte) error {
	if n == 1 {
		if err := strict(text, &p.head); err != nil {
			return fmt.Errorf("it is no transcript of airlock: %w", err)
		}
		return p.head.check()
	}
	var l line
	if err := strict(text, &l); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	switch l.Kind {
	case ofTools:
		p.tools = l.Tools
		return nil
	case ofAsk:
		p.asks = append(p.asks, *l.Ask)
	case ofAnswer:
		if len(p.rest) == 0 || p.rest[len(p.rest)-1].kind != ofRequest {
			return errors.New("an answer without a request before it")
		}
	}
	p.rest = append(p.rest, entry{n, l.Kind, text})
	return nil
}

// Asks are what was asked for, in order, without the conversation before.
func (p *Replay) Asks() []planner.Ask {
	all := make([]planner.Ask, len(p.asks))
	for i, a := range p.asks {
		all[i] = planner.Ask{Verb: a.Verb, Words: a.Words, Context: a.Context, Material: slices.Clone(a.Material)}
	}
	return all
}

// Continues reports whether an ask went on with the conversation of the one before it, whose
// Messages are then its Earlier.
func (p *Replay) Continues(i int) bool { return i > 0 && i < len(p.asks) && p.asks[i].Continues }

// Airlock is the version that recorded, and when.
func (p *Replay) Airlock() (version string, created time.Time) { return p.head.Airlock, p.head.Created }

// Differences are in what the requests that were played differ from those that were recorded
// without being of another kind, such as in the prompt's text.
func (p *Replay) Differences() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.differences)
}

// Left is how many lines were not played.
func (p *Replay) Left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rest)
}

// Model gives the recorded answers, in order, at once. It is Local: nothing leaves the machine.
func (p *Replay) Model() planner.Model { return replayed{p} }

type replayed struct{ p *Replay }

func (m replayed) Info() planner.Info {
	return planner.Info{
		Provider: m.p.head.Provider, Model: m.p.head.Model, Endpoint: "transcript " + m.p.path, Local: true,
		Formats: slices.Clone(m.p.head.Formats),
	}
}

func (m replayed) Answer(ctx context.Context, req *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, &planner.Error{Fault: planner.FaultCanceled, Endpoint: m.Info().Endpoint, Err: err}
	}
	a, again, err := m.p.answer(req)
	if err != nil {
		return nil, m.fail(err)
	}
	for _, piece := range a.Pieces {
		if on != nil {
			on(planner.Delta{Text: piece.Text, Thinking: piece.Thinking, Tool: piece.Tool, Args: piece.Args})
		}
	}
	if e := a.Error; e != nil {
		after := time.Duration(e.RetryAfterMS) * time.Millisecond
		if again {
			after = time.Nanosecond // it was asked again: nobody has to wait for that twice
		}
		return nil, &planner.Error{
			Fault: e.Fault, Feature: e.Feature, Endpoint: e.Endpoint, Status: e.Status, Text: e.Text,
			Again: e.Again && after > 0, RetryAfter: after, Mend: e.Mend,
		}
	}
	whole := &planner.Answer{Text: a.Text, Stop: a.Stop, Usage: a.Usage, Model: a.Model}
	if a.Streamed {
		whole.Text = a.streamed()
	}
	for _, c := range a.Calls {
		whole.Calls = append(whole.Calls, planner.ToolCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(c.Args)})
	}
	return whole, nil
}

func (m replayed) fail(err error) error {
	return &planner.Error{
		Fault: planner.FaultRejected, Endpoint: m.Info().Endpoint, Text: err.Error(), Err: err,
		Mend: "play it with the version of airlock that recorded it",
	}
}

// answer is the answer to the next request, and whether the request was sent again after it.
func (p *Replay) answer(req *planner.Request) (*answer, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begins := false
	for len(p.rest) > 0 && p.rest[0].kind == ofAsk {
		p.rest, begins = p.rest[1:], true
	}
	if len(p.rest) == 0 {
		return nil, false, errors.New("the transcript has no more requests, and the model is asked again")
	}
	at := p.rest[0]
	if at.kind != ofRequest {
		return nil, false, fmt.Errorf("line %d: a %s comes next, and the model is asked", at.n, at.kind)
	}
	var l line
	if err := strict(at.raw, &l); err != nil {
		return nil, false, fmt.Errorf("line %d: %w", at.n, err)
	}
	if total := l.Request.Same + len(l.Request.Messages); begins && len(req.Messages) != total && len(req.Messages) != 1 {
		return nil, false, fmt.Errorf("line %d: another ask begins, and the model is asked again for the one before", at.n)
	}
	p.compare(at.n, l.Request, req)
	p.rest = p.rest[1:]
	if len(p.rest) == 0 || p.rest[0].kind != ofAnswer {
		return nil, false, fmt.Errorf("line %d: the request was never answered", at.n)
	}
	at, p.rest = p.rest[0], p.rest[1:]
	l = line{}
	if err := strict(at.raw, &l); err != nil {
		return nil, false, fmt.Errorf("line %d: %w", at.n, err)
	}
	return l.Answer, len(p.rest) > 0 && p.rest[0].kind == ofRequest, nil
}

// compare notes where a request differs from the recorded one.
func (p *Replay) compare(n int, was *request, now *planner.Request) {
	if was.System != "" {
		p.system = was.System
	}
	p.messages = append(p.messages[:min(max(was.Same, 0), len(p.messages)):len(p.messages)], was.Messages...)
	note := func(what string) {
		if len(p.differences) < maxDifferences {
			p.differences = append(p.differences, fmt.Sprintf("line %d: %s", n, what))
		}
	}
	if p.system != now.System {
		note("the system prompt differs")
	}
	if was.Format != now.Format || was.MustCall != now.MustCall {
		note("the form of the answer is asked for in another way")
	}
	var names []string
	for i := range now.Tools {
		names = append(names, now.Tools[i].Name)
	}
	if !slices.Equal(names, was.Tools) {
		note("other tools are offered")
	}
	if len(now.Messages) != len(p.messages) {
		note(fmt.Sprintf("the conversation has %d messages, and had %d", len(now.Messages), len(p.messages)))
		return
	}
	for i := range now.Messages {
		if was := p.messages[i]; was.Role != now.Messages[i].Role || was.Text != now.Messages[i].Text {
			note(fmt.Sprintf("message %d differs", i+1))
		}
	}
}

// Tools gives the recorded results, in order, and calls nothing.
func (p *Replay) Tools() planner.Tools { return replayedTools{p} }

type replayedTools struct{ p *Replay }

func (t replayedTools) List() []*tool.Info {
	var all []*tool.Info
	for _, o := range t.p.tools {
		all = append(all, &tool.Info{Name: o.Name, Description: "Gives what was recorded.", Kind: tool.Builtin, Actions: []tool.Action{{
			Name: o.Action, Schema: json.RawMessage(`{"type":"object"}`), Risk: tool.RiskReadOnly,
		}}})
	}
	return all
}

func (t replayedTools) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	u, err := t.p.use(call)
	if err != nil {
		return tool.Result{}, fmt.Errorf("replay %s: %w", t.p.path, err)
	}
	if u.Result == nil {
		return tool.Result{}, errors.New(u.Error)
	}
	res := tool.Result{OK: u.Result.OK, Stdout: tool.Bounded(u.Result.Stdout), Stderr: tool.Bounded(u.Result.Stderr), Meta: tool.Meta{}}
	for name, raw := range u.Result.Meta {
		var v any
		if err := json.Unmarshal(raw, &v); err == nil {
			res.Meta[name] = v
		}
	}
	return res, nil
}

// use is what the next call gave.
func (p *Replay) use(call tool.Call) (*use, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) == 0 {
		return nil, fmt.Errorf("the transcript has no more calls, and %s is called", call.Tool)
	}
	at := p.rest[0]
	if at.kind != ofCall {
		return nil, fmt.Errorf("line %d: a %s comes next, and %s is called", at.n, at.kind, call.Tool)
	}
	var l line
	if err := strict(at.raw, &l); err != nil {
		return nil, fmt.Errorf("line %d: %w", at.n, err)
	}
	if l.Call.Tool != call.Tool || l.Call.Action != call.Action || compact(l.Call.Args) != compact(string(call.Args)) {
		return nil, fmt.Errorf("line %d: another call was recorded than this one of %s", at.n, call.Tool)
	}
	p.rest = p.rest[1:]
	return l.Call, nil
}

// compact is JSON without spaces, or the text as it is.
func compact(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}
