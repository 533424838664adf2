package gemini

import (
	"encoding/json"
	"fmt"
	"math"

	"google.golang.org/genai"

	"airlock/internal/planner"
)

// unsigned is what Gemini takes in place of the signature of a call that it did not make
// itself, such as one of another provider's model earlier in the conversation.
const unsigned = "skip_thought_signature_validator"

// contents are a conversation as the API takes it: the roles alternate, and no content is empty.
func (m *Model) contents(messages []planner.Message) []*genai.Content {
	var all []*genai.Content
	var calls []sentCall // of the assistant's message before
	for i := range messages {
		msg := &messages[i]
		role, parts := string(genai.RoleUser), []*genai.Part(nil)
		if msg.Role == planner.Assistant {
			role = genai.RoleModel
			parts, calls = m.spoken(msg)
		} else {
			parts = answered(msg, calls)
		}
		switch last := len(all) - 1; {
		case len(parts) == 0:
		case last >= 0 && all[last].Role == role:
			all[last].Parts = append(all[last].Parts, parts...)
		default:
			all = append(all, &genai.Content{Role: role, Parts: parts})
		}
	}
	return all
}

// A sentCall is a call as the API is told of it: its own id, which may be none, and ours.
type sentCall struct{ id, own string }

// spoken are the parts of an assistant's message: those that the model made, where the
// message still is what they say, else new ones.
func (m *Model) spoken(msg *planner.Message) ([]*genai.Part, []sentCall) {
	if parts, ok := kept(msg); ok {
		var calls []sentCall
		for _, p := range parts {
			if p.FunctionCall != nil {
				calls = append(calls, sentCall{id: msg.Calls[len(calls)].ID, own: p.FunctionCall.ID})
			}
		}
		return parts, calls
	}
	var parts []*genai.Part
	if msg.Text != "" {
		parts = append(parts, &genai.Part{Text: msg.Text})
	}
	var calls []sentCall
	for i, call := range msg.Calls {
		part := &genai.Part{FunctionCall: &genai.FunctionCall{ID: call.ID, Name: call.Name, Args: arguments(call.Args)}}
		if i == 0 && m.traits.isSigned {
			part.ThoughtSignature = []byte(unsigned)
		}
		parts = append(parts, part)
		calls = append(calls, sentCall{id: call.ID, own: call.ID}) // newer models want a pair of IDs
	}
	return parts, calls
}

// arguments are those of a call, as far as they are an object.
func arguments(text json.RawMessage) map[string]any {
	var args map[string]any
	if json.Unmarshal(text, &args) != nil || args == nil {
		args = map[string]any{}
	}
	return args
}

// answered are the parts of a user's message: its results, in the order of the calls that
// they answer, and its text.
func answered(msg *planner.Message, calls []sentCall) []*genai.Part {
	var parts []*genai.Part
	left := append([]planner.ToolResult(nil), msg.Results...)
	for _, call := range calls {
		for i, result := range left {
			if result.ID == call.id {
				parts = append(parts, response(result, call.own))
				left = append(left[:i], left[i+1:]...)
				break
			}
		}
	}
	for _, result := range left {
		parts = append(parts, response(result, result.ID))
	}
	if msg.Text != "" {
		parts = append(parts, &genai.Part{Text: msg.Text})
	}
	return parts
}

// response is a result as a part.
func response(result planner.ToolResult, id string) *genai.Part {
	member := "output"
	if result.Failed {
		member = "error"
	}
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{
		ID: id, Name: result.Name, Response: map[string]any{member: result.Text},
	}}
}

// config is what a request asks for beside its conversation.
func (m *Model) config(req *planner.Request) (*genai.GenerateContentConfig, error) {
	config := &genai.GenerateContentConfig{
		AutomaticContinuation: new(bool), // no further request that nobody asked for
		HTTPOptions:           &genai.HTTPOptions{},
	}
	if req.System != "" {
		config.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: req.System}}}
	}
	if req.MaxTokens > 0 {
		config.MaxOutputTokens = int32(min(req.MaxTokens, math.MaxInt32))
	}
	if m.traits.hasThoughts {
		config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true}
	}
	if req.Format == planner.FormatSchema || req.Format == planner.FormatJSON {
		config.ResponseMIMEType = "application/json"
	}
	if req.MustCall && len(req.Tools) > 0 {
		config.ToolConfig = &genai.ToolConfig{
			FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny},
		}
	}
	extras, err := schemas(req)
	if err != nil {
		return nil, err
	}
	config.HTTPOptions.ExtrasRequestProvider = extras
	return config, nil
}

// A declaration is a function as the API is told of it.
type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// schemas gives what puts the request's schemas into its body, byte for byte: genai would
// sort their members, and models write the members of their answer in the schema's order.
func schemas(req *planner.Request) (genai.ExtrasRequestProvider, error) {
	isSchema := req.Format == planner.FormatSchema && len(req.Schema) > 0
	if isSchema && !json.Valid(req.Schema) {
		return nil, fmt.Errorf("the schema of the answer is no JSON")
	}
	var declared []declaration
	for _, def := range req.Tools {
		d := declaration{Name: def.Name, Description: def.Description, Parameters: def.Schema}
		var shape struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(def.Schema) > 0 {
			if err := json.Unmarshal(def.Schema, &shape); err != nil {
				return nil, fmt.Errorf("the schema of the tool %s is none: %w", def.Name, err)
			}
		}
		if len(shape.Properties) == 0 {
			d.Parameters = nil // an object without members is refused; none is what it means
		}
		declared = append(declared, d)
	}
	return func(body map[string]any) map[string]any {
		fillTexts(body)
		if declared != nil {
			body["tools"] = []any{map[string]any{"functionDeclarations": declared}}
		}
		if isSchema {
			if generation, ok := body["generationConfig"].(map[string]any); ok {
				generation["responseJsonSchema"] = req.Schema
			}
		}
		return body
	}, nil
}

// fillTexts gives a part that has a signature alone the empty text that it came with: genai
// leaves it out, and the API wants a part to have something beside its signature.
func fillTexts(body map[string]any) {
	contents, _ := body["contents"].([]map[string]any)
	for _, content := range contents {
		parts, _ := content["parts"].([]map[string]any)
		for _, part := range parts {
			if part["functionCall"] == nil && part["functionResponse"] == nil && part["text"] == nil {
				part["text"] = ""
			}
		}
	}
}
