package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// An anthropicRequest is the body of a request to the Messages API: of its members those
// that make sense for a text with tools.
type anthropicRequest struct {
	Model         string             `json:"model"`
	MaxTokens     int64              `json:"max_tokens"`
	Messages      []anthropicMessage `json:"messages"`
	System        json.RawMessage    `json:"system"`
	Stream        bool               `json:"stream"`
	StopSequences []string           `json:"stop_sequences"`
	Tools         []anthropicTool    `json:"tools"`
	ToolChoice    *struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		OneOnly *bool  `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	OutputConfig *struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Thinking *struct {
		Type   string `json:"type"`
		Budget int64  `json:"budget_tokens"`
	} `json:"thinking"`
	Temperature  *float64        `json:"temperature"`
	Metadata     json.RawMessage `json:"metadata"`
	CacheControl *anthropicCache `json:"cache_control"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      *bool           `json:"strict"`
	Cache       *anthropicCache `json:"cache_control"`
}

type anthropicCache struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

// anthropicMembers are the members that a block of each type may have.
var anthropicMembers = map[string][]string{
	"text":              {"type", "text", "cache_control", "citations"},
	"thinking":          {"type", "thinking", "signature"},
	"redacted_thinking": {"type", "data"},
	"tool_use":          {"type", "id", "name", "input", "cache_control", "caller"},
	"tool_result":       {"type", "tool_use_id", "content", "is_error", "cache_control"},
}

// A refusal is the API's answer to a request that it does not take.
type refusal struct {
	status  int
	kind    string
	message string
}

// Error is the message.
func (r *refusal) Error() string { return r.message }

func (r *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	w.Write(compactJSON(map[string]any{ //nolint:errcheck // the client has gone
		"type": "error", "error": map[string]any{"type": r.kind, "message": r.message}, "request_id": "req_011CQ2wRVBKxLxUGmBc8xWbN",
	}))
}

// CheckAnthropic says why the Messages API would refuse a request; nil where it would not.
func CheckAnthropic(r *http.Request, body []byte) error {
	if _, err := readAnthropic(r, body); err != nil {
		return err
	}
	return nil
}

// readAnthropic reads a request as the API does.
func readAnthropic(r *http.Request, body []byte) (*anthropicRequest, *refusal) {
	if err := anthropicHeaders(r, body); err != nil {
		return nil, err
	}
	req := &anthropicRequest{}
	if err := strictJSON(body, req); err != nil {
		return nil, invalid("the body: %v", err)
	}
	switch {
	case req.Model == "":
		return nil, invalid("model: Field required")
	case req.MaxTokens < 1:
		return nil, invalid("max_tokens: Field required, and greater than 0")
	case len(req.Messages) == 0:
		return nil, invalid("messages: at least one message is required")
	}
	for _, check := range []func(*anthropicRequest) *refusal{anthropicSystem, anthropicTools, anthropicOutput, anthropicConversation} {
		if err := check(req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// anthropicHeaders checks all but the body, and that the key is in its header alone.
func anthropicHeaders(r *http.Request, body []byte) *refusal {
	key := r.Header.Get("X-Api-Key")
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") || strings.Contains(r.URL.Path, "/v1/v1/"):
		return &refusal{http.StatusNotFound, "not_found_error", r.Method + " " + r.URL.Path + ": Not Found"}
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return invalid("anthropic-version: header is required")
	case r.Header.Get("Content-Type") != "application/json":
		return invalid("content-type: %q", r.Header.Get("Content-Type"))
	case key == "":
		return &refusal{http.StatusUnauthorized, "authentication_error", "x-api-key header is required"}
	case r.Header.Get("Authorization") != "":
		return &refusal{http.StatusUnauthorized, "authentication_error", "both x-api-key and authorization are set"}
	case strings.Contains(r.URL.String(), key) || bytes.Contains(body, []byte(key)):
		return invalid("the key is in the URL or in the body")
	}
	for name, values := range r.Header {
		if name != "X-Api-Key" && slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, key) }) {
			return invalid("the key is in the header %s", name)
		}
	}
	return nil
}

func anthropicSystem(req *anthropicRequest) *refusal {
	if len(req.System) == 0 {
		return nil
	}
	blocks, err := anthropicBlocks(req.System)
	if err != nil {
		return invalid("system: %v", err)
	}
	for i, block := range blocks {
		if block.Type != "text" {
			return invalid("system.%d: Input should be 'text'", i)
		}
	}
	return nil
}

