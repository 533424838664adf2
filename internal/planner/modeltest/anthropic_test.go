package modeltest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

// An anthropicWitness is a test that notes what a server says of it, and does not fail.
type anthropicWitness struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (w *anthropicWitness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func (w *anthropicWitness) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, "\n")
}

// anthropicKey is one that no account has.
const anthropicKey = "sk-ant-api03-nobody"

// An anthropicReply is what came back, and how reading it ended.
type anthropicReply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// postAnthropic sends a request to a Messages API, with a header that edit may change.
func postAnthropic(t *testing.T, url, body string, edit func(http.Header)) anthropicReply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {anthropicKey}}
	if edit != nil {
		edit(req.Header)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return anthropicReply{res.StatusCode, res.Header, raw, err}
}

func TestAnthropicRefusesWhatTheAPIWould(t *testing.T) {
	const good = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`
	with := func(more string) string { return strings.TrimSuffix(good, "}") + "," + more + "}" }
	said := func(messages string) string {
		return `{"model":"m","max_tokens":9,"tools":[{"name":"x","input_schema":{"type":"object"}}],"messages":` + messages + `}`
	}
	const (
		a      = `{"role":"user","content":"a"}`
		call   = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"x","input":{}}]}`
		result = `{"type":"tool_result","tool_use_id":"1","content":"r"}`
	)
	schema := func(s string) string {
		return with(`"output_config":{"format":{"type":"json_schema","schema":` + s + `}}`)
	}
	for _, test := range []struct {
		name, body, path string
		edit             func(http.Header)
		why              string // "": it is taken
		status           int
	}{
		{name: "the plainest is taken", body: good},
		{name: "all that a text with tools needs is taken", body: `{"model":"m","max_tokens":9,"temperature":0.5,"stop_sequences":["x"],"metadata":{},"thinking":{"type":"adaptive"},
			"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"5m"}}],"tool_choice":{"type":"tool","name":"x"},
			"tools":[{"type":"custom","name":"x","description":"d","strict":true,"input_schema":{"type":"object"}}],
			"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}}},
			"messages":[` + a + `,` + call + `,{"role":"user","content":[` + result + `,{"type":"text","text":"b"}]}]}`},
		{name: "another version", body: good, edit: func(h http.Header) { h.Del("Anthropic-Version") }, why: "anthropic-version"},
		{name: "no key", body: good, edit: func(h http.Header) { h.Del("X-Api-Key") }, why: "x-api-key", status: 401},
		{name: "a token beside the key", body: good, edit: func(h http.Header) { h.Set("Authorization", "Bearer x") }, why: "authorization", status: 401},
		{name: "the key in another header", body: good, edit: func(h http.Header) { h.Set("X-Other", "a "+anthropicKey) }, why: "X-Other"},
		{name: "the key in the URL", body: good, path: "/v1/messages?key=" + anthropicKey, why: "in the URL"},
		{name: "the key in the body", body: with(`"system":"` + anthropicKey + `"`), why: "in the body"},
		{name: "no JSON", body: good, edit: func(h http.Header) { h.Set("Content-Type", "text/plain") }, why: "content-type"},
		{name: "another path", body: good, path: "/v1/v1/messages", why: "Not Found", status: 404},
		{name: "no path", body: good, path: "/", why: "Not Found", status: 404},
		{name: "an unknown member", body: with(`"response_format":{}`), why: "response_format"},
		{name: "two values", body: good + "{}", why: "behind"},
		{name: "half a value", body: good[:20], why: "body"},
		{name: "no model", body: strings.Replace(good, `"m"`, `""`, 1), why: "model"},
		{name: "no bound", body: strings.Replace(good, `"max_tokens":9,`, ``, 1), why: "max_tokens"},
		{name: "no messages", body: `{"model":"m","max_tokens":9,"messages":[]}`, why: "messages"},
		{name: "an empty text", body: said(`[{"role":"user","content":[{"type":"text","text":""}]}]`), why: "non-whitespace"},
		{name: "a blank text", body: said(`[{"role":"user","content":" \n"}]`), why: "non-whitespace"},
		{name: "no content", body: said(`[{"role":"user","content":[]}]`), why: "content"},
		{name: "an empty system prompt", body: with(`"system":[{"type":"text","text":""}]`), why: "non-whitespace"},
		{name: "a picture as a system prompt", body: with(`"system":[{"type":"tool_result","tool_use_id":"1"}]`), why: "system.0"},
		{name: "a cache of another kind", body: with(`"system":[{"type":"text","text":"s","cache_control":{"type":"eternal"}}]`), why: "ephemeral"},
		{name: "an unknown member of a block", body: said(`[{"role":"user","content":[{"type":"text","text":"a","shade":1}]}]`), why: "text.shade"},
		{name: "an unknown block", body: said(`[{"role":"user","content":[{"type":"hologram"}]}]`), why: "hologram"},
		{name: "roles that do not alternate", body: said(`[` + a + `,` + a + `]`), why: "alternate"},
		{name: "the assistant begins", body: said(`[{"role":"assistant","content":"a"},` + a + `]`), why: "alternate"},
		{name: "the assistant is last", body: said(`[` + a + `,{"role":"assistant","content":"b"}]`), why: "prefill"},
		{name: "a system message among the messages", body: said(`[{"role":"system","content":"a"}]`), why: "alternate"},
		{name: "a call without its result", body: said(`[` + a + `,` + call + `,` + a + `]`), why: "without `tool_result`"},
		{name: "a result without its call", body: said(`[{"role":"user","content":[` + result + `]}]`), why: "unexpected `tool_use_id`"},
		{name: "two results of one call", body: said(`[` + a + `,` + call + `,{"role":"user","content":[` + result + `,` + result + `]}]`), why: "unexpected `tool_use_id`"},
		{name: "a result behind a text", body: said(`[` + a + `,` + call + `,{"role":"user","content":[{"type":"text","text":"b"},` + result + `]}]`), why: "come first"},
		{name: "an empty result of a failure", body: said(`[` + a + `,` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true}]}]`), why: "is_error"},
		{name: "an empty text in a result", body: said(`[` + a + `,` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":""}]}]`), why: "non-whitespace"},
		{name: "the same ID twice", body: said(`[` + a + `,` + call + `,{"role":"user","content":[` + result + `]},` + call + `,{"role":"user","content":[` + result + `]}]`), why: "unique"},
		{name: "an ID that is no word", body: said(`[` + a + `,` + strings.Replace(call, `"1"`, `"f.1"`, 1) + `,` + a + `]`), why: "tool_use.id"},
		{name: "a name that is no word", body: said(`[` + a + `,` + strings.Replace(call, `"x"`, `"f.x"`, 1) + `,` + a + `]`), why: "tool_use.name"},
		{name: "arguments that are no object", body: said(`[` + a + `,` + strings.Replace(call, `{}`, `"{}"`, 1) + `,` + a + `]`), why: "input"},
		{name: "a call of the user's", body: said(`[{"role":"user","content":[{"type":"tool_use","id":"1","name":"x","input":{}}]}]`), why: "user messages"},
		{name: "thoughts without their signature", body: said(`[` + a + `,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"b"}]},` + a + `]`), why: "signature"},
		{name: "redacted thoughts of others", body: said(`[` + a + `,{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"b"}]},` + a + `]`), why: "redacted_thinking"},
		{name: "thoughts at the end", body: said(`[` + a + `,{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"redacted_thinking","data":"redacted.x"}]},` + a + `]`), why: "final block"},
		{name: "calls, but no tools", body: strings.Replace(said(`[`+a+`,`+call+`,{"role":"user","content":[`+result+`]}]`), `"tools":[{"name":"x","input_schema":{"type":"object"}}],`, ``, 1), why: "must define tools"},
		{name: "a tool whose name is no word", body: with(`"tools":[{"name":"f.x","input_schema":{"type":"object"}}]`), why: "name"},
		{name: "two tools of a name", body: with(`"tools":[{"name":"x","input_schema":{"type":"object"}},{"name":"x","input_schema":{"type":"object"}}]`), why: "unique"},
		{name: "a tool without a schema", body: with(`"tools":[{"name":"x"}]`), why: "input_schema"},
		{name: "a choice without tools", body: with(`"tool_choice":{"type":"any"}`), why: "tool_choice"},
		{name: "an unknown choice", body: with(`"tools":[{"name":"x","input_schema":{"type":"object"}}],"tool_choice":{"type":"required"}`), why: "required"},
		{name: "the choice of a tool that is not there", body: with(`"tools":[{"name":"x","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"y"}`), why: "not found"},
		{name: "an open object", body: schema(`{"type":"object"}`), why: "additionalProperties"},
		{name: "an open object within", body: schema(`{"type":"array","items":{"anyOf":[{"type":"object"}]}}`), why: "additionalProperties"},
		{name: "a keyword that is not taken", body: schema(`{"$defs":{"x":{"type":"string","maxLength":3}}}`), why: "maxLength"},
		{name: "too many items", body: schema(`{"type":"array","minItems":2}`), why: "minItems"},
		{name: "a schema that is none", body: schema(`[]`), why: "dictionary"},
		{name: "a format of another API", body: with(`"output_config":{"format":{"type":"json_object"}}`), why: "json_schema"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &anthropicWitness{TB: t}
			url := modeltest.Anthropic(w, &modeltest.Script{Turns: []modeltest.Turn{{Text: "ok"}}})
			if test.path == "" {
				test.path = "/v1/messages"
			}
			res := postAnthropic(t, url+test.path, test.body, test.edit)
			if test.why == "" {
				if w.all() != "" || res.status != http.StatusOK {
					t.Errorf("it is refused: %d, %s", res.status, w.all())
				}
				return
			}
			want := http.StatusBadRequest
			if test.status != 0 {
				want = test.status
			}
			var body struct {
				Type  string `json:"type"`
				Error struct {
					Type, Message string
				} `json:"error"`
			}
			if err := json.Unmarshal(res.body, &body); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(w.all(), test.why) || res.status != want || body.Type != "error" || body.Error.Type == "" || !strings.Contains(body.Error.Message, test.why) {
				t.Errorf("the server said %d, %+v, and of the test %q; want %q", res.status, body, w.all(), test.why)
			}
		})
	}
}

