package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

// tools are two that are offered, one of them without arguments.
var tools = []planner.ToolDef{
	{Name: "sysinfo", Description: "Tells of the machine.", Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)},
	{Name: "fs_read_file", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"max_bytes":{"type":["integer","null"]}},"required":["path","max_bytes"],"additionalProperties":false}`)},
}

func TestARequestIsAsTheAPIWantsIt(t *testing.T) {
	req := ask("hello")
	req.Tools, req.MustCall, req.MaxTokens = tools, true, 1<<40
	req.Format, req.Schema = planner.FormatSchema, json.RawMessage(`{"type":"object","properties":{"summary":{"type":"string"},"kind":{"type":["string","null"]}},"required":["summary","kind"],"additionalProperties":false}`)
	want := `{
		"contents": [{"role": "user", "parts": [{"text": "hello"}]}],
		"systemInstruction": {"role": "user", "parts": [{"text": "You plan."}]},
		"tools": [{"functionDeclarations": [
			{"name": "sysinfo", "description": "Tells of the machine."},
			{"name": "fs_read_file", "description": "Reads a file.", "parametersJsonSchema": ` + string(tools[1].Schema) + `}
		]}],
		"toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
		"generationConfig": {"maxOutputTokens": 2147483647, "responseMimeType": "application/json", "responseJsonSchema": ` + string(req.Schema) + `, "thinkingConfig": {"includeThoughts": true}}
	}`
	raw := shown(t, newModel, req)
	if diff := cmp.Diff(body(t, []byte(want)), body(t, raw)); diff != "" {
		t.Errorf("the body (-want +got):\n%s", diff)
	}
	for _, schema := range []json.RawMessage{req.Schema, tools[1].Schema} {
		if !strings.Contains(string(raw), string(schema)) {
			t.Errorf("the members of a schema are in another order:\n%s", raw)
		}
	}
}

func TestAFormatAsksForWhatItNeeds(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)
	tests := map[string]struct {
		format planner.Format
		model  string
		want   map[string]any // generationConfig
	}{
		"a schema":                          {planner.FormatSchema, "gemini-2.0-flash", map[string]any{"responseMimeType": "application/json", "responseJsonSchema": body(t, schema)}},
		"JSON":                              {planner.FormatJSON, "gemini-2.0-flash", map[string]any{"responseMimeType": "application/json"}},
		"a tool":                            {planner.FormatTool, "gemini-2.0-flash", map[string]any{}},
		"a text":                            {planner.FormatText, "gemini-2.0-flash", map[string]any{}},
		"a text, of a model that thinks":    {planner.FormatText, oldModel, map[string]any{"thinkingConfig": map[string]any{"includeThoughts": true}}},
		"a text, of the newest there is":    {planner.FormatText, "gemini-flash-latest", map[string]any{"thinkingConfig": map[string]any{"includeThoughts": true}}},
		"a text, of one that may not think": {planner.FormatText, "gemini-2.5-flash-lite", map[string]any{}},
		"a text, of one that nobody knows":  {planner.FormatText, "gemma-3-27b-it", map[string]any{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := ask("hello")
			req.Format, req.Schema = tt.format, schema
			got, _ := body(t, shown(t, tt.model, req))["generationConfig"].(map[string]any)
			if got == nil {
				got = map[string]any{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("generationConfig (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAConversationAlternates(t *testing.T) {
	call := planner.ToolCall{ID: "toolu_1", Name: "sysinfo", Args: json.RawMessage(`{"a":1}`)}
	result := planner.ToolResult{ID: "toolu_1", Name: "sysinfo", Text: "Linux"}
	tests := map[string]struct {
		messages []planner.Message
		want     string
	}{
		"two of the user's become one": {
			[]planner.Message{{Role: planner.User, Text: "one"}, {Role: planner.User, Text: "two"}},
			`[{"role":"user","parts":[{"text":"one"},{"text":"two"}]}]`,
		},
		"an empty one is left out": {
			[]planner.Message{{Role: planner.User, Text: "one"}, {Role: planner.Assistant}, {Role: planner.User, Text: "two"}},
			`[{"role":"user","parts":[{"text":"one"},{"text":"two"}]}]`,
		},
		"an answer and a question": {
			[]planner.Message{{Role: planner.User, Text: "one"}, {Role: planner.Assistant, Text: "two"}, {Role: planner.User, Text: "three"}},
			`[{"role":"user","parts":[{"text":"one"}]},{"role":"model","parts":[{"text":"two"}]},{"role":"user","parts":[{"text":"three"}]}]`,
		},
		"another provider's call": {
			[]planner.Message{
				{Role: planner.User, Text: "one"},
				{Role: planner.Assistant, Text: "I look.", Calls: []planner.ToolCall{call}, Opaque: json.RawMessage(`{"provider":"anthropic","content":[{"type":"thinking"}]}`)},
				{Role: planner.User, Results: []planner.ToolResult{result}},
			},
			`[{"role":"user","parts":[{"text":"one"}]},
			  {"role":"model","parts":[{"text":"I look."},{"functionCall":{"id":"toolu_1","name":"sysinfo","args":{"a":1}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"toolu_1","name":"sysinfo","response":{"output":"Linux"}}}]}]`,
		},
		"a call with arguments that are none": {
			[]planner.Message{
				{Role: planner.User, Text: "one"},
				{Role: planner.Assistant, Calls: []planner.ToolCall{{ID: "a", Name: "sysinfo", Args: json.RawMessage(`[not JSON`)}}},
				{Role: planner.User, Results: []planner.ToolResult{{ID: "a", Name: "sysinfo", Text: "no such thing", Failed: true}}},
			},
			`[{"role":"user","parts":[{"text":"one"}]},
			  {"role":"model","parts":[{"functionCall":{"id":"a","name":"sysinfo"},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"a","name":"sysinfo","response":{"error":"no such thing"}}}]}]`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := ask("")
			req.Messages = tt.messages
			var want any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, body(t, shown(t, newModel, req))["contents"]); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

// spoken is a message of newModel's, with two calls and its own parts.
func spoken(t testing.TB) planner.Message {
	t.Helper()
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "The password is hunter2.", Calls: []planner.ToolCall{
		{Name: "sysinfo", Args: json.RawMessage(`{}`)},
		{Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/hosts"}`)},
	}}}}
	a := answer(t, model(t, newModel, modeltest.Gemini(t, script), nil), ask("one"))
	return planner.Message{Role: planner.Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque}
}

