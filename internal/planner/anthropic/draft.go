package anthropic

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"airlock/internal/planner"
)

// The types of blocks that an answer is made of. Others are ignored: they come only of what
// is never asked for.
const (
	textBlock     = "text"
	thinkingBlock = "thinking"
	redactedBlock = "redacted_thinking"
	toolBlock     = "tool_use"
)

// A draft is an answer as far as it has come.
type draft struct {
	on      func(planner.Delta)
	blocks  []*part
	at      map[int64]*part // by their index in the stream
	ids     map[string]bool // of calls
	model   string
	stop    anthropic.StopReason
	why     string // it refused
	usage   anthropic.Usage
	started bool
	stopped bool
}

// A part is a block of an answer.
type part struct {
	kind      string
	text      strings.Builder // thoughts among them
	signature strings.Builder
	data      string // of redacted thoughts
	id, name  string
	given     string          // the arguments as the block began with them
	args      strings.Builder // as they came after it
}

// take takes an event of the stream. What stands before the message's start is ignored, and
// so is another start.
func (d *draft) take(event *anthropic.MessageStreamEventUnion) {
	if begins := event.Type == "message_start"; begins == d.started {
		return
	}
	switch event.Type {
	case "message_start":
		d.started = true
		d.model, d.usage = event.Message.Model, event.Message.Usage
		d.at = map[int64]*part{}
	case "content_block_start":
		block := &event.ContentBlock
		p := d.begin(block.Type, block.ID, block.Name, block.JSON.Input.Raw())
		if p == nil {
			return
		}
		d.at[event.Index] = p
		p.data = block.Data
		p.signature.WriteString(block.Signature)
		d.more(p, block.Text, block.Thinking)
	case "content_block_delta":
		p := d.at[event.Index]
		if p == nil {
			return
		}
		switch delta := &event.Delta; delta.Type {
		case "text_delta":
			d.more(p, delta.Text, "")
		case "thinking_delta":
			d.more(p, "", delta.Thinking)
		case "signature_delta":
			p.signature.WriteString(delta.Signature)
		case "input_json_delta":
			d.argue(p, delta.PartialJSON)
		}
	case "content_block_stop":
		if p := d.at[event.Index]; p != nil {
			d.settle(p)
		}
	case "message_delta":
		d.stop = event.Delta.StopReason
		d.why = event.Delta.StopDetails.Explanation
		d.count(&event.Usage)
	case "message_stop":
		d.stopped = true
		for _, p := range d.blocks {
			d.settle(p)
		}
	}
}

// takeWhole takes an answer that came in one piece.
func (d *draft) takeWhole(message *anthropic.Message) {
	d.started, d.stopped = true, true
	d.model, d.usage = message.Model, message.Usage
	d.stop, d.why = message.StopReason, message.StopDetails.Explanation
	for i := range message.Content {
		block := &message.Content[i]
		p := d.begin(block.Type, block.ID, block.Name, block.JSON.Input.Raw())
		if p == nil {
			continue
		}
		p.data = block.Data
		p.signature.WriteString(block.Signature)
		d.more(p, block.Text, block.Thinking)
		d.settle(p)
	}
}

// begin begins a block; nil where it is of a type that is ignored.
func (d *draft) begin(kind, id, name, input string) *part {
	p := &part{kind: kind}
	switch kind {
	case textBlock:
	case thinkingBlock, redactedBlock:
		d.on(planner.Delta{Thinking: true})
	case toolBlock:
		p.id, p.name = id, name
		if p.id == "" || d.ids[p.id] {
			p.id = "call_" + rand.Text() // unique in the whole conversation
		}
		if d.ids == nil {
			d.ids = map[string]bool{}
		}
		d.ids[p.id] = true
		if input != "null" {
			p.given = input
		}
		d.on(planner.Delta{Tool: name})
	default:
		return nil
	}
	d.blocks = append(d.blocks, p)
	return p
}

// more adds to a block's text or thoughts.
func (d *draft) more(p *part, text, thoughts string) {
	switch {
	case p.kind == textBlock && text != "":
		p.text.WriteString(text)
		d.on(planner.Delta{Text: text})
	case p.kind == thinkingBlock && thoughts != "":
		p.text.WriteString(thoughts)
		d.on(planner.Delta{Thinking: true})
	}
}

// argue adds to a call's arguments.
func (d *draft) argue(p *part, args string) {
	if p.kind != toolBlock || args == "" {
		return
	}
	p.args.WriteString(args)
	d.on(planner.Delta{Tool: p.name, Args: args})
}

// settle tells of arguments that stood in the block's beginning, as they do where nothing is
// streamed.
func (d *draft) settle(p *part) {
	if p.kind == toolBlock && p.args.Len() == 0 && !isEmptyObject(p.given) {
		d.argue(p, p.given)
	}
}

func isEmptyObject(raw string) bool {
	raw = strings.TrimSpace(raw)
	return raw == "" || len(raw) >= 2 && raw[0] == '{' && strings.TrimSpace(raw[1:]) == "}"
}

// count takes the usage that stands at the end of a stream: totals, of which those that are
// not told stay what they were.
func (d *draft) count(u *anthropic.MessageDeltaUsage) {
	for _, n := range []struct {
		told bool
		from int64
		to   *int64
	}{
		{u.JSON.OutputTokens.Valid(), u.OutputTokens, &d.usage.OutputTokens},
		{u.JSON.InputTokens.Valid(), u.InputTokens, &d.usage.InputTokens},
		{u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens, &d.usage.CacheReadInputTokens},
		{u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens, &d.usage.CacheCreationInputTokens},
	} {
		if n.told {
			*n.to = n.from
		}
	}
}

// answer is the answer as it has come.
func (d *draft) answer() *planner.Answer {
	a := &planner.Answer{Model: d.model}
	var text strings.Builder
	for _, p := range d.blocks {
		switch p.kind {
		case textBlock:
			text.WriteString(p.text.String())
		case toolBlock:
			call := planner.ToolCall{ID: p.id, Name: p.name}
			if p.args.Len() > 0 {
				call.Args = json.RawMessage(p.args.String())
			}
			a.Calls = append(a.Calls, call)
		}
	}
	a.Text = text.String()
	switch d.stop {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		a.Stop = planner.StopLength
	case anthropic.StopReasonRefusal:
		a.Stop = planner.StopRefused
		if a.Text == "" {
			a.Text = d.why
		}
	default:
		// tool_use, end_turn, stop_sequence, pause_turn and what is not known: whether
		// something is waited for is seen from the calls.
		a.Stop = planner.StopEnd
		if len(a.Calls) > 0 {
			a.Stop = planner.StopTools
		}
	}
	cached := tokens(d.usage.CacheReadInputTokens)
	a.Usage = planner.Usage{
		Input:  tokens(d.usage.InputTokens) + cached + tokens(d.usage.CacheCreationInputTokens),
		Cached: cached,
		Output: tokens(d.usage.OutputTokens),
	}
	return a
}

// tokens is a number of tokens that can be one, and that can be added to others.
func tokens(n int64) int64 { return min(max(n, 0), 1<<40) }