// anthropicTurn is one with everything in it.
func anthropicTurn() modeltest.Turn {
	return modeltest.Turn{
		Thinking: "hm", Text: "höre", Chunk: 2,
		Calls: []planner.ToolCall{{ID: "toolu_1", Name: "x", Args: json.RawMessage(`{"a":"<"}`)}},
		Usage: planner.Usage{Input: 13, Cached: 10, Output: 5},
	}
}

const (
	anthropicAsk    = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}`
	anthropicStream = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`
)

func TestAnthropicStreamsTheAPIsEvents(t *testing.T) {
	url := modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{anthropicTurn()}})
	res := postAnthropic(t, url+"/v1/messages", anthropicStream, nil)
	if res.err != nil {
		t.Fatal(res.err)
	}
	if got := res.header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type = %q", got)
	}
	const signature = "XQk3xq8o"
	var got []string
	for event := range strings.SplitSeq(strings.TrimSuffix(string(res.body), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		var v struct {
			Type string `json:"type"`
		}
		if !ok || json.Unmarshal([]byte(data), &v) != nil || name != "event: "+v.Type {
			t.Fatalf("the event %q is none", event)
		}
		if strings.Contains(data, "signature_delta") || strings.Contains(data, `"redacted_thinking"`) {
			data = signature // what it is does not matter: it is checked when it comes back
		}
		got = append(got, data)
	}
	want := []string{
		`{"message":{"container":null,"content":[],"id":"msg_01XFDUDYJgAACzvnptvVoYEL","model":"m","role":"assistant","stop_details":null,"stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":1,"cache_read_input_tokens":10,"input_tokens":2,"output_tokens":1}},"type":"message_start"}`,
		`{"content_block":{"signature":"","thinking":"","type":"thinking"},"index":0,"type":"content_block_start"}`,
		`{"type":"ping"}`,
		`{"delta":{"thinking":"hm","type":"thinking_delta"},"index":0,"type":"content_block_delta"}`,
		signature,
		`{"index":0,"type":"content_block_stop"}`,
		signature,
		`{"index":1,"type":"content_block_stop"}`,
		`{"content_block":{"text":"","type":"text"},"index":2,"type":"content_block_start"}`,
		`{"delta":{"text":"hö","type":"text_delta"},"index":2,"type":"content_block_delta"}`,
		`{"delta":{"text":"re","type":"text_delta"},"index":2,"type":"content_block_delta"}`,
		`{"index":2,"type":"content_block_stop"}`,
		`{"content_block":{"caller":{"type":"direct"},"id":"toolu_1","input":{},"name":"x","type":"tool_use"},"index":3,"type":"content_block_start"}`,
		`{"delta":{"partial_json":"{\"","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"delta":{"partial_json":"a\"","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"delta":{"partial_json":":\"","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"delta":{"partial_json":"<\"","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"delta":{"partial_json":"}","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"index":3,"type":"content_block_stop"}`,
		`{"delta":{"stop_details":null,"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":1,"cache_read_input_tokens":10,"input_tokens":2,"output_tokens":5}}`,
		`{"type":"message_stop"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAnthropicAnswersInOnePiece(t *testing.T) {
	url := modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{anthropicTurn()}})
	var message struct {
		Content []struct {
			Type, Text, Thinking, Signature, Data, ID string
			Input                                     json.RawMessage
		}
		StopReason string           `json:"stop_reason"`
		Usage      map[string]int64 `json:"usage"`
	}
	if err := json.Unmarshal(postAnthropic(t, url+"/v1/messages", anthropicAsk, nil).body, &message); err != nil {
		t.Fatal(err)
	}
	c := message.Content
	if len(c) != 4 || c[0].Thinking != "hm" || c[0].Signature == "" || c[1].Data == "" || c[2].Text != "höre" || string(c[3].Input) != `{"a":"<"}` || message.StopReason != "tool_use" {
		t.Errorf("the message is %+v", message)
	}
	if diff := cmp.Diff(map[string]int64{"cache_creation_input_tokens": 1, "cache_read_input_tokens": 10, "input_tokens": 2, "output_tokens": 5}, message.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestAnthropicsFaults(t *testing.T) {
	const part = "content_block_delta"
	for _, test := range []struct {
		name   string
		turn   modeltest.Turn
		body   string
		pieces int // events with a piece of the answer; -1: it is not looked at
		cut    bool
	}{
		{name: "a stream is cut", turn: modeltest.Turn{Text: "0123456789", Chunk: 2, CutAfter: 3}, body: anthropicStream, pieces: 3, cut: true},
		{name: "a stream is cut behind all of it", turn: modeltest.Turn{Text: "0123", Chunk: 2, CutAfter: 30}, body: anthropicStream, pieces: 2, cut: true},
		{name: "a value is cut", turn: modeltest.Turn{Text: "0123456789", CutAfter: 3}, body: anthropicAsk, cut: true},
		{name: "a flood", turn: modeltest.Turn{Flood: 150_000}, body: anthropicStream, pieces: 3},
		{name: "a flood in one piece", turn: modeltest.Turn{Flood: 150_000}, body: anthropicAsk},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{test.turn}})
			res := postAnthropic(t, url+"/v1/messages", test.body, nil)
			if (res.err != nil) != test.cut || test.cut && !errors.Is(res.err, io.ErrUnexpectedEOF) {
				t.Errorf("reading: err = %v, want it cut: %v", res.err, test.cut)
			}
			text := string(res.body)
			if got := strings.Count(text, "event: "+part); got != test.pieces {
				t.Errorf("%d pieces came, want %d", got, test.pieces)
			}
			if test.turn.Flood > 0 && len(text) < int(test.turn.Flood) {
				t.Errorf("%d bytes came", len(text))
			}
			if ended := strings.Contains(text, "message_stop"); ended != (!test.cut && test.body == anthropicStream) {
				t.Errorf("the end has come: %v", ended)
			}
		})
	}
}

func TestAnthropicIsSilentUntilTheClientGoes(t *testing.T) {
	for name, turn := range map[string]modeltest.Turn{"silent": {Silent: true}, "before the first byte": {Wait: time.Hour}} {
		url := modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{turn}})
		client := &http.Client{Timeout: 50 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(anthropicAsk))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {anthropicKey}}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s: it answered %d", name, res.StatusCode)
		}
	}
}

func TestAnthropicSendsWhatItIsTold(t *testing.T) {
	for _, turn := range []modeltest.Turn{
		{Status: 529, Body: `{"type":"error"}`, Header: http.Header{"Retry-After": {"3"}}},
		{Raw: true, Body: "<html>", ContentType: "text/html", Header: http.Header{"Retry-After": {"3"}}},
	} {
		url := modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{turn}})
		res := postAnthropic(t, url+"/v1/messages", anthropicStream, nil)
		if res.err != nil || string(res.body) != turn.Body || res.header.Get("Retry-After") != "3" || turn.Status != 0 && res.status != turn.Status {
			t.Errorf("it sent %d %v %q, %v; want %+v", res.status, res.header, res.body, res.err, turn)
		}
		if want := turn.ContentType; want != "" && res.header.Get("Content-Type") != want {
			t.Errorf("Content-Type = %q, want %q", res.header.Get("Content-Type"), want)
		}
	}
}
