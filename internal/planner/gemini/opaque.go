package gemini

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"airlock/internal/planner"
)

// An opaque is what a message's Opaque holds: the parts of the model's content, with the
// signatures that Gemini wants back with its calls.
type opaque struct {
	Provider string        `json:"provider"` // another provider's is left alone
	Parts    []*genai.Part `json:"parts"`
}

// keep makes the Opaque of an answer's parts; nil where its text says it all.
func keep(parts []*genai.Part) json.RawMessage {
	isNeeded := false
	for _, p := range parts {
		isNeeded = isNeeded || p.FunctionCall != nil || len(p.ThoughtSignature) > 0
	}
	if !isNeeded {
		return nil
	}
	raw, err := json.Marshal(opaque{Provider: Provider, Parts: joined(parts)})
	if err != nil {
		return nil // parts that came as JSON
	}
	return raw
}

// joined makes one part again of the pieces of a text, but for one with a signature, which
// belongs to that piece alone.
func joined(parts []*genai.Part) []*genai.Part {
	isPiece := func(p *genai.Part) bool {
		return p.FunctionCall == nil && !p.Thought && len(p.ThoughtSignature) == 0
	}
	var all []*genai.Part
	for i := 0; i < len(parts); i++ {
		if !isPiece(parts[i]) {
			all = append(all, parts[i])
			continue
		}
		var text strings.Builder
		for ; i < len(parts) && isPiece(parts[i]); i++ {
			text.WriteString(parts[i].Text)
		}
		i--
		all = append(all, &genai.Part{Text: text.String()})
	}
	return all
}

// kept are the parts in a message's Opaque, where there are ones of ours and they say what
// the message says: what was changed since, or taken out, is not sent nevertheless.
func kept(msg *planner.Message) ([]*genai.Part, bool) {
	if len(msg.Opaque) == 0 {
		return nil, false
	}
	var o opaque
	if json.Unmarshal(msg.Opaque, &o) != nil || o.Provider != Provider || len(o.Parts) == 0 {
		return nil, false
	}
	var text strings.Builder
	calls := 0
	for _, p := range o.Parts {
		if p == nil {
			return nil, false
		}
		bare := genai.Part{Text: p.Text, Thought: p.Thought, ThoughtSignature: p.ThoughtSignature}
		if call := p.FunctionCall; call != nil {
			if calls >= len(msg.Calls) || !isSame(call, &msg.Calls[calls]) {
				return nil, false
			}
			calls++
			bare.FunctionCall = &genai.FunctionCall{ID: call.ID, Name: call.Name, Args: call.Args}
		} else if !p.Thought {
			text.WriteString(p.Text)
		}
		*p = bare // nothing else is ever sent
	}
	return o.Parts, calls == len(msg.Calls) && text.String() == msg.Text
}

// isSame reports whether a part's call is that of a message.
func isSame(part *genai.FunctionCall, call *planner.ToolCall) bool {
	if part.Name != call.Name || part.ID != "" && part.ID != call.ID {
		return false
	}
	if part.Args == nil {
		part.Args = map[string]any{}
	}
	one, err := json.Marshal(part.Args)
	if err != nil {
		return false
	}
	other, err := json.Marshal(arguments(call.Args))
	return err == nil && string(one) == string(other)
}
