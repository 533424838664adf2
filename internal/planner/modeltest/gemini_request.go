package modeltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A geminiRequest is what the API takes of a GenerateContentRequest, as far as a
// conversation with functions needs it.
type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction *geminiContent  `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []geminiFunction `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig *struct {
		FunctionCallingConfig *struct {
			Mode                 string   `json:"mode"`
			AllowedFunctionNames []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	GenerationConfig *struct {
		MaxOutputTokens    *int64          `json:"maxOutputTokens"`
		Temperature        *float64        `json:"temperature"`
		CandidateCount     *int64          `json:"candidateCount"`
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		ThinkingConfig     *struct {
			IncludeThoughts bool   `json:"includeThoughts"`
			ThinkingBudget  *int64 `json:"thinkingBudget"`
			ThinkingLevel   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`

	model    string
	isStream bool
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text             *string             `json:"text"`
	Thought          bool                `json:"thought"`
	ThoughtSignature string              `json:"thoughtSignature"`
	FunctionCall     *geminiFunctionCall `json:"functionCall"`
	FunctionResponse *geminiResponse     `json:"functionResponse"`
}

type geminiFunctionCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

type geminiResponse struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"` // any object; this is what we send
}

type geminiFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"parametersJsonSchema"`
}

// A geminiRefusal is an answer to a request that the API does not take.
type geminiRefusal struct {
	status     int
	code       string
	message    string
	isExpected bool // a caller finds out so what a model does not have
}

// geminiInvalid is the refusal of a request that is wrong.
func geminiInvalid(format string, args ...any) *geminiRefusal {
	return &geminiRefusal{status: http.StatusBadRequest, code: "INVALID_ARGUMENT", message: fmt.Sprintf(format, args...)}
}

func (f *geminiRefusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(f.status)
	w.Write(asJSON(map[string]any{"error": map[string]any{ //nolint:errcheck // the client has gone
		"code": f.status, "message": f.message, "status": f.code,
	}}, "  "))
}

// readGemini reads a request as strictly as the API, and a little more strictly.
func readGemini(r *http.Request, body []byte) (*geminiRequest, *geminiRefusal) {
	req := &geminiRequest{}
	if refusal := req.readAddress(r); refusal != nil {
		return nil, refusal
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(req); err != nil {
		return nil, geminiInvalid("Invalid JSON payload received. %v", err)
	}
	for _, check := range []func() *geminiRefusal{req.checkTools, req.checkConfig, req.checkConversation} {
		if refusal := check(); refusal != nil {
			return nil, refusal
		}
	}
	return req, nil
}

// readAddress checks where a request went, and whose it is.
func (q *geminiRequest) readAddress(r *http.Request) *geminiRefusal {
	if r.URL.Query().Has("key") || r.Header.Get("Authorization") != "" {
		return geminiInvalid("the key is not in its header")
	}
	if r.Header.Get("X-Goog-Api-Key") == "" {
		return &geminiRefusal{
			status: http.StatusForbidden, code: "PERMISSION_DENIED",
			message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
		}
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1beta/models/")
	model, method, hasMethod := strings.Cut(rest, ":")
	if !ok || !hasMethod || r.Method != http.MethodPost || model == "" || strings.Contains(model, "/") {
		return &geminiRefusal{status: http.StatusNotFound, code: "NOT_FOUND", message: "no such method: " + r.Method + " " + r.URL.Path}
	}
	q.model = model
	switch method + "?" + r.URL.RawQuery {
	case "streamGenerateContent?alt=sse":
		q.isStream = true
	case "generateContent?":
	default:
		return geminiInvalid("the method %s with the query %q is none that is asked for", method, r.URL.RawQuery)
	}
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return geminiInvalid("the body is %q", kind)
	}
	return nil
}

// isSigned reports whether the model signs its calls and refuses them without.
func (q *geminiRequest) isSigned() bool {
	rest, ok := strings.CutPrefix(q.model, "gemini-")
	return ok && rest != "" && (rest[0] >= '3' && rest[0] <= '9' || strings.HasSuffix(rest, "-latest"))
}

func (q *geminiRequest) wantsThoughts() bool {
	c := q.GenerationConfig
	return c != nil && c.ThinkingConfig != nil && c.ThinkingConfig.IncludeThoughts
}

// checkTools checks the functions that are offered.
func (q *geminiRequest) checkTools() *geminiRefusal {
	names := map[string]bool{}
	for _, tool := range q.Tools {
		if len(tool.FunctionDeclarations) == 0 {
			return geminiInvalid("tools[0].tool_type: required one_of 'tool_type' must have one initialized field")
		}
		for i, f := range tool.FunctionDeclarations {
			where := fmt.Sprintf("GenerateContentRequest.tools[0].function_declarations[%d]", i)
			if f.Name == "" || len(f.Name) > 64 || strings.Trim(f.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" || names[f.Name] {
				return geminiInvalid("%s.name: Invalid function name.", where)
			}
			names[f.Name] = true
			if f.Schema == nil {
				continue
			}
			var shape struct {
				Type       string                     `json:"type"`
				Properties map[string]json.RawMessage `json:"properties"`
			}
			if json.Unmarshal(f.Schema, &shape) != nil || shape.Type != "object" || len(shape.Properties) == 0 {
				return geminiInvalid("%s.parameters.properties: should be non-empty for OBJECT type", where)
			}
		}
	}
	if q.ToolConfig != nil && q.ToolConfig.FunctionCallingConfig != nil {
		switch mode := q.ToolConfig.FunctionCallingConfig.Mode; {
		case mode != "AUTO" && mode != "ANY" && mode != "NONE":
			return geminiInvalid("Invalid value at 'tool_config.function_calling_config.mode': %q", mode)
		case mode == "ANY" && len(names) == 0:
			return geminiInvalid("Function calling config is set without function_declarations.")
		}
	}
	return nil
}

// checkConfig checks how the answer is asked for.
func (q *geminiRequest) checkConfig() *geminiRefusal {
	c := q.GenerationConfig
	if c == nil {
		return nil
	}
	if c.MaxOutputTokens != nil && (*c.MaxOutputTokens < 1 || *c.MaxOutputTokens > 1<<31-1) {
		return geminiInvalid("Invalid value at 'generation_config.max_output_tokens' (TYPE_INT32)")
	}
	if c.ResponseJSONSchema != nil {
		var schema map[string]any
		if json.Unmarshal(c.ResponseJSONSchema, &schema) != nil || len(schema) == 0 {
			return geminiInvalid("GenerateContentRequest.generation_config.response_json_schema: not a schema")
		}
		if c.ResponseMIMEType != "application/json" {
			return geminiInvalid("response_json_schema is only supported with the response mime type 'application/json'")
		}
	}
	if c.ResponseMIMEType == "application/json" && len(q.Tools) > 0 && !q.isSigned() {
		refusal := geminiInvalid("Function calling with a response mime type: 'application/json' is unsupported")
		refusal.isExpected = true
		return refusal
	}
	if c.ThinkingConfig != nil && strings.HasPrefix(q.model, "gemini-2.0") {
		return geminiInvalid("Thinking is not enabled for %s", q.model)
	}
	return nil
}

// checkConversation checks the contents and their order.
func (q *geminiRequest) checkConversation() *geminiRefusal {
	if s := q.SystemInstruction; s != nil {
		if len(s.Parts) == 0 || s.Parts[0].Text == nil || *s.Parts[0].Text == "" {
			return geminiInvalid("GenerateContentRequest.system_instruction.parts: must not be empty")
		}
	}
	if len(q.Contents) == 0 {
		return geminiInvalid("GenerateContentRequest.contents: contents is not specified")
	}
	current := q.current()
	var calls []geminiPart // of the content before
	for i, content := range q.Contents {
		where := fmt.Sprintf("GenerateContentRequest.contents[%d]", i)
		if role := []string{"user", "model"}[i%2]; content.Role != role {
			return geminiInvalid("%s.role: %q, where it is %s's turn", where, content.Role, role)
		}
		if len(content.Parts) == 0 {
			return geminiInvalid("%s.parts: contents.parts must not be empty.", where)
		}
		for _, part := range content.Parts {
			if refusal := q.checkPart(where, content.Role, part); refusal != nil {
				return refusal
			}
		}
		if refusal := checkResponses(content.Parts, calls); refusal != nil {
			return refusal
		}
		calls = nil
		for _, part := range content.Parts {
			if part.FunctionCall != nil {
				calls = append(calls, part)
			}
		}
		if i > current && len(calls) > 0 && q.isSigned() && calls[0].ThoughtSignature == "" {
			return geminiInvalid("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s`, position %d.", calls[0].FunctionCall.Name, i)
		}
	}
	if len(q.Contents)%2 == 0 {
		return geminiInvalid("Please ensure that the conversation ends with a user's turn.")
	}
	return nil
}

