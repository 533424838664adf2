package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

func TestWhatIsSent(t *testing.T) {
	user := []planner.Message{{Role: planner.User, Text: "JSON <now> & here"}}
	schema := json.RawMessage(`{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"],"additionalProperties":false}`)
	const messages = `"model":"test-model","messages":[{"role":"user","content":"JSON <now> & here"}],"stream":true,"stream_options":{"include_usage":true}`
	for _, test := range []struct {
		name, provider string
		req            planner.Request
		want           string
	}{
		{"a question", "openai", planner.Request{Messages: user, Format: planner.FormatText}, `{` + messages + `}`},
		{
			"a schema", "openai",
			planner.Request{Messages: user, Format: planner.FormatSchema, Schema: schema},
			`{` + messages + `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":` + string(schema) + `}}}`,
		},
		{"JSON", "groq", planner.Request{Messages: user, Format: planner.FormatJSON}, `{` + messages + `,"response_format":{"type":"json_object"}}`},
		{
			"a tool that has to be called", "vllm",
			planner.Request{Messages: user, Format: planner.FormatTool, MustCall: true, Tools: []planner.ToolDef{{Name: "answer", Description: "d", Schema: schema}}},
			`{` + messages + `,"tool_choice":"required","tools":[{"type":"function","function":{"name":"answer","description":"d","parameters":` + string(schema) + `}}]}`,
		},
		{"a bound, by its older name", "llamacpp", planner.Request{Messages: user, MaxTokens: 7}, `{` + messages + `,"max_tokens":7}`},
		{"a bound, by its newer name", "azure", planner.Request{Messages: user, MaxTokens: 7}, `{` + messages + `,"max_completion_tokens":7}`},
		{"OpenRouter is asked for the cost", "openrouter", planner.Request{Messages: user}, `{` + messages + `,"usage":{"include":true}}`},
		{
			"a conversation, with what a model wrote wrongly", "openai",
			planner.Request{System: "s", Messages: []planner.Message{
				user[0],
				{Role: planner.Assistant, Calls: []planner.ToolCall{{ID: "a", Name: "f"}, {ID: "b", Name: "g", Args: json.RawMessage(`{"x":`)}}, Opaque: json.RawMessage(`"not mine"`)},
				{Role: planner.User, Results: []planner.ToolResult{{ID: "a", Text: "one"}, {ID: "b", Text: "two", Failed: true}}},
			}},
			`{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"s"},{"role":"user","content":"JSON <now> & here"},` +
				`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"not_an_object\":\"{\\\"x\\\":\"}"}}]},` +
				`{"role":"tool","tool_call_id":"a","content":"one"},{"role":"tool","tool_call_id":"b","content":"The tool failed: two"}]}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "ok"}}}
			if _, err := model(t, test.provider, modeltest.OpenAI(t, script), "").Answer(t.Context(), &test.req, nil); err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(script.Requests()[0].Body, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the request differs (-want +got):\n%s", diff)
			}
		})
	}
}
