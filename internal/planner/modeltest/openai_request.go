package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// An openaiRequest is what the API takes, as far as planners use it.
type openaiRequest struct {
	Model         string                  `json:"model"`
	Messages      []openaiMessage         `json:"messages"`
	Stream        bool                    `json:"stream"`
	StreamOptions *openaiStreamOptions    `json:"stream_options"`
	Tools         []openaiTool            `json:"tools"`
	ToolChoice    string                  `json:"tool_choice"`
	Format        *openaiFormat           `json:"response_format"`
	MaxTokens     *int64                  `json:"max_tokens"`
	MaxCompletion *int64                  `json:"max_completion_tokens"`
	Usage         *struct{ Include bool } `json:"usage"` // OpenRouter's
}

type openaiStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type openaiMessage struct {
	Role    string       `json:"role"`
	Content *string      `json:"content"`
	Calls   []openaiCall `json:"tool_calls"`
	CallID  string       `json:"tool_call_id"`
}

type openaiCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

type openaiTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  map[string]any `json:"parameters"`
		Strict      *bool          `json:"strict"`
	} `json:"function"`
}

type openaiFormat struct {
	Type   string `json:"type"`
	Schema *struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      map[string]any `json:"schema"`
		Strict      *bool          `json:"strict"`
	} `json:"json_schema"`
}

// readOpenAI reads a request as the API does.
func readOpenAI(r *http.Request, body []byte) (*openaiRequest, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		return nil, fmt.Errorf("Invalid URL (%s %s)", r.Method, r.URL.Path) //nolint:staticcheck // the API's own words
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, errors.New("the body is not called JSON")
	}
	key := r.Header.Get("Api-Key")
	if bearer := r.Header.Get("Authorization"); bearer != "" {
		var ok bool
		if key, ok = strings.CutPrefix(bearer, "Bearer "); !ok || key == "" {
			return nil, errors.New("the header Authorization is none of the API's")
		}
	}
	if key != "" && (strings.Contains(r.URL.String(), key) || bytes.Contains(body, []byte(key))) {
		return nil, errors.New("the key is where it may be seen")
	}
	req := &openaiRequest{}
	if err := strictJSON(body, req); err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	switch {
	case req.Model == "":
		return nil, errors.New("you must provide a model parameter")
	case len(req.Messages) == 0:
		return nil, errors.New("[] is too short - 'messages'")
	case req.StreamOptions != nil && !req.Stream:
		return nil, errors.New("the 'stream_options' parameter is only allowed when 'stream' is enabled")
	case req.MaxTokens != nil && req.MaxCompletion != nil:
		return nil, errors.New("setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported")
	}
	for _, n := range []*int64{req.MaxTokens, req.MaxCompletion} {
		if n != nil && *n < 1 {
			return nil, errors.New("integer below minimum value: a bound for the answer is 1 or more")
		}
	}
	for _, check := range []func(*openaiRequest) error{openaiTools, openaiFormats, openaiConversation} {
		if err := check(req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// openaiTools checks the tools.
func openaiTools(req *openaiRequest) error {
	if req.ToolChoice != "" && len(req.Tools) == 0 {
		return errors.New("'tool_choice' is only allowed when 'tools' are specified")
	}
	if req.ToolChoice != "" && !slices.Contains([]string{"none", "auto", "required"}, req.ToolChoice) {
		return fmt.Errorf("invalid value: %q for 'tool_choice'", req.ToolChoice)
	}
	for i, tool := range req.Tools {
		switch {
		case tool.Type != "function":
			return fmt.Errorf("invalid value: %q for 'tools[%d].type'", tool.Type, i)
		case !anthropicWord(tool.Function.Name, 64):
			return fmt.Errorf("invalid 'tools[%d].function.name'", i)
		case len(tool.Function.Description) > 1024:
			return fmt.Errorf("invalid 'tools[%d].function.description': string too long", i)
		case tool.Function.Parameters["type"] != "object":
			return fmt.Errorf("invalid schema for function '%s': schema must be of type 'object'", tool.Function.Name)
		}
	}
	return nil
}

// openaiFormats checks the format of the answer.
func openaiFormats(req *openaiRequest) error {
	f := req.Format
	switch {
	case f == nil:
		return nil
	case f.Type == "json_object" && f.Schema == nil:
		for _, msg := range req.Messages {
			if msg.Content != nil && strings.Contains(strings.ToLower(*msg.Content), "json") {
				return nil
			}
		}
		return errors.New("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'")
	case f.Type != "json_schema" || f.Schema == nil:
		return fmt.Errorf("invalid 'response_format' of type %q", f.Type)
	case !anthropicWord(f.Schema.Name, 64):
		return errors.New("invalid 'response_format.json_schema.name'")
	case f.Schema.Strict != nil && *f.Schema.Strict:
		return openaiStrict(f.Schema.Schema, "()")
	}
	return nil
}

// openaiStrict checks what a strict schema has to be.
func openaiStrict(schema map[string]any, at string) error {
	if properties, ok := schema["properties"].(map[string]any); ok || schema["type"] == "object" {
		if more, ok := schema["additionalProperties"].(bool); !ok || more {
			return fmt.Errorf("invalid schema for response_format: in context=%s, 'additionalProperties' is required to be supplied and to be false", at)
		}
		required, _ := schema["required"].([]any)
		for name := range properties {
			if !slices.Contains(required, any(name)) {
				return fmt.Errorf("invalid schema for response_format: in context=%s, 'required' is required to include every key in properties: missing '%s'", at, name)
			}
		}
	}
	for name, value := range schema {
		switch below := value.(type) {
		case map[string]any:
			if err := openaiStrict(below, at+"."+name); err != nil {
				return err
			}
		case []any:
			for _, item := range below {
				if inner, ok := item.(map[string]any); ok {
					if err := openaiStrict(inner, at+"."+name); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// openaiConversation checks that each call has its result, and each result its call.
func openaiConversation(req *openaiRequest) error {
	open := map[string]bool{}
	for i, msg := range req.Messages {
		if msg.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("messages[%d]: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'", i)
		}
		if msg.Content == nil && len(msg.Calls) == 0 {
			return fmt.Errorf("invalid value for 'content' of messages[%d]: expected a string, got null", i)
		}
		if len(msg.Calls) > 0 && msg.Role != "assistant" || msg.CallID != "" && msg.Role != "tool" {
			return fmt.Errorf("messages[%d]: a member that role %q does not have", i, msg.Role)
		}
		switch msg.Role {
		case "system", "developer", "user":
		case "assistant":
			for j, call := range msg.Calls {
				var object map[string]json.RawMessage
				switch {
				case call.ID == "" || open[call.ID]:
					return fmt.Errorf("messages[%d].tool_calls[%d].id is missing or not unique", i, j)
				case call.Type != "function" || call.Function.Name == "" || call.Function.Arguments == nil:
					return fmt.Errorf("missing required parameter: 'messages[%d].tool_calls[%d]'", i, j)
				case json.Unmarshal([]byte(*call.Function.Arguments), &object) != nil:
					return fmt.Errorf("messages[%d].tool_calls[%d].function.arguments is no JSON object, which several servers refuse", i, j)
				}
				open[call.ID] = true
			}
		case "tool":
			if !open[msg.CallID] {
				return fmt.Errorf("messages[%d]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'", i)
			}
			delete(open, msg.CallID)
		default:
			return fmt.Errorf("invalid value: %q for 'messages[%d].role'", msg.Role, i)
		}
	}
	if len(open) > 0 {
		return errors.New("an assistant message with 'tool_calls' must be followed by tool messages")
	}
	return nil
}
