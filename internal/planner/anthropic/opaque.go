package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"airlock/internal/planner"
)

// A sealed is what planner.Message.Opaque holds: the blocks of an answer, which the API wants
// back as they were, since it signs thoughts. It may come from a file: it is trusted no more
// than the message it stands in, and says nothing that the message does not say, but thoughts.
type sealed struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"` // another model's thoughts are refused
	Blocks   []sealedBlock `json:"blocks"`
}

type sealedBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"` // thoughts among them
	Signature string          `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// seal keeps the blocks of an answer; nil where a text and calls say it all.
func (m *Model) seal(d *draft) json.RawMessage {
	s := sealed{Provider: provider, Model: m.model}
	thought := false
	for _, p := range d.blocks {
		b := sealedBlock{Type: p.kind, Text: p.text.String(), Signature: p.signature.String(), Data: p.data}
		switch p.kind {
		case thinkingBlock, redactedBlock:
			thought = true
		case toolBlock:
			b.ID, b.Name, b.Input = p.id, p.name, arguments(json.RawMessage(p.args.String()))
		}
		s.Blocks = append(s.Blocks, b)
	}
	if !thought {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // the text and the calls are there without it
	}
	return raw
}

// unseal gives the blocks of a message; nil where there are none of this model's, or where
// they are not those of the message's text and calls: what was redacted there since is not to
// go out here, nor what was thought of it.
func (m *Model) unseal(message *planner.Message) []anthropic.ContentBlockParamUnion {
	var s sealed
	if len(message.Opaque) == 0 || json.Unmarshal(message.Opaque, &s) != nil || s.Provider != provider || s.Model != m.model {
		return nil
	}
	var blocks []anthropic.ContentBlockParamUnion
	var text strings.Builder
	calls := message.Calls
	last := ""
	for _, b := range s.Blocks {
		switch b.Type {
		case textBlock:
			text.WriteString(b.Text)
			if isBlank(b.Text) {
				continue
			}
			blocks = append(blocks, anthropic.NewTextBlock(b.Text))
		case thinkingBlock:
			blocks = append(blocks, anthropic.NewThinkingBlock(b.Signature, b.Text))
		case redactedBlock:
			blocks = append(blocks, anthropic.NewRedactedThinkingBlock(b.Data))
		case toolBlock:
			if len(calls) == 0 || calls[0].ID != b.ID || calls[0].Name != b.Name || !sameJSON(arguments(calls[0].Args), arguments(b.Input)) {
				return nil
			}
			blocks = append(blocks, anthropic.NewToolUseBlock(callID(b.ID), arguments(b.Input), callName(b.Name)))
			calls = calls[1:]
		default:
			continue
		}
		last = b.Type
	}
	if len(calls) > 0 || text.String() != message.Text || last == thinkingBlock || last == redactedBlock {
		return nil
	}
	return blocks
}

// sameJSON reports whether two values are the same, whatever the order of their members.
func sameJSON(a, b json.RawMessage) bool {
	x, y := canonical(a), canonical(b)
	return x != nil && bytes.Equal(x, y)
}

// canonical is a value with its members in order; nil where it is none.
func canonical(raw json.RawMessage) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}