func anthropicTools(req *anthropicRequest) *refusal {
	names := map[string]bool{}
	for i, tool := range req.Tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case !anthropicWord(tool.Name, 128):
			return invalid("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case names[tool.Name]:
			return invalid("tools: Tool names must be unique.")
		case json.Unmarshal(tool.InputSchema, &schema) != nil || schema.Type != "object":
			return invalid("tools.%d.custom.input_schema.type: Field required", i)
		}
		names[tool.Name] = true
	}
	if req.ToolChoice == nil {
		return nil
	}
	switch choice := req.ToolChoice; choice.Type {
	case "auto", "any", "none":
	case "tool":
		if !names[choice.Name] {
			return invalid("tool_choice: Tool '%s' not found in provided tools", choice.Name)
		}
	default:
		return invalid("tool_choice: Input tag '%s' found", choice.Type)
	}
	if len(req.Tools) == 0 {
		return invalid("tool_choice: may only be specified while providing tools")
	}
	return nil
}

func anthropicOutput(req *anthropicRequest) *refusal {
	if req.OutputConfig == nil || req.OutputConfig.Format == nil {
		return nil
	}
	format := req.OutputConfig.Format
	if format.Type != "json_schema" {
		return invalid("output_config.format.type: Input should be 'json_schema'")
	}
	var schema map[string]any
	if err := json.Unmarshal(format.Schema, &schema); err != nil {
		return invalid("output_config.format.schema: Input should be a valid dictionary")
	}
	if problem := anthropicSchema(schema); problem != "" {
		return invalid("output_config.format.schema: %s", problem)
	}
	return nil
}

// anthropicKeywords are those that structured output takes.
var anthropicKeywords = []string{
	"$ref", "$defs", "definitions", "type", "anyOf", "allOf", "description", "title", "enum", "const", "default",
	"properties", "additionalProperties", "required", "items", "minItems", "format", "pattern",
}

// anthropicSchema says what structured output does not take of a schema.
func anthropicSchema(schema map[string]any) string {
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		if !slices.Contains(anthropicKeywords, keyword) {
			return fmt.Sprintf("For '%v' type, property '%s' is not supported", schema["type"], keyword)
		}
	}
	if schema["type"] == "object" && schema["additionalProperties"] != false {
		return "For 'object' type, 'additionalProperties' must be explicitly set to false"
	}
	if n, ok := schema["minItems"].(float64); ok && n > 1 {
		return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
	}
	var below []any
	for _, keyword := range []string{"properties", "$defs", "definitions"} {
		members, _ := schema[keyword].(map[string]any)
		below = slices.AppendSeq(below, maps.Values(members))
	}
	for _, keyword := range []string{"anyOf", "allOf"} {
		list, _ := schema[keyword].([]any)
		below = append(below, list...)
	}
	if items, ok := schema["items"]; ok {
		below = append(below, items)
	}
	for _, value := range below {
		member, ok := value.(map[string]any)
		if !ok {
			return "a schema is an object"
		}
		if problem := anthropicSchema(member); problem != "" {
			return problem
		}
	}
	return ""
}

// An anthropicContent is a block of a request's content.
type anthropicContent struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Cache     *anthropicCache `json:"cache_control"`
}

// anthropicBlocks reads content: a text, or a list of blocks.
func anthropicBlocks(content json.RawMessage) ([]anthropicContent, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		content = compactJSON([]any{map[string]any{"type": "text", "text": text}})
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(content, &raws); err != nil || len(raws) == 0 {
		return nil, fmt.Errorf("content: a text or a list of blocks is required")
	}
	blocks := make([]anthropicContent, len(raws))
	for i, raw := range raws {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, fmt.Errorf("content.%d: Input should be an object", i)
		}
		if err := json.Unmarshal(raw, &blocks[i]); err != nil {
			return nil, fmt.Errorf("content.%d: %w", i, err)
		}
		block := blocks[i]
		known, ok := anthropicMembers[block.Type]
		if !ok {
			return nil, fmt.Errorf("content.%d: Input tag '%s' found", i, block.Type)
		}
		for name := range members {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("content.%d.%s.%s: Extra inputs are not permitted", i, block.Type, name)
			}
		}
		if block.Type == "text" && strings.TrimSpace(block.Text) == "" {
			return nil, fmt.Errorf("content.%d: text content blocks must contain non-whitespace text", i)
		}
		if block.Cache != nil && block.Cache.Type != "ephemeral" {
			return nil, fmt.Errorf("content.%d.cache_control: Input should be 'ephemeral'", i)
		}
	}
	return blocks, nil
}

// strictJSON reads one value that has no member but those of v.
func strictJSON(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something stands behind the value")
	}
	return nil
}

// anthropicWord reports whether s is a name as the API takes it.
func anthropicWord(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

func invalid(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf(format, args...)}
}
