package endpoint

import (
	"strings"

	"airlock/internal/planner"
)

// The words by which endpoints say what is wrong, in lower case, as OpenAI, Azure, vLLM,
// llama.cpp, Ollama, LM Studio, Groq, OpenRouter, Anthropic and Gemini write them. The tests
// have them in full.

// tooLong: the conversation does not fit.
var tooLong = []string{
	"context_length_exceeded", "maximum context length", "max context length", "exceeds the available context size",
	"exceed_context_size", "context_exceeded", "exceeds context size", "exceed context limit", "prompt is too long",
	"input is too long", "input token count", "number of input tokens", "number of tokens", "context window",
	"greater than the context length", "exceeds the context length", "maximum prompt length", "exceeds max_prompt_tokens",
	"request_too_large", "request too large", "prompt too long", "exceeds the maximum number of tokens",
	"longer than the maximum model length", "longer than the model's context length", "n_ctx",
}

// noCredit: it will not work again by itself.
var noCredit = []string{
	"insufficient_quota", "exceeded your current quota, please check your plan", "credit balance is too low",
	"insufficient credits", "insufficient balance", "billing_hard_limit_reached", "billing_not_active",
}

// badKey: with another status than 401 and 403.
var badKey = []string{
	"api key not valid", "api_key_invalid", "invalid_api_key", "invalid api key", "incorrect api key",
	" unauthenticated ", " authentication_error ", " permission_denied ", "no auth credentials found", "missing api key",
}

// noModel: with another status than 404.
var noModel = []string{
	"model_not_found", "model_decommissioned", "model_not_available", "deploymentnotfound", "is not a valid model id",
	"try pulling it first", "no models loaded", "invalid model name", "invalid model identifier",
}

// kinds are the statuses of errors that come in the middle of an answer.
var kinds = []struct {
	status int
	words  []string
}{
	{529, []string{"overloaded"}},
	{429, []string{"rate_limit", "resource_exhausted", "too_many_requests", "insufficient_quota", "ratelimit"}},
	{503, []string{" unavailable ", "service_unavailable", "engine_overloaded"}},
	{401, []string{"authentication", "invalid_api_key", "unauthenticated"}},
	{403, []string{"permission"}},
	{404, []string{"not_found", "notfound"}},
	{413, []string{"too_large"}},
	{504, []string{"deadline_exceeded", "timeout"}},
	{400, []string{"invalid_request", "invalid_argument", "badrequest", "bad_request", "failed_precondition", "_failed"}},
	{500, []string{"server_error", "api_error", "internal"}},
}

// lacks are words that say that something is not there, or not as it was asked for.
var lacks = []string{
	"not support", "n't support", "unsupported", "only support", "supported values", "supported string values",
	"not enabled", "enabled only", "not available", "unavailable", "not implemented", "not yet", "not fully",
	"not allowed", "not permitted", "unrecognized", "unknown", "unexpected", "extra inputs", "extra fields",
	"must be", "requires", "disabled", "cannot", "can't", "incompatible", "invalid", "no endpoints found", "may not be", "please set",
	"too complex for compilation", "grammar is too large", "too many parameters", "too many optional parameters", "not compatible", // Anthropic
}

// Words that name a feature.
var (
	choiceWords = []string{"tool_choice", "tool choice", "toolchoice", "function_calling_config", "forces tool use", "forced tool", "toolconfig"}
	formatWords = []string{
		"response_format", "response format", "json_schema", "json schema", "structured output", "structured_output",
		"output_config", "output_format", "output format", "response_schema", "responseschema", "response_json_schema", "responsejsonschema",
		"json_object", "json mode", "json_mode", "json_validate_failed", "response mime type", "response_mime_type", "responsemimetype",
		"guided_json", "guided decoding", "grammar", "handle the requested parameters",
		"too complex for compilation", "parameters with union types", // Anthropic
	}
	schemaWords = []string{"json_schema", "json schema", "structured", "response_schema", "responseschema", "output_config", "output_format", "output format"}
	toolWords   = []string{
		"tools", "tool use", "tool calling", "tool calls", "tool_calls", "tool-call", "tool call",
		"function calling", "function call", "functions", "function_declarations", "functiondeclarations",
	}
)

// lacking is the feature that a message, in lower case, says is not there; "" where it says no
// such thing.
func (w *Watched) lacking(text, kind string) planner.Feature {
	isLack := anyOf(text, lacks) || anyOf(kind, []string{"json_validate_failed", "unsupported"})
	lower := text + kind
	switch {
	case !isLack:
		return ""
	case strings.Contains(lower, "--enable-auto-tool-choice"), strings.Contains(lower, "--jinja"):
		return planner.FeatureTools // no tools at all, whatever the choice
	case strings.Contains(lower, "response mime type"), strings.Contains(lower, "response_mime_type"):
		return w.format(lower) // Gemini names function calling beside it
	case anyOf(lower, choiceWords):
		return planner.FeatureChoice
	case anyOf(lower, formatWords):
		return w.format(lower)
	case anyOf(lower, toolWords) && !strings.Contains(text, "invalid") && !strings.Contains(text, "must be"):
		return planner.FeatureTools
	}
	return ""
}

// format is the feature that a format of the answer needs: the one that was asked for, where
// the request is known, else the one that the message names.
func (w *Watched) format(lower string) planner.Feature {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.asked != "":
		return w.asked
	case anyOf(lower, schemaWords):
		return planner.FeatureSchema
	}
	return planner.FeatureJSON
}

// askedFor is the feature for the answer's format that a request's body needs; "" for none.
func askedFor(body string) planner.Feature {
	switch {
	case anyOf(body, []string{`"json_schema"`, `"responseSchema"`, `"responseJsonSchema"`, `"output_format"`, `"output_config"`}):
		return planner.FeatureSchema
	case anyOf(body, []string{`"json_object"`, `"responseMimeType"`}):
		return planner.FeatureJSON
	}
	return ""
}
