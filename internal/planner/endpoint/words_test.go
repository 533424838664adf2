package endpoint_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// What endpoints are known to say, word by word. The request of these tests asks for
// json_schema: it is what is lacking where a message names the format alone.
var sayings = []struct {
	who     string
	status  int
	body    string
	fault   planner.Fault
	feature planner.Feature
}{
	{"OpenAI", 400, `{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported models at the Structured Outputs guide: https://platform.openai.com/docs/guides/structured-outputs","type":"invalid_request_error","param":null,"code":null}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"OpenAI", 400, `{"error":{"message":"Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required to be supplied and to be false.","type":"invalid_request_error","param":"response_format","code":null}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"OpenAI", 400, `{"error":{"message":"Unsupported value: 'tools' is not supported with this model.","type":"invalid_request_error","param":"tools","code":"unsupported_value"}}`, planner.FaultUnsupported, planner.FeatureTools},
	{"OpenAI", 400, `{"error":{"message":"Unsupported parameter: 'tool_choice' is not supported with this model.","type":"invalid_request_error","param":"tool_choice","code":"unsupported_parameter"}}`, planner.FaultUnsupported, planner.FeatureChoice},
	{"OpenAI", 400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, planner.FaultRejected, ""},
	{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, planner.FaultTooLong, ""},
	{"OpenAI", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, planner.FaultBusy, ""},
	{"OpenAI", 404, `{"error":{"message":"The model 'gpt-x' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, planner.FaultNotFound, ""},
	{"Azure", 400, `{"error":{"message":"response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later","type":"","param":"","code":"BadRequest"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Azure", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, planner.FaultNotFound, ""},
	{"Azure", 401, `{"statusCode":401,"message":"Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired."}`, planner.FaultKey, ""},
	{"vLLM", 400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`, planner.FaultUnsupported, planner.FeatureTools},
	{"vLLM", 400, `{"object":"error","message":"tool_choice = \"required\" is not supported!","type":"BadRequestError","param":null,"code":400}`, planner.FaultUnsupported, planner.FeatureChoice},
	{"vLLM", 400, `{"error":{"message":"This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=134145)","type":"BadRequestError","param":"input_tokens","code":400}}`, planner.FaultTooLong, ""},
	{"vLLM", 404, `{"object":"error","message":"The model 'x' does not exist.","type":"NotFoundError","param":null,"code":404}`, planner.FaultNotFound, ""},
	{"vLLM", 401, `{"error":"Unauthorized"}`, planner.FaultKey, ""},
	{"llama.cpp", 500, `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`, planner.FaultUnsupported, planner.FeatureTools},
	{"llama.cpp", 400, `{"error":{"code":400,"message":"Cannot use custom grammar constraints with tools.","type":"invalid_request_error"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, planner.FaultTooLong, ""},
	{"llama.cpp", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, planner.FaultBusy, ""},
	{"llama.cpp", 401, `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`, planner.FaultKey, ""},
	{"Ollama", 400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}`, planner.FaultUnsupported, planner.FeatureTools},
	{"Ollama", 404, `{"error":{"message":"model 'x' not found","type":"not_found_error","param":null,"code":null}}`, planner.FaultNotFound, ""},
	{"LM Studio", 400, `{"error":"Invalid tool_choice type: 'object'. Supported string values: none, auto, required"}`, planner.FaultUnsupported, planner.FeatureChoice},
	{"LM Studio", 400, `{"error":"'response_format.type' must be 'json_schema' or 'text'"}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"LM Studio", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"}`, planner.FaultTooLong, ""},
	{"Groq", 400, "{\"error\":{\"message\":\"`tool calling` is not supported with this model\",\"type\":\"invalid_request_error\"}}", planner.FaultUnsupported, planner.FeatureTools},
	{"Groq", 400, "{\"error\":{\"message\":\"This model does not support response format `json_schema`. See supported models at https://console.groq.com/docs/structured-outputs#supported-models\",\"type\":\"invalid_request_error\"}}", planner.FaultUnsupported, planner.FeatureSchema},
	{"Groq", 400, `{"error":{"message":"json mode cannot be combined with tool/function calling","type":"invalid_request_error"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Groq", 400, `{"error":{"message":"Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"json_validate_failed","failed_generation":"x"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Groq", 413, `{"error":{"message":"Request too large for model 'x' in organization 'o' service tier 'on_demand' on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, planner.FaultTooLong, ""},
	{"Groq", 400, `{"error":{"message":"The model 'x' has been decommissioned and is no longer supported.","type":"invalid_request_error","code":"model_decommissioned"}}`, planner.FaultNotFound, ""},
	{"OpenRouter", 404, `{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}`, planner.FaultUnsupported, planner.FeatureTools},
	{"OpenRouter", 404, `{"error":{"message":"No endpoints found that support the provided 'tool_choice' value. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}`, planner.FaultUnsupported, planner.FeatureChoice},
	{"OpenRouter", 404, `{"error":{"message":"No endpoints found for x/y.","code":404}}`, planner.FaultNotFound, ""},
	{"OpenRouter", 400, `{"error":{"message":"x/y is not a valid model ID","code":400}}`, planner.FaultNotFound, ""},
	{"OpenRouter", 402, `{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}}`, planner.FaultBusy, ""},
	{"OpenRouter", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Function calling with a response mime type: 'application/json' is unsupported\"}}","provider_name":"Google"}}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"OpenRouter", 401, `{"error":{"message":"No auth credentials found","code":401}}`, planner.FaultKey, ""},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"tool_choice: type \"tool\" and \"any\" are not supported for this model."}}`, planner.FaultUnsupported, planner.FeatureChoice},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Thinking may not be enabled when tool_choice forces tool use."}}`, planner.FaultUnsupported, planner.FeatureChoice},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"'claude-3-haiku-20240307' does not support output format."}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"output_config: Extra inputs are not permitted"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 202095 tokens > 200000 maximum"}}`, planner.FaultTooLong, ""},
	{"Anthropic", 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again\"}}", planner.FaultTooLong, ""},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, planner.FaultBusy, ""},
	{"Anthropic", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, planner.FaultNotFound, ""},
	{"Anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, planner.FaultTooLong, ""},
	{"Gemini", 400, `{"error":{"code":400,"message":"Function calling with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Gemini", 400, `[{"error":{"code":400,"message":"Json mode is not enabled for models/gemini-pro","status":"INVALID_ARGUMENT"}}]`, planner.FaultUnsupported, planner.FeatureSchema},
	{"Gemini", 400, `{"error":{"code":400,"message":"Function calling is not enabled for models/gemini-x","status":"INVALID_ARGUMENT"}}`, planner.FaultUnsupported, planner.FeatureTools},
	{"Gemini", 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, planner.FaultKey, ""},
	{"Gemini", 400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, planner.FaultTooLong, ""},
	{"Gemini", 429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, planner.FaultBusy, ""},
	{"Gemini", 404, `{"error":{"code":404,"message":"models/x is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.","status":"NOT_FOUND"}}`, planner.FaultNotFound, ""},
	{"Gemini", 503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, planner.FaultBusy, ""},
	{"DeepSeek", 400, `{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"FastAPI", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","response_format"],"msg":"Extra inputs are not permitted","input":{}}]}`, planner.FaultUnsupported, planner.FeatureSchema},
	{"FastAPI", 404, `{"detail":"Not Found"}`, planner.FaultNotFound, ""},
	{"a server of some kind", 400, `{"error":{"message":"messages: at least one message is required"}}`, planner.FaultRejected, ""},
	{"a server of some kind", 500, `{"error":{"message":"tools are broken today"}}`, planner.FaultServer, ""},
}

func TestWhatEndpointsSayIsUnderstood(t *testing.T) {
	for _, said := range sayings {
		_, err := ask(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(said.status)
			fmt.Fprint(w, said.body)
		})
		if err == nil || err.Fault != said.fault || err.Feature != said.feature || err.Status != said.status {
			t.Errorf("%s: %s\n\tis told as %v (feature %q), want %q, %q", said.who, said.body, err, err.Feature, said.fault, said.feature)
		}
		if err.Mend == "" && !err.Again && err.Fault != planner.FaultRejected {
			t.Errorf("%s: %s\n\thas no mend: %v", said.who, said.body, err)
		}
		// The same, as a piece of a stream.
		_, w := endpoint.Watch(t.Context())
		if told := w.Reported("http://127.0.0.1/v1", said.status, []byte(said.body)); told.Fault != said.fault {
			t.Errorf("%s: %s\n\tis told in a stream as %v, want %q", said.who, said.body, told, said.fault)
		}
	}
}

func TestWhenToAskAgain(t *testing.T) {
	tests := []struct {
		name, header, value, body string
		want                      time.Duration
	}{
		{"seconds", "Retry-After", "7", "{}", 7 * time.Second},
		{"parts of seconds", "Retry-After", " 0.5 ", "{}", 500 * time.Millisecond},
		{"milliseconds", "Retry-After-Ms", "100000", "{}", 100 * time.Second},
		{"a date", "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", "{}", 24 * time.Hour},
		{"a date that has passed", "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT", "{}", 0},
		{"less than nothing", "Retry-After", "-5", "{}", 0},
		{"more than there is", "Retry-After", "1e300", "{}", 24 * time.Hour},
		{"more than a number holds", "Retry-After", "1e999", "{}", 24 * time.Hour},
		{"no number", "Retry-After", "NaN", "{}", 0},
		{"no time", "Retry-After", "soon\x1b", "{}", 0},
		{"Gemini's detail", "X-Other", "", `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`, 34500 * time.Millisecond},
		{"a detail below zero", "X-Other", "", `{"error":{"code":429,"details":[{"retryDelay":"-34s"}, 5, null, {"retryDelay":7}]}}`, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ask(t, nil, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()[test.header] = []string{strings.ReplaceAll(test.value, "\x1b", "?")}
				w.WriteHeader(429)
				fmt.Fprint(w, test.body)
			})
			if err == nil || err.Fault != planner.FaultBusy || err.RetryAfter != test.want {
				t.Errorf("error = %v after %s, want %s", err, err.RetryAfter, test.want)
			}
		})
	}
}

func FuzzReported(f *testing.F) {
	for _, said := range sayings {
		f.Add(said.status, said.body)
	}
	f.Add(200, `{"error":{"metadata":{"raw":"{\"error\":{\"metadata\":{\"raw\":\"x\"}}}"},"details":[null]}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		_, w := endpoint.Watch(t.Context())
		e := w.Reported("http://user:pass@127.0.0.1/v1?key=x", status, []byte(body))
		if e.Fault == "" || e.Endpoint != "http://127.0.0.1/v1" || e.RetryAfter < 0 {
			t.Errorf("%q is told as %+v", body, e)
		}
		if n := len([]rune(e.Text)); n > 500 {
			t.Errorf("the text has %d characters", n)
		}
		if strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
			t.Errorf("%q is not printable", e.Error())
		}
		if (e.Feature != "") != (e.Fault == planner.FaultUnsupported) {
			t.Errorf("fault %q has feature %q", e.Fault, e.Feature)
		}
	})
}
