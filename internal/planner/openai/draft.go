package openai

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/internal/planner"
)

// maxCalls is how many calls of tools one answer may have.
const maxCalls = 128

// errReported says that a chunk is an error that the endpoint reports.
var errReported = errors.New("the endpoint reports an error")

// A draft is an answer that is being put together.
type draft struct {
	on      func(planner.Delta)
	begun   bool
	text    thoughts
	refusal strings.Builder
	calls   []*drafted
	stop    string // the reason that was told
	usage   planner.Usage
	model   string
}

// A drafted is a call that is being put together.
type drafted struct {
	index int64 // -1: not told
	id    string
	name  string
	args  strings.Builder
}

// take adds a chunk, or a whole answer.
func (d *draft) take(raw []byte) error {
	var c completion
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("a piece of the answer is not that of a chat completion: %w", err)
	}
	if !isNull(c.Error) || c.Object.text == "error" {
		return errReported
	}
	if c.Model.text != "" {
		d.model = c.Model.text
	}
	if c.Usage == nil && c.Groq != nil {
		c.Usage = c.Groq.Usage
	}
	if c.Usage != nil {
		d.count(c.Usage)
	}
	if c.Choices != nil {
		d.begun = true
	}
	if len(c.Choices) == 0 {
		return nil
	}
	first := c.Choices[0]
	if !isNull(first.Error) || first.FinishReason.text == "error" {
		return errReported
	}
	for _, msg := range []*message{first.Delta, first.Message} {
		if msg == nil {
			continue
		}
		if err := d.add(msg); err != nil {
			return err
		}
	}
	if first.FinishReason.text != "" {
		d.stop = first.FinishReason.text
	}
	return nil
}

// count takes the usage. The last one told counts.
func (d *draft) count(u *usage) {
	d.usage = planner.Usage{Input: int64(u.Prompt), Output: int64(u.Completion), Cached: int64(u.CacheHit), Cost: u.Cost}
	if u.Details != nil && u.Details.Cached > 0 {
		d.usage.Cached = int64(u.Details.Cached)
	}
	d.usage.Cached = min(d.usage.Cached, d.usage.Input)
}

// add adds what a message brings.
func (d *draft) add(msg *message) error {
	if msg.Reasoning.text != "" || msg.ReasoningContent.text != "" {
		d.on(planner.Delta{Thinking: true})
	}
	if msg.Content.text != "" {
		d.text.add(msg.Content.text, d.on)
	}
	d.refusal.WriteString(msg.Refusal.text)
	for i := range msg.ToolCalls {
		if err := d.addCall(&msg.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

// addCall adds a piece of a call, or a whole one.
func (d *draft) addCall(c *call) error {
	slot := d.slot(c)
	if slot == nil {
		if len(d.calls) == maxCalls {
			return fmt.Errorf("the answer has more than %d calls of tools", maxCalls)
		}
		slot = &drafted{index: -1}
		if c.Index != nil {
			slot.index = int64(*c.Index)
		}
		d.calls = append(d.calls, slot)
	}
	if slot.id == "" {
		slot.id = c.ID.text
	}
	if slot.name != c.Function.Name.text { // some repeat it in each piece
		slot.name += c.Function.Name.text
	}
	if c.Function.Arguments.object {
		slot.args.Reset()
	}
	slot.args.WriteString(c.Function.Arguments.text)
	d.on(planner.Delta{Tool: slot.name, Args: c.Function.Arguments.text})
	return nil
}

// slot is the call that a piece belongs to; nil where it begins one. Some servers tell no
// index, or the same one for all calls; some tell no ID.
func (d *draft) slot(c *call) *drafted {
	if len(d.calls) == 0 {
		return nil
	}
	last := d.calls[len(d.calls)-1]
	id := c.ID.text
	if c.Index == nil {
		switch {
		case id != "":
			return d.byID(id)
		case c.Function.Name.text != "":
			return nil
		}
		return last
	}
	for _, slot := range slices.Backward(d.calls) {
		if slot.index == int64(*c.Index) && (id == "" || slot.id == "" || slot.id == id) {
			return slot
		}
	}
	return nil
}

func (d *draft) byID(id string) *drafted {
	for _, slot := range d.calls {
		if slot.id == id {
			return slot
		}
	}
	return nil
}

// answer is the whole message.
func (d *draft) answer() *planner.Answer {
	a := &planner.Answer{Text: d.text.end(d.on), Usage: d.usage, Model: d.model, Stop: stopOf(d.stop)}
	seen := map[string]bool{}
	for _, c := range d.calls {
		if c.id == "" || seen[c.id] {
			c.id = "call_" + rand.Text()
		}
		seen[c.id] = true
		a.Calls = append(a.Calls, planner.ToolCall{ID: c.id, Name: c.name, Args: json.RawMessage(c.args.String())})
	}
	if d.refusal.Len() > 0 {
		a.Stop = planner.StopRefused
		if a.Text == "" {
			a.Text = d.refusal.String()
		}
	}
	switch {
	case len(a.Calls) > 0 && a.Stop == planner.StopEnd:
		a.Stop = planner.StopTools
	case len(a.Calls) == 0 && a.Stop == planner.StopTools:
		a.Stop = planner.StopEnd
	}
	return a
}

// stopOf is why an answer ended.
func stopOf(reason string) planner.Stop {
	switch strings.ToLower(reason) {
	case "tool_calls", "tool_call", "function_call", "tool_use":
		return planner.StopTools
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return planner.StopLength
	case "content_filter", "refusal", "safety":
		return planner.StopRefused
	}
	return planner.StopEnd
}
