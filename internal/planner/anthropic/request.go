package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"airlock/internal/planner"
)

// defaultMaxTokens bounds an answer, the model's thoughts among it, where nothing else is
// said: every current model takes it.
const defaultMaxTokens = 16384

// params is a request as the SDK takes it.
func (m *Model) params(req *planner.Request) (*anthropic.MessageNewParams, error) {
	p := &anthropic.MessageNewParams{Model: m.model, MaxTokens: req.MaxTokens}
	if p.MaxTokens <= 0 {
		p.MaxTokens = defaultMaxTokens
	}
	if !isBlank(req.System) {
		// The mark lets the tools and the system prompt of the requests to come be taken
		// from the cache.
		p.System = []anthropic.TextBlockParam{{Text: req.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	p.Messages = m.conversation(req.Messages)
	if len(p.Messages) == 0 {
		return nil, errors.New("there is nothing to ask: every message is empty")
	}
	if err := setTools(p, req); err != nil {
		return nil, err
	}
	if req.Format == planner.FormatSchema {
		schema, err := strictSchema(req.Schema)
		if err != nil {
			return nil, fmt.Errorf("the schema of the answer: %w", err)
		}
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schema}
	}
	return p, nil
}

// setTools offers the tools. A conversation in which tools were called needs some, even
// where none may be called any more.
func setTools(p *anthropic.MessageNewParams, req *planner.Request) error {
	for _, def := range req.Tools {
		var schema object
		if err := json.Unmarshal(def.Schema, &schema); err != nil {
			return fmt.Errorf("the schema of the tool %s: %w", def.Name, err)
		}
		if schema.get("type") == nil { // the API insists
			schema.set("type", json.RawMessage(`"object"`))
		}
		tool := &anthropic.ToolParam{Name: def.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](schema)}
		if !isBlank(def.Description) {
			tool.Description = anthropic.String(def.Description)
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	switch {
	case len(p.Tools) > 0 && req.MustCall:
		p.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{}
	case len(p.Tools) == 0:
		for _, name := range called(req.Messages) {
			p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
				Name: name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](json.RawMessage(`{"type":"object"}`)),
			}})
		}
		if len(p.Tools) > 0 {
			p.ToolChoice.OfNone = &anthropic.ToolChoiceNoneParam{}
		}
	}
	return nil
}

// called are the names of the tools that were called.
func called(messages []planner.Message) []string {
	var names []string
	for i := range messages {
		for _, call := range messages[i].Calls {
			if name := callName(call.Name); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// conversation is the messages as the API takes them: none is empty, those of one role that
// follow each other are one, and it begins with the user.
func (m *Model) conversation(messages []planner.Message) []anthropic.MessageParam {
	var list []anthropic.MessageParam
	for i := range messages {
		message := &messages[i]
		role, blocks := anthropic.MessageParamRoleUser, userBlocks(message)
		if message.Role == planner.Assistant {
			role, blocks = anthropic.MessageParamRoleAssistant, m.assistantBlocks(message)
		}
		switch n := len(list); {
		case len(blocks) == 0, n == 0 && role == anthropic.MessageParamRoleAssistant:
		case n > 0 && list[n-1].Role == role:
			list[n-1].Content = append(list[n-1].Content, blocks...)
		default:
			list = append(list, anthropic.MessageParam{Role: role, Content: blocks})
		}
	}
	return list
}

// userBlocks are a user's message: results first.
func userBlocks(message *planner.Message) []anthropic.ContentBlockParamUnion {
	var blocks []anthropic.ContentBlockParamUnion
	for _, result := range message.Results {
		block := &anthropic.ToolResultBlockParam{ToolUseID: callID(result.ID)}
		text := result.Text
		if result.Failed {
			block.IsError = anthropic.Bool(true)
			if isBlank(text) { // the API wants to know what failed
				text = "it failed"
			}
		}
		if !isBlank(text) {
			block.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: &anthropic.TextBlockParam{Text: text}}}
		}
		blocks = append(blocks, anthropic.ContentBlockParamUnion{OfToolResult: block})
	}
	if !isBlank(message.Text) {
		blocks = append(blocks, anthropic.NewTextBlock(message.Text))
	}
	return blocks
}

// assistantBlocks are an assistant's message: as it came, where that is known.
func (m *Model) assistantBlocks(message *planner.Message) []anthropic.ContentBlockParamUnion {
	if blocks := m.unseal(message); blocks != nil {
		return blocks
	}
	var blocks []anthropic.ContentBlockParamUnion
	if !isBlank(message.Text) {
		blocks = append(blocks, anthropic.NewTextBlock(message.Text))
	}
	for _, call := range message.Calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(callID(call.ID), arguments(call.Args), callName(call.Name)))
	}
	return blocks
}

// arguments are a call's as the API takes them back: an object, whatever the model wrote.
func arguments(raw json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	switch {
	case len(strings.TrimSpace(string(raw))) == 0:
		return json.RawMessage(`{}`)
	case json.Unmarshal(raw, &object) == nil && object != nil:
		return raw
	}
	wrapped, err := json.Marshal(map[string]string{"invalid": string(raw)})
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return wrapped
}

// callID is a call's ID within what the API takes: another provider's may not be.
func callID(id string) string {
	if id != "" && len(id) <= 128 && !strings.ContainsFunc(id, notWord) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "id_" + hex.EncodeToString(sum[:12])
}

// callName is the name of a tool as a model gave it, within what the API takes.
func callName(name string) string {
	name = strings.Map(func(r rune) rune {
		if notWord(r) {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}

func notWord(r rune) bool {
	return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// isBlank reports whether a text is one that the API does not take.
func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