func TestWhatWasTakenOutOfAMessageIsNotSentNevertheless(t *testing.T) {
	tests := map[string]struct {
		change func(*planner.Message)
		gone   string
	}{
		"the text":              {func(m *planner.Message) { m.Text = "The password is [redacted]." }, "hunter2"},
		"an argument":           {func(m *planner.Message) { m.Calls[1].Args = json.RawMessage(`{"path":"[redacted]"}`) }, "/etc/hosts"},
		"a call":                {func(m *planner.Message) { m.Calls = m.Calls[:1] }, "fs_read_file"},
		"all calls":             {func(m *planner.Message) { m.Calls = nil }, "functionCall"},
		"a call's name":         {func(m *planner.Message) { m.Calls[1].Name = "services" }, "fs_read_file"},
		"the parts themselves":  {func(m *planner.Message) { m.Opaque = nil }, "nothing of this name"},
		"the parts are no JSON": {func(m *planner.Message) { m.Opaque = json.RawMessage(`{"provider":"gemini","parts":[`) }, "nothing of this name"},
		"the parts hold a null": {func(m *planner.Message) { m.Opaque = json.RawMessage(`{"provider":"gemini","parts":[null]}`) }, "nothing of this name"},
		"the parts hold a file": {func(m *planner.Message) { m.Opaque = withFile(m.Opaque) }, "gs://elsewhere"},
		"the parts say the rest": {func(m *planner.Message) {
			m.Opaque = json.RawMessage(`{"provider":"gemini","parts":[{"text":"more"}]}`)
		}, "more"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			msg := spoken(t)
			tt.change(&msg)
			next := planner.Message{Role: planner.User, Text: "go on"}
			if len(msg.Calls) > 0 {
				next = planner.Message{Role: planner.User}
			}
			for _, call := range msg.Calls {
				next.Results = append(next.Results, planner.ToolResult{ID: call.ID, Name: call.Name, Text: "done"})
			}
			req := ask("one")
			req.Messages = append(req.Messages, msg, next)
			script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "done"}}}
			answer(t, model(t, newModel, modeltest.Gemini(t, script), nil), req)
			if sent := string(script.Requests()[0].Body); strings.Contains(sent, tt.gone) {
				t.Errorf("%q is sent:\n%s", tt.gone, sent)
			}
		})
	}
}

// withFile adds a file to the first part.
func withFile(opaque json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.Replace(string(opaque), `"parts":[{`, `"parts":[{"fileData":{"fileUri":"gs://elsewhere"},`, 1))
}

func TestASchemaThatIsNoneIsAnError(t *testing.T) {
	for name, req := range map[string]*planner.Request{
		"of the answer": {Messages: ask("a").Messages, Format: planner.FormatSchema, Schema: json.RawMessage(`{"type":`)},
		"of a tool":     {Messages: ask("a").Messages, Tools: []planner.ToolDef{{Name: "sysinfo", Schema: json.RawMessage(`{"type":`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			script := &modeltest.Script{}
			if e := fault(t, model(t, newModel, modeltest.Gemini(t, script), nil), req); e.Fault != planner.FaultRejected {
				t.Errorf("the fault is %q", e.Fault)
			}
			if len(script.Requests()) != 0 {
				t.Error("it was sent")
			}
		})
	}
}

func TestAnOlderModelSaysThatToolsExcludeAFormat(t *testing.T) {
	for format, feature := range map[planner.Format]planner.Feature{planner.FormatSchema: planner.FeatureSchema, planner.FormatJSON: planner.FeatureJSON} {
		req := ask("hello")
		req.Tools, req.Format, req.Schema = tools, format, tools[1].Schema
		e := fault(t, model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Text: "{}"}}}), nil), req)
		if e.Fault != planner.FaultUnsupported || e.Feature != feature {
			t.Errorf("%s: the fault is %q of %q, want it unsupported", format, e.Fault, e.Feature)
		}
	}
}
