package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

// sent asks, and gives the body of the request as the server got it.
func sent(t *testing.T, req *planner.Request) map[string]any {
	t.Helper()
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "ok"}}}
	m := model(t, modeltest.Anthropic(t, script), nil)
	answer(t, m, req)
	var body map[string]any
	if err := json.Unmarshal(script.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// compare compares a value as it was sent with one that is written as JSON.
func compare(t *testing.T, what string, got any, want string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(want), &v); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestARequestIsWhatTheAPITakes(t *testing.T) {
	body := sent(t, &planner.Request{
		System:   "You plan.",
		Messages: []planner.Message{{Role: planner.User, Text: "hello"}},
		Tools:    []planner.ToolDef{{Name: "sysinfo", Description: "Tells of the machine.", Schema: json.RawMessage(`{"properties":{}}`)}},
		Format:   planner.FormatText,
	})
	compare(t, "the request", body, `{
		"model": "claude-sonnet-5-5", "max_tokens": 16384, "stream": true,
		"system": [{"type": "text", "text": "You plan.", "cache_control": {"type": "ephemeral"}}],
		"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
		"tools": [{"name": "sysinfo", "description": "Tells of the machine.", "input_schema": {"type": "object", "properties": {}}}]
	}`)
}

func TestMessagesAreBroughtIntoOrder(t *testing.T) {
	call := planner.ToolCall{ID: "toolu_1", Name: "sysinfo", Args: json.RawMessage(`{"all":true}`)}
	for _, test := range []struct {
		name     string
		messages []planner.Message
		want     string
	}{
		{
			"messages of the user that follow each other are one",
			[]planner.Message{{Role: planner.User, Text: "a"}, {Role: planner.User, Text: "b"}},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
		},
		{
			"an empty message is left out, and its neighbours are joined",
			[]planner.Message{{Role: planner.User, Text: "a"}, {Role: planner.Assistant, Text: " \n"}, {Role: planner.User, Text: "b"}, {Role: planner.User}},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
		},
		{
			"what the assistant says before the user does is left out",
			[]planner.Message{{Role: planner.Assistant, Text: "hi"}, {Role: planner.User, Text: "a"}},
			`[{"role":"user","content":[{"type":"text","text":"a"}]}]`,
		},
		{
			"results stand before the text, also those of a failure that says nothing",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Calls: []planner.ToolCall{call, {ID: "toolu_2", Name: "sysinfo"}, {ID: "toolu_3", Name: "sysinfo"}}},
				{Role: planner.User, Text: "go on", Results: []planner.ToolResult{{ID: "toolu_1", Text: "linux"}, {ID: "toolu_2", Failed: true}, {ID: "toolu_3", Text: " "}}},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},
			{"role":"assistant","content":[
				{"type":"tool_use","id":"toolu_1","name":"sysinfo","input":{"all":true}},
				{"type":"tool_use","id":"toolu_2","name":"sysinfo","input":{}},
				{"type":"tool_use","id":"toolu_3","name":"sysinfo","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"linux"}]},
				{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"it failed"}]},
				{"type":"tool_result","tool_use_id":"toolu_3"},
				{"type":"text","text":"go on"}]}]`,
		},
		{
			"arguments that are no object come back as one",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Calls: []planner.ToolCall{
					{ID: "1", Name: "sysinfo", Args: json.RawMessage(`{"path":`)},
					{ID: "2", Name: "sysinfo", Args: json.RawMessage(`[1]`)},
					{ID: "3", Name: "sysinfo", Args: json.RawMessage(`null`)},
					{ID: "4", Name: "sysinfo", Args: json.RawMessage("\xff")},
				}},
				{Role: planner.User, Results: []planner.ToolResult{{ID: "1", Text: "no"}, {ID: "2", Text: "no"}, {ID: "3", Text: "no"}, {ID: "4", Text: "no"}}},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},
			{"role":"assistant","content":[
				{"type":"tool_use","id":"1","name":"sysinfo","input":{"invalid":"{\"path\":"}},
				{"type":"tool_use","id":"2","name":"sysinfo","input":{"invalid":"[1]"}},
				{"type":"tool_use","id":"3","name":"sysinfo","input":{"invalid":"null"}},
				{"type":"tool_use","id":"4","name":"sysinfo","input":{"invalid":"\ufffd"}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"no"}]},
				{"type":"tool_result","tool_use_id":"2","content":[{"type":"text","text":"no"}]},
				{"type":"tool_result","tool_use_id":"3","content":[{"type":"text","text":"no"}]},
				{"type":"tool_result","tool_use_id":"4","content":[{"type":"text","text":"no"}]}]}]`,
		},
		{
			"names and IDs of another provider's calls are made to fit",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Calls: []planner.ToolCall{{ID: "functions.sysinfo:0", Name: "fs.read\n/file"}, {ID: "functions.sysinfo:1", Name: ""}}},
				{Role: planner.User, Results: []planner.ToolResult{{ID: "functions.sysinfo:0", Text: "no"}, {ID: "functions.sysinfo:1", Text: "no"}}},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},
			{"role":"assistant","content":[
				{"type":"tool_use","id":"id_f0c7c7ef3f7a1ba1c7a0c1bd","name":"fs_read__file","input":{}},
				{"type":"tool_use","id":"id_","name":"unnamed","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"id_","content":[{"type":"text","text":"no"}]},
				{"type":"tool_result","tool_use_id":"id_","content":[{"type":"text","text":"no"}]}]}]`,
		},
		{
			"another provider's opaque part is left out",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Text: "b", Opaque: json.RawMessage(`{"provider":"gemini","model":"claude-sonnet-5-5","blocks":[{"type":"thinking","text":"x"},{"type":"text","text":"b"}]}`)},
				{Role: planner.User, Text: "c"},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"}]}]`,
		},
		{
			"another model's thoughts are left out",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Text: "b", Opaque: json.RawMessage(`{"provider":"anthropic","model":"claude-opus-5-5","blocks":[{"type":"thinking","text":"x"},{"type":"text","text":"b"}]}`)},
				{Role: planner.User, Text: "c"},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"}]}]`,
		},
		{
			"blocks that nobody asked for are not smuggled in by an opaque part",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Text: "b", Opaque: json.RawMessage(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":[
					{"type":"document","source":{"type":"url","url":"http://169.254.169.254/"}},{"type":"tool_result","id":"x"},{"type":"text","text":"b"}]}`)},
				{Role: planner.User, Text: "c"},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"}]}]`,
		},
		{
			"an opaque part that says something else than its message is left out",
			[]planner.Message{
				{Role: planner.User, Text: "a"},
				{Role: planner.Assistant, Text: "[redacted]", Opaque: json.RawMessage(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":[{"type":"redacted_thinking","data":"redacted.x"},{"type":"text","text":"hunter2"}]}`)},
				{Role: planner.User, Text: "c"},
			},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"[redacted]"}]},{"role":"user","content":[{"type":"text","text":"c"}]}]`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := &planner.Request{Messages: test.messages, Format: planner.FormatText}
			for _, m := range test.messages {
				if len(m.Calls) > 0 {
					req.Tools = []planner.ToolDef{{Name: "sysinfo", Schema: json.RawMessage(`{"type":"object"}`)}}
				}
			}
			got := sent(t, req)["messages"]
			if strings.Contains(test.want, `"id_`) {
				got, test.want = hashless(t, got), hashless(t, json.RawMessage(test.want)).(string)
				if got != test.want {
					t.Errorf("messages = %s, want %s", got, test.want)
				}
				return
			}
			compare(t, "messages", got, test.want)
		})
	}
}

