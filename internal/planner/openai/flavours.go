package openai

import (
	"net/url"
	"strings"

	"airlock/internal/planner"
)

// A flavour is what is known of a dialect of the API.
type flavour struct {
	base    string
	formats []planner.Format

	apiKeyHeader        bool // Azure: the key stands in the header api-key, and addresses are its own
	maxCompletionTokens bool // the newer name of max_tokens
	usageCost           bool // OpenRouter: it tells the cost where it is asked to
}

// flavourOf is the flavour of a provider. One that is not known has a flavour like OpenAI's,
// without an address.
func flavourOf(provider string) flavour {
	const (
		schema, tool = planner.FormatSchema, planner.FormatTool
		object       = planner.FormatJSON
	)
	all := []planner.Format{schema, tool, object}
	switch provider {
	case "openai":
		return flavour{base: "https://api.openai.com/v1", formats: all}
	case "azure":
		return flavour{formats: all, apiKeyHeader: true, maxCompletionTokens: true}
	case "ollama": // it takes tool_choice, and heeds it not
		return flavour{base: "http://127.0.0.1:11434/v1", formats: []planner.Format{schema, object}}
	case "vllm":
		return flavour{base: "http://127.0.0.1:8000/v1", formats: all}
	case "llamacpp":
		return flavour{base: "http://127.0.0.1:8080/v1", formats: all}
	case "lmstudio": // it has no json_object
		return flavour{base: "http://127.0.0.1:1234/v1", formats: []planner.Format{schema, tool}}
	case "openrouter":
		return flavour{base: "https://openrouter.ai/api/v1", formats: all, usageCost: true}
	case "groq":
		return flavour{base: "https://api.groq.com/openai/v1", formats: all, maxCompletionTokens: true}
	}
	return flavour{formats: all}
}

// path is the path of the API on a server of this flavour.
func (f flavour) path() string {
	if u, err := url.Parse(f.base); err == nil && u.Path != "" {
		return u.Path
	}
	return "/v1"
}

// refusals are the parameters that an endpoint has refused.
type refusals struct {
	stream, streamOptions bool
	maxCompletionTokens   bool // max_tokens is the one
	maxTokens             bool // neither
	strict                bool // of a schema
}

// known is what the endpoint is known to refuse.
func (m *Model) known() refusals {
	m.learnt.Lock()
	defer m.learnt.Unlock()
	return m.refusals
}

// learn finds the parameter that a refusal is about, and reports whether there is another way.
func (m *Model) learn(sent refusals, fault *planner.Error) bool {
	isRefusal := fault.Status == 400 || fault.Status == 422 || fault.Status == 501 ||
		fault.Status == 500 && fault.Fault == planner.FaultUnsupported // llama.cpp
	if !isRefusal {
		return false
	}
	text := strings.ToLower(fault.Text)
	now := sent
	switch {
	case strings.Contains(text, "max_completion_tokens") && !sent.maxCompletionTokens && !strings.Contains(text, "too large"):
		now.maxCompletionTokens = true
	case strings.Contains(text, "max_tokens") && strings.Contains(text, "max_completion_tokens") && !sent.maxTokens:
		now.maxCompletionTokens, now.maxTokens = false, true
	case strings.Contains(text, "stream_options") && !sent.streamOptions:
		now.streamOptions = true
	case strings.Contains(text, "stream") && !strings.Contains(text, "upstream") && !sent.stream:
		now.stream = true
	case strings.Contains(text, "strict") && !sent.strict && fault.Fault == planner.FaultRejected:
		now.strict = true
	}
	if now == sent {
		return false
	}
	m.learnt.Lock()
	defer m.learnt.Unlock()
	m.refusals = now
	return true
}