// current is where the current turn begins: at the user's last content that is not results.
func (q *geminiRequest) current() int {
	for i, content := range slices.Backward(q.Contents) {
		for _, part := range content.Parts {
			if content.Role == "user" && part.Text != nil {
				return i
			}
		}
	}
	return 0
}

// checkPart checks one part.
func (q *geminiRequest) checkPart(where, role string, part geminiPart) *geminiRefusal {
	isText, isCall, isResponse := part.Text != nil, part.FunctionCall != nil, part.FunctionResponse != nil
	signed := ""
	switch {
	case isCall && !isText && !isResponse && role == "model":
		signed = part.FunctionCall.Name
		if signed == "" {
			return geminiInvalid("%s.parts.function_call.name: Name cannot be empty.", where)
		}
	case isResponse && !isText && !isCall && role == "user":
		if part.FunctionResponse.Name == "" || len(part.FunctionResponse.Response) != 1 {
			return geminiInvalid("%s.parts.function_response: a name and a response are required", where)
		}
	case isText && !isCall && !isResponse && (*part.Text != "" || part.ThoughtSignature != ""):
	default:
		return geminiInvalid("%s.parts[0].data: required oneof field 'data' must have one initialized field", where)
	}
	if part.Thought && part.ThoughtSignature == "" || part.ThoughtSignature != "" && role != "model" {
		return geminiInvalid("%s.parts: a thought that has to stay away", where)
	}
	skip := base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))
	if s := part.ThoughtSignature; s != "" && s != geminiSignature(signed) && s != skip {
		return geminiInvalid("%s.parts: Thought signature is not valid.", where)
	}
	return nil
}

// checkResponses checks that results answer the calls before them, all of them and in order.
func checkResponses(parts, calls []geminiPart) *geminiRefusal {
	n := 0
	for _, part := range parts {
		got := part.FunctionResponse
		if got == nil {
			continue
		}
		if n >= len(calls) {
			return geminiInvalid("Please ensure that function response turn comes immediately after a function call turn.")
		}
		if want := calls[n].FunctionCall; got.Name != want.Name || got.ID != want.ID {
			return geminiInvalid("the response %s (%q) stands where %s (%q) was called", got.Name, got.ID, want.Name, want.ID)
		}
		for member := range got.Response {
			if member != "output" && member != "error" {
				return geminiInvalid("the response has the member %q", member)
			}
		}
		n++
	}
	if n != len(calls) {
		return geminiInvalid("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	}
	return nil
}

// geminiSignature is what the model signs a call with, or the end of a text where the name
// is empty.
func geminiSignature(name string) string {
	sum := sha256.Sum256([]byte("signed\x00" + name))
	return base64.StdEncoding.EncodeToString(sum[:])
}