// hashless is a value as JSON in which IDs that were made up are all the same.
func hashless(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var again any
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(again); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(raw), `"id_`)
	for i := 1; i < len(parts); i++ {
		_, parts[i], _ = strings.Cut(parts[i], `"`)
	}
	return strings.Join(parts, `"id_"`)
}

func TestThoughtsComeBackAsTheyWere(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{
		{
			Thinking: "Let me see: <what> & \"how\" — ü\u2028.", Text: "I look.", Chunk: 3,
			Calls: []planner.ToolCall{
				{ID: "toolu_1", Name: "sysinfo", Args: json.RawMessage(`{"z": 1, "a": [1.50, "<&>"]}`)},
				{ID: "toolu_2", Name: "sysinfo", Args: json.RawMessage(`{"broken":`)},
			},
		},
		{Text: "done"},
	}}
	m := model(t, modeltest.Anthropic(t, script), nil)
	req := ask("a")
	req.Tools = []planner.ToolDef{{Name: "sysinfo", Schema: json.RawMessage(`{"type":"object"}`)}}
	first := answer(t, m, req)
	first.Calls[0].Args = json.RawMessage(`{"a":[1.50,"<&>"],"z":1}`) // the same, written again
	req.Messages = append(req.Messages,
		planner.Message{Role: planner.Assistant, Text: first.Text, Calls: first.Calls, Opaque: first.Opaque},
		planner.Message{Role: planner.User, Results: []planner.ToolResult{{ID: "toolu_1", Text: "linux"}, {ID: "toolu_2", Text: "no", Failed: true}}})
	answer(t, m, req) // the server checks the signature
	var body struct {
		Messages []struct {
			Content []struct {
				Type  string          `json:"type"`
				Input json.RawMessage `json:"input"`
			} `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(script.Requests()[1].Body, &body); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, block := range body.Messages[1].Content {
		kinds = append(kinds, block.Type)
	}
	if diff := cmp.Diff([]string{"thinking", "redacted_thinking", "text", "tool_use", "tool_use"}, kinds); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	var input, broken map[string]any
	if err := json.Unmarshal(body.Messages[1].Content[3].Input, &input); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body.Messages[1].Content[4].Input, &broken); err != nil {
		t.Fatal(err)
	}
	if input["z"] != 1.0 || broken["invalid"] != `{"broken":` {
		t.Errorf("inputs = %v, %v", input, broken)
	}
}

func TestThoughtsOfWhatWasRedactedStayHere(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{
		{Thinking: "the password is hunter2", Text: "I try it.", Calls: []planner.ToolCall{{ID: "toolu_1", Name: "x", Args: json.RawMessage(`{"password":"hunter2"}`)}}},
		{Text: "done"},
	}}
	m := model(t, modeltest.Anthropic(t, script), nil)
	req := ask("a")
	req.Tools = []planner.ToolDef{{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}}
	first := answer(t, m, req)
	first.Calls[0].Args = json.RawMessage(`{"password":"[redacted:password]"}`)
	req.Messages = append(req.Messages,
		planner.Message{Role: planner.Assistant, Text: first.Text, Calls: first.Calls, Opaque: first.Opaque},
		planner.Message{Role: planner.User, Results: []planner.ToolResult{{ID: "toolu_1", Text: "no"}}})
	answer(t, m, req)
	if body := string(script.Requests()[1].Body); strings.Contains(body, "hunter2") || !strings.Contains(body, "[redacted:password]") {
		t.Errorf("the request is %s", body)
	}
}

func TestAToolThatMayNotBeCalledIsNamedWhereItWas(t *testing.T) {
	body := sent(t, &planner.Request{
		Messages: []planner.Message{
			{Role: planner.User, Text: "a"},
			{Role: planner.Assistant, Calls: []planner.ToolCall{{ID: "1", Name: "sysinfo"}, {ID: "2", Name: "sysinfo"}}},
			{Role: planner.User, Results: []planner.ToolResult{{ID: "1", Text: "x"}, {ID: "2", Text: "x"}}},
		},
		Format: planner.FormatText,
	})
	compare(t, "tools", body["tools"], `[{"name":"sysinfo","input_schema":{"type":"object"}}]`)
	compare(t, "tool_choice", body["tool_choice"], `{"type":"none"}`)
}

func TestATool(t *testing.T) {
	body := sent(t, &planner.Request{
		Messages: []planner.Message{{Role: planner.User, Text: "a"}},
		Tools:    []planner.ToolDef{{Name: "propose", Schema: json.RawMessage(`{"type":"object","properties":{"z":{"type":"string","maxLength":3},"a":{}}}`)}},
		MustCall: true, Format: planner.FormatTool, MaxTokens: 512,
	})
	compare(t, "tools", body["tools"], `[{"name":"propose","input_schema":{"type":"object","properties":{"z":{"type":"string","maxLength":3},"a":{}}}}]`)
	compare(t, "tool_choice", body["tool_choice"], `{"type":"any"}`)
	if body["max_tokens"] != 512.0 || body["output_config"] != nil {
		t.Errorf("the request is %v", body)
	}
}

func TestWhatCannotBeAskedIsNotSent(t *testing.T) {
	script := &modeltest.Script{}
	m := model(t, modeltest.Anthropic(t, script), nil)
	deep := strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat(`}`, 200)
	for name, req := range map[string]*planner.Request{
		"nothing but blanks":         ask(" \n\t"),
		"a schema that is none":      {Messages: ask("a").Messages, Format: planner.FormatSchema, Schema: json.RawMessage(`[]`)},
		"no schema":                  {Messages: ask("a").Messages, Format: planner.FormatSchema},
		"a schema without a bottom":  {Messages: ask("a").Messages, Format: planner.FormatSchema, Schema: json.RawMessage(deep)},
		"a tool's schema is a list":  {Messages: ask("a").Messages, Tools: []planner.ToolDef{{Name: "x", Schema: json.RawMessage(`[]`)}}},
		"a tool without a schema":    {Messages: ask("a").Messages, Tools: []planner.ToolDef{{Name: "x"}}},
		"a member that is no schema": {Messages: ask("a").Messages, Format: planner.FormatSchema, Schema: json.RawMessage(`{"type":"object","properties":{"a":true}}`)},
	} {
		if e := fault(t, m, req); e.Fault != planner.FaultRejected || e.Text == "" || e.Again {
			t.Errorf("%s: %#v, want it rejected", name, e)
		}
	}
	if n := len(script.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
