package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
	"airlock/internal/planner/openai"
)

// events makes the bytes of a stream.
func events(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// delta makes a chunk as servers send it.
func delta(delta, finish string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
}

// asked asks a server that answers with these bytes.
func asked(t *testing.T, contentType, body string) (*planner.Answer, []planner.Delta, *planner.Error) {
	t.Helper()
	script := &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, ContentType: contentType, Body: body}}}
	m := model(t, "ollama", modeltest.OpenAI(t, script), "")
	var told []planner.Delta
	a, err := m.Answer(t.Context(), &planner.Request{Messages: []planner.Message{{Role: planner.User, Text: "go"}}}, func(d planner.Delta) { told = append(told, d) })
	if err == nil {
		return a, told, nil
	}
	e, ok := errors.AsType[*planner.Error](err)
	if !ok {
		t.Fatalf("err = %v, want a *planner.Error", err)
	}
	return nil, told, e
}

func TestDialectsOfAnswers(t *testing.T) {
	end := delta(`{}`, `"stop"`)
	type want struct {
		text  string
		calls string // name(args) name(args)
		stop  planner.Stop
	}
	tests := []struct {
		name, contentType, body string
		want                    want
	}{
		{
			"Ollama sends whole calls, without an index of their own", "text/event-stream",
			events(
				delta(`{"role":"assistant","content":"","tool_calls":[{"id":"call_1","index":0,"type":"function","function":{"name":"sysinfo","arguments":"{}"}}]}`, `null`),
				delta(`{"role":"assistant","content":"","tool_calls":[{"id":"call_2","index":0,"type":"function","function":{"name":"services","arguments":"{\"a\":1}"}}]}`, `null`),
				end, "[DONE]"),
			want{calls: `sysinfo({}) services({"a":1})`, stop: planner.StopTools},
		},
		{
			"deltas without index and ID", "text/event-stream",
			events(
				delta(`{"tool_calls":[{"function":{"name":"sysinfo","arguments":"{\"a\""}}]}`, `null`),
				delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`, `null`),
				delta(`{"tool_calls":[{"function":{"name":"services","arguments":"{}"}}]}`, `null`),
				end),
			want{calls: `sysinfo({"a":1}) services({})`, stop: planner.StopTools},
		},
		{
			"a name that is repeated in each delta", "text/event-stream",
			events(
				delta(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"sysinfo","arguments":"{"}}]}`, `null`),
				delta(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"sysinfo","arguments":"}"}}]}`, `"tool_calls"`),
				"[DONE]"),
			want{calls: `sysinfo({})`, stop: planner.StopTools},
		},
		{
			"arguments that are an object", "application/json",
			`{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"sysinfo","arguments":{"path": "/x"}}}]},"finish_reason":"tool_calls"}]}`,
			want{calls: `sysinfo({"path":"/x"})`, stop: planner.StopTools},
		},
		{
			"two calls with one ID", "application/json",
			`{"choices":[{"message":{"tool_calls":[{"index":0,"id":"0","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"0","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			want{calls: `a({}) b({})`, stop: planner.StopTools},
		},
		{
			"plain JSON to the request of a stream", "application/json",
			`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"whole","tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1},"error":null}`,
			want{text: "whole", stop: planner.StopEnd},
		},
		{
			"a stream of pieces that have error: null", "text/event-stream",
			events(`{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":null}`, `{"error":null,"choices":[{"delta":{},"finish_reason":"stop"}]}`),
			want{text: "a", stop: planner.StopEnd},
		},
		{
			"a content in parts", "text/event-stream",
			events(delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`, `null`), delta(`{"content":[{"type":"text","text":"b"}]}`, `"stop"`)),
			want{text: "ab", stop: planner.StopEnd},
		},
		{
			"comments, spaces and Windows' line ends", "text/event-stream",
			": OPENROUTER PROCESSING\r\n\r\nevent: message\r\ndata:" + delta(`{"content":"a"}`, `null`) + "\r\n\r\n: x\n\ndata: " + end + "\r\n\r\n",
			want{text: "a", stop: planner.StopEnd},
		},
		{"an end without [DONE]", "text/event-stream", events(delta(`{"content":"a"}`, `null`), delta(`{"content":""}`, `"stop"`)), want{text: "a", stop: planner.StopEnd}},
		{"[DONE] without a reason", "text/event-stream", events(delta(`{"content":"a"}`, `null`), "[DONE]"), want{text: "a", stop: planner.StopEnd}},
		{"llama.cpp's older reason", "text/event-stream", events(delta(`{"content":"a"}`, `"eos"`)), want{text: "a", stop: planner.StopEnd}},
		{"a reason for calls, and none", "text/event-stream", events(delta(`{"content":"a"}`, `"tool_calls"`)), want{text: "a", stop: planner.StopEnd}},
		{"a cut", "text/event-stream", events(delta(`{"content":"a"}`, `"length"`)), want{text: "a", stop: planner.StopLength}},
		{"a filter", "text/event-stream", events(delta(`{"content":"a"}`, `"content_filter"`)), want{text: "a", stop: planner.StopRefused}},
		{
			"a refusal", "text/event-stream", events(delta(`{"refusal":"I will "}`, `null`), delta(`{"refusal":"not."}`, `null`), end),
			want{text: "I will not.", stop: planner.StopRefused},
		},
		{
			"thoughts in the text, in pieces", "text/event-stream",
			events(delta(`{"content":"\n<thi"}`, `null`), delta(`{"content":"nk>secret </thi"}`, `null`), delta(`{"content":"s> and </"}`, `null`), delta(`{"content":"think>\n"}`, `null`), delta(`{"content":"\n{\"a\":"}`, `null`), delta(`{"content":"1}"}`, `null`), end),
			want{text: `{"a":1}`, stop: planner.StopEnd},
		},
		{"thoughts whose start the template wrote", "text/event-stream", events(delta(`{"content":"secret</think>\n\nanswer"}`, `"stop"`)), want{text: "answer", stop: planner.StopEnd}},
		{"a mark in JSON is no end of thoughts", "text/event-stream", events(delta(`{"content":"{\"a\":\"</think>\"}"}`, `"stop"`)), want{text: `{"a":"</think>"}`, stop: planner.StopEnd}},
		{"thoughts that never end", "text/event-stream", events(delta(`{"content":"<think>secret"}`, `"length"`)), want{stop: planner.StopLength}},
		{"a text that only begins like thoughts", "text/event-stream", events(delta(`{"content":"<thi"}`, `"stop"`)), want{text: "<thi", stop: planner.StopEnd}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, told, err := asked(t, test.contentType, test.body)
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			ids := map[string]bool{}
			for _, c := range a.Calls {
				calls = append(calls, fmt.Sprintf("%s(%s)", c.Name, c.Args))
				ids[c.ID] = true
			}
			if ids[""] || len(ids) != len(a.Calls) {
				t.Errorf("the calls' IDs are %v", ids)
			}
			if got := (want{a.Text, strings.Join(calls, " "), a.Stop}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			for _, d := range told {
				if strings.Contains(d.Text, "secret") && !strings.Contains(test.name, "template") {
					t.Errorf("a thought was told: %+v", d)
				}
			}
		})
	}
}

func TestThinkingIsToldAndNotKept(t *testing.T) {
	for name, member := range map[string]string{"DeepSeek, vLLM": "reasoning_content", "OpenRouter, Groq": "reasoning"} {
		a, told, err := asked(t, "text/event-stream", events(delta(`{"`+member+`":"hm","content":null}`, `null`), delta(`{"content":"a"}`, `"stop"`)))
		if err != nil || a.Text != "a" || len(told) != 2 || !told[0].Thinking || told[1].Text != "a" {
			t.Errorf("%s: %+v, told %+v, %v", name, a, told, err)
		}
	}
}

func TestFaultsInTheMiddleOfAnAnswer(t *testing.T) {
	begin := delta(`{"content":"a"}`, `null`)
	for _, test := range []struct {
		name, body string
		fault      planner.Fault
		again      bool
		text       string
	}{
		{"OpenAI", events(begin, `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`), planner.FaultServer, true, "The server had an error"},
		{"OpenRouter", events(begin, `{"id":"x","object":"chat.completion.chunk","error":{"code":"server_error","message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`), planner.FaultServer, true, "Provider disconnected"},
		{"OpenRouter, with a number", events(begin, `{"error":{"code":429,"message":"slow"}}`), planner.FaultBusy, true, "slow"},
		{"vLLM", events(begin, `{"object":"error","message":"bad thing","type":"BadRequestError","param":null,"code":400}`), planner.FaultRejected, false, "bad thing"},
		{"an event that is named so", begin + "\n\nevent: error\ndata: {\"message\":\"broken\",\"code\":500}\n\n", planner.FaultServer, true, "broken"},
		{"it ends without an end", events(begin, delta(`{"content":"b"}`, `null`)), planner.FaultCut, true, "middle"},
		{"it is not JSON", events(begin, `{"choices":[`), planner.FaultGarbled, false, ""},
		{"it is something else", events(`{"hello":1}`, "[DONE]"), planner.FaultGarbled, false, "none of the Chat Completions API"},
		{"choices that are none", events(`{"choices":"no"}`), planner.FaultGarbled, false, ""},
		{"too many calls", events(delta(`{"tool_calls":[`+strings.TrimSuffix(strings.Repeat(`{"function":{"name":"a"}},`, 200), ",")+`]}`, `"stop"`)), planner.FaultGarbled, false, "more than 128"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := test.body
			if !strings.HasPrefix(body, "data: ") {
				body = "data: " + body
			}
			a, _, err := asked(t, "text/event-stream", body)
			if err == nil {
				t.Fatalf("there is an answer: %+v", a)
			}
			if err.Fault != test.fault || err.Again != test.again || !strings.Contains(err.Text, test.text) {
				t.Errorf("error = %v (%q, %v), want %q, %v, %q", err, err.Fault, err.Again, test.fault, test.again, test.text)
			}
		})
	}
}

func TestUsageIsReadWhereverItIsTold(t *testing.T) {
	cost := 0.0012
	for name, test := range map[string]struct {
		chunk string
		want  planner.Usage
	}{
		"OpenAI":     {`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, planner.Usage{Input: 10, Cached: 4, Output: 2}},
		"DeepSeek":   {`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":4}}`, planner.Usage{Input: 10, Cached: 4, Output: 2}},
		"OpenRouter": {`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"cost":0.0012,"prompt_tokens_details":null}}`, planner.Usage{Input: 10, Output: 2, Cost: &cost}},
		"Groq":       {`{"choices":[],"x_groq":{"id":"x","usage":{"prompt_tokens":10,"completion_tokens":2}}}`, planner.Usage{Input: 10, Output: 2}},
		"nonsense":   {`{"choices":[],"usage":{"prompt_tokens":"-5","completion_tokens":1e99,"prompt_tokens_details":{"cached_tokens":7}}}`, planner.Usage{}},
	} {
		a, _, err := asked(t, "text/event-stream", events(delta(`{"content":"a"}`, `"stop"`), test.chunk, "[DONE]"))
		if err != nil || !reflect.DeepEqual(a.Usage, test.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, a, err, test.want)
		}
	}
}

// refusing is a server that refuses what refuse says, and answers else.
func refusing(t *testing.T, refuse func(body map[string]any) string) (string, *int) {
	t.Helper()
	n := new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*n++
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if message := refuse(body); message != "" {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, message)
			return
		}
		fmt.Fprint(w, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, n
}

func TestWhatAnEndpointRefusesIsLeftOutAndRemembered(t *testing.T) {
	has := func(name, message string) func(map[string]any) string {
		return func(body map[string]any) string {
			if _, ok := body[name]; ok {
				return message
			}
			return ""
		}
	}
	for _, test := range []struct {
		name, provider string
		refuse         func(map[string]any) string
	}{
		{"the older name of a bound", "openai", has("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")},
		{"the newer name of a bound", "groq", has("max_completion_tokens", "unknown field max_completion_tokens")},
		{"options of a stream", "openai", has("stream_options", "Unrecognized request argument supplied: stream_options")},
		{"a stream", "openai", has("stream", "Your organization must be verified to stream this model.")},
		{
			"two things at once", "openai", func(body map[string]any) string {
				if _, ok := body["stream_options"]; ok {
					return "stream_options: Extra inputs are not permitted"
				}
				return has("max_tokens", "use max_completion_tokens, not max_tokens")(body)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, n := refusing(t, test.refuse)
			m := model(t, test.provider, url, "")
			req := &planner.Request{Messages: []planner.Message{{Role: planner.User, Text: "go"}}, MaxTokens: 100}
			for range 2 {
				if a, err := m.Answer(t.Context(), req, nil); err != nil || a.Text != "ok" {
					t.Fatalf("Answer = %+v, %v", a, err)
				}
			}
			if want := 3 + strings.Count(test.name, "two things"); *n != want {
				t.Errorf("%d requests, want %d: a refusal is not remembered", *n, want)
			}
		})
	}
	t.Run("one that refuses everything is asked a few times", func(t *testing.T) {
		url, n := refusing(t, func(map[string]any) string { return "max_tokens, max_completion_tokens, stream: all bad" })
		m := model(t, "openai", url, "")
		if _, err := m.Answer(t.Context(), &planner.Request{MaxTokens: 5}, nil); err == nil || *n > 4 {
			t.Errorf("err = %v after %d requests", err, *n)
		}
	})
}

func TestWhereRequestsGo(t *testing.T) {
	const host = "https://x.openai.azure.com"
	for _, test := range []struct{ provider, base, version, want string }{
		{"openai", "", "", "https://api.openai.com/v1/chat/completions"},
		{"openai", "http://10.0.0.7:9000", "", "http://10.0.0.7:9000/v1/chat/completions"},
		{"openai", "https://api.example.com/compat/", "", "https://api.example.com/compat/chat/completions"},
		{"openai", "https://api.example.com/v1/chat/completions", "", "https://api.example.com/v1/chat/completions"},
		{"ollama", "", "", "http://127.0.0.1:11434/v1/chat/completions"},
		{"openrouter", "https://openrouter.ai", "", "https://openrouter.ai/api/v1/chat/completions"},
		{"groq", "", "", "https://api.groq.com/openai/v1/chat/completions"},
		{"azure", host, "", host + "/openai/v1/chat/completions"},
		{"azure", host + "/openai/v1/", "", host + "/openai/v1/chat/completions"},
		{"azure", host, "2024-10-21", host + "/openai/deployments/gpt/chat/completions"},
		{"azure", host + "/openai/deployments/mine", "2024-10-21", host + "/openai/deployments/mine/chat/completions"},
	} {
		var shown endpoint.Shown
		m, err := openai.New(&openai.Options{
			Provider: test.provider, Model: "gpt", BaseURL: test.base, APIVersion: test.version, Key: "k",
			HTTP: endpoint.Client(&endpoint.Options{Show: func(s endpoint.Shown) { shown = s }}),
		})
		if err != nil {
			t.Errorf("%v: %v", test, err)
			continue
		}
		_, err = m.Answer(t.Context(), &planner.Request{Messages: []planner.Message{{Role: planner.User, Text: "go"}}}, nil)
		if !errors.Is(err, endpoint.ErrShown) || shown.URL != test.want || m.Info().Endpoint != test.want {
			t.Errorf("%v: goes to %q (Info: %q), %v", test, shown.URL, m.Info().Endpoint, err)
		}
	}
}

func TestOptionsThatCannotBeMeant(t *testing.T) {
	for name, opts := range map[string]*openai.Options{
		"none":                   nil,
		"no model":               {Provider: "openai", Key: "k"},
		"no key":                 {Provider: "openai", Model: "m"},
		"a key with a line end":  {Provider: "openai", Model: "m", Key: "hunter22\n"},
		"a key in the URL":       {Provider: "openai", Model: "m", Key: "k", BaseURL: "https://user:hunter22@x.example/"},
		"a key in the query":     {Provider: "openai", Model: "m", Key: "k", BaseURL: "https://x.example/?key=hunter22"},
		"no URL":                 {Provider: "openai", Model: "m", Key: "k", BaseURL: "https://hunter22\x7f/"},
		"a file":                 {Provider: "openai", Model: "m", Key: "k", BaseURL: "file:///etc/passwd"},
		"a deployment elsewhere": {Provider: "azure", Model: "../x", Key: "k", BaseURL: "https://x.example", APIVersion: "1"},
		"no address of its own":  {Provider: "azure", Model: "m", Key: "k"},
	} {
		if m, err := openai.New(opts); err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: New = %v, %v", name, m, err)
		}
	}
}

func TestTheEnvironmentIsNotAsked(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/evil")
	t.Setenv("OPENAI_API_KEY", "from-the-environment")
	t.Setenv("OPENAI_ORG_ID", "org-environment")
	t.Setenv("OPENAI_PROJECT_ID", "proj-environment")
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "ok"}}}
	client := endpoint.Client(nil)
	t.Cleanup(client.CloseIdleConnections)
	m, err := openai.New(&openai.Options{Provider: "ollama", Model: "m", BaseURL: modeltest.OpenAI(t, script), NoKey: true, HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Answer(t.Context(), &planner.Request{Messages: []planner.Message{{Role: planner.User, Text: "go"}}}, nil); err != nil {
		t.Fatal(err)
	}
	for name, values := range script.Requests()[0].Header {
		if strings.Contains(strings.Join(values, " "), "environment") || name == "Authorization" || strings.HasPrefix(name, "X-Stainless") {
			t.Errorf("the header %s: %q was sent", name, values)
		}
	}
}
