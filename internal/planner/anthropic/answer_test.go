package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
)

// events is a stream of events: each is its data, whose type is its name.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var event struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(d), &event) != nil || event.Type == "" {
			b.WriteString(d) // as it is
			continue
		}
		b.WriteString("event: " + event.Type + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

// Parts of streams.
const (
	start     = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5-20260901","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":1,"service_tier":"standard"}}}`
	textStart = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	textHello = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`
	textStop  = `{"type":"content_block_stop","index":0}`
	end       = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}`
	stop      = `{"type":"message_stop"}`
)

// ended is the end of a stream for a reason.
func ended(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":` + reason + `,"stop_sequence":null},"usage":{"output_tokens":7}}`
}

// raw makes a model whose endpoint answers with body, byte for byte.
func raw(t *testing.T, body string) planner.Model {
	t.Helper()
	return model(t, modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, Body: body}}}), nil)
}

func TestStreams(t *testing.T) {
	usage := planner.Usage{Input: 3210, Cached: 3000, Output: 7}
	const id = "claude-sonnet-5-5-20260901"
	for _, test := range []struct {
		name, body string
		want       planner.Answer
	}{
		{
			"the plainest", events(start, textStart, textHello, textStop, end, stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"unknown events, blocks, deltas and members are ignored",
			events(start, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","text":"no"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"no"}}`, textStop,
				`{"type":"weather","sun":true}`, ": a comment\n\n", "id: 5\nretry: 10\n\n", `{"type":"ping"}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"well: ","shade":"green","citations":null}}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"smell_delta","text":"no"}}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hello"}}`,
				`{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"no"}}`,
				`{"type":"content_block_stop","index":1}`, end, stop),
			planner.Answer{Text: "well: hello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"another beginning is ignored",
			events(start, textStart, textHello, strings.ReplaceAll(start, "claude", "other"), textHello, textStop, end, stop),
			planner.Answer{Text: "hellohello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"lines may end as they do on Windows",
			strings.ReplaceAll(events(start, textStart, textHello, textStop, end, stop), "\n", "\r\n"),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"blocks may come entangled",
			events(start, textStart, `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"sysinfo","input":{}}}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, textHello,
				`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
				textStop, `{"type":"content_block_stop","index":1}`, ended(`"tool_use"`), stop),
			planner.Answer{
				Text: "hello", Calls: []planner.ToolCall{{ID: "toolu_1", Name: "sysinfo", Args: json.RawMessage(`{"a":1}`)}},
				Stop: planner.StopTools, Usage: usage, Model: id,
			},
		},
		{
			"arguments may stand in the beginning of their block, or nowhere",
			events(start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"x","input":{"a":1}}}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"2","name":"y","input":{ }}}`,
				`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"3","name":"z"}}`,
				ended(`"end_turn"`), stop),
			planner.Answer{
				Calls: []planner.ToolCall{{ID: "1", Name: "x", Args: json.RawMessage(`{"a":1}`)}, {ID: "2", Name: "y"}, {ID: "3", Name: "z"}},
				Stop:  planner.StopTools, Usage: usage, Model: id,
			},
		},
		{
			"usage at the end wins",
			events(start, textStart, textHello, textStop,
				`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"x"},"usage":{"input_tokens":11,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":9}}`, stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: planner.Usage{Input: 15, Cached: 4, Output: 9}, Model: id},
		},
		{
			"usage that cannot be is bounded",
			events(start, textStart, textHello, textStop,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9223372036854775807,"cache_read_input_tokens":9223372036854775807,"cache_creation_input_tokens":0,"output_tokens":-5}}`, stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: planner.Usage{Input: 2 << 40, Cached: 1 << 40}, Model: id},
		},
		{
			"the answer is cut off at its bound", events(start, textStart, textHello, textStop, ended(`"max_tokens"`), stop),
			planner.Answer{Text: "hello", Stop: planner.StopLength, Usage: usage, Model: id},
		},
		{
			"the window is full in the middle of the answer", events(start, textStart, textHello, textStop, ended(`"model_context_window_exceeded"`), stop),
			planner.Answer{Text: "hello", Stop: planner.StopLength, Usage: usage, Model: id},
		},
		{
			"it refuses in the middle", events(start, textStart, textHello, textStop, ended(`"refusal"`), stop),
			planner.Answer{Text: "hello", Stop: planner.StopRefused, Usage: usage, Model: id},
		},
		{
			"it refuses, and says why",
			events(start, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"cyber","explanation":"Not this."}},"usage":{"output_tokens":7}}`, stop),
			planner.Answer{Text: "Not this.", Stop: planner.StopRefused, Usage: usage, Model: id},
		},
		{
			"it pauses", events(start, textStart, textHello, textStop, ended(`"pause_turn"`), stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"it wants a tool, but calls none", events(start, textStart, textHello, textStop, ended(`"tool_use"`), stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"it stops for a reason that nobody knows", events(start, textStart, textHello, textStop, ended(`"boredom"`), stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"it stops without a reason", events(start, textStart, textHello, textStop, stop),
			planner.Answer{Text: "hello", Stop: planner.StopEnd, Usage: planner.Usage{Input: 3210, Cached: 3000, Output: 1}, Model: id},
		},
		{
			"it says nothing at all", events(start, end, stop),
			planner.Answer{Stop: planner.StopEnd, Usage: usage, Model: id},
		},
		{
			"one JSON value in place of a stream",
			`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5-20260901","content":[{"type":"hologram"},{"type":"text","text":"hello"},{"type":"tool_use","id":"toolu_1","name":"sysinfo","input":{"a": 1}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":7}}`,
			planner.Answer{
				Text: "hello", Calls: []planner.ToolCall{{ID: "toolu_1", Name: "sysinfo", Args: json.RawMessage(`{"a": 1}`)}},
				Stop: planner.StopTools, Usage: usage, Model: id,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var text strings.Builder
			args := map[string]string{}
			got, err := raw(t, test.body).Answer(t.Context(), ask("a"), func(d planner.Delta) {
				text.WriteString(d.Text)
				args[d.Tool] += d.Args
			})
			if err != nil {
				t.Fatalf("Answer: %v", err)
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("Answer (-want +got):\n%s", diff)
			}
			if test.want.Stop != planner.StopRefused && text.String() != test.want.Text {
				t.Errorf("it came as %q, want %q", &text, test.want.Text)
			}
			for _, call := range test.want.Calls {
				if args[call.Name] != string(call.Args) {
					t.Errorf("the arguments of %s came as %q, want %q", call.Name, args[call.Name], call.Args)
				}
			}
		})
	}
}

func TestCallsWithoutIDsOfTheirOwnGetSome(t *testing.T) {
	block := `{"type":"tool_use","id":"","name":"x","input":{}},{"type":"tool_use","id":"a","name":"x","input":{}},{"type":"tool_use","id":"a","name":"x","input":{}}`
	a, err := raw(t, `{"type":"message","role":"assistant","model":"m","content":[`+block+`],"stop_reason":"tool_use"}`).Answer(t.Context(), ask("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, call := range a.Calls {
		ids[call.ID] = true
	}
	if len(ids) != 3 || ids[""] || !ids["a"] {
		t.Errorf("IDs = %v, want three", ids)
	}
}

func TestFaultsInAStream(t *testing.T) {
	reported := func(kind, message string) string {
		return events(start, textStart, textHello, `{"type":"error","error":{"type":"`+kind+`","message":"`+message+`"},"request_id":"req_1"}`)
	}
	for _, test := range []struct {
		name, body string
		fault      planner.Fault
		again      bool
		text       string
	}{
		{"it is overloaded", reported("overloaded_error", "Overloaded"), planner.FaultBusy, true, "Overloaded"},
		{"there are too many requests", reported("rate_limit_error", "slow down"), planner.FaultBusy, true, "slow down"},
		{"it failed", reported("api_error", "Internal server error"), planner.FaultServer, true, "Internal server error"},
		{"it took too long", reported("timeout_error", "took too long"), planner.FaultServer, true, "took too long"},
		{"the key was withdrawn", reported("authentication_error", "invalid x-api-key"), planner.FaultKey, false, "invalid x-api-key"},
		{"the key has no right", reported("permission_error", "not yours"), planner.FaultKey, false, "not yours"},
		{"the model is gone", reported("not_found_error", "model: gone"), planner.FaultNotFound, false, "model: gone"},
		{"the request is invalid", reported("invalid_request_error", "no"), planner.FaultRejected, false, "no"},
		{"the request is too large", reported("request_too_large", "too much"), planner.FaultTooLong, false, "too much"},
		{"the account has no money", reported("billing_error", "Your credit balance is too low"), planner.FaultBusy, false, "credit balance"},
		{"an error under another name", events(start) + "event: message_delta\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", planner.FaultBusy, true, "Overloaded"},
		{"an error at once", events(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), planner.FaultBusy, true, "Overloaded"},
		{"the stream ends without an end", events(start, textStart, textHello, textStop), planner.FaultCut, true, "middle"},
		{"the stream ends before its last line does", strings.TrimSuffix(events(start, textStart, textHello, textStop, end, stop), "\n\n"), planner.FaultCut, true, "middle"},
		{"another API's stream", "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\ndata: [DONE]\n\n", planner.FaultGarbled, false, "Messages API"},
		{"an end without a beginning", events(textStart, textHello, end, stop), planner.FaultGarbled, false, "Messages API"},
		{"an event that is no JSON", events(start) + "event: content_block_delta\ndata: {\"type\":\n\n", planner.FaultGarbled, false, "JSON"},
		{"no room for an answer", events(start, ended(`"model_context_window_exceeded"`), stop), planner.FaultTooLong, false, "room"},
		{"a web page", "<!doctype html><title>Sign in</title>", planner.FaultGarbled, false, "Sign in"},
		{"JSON of another kind", `{"choices":[]}`, planner.FaultGarbled, false, "Messages API"},
		{"JSON that is no object", `[1,2]`, planner.FaultGarbled, false, ""},
		{"an error with a good status", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, planner.FaultBusy, true, "Overloaded"},
		{"nothing", "", planner.FaultGarbled, false, "empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := raw(t, test.body).Answer(t.Context(), ask("a"), nil)
			var e *planner.Error
			if !errors.As(err, &e) {
				t.Fatalf("Answer = %+v, %v, want a *planner.Error", a, err)
			}
			if e.Fault != test.fault || e.Again != test.again || !strings.Contains(e.Text, test.text) {
				t.Errorf("the error is %q, again %v, %q; want %q, %v, %q", e.Fault, e.Again, e.Text, test.fault, test.again, test.text)
			}
		})
	}
}

func TestWhatAModelLacksIsNamed(t *testing.T) {
	const invalid = `{"type":"error","error":{"type":"invalid_request_error","message":%q},"request_id":"req_1"}`
	for _, test := range []struct {
		message string
		feature planner.Feature
	}{
		{"output_config: Extra inputs are not permitted", planner.FeatureSchema},
		{"output_config.format: Extra inputs are not permitted", planner.FeatureSchema},
		{"output_config.format.schema: Invalid schema: The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas or reduce the number of strict tools.", planner.FeatureSchema},
		{"output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported", planner.FeatureSchema},
		{"'claude-3-haiku-20240307' does not support output format.", planner.FeatureSchema},
		{"This model does not support structured outputs.", planner.FeatureSchema},
		{"Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas.", planner.FeatureSchema},
		{"Schemas contains too many parameters with union types (18 parameters with type arrays or anyOf). Reduce the number of nullable or union-typed parameters (limit: 16 parameters with unions).", planner.FeatureSchema},
		{"Schemas contains too many optional parameters (30), which would make grammar compilation inefficient. Reduce the number of optional parameters in your tool schemas (limit: 24).", planner.FeatureSchema},
		{"tool_choice: forced tool use is not compatible with this model.", planner.FeatureChoice},
		{"Thinking may not be enabled when tool_choice forces tool use.", planner.FeatureChoice},
	} {
		body := strings.Replace(invalid, "%q", string(quoted(t, test.message)), 1)
		m := model(t, modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{{Status: http.StatusBadRequest, Body: body}}}), nil)
		req := ask("a")
		req.Format, req.Schema = planner.FormatSchema, json.RawMessage(`{"type":"object"}`)
		if e := fault(t, m, req); e.Fault != planner.FaultUnsupported || e.Feature != test.feature {
			t.Errorf("%s: %q, %q; want %q", test.message, e.Fault, e.Feature, test.feature)
		}
	}
}

func quoted(t *testing.T, s string) []byte {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAHostileEndpointIsBounded(t *testing.T) {
	for _, test := range []struct {
		name  string
		turn  modeltest.Turn
		fault planner.Fault
	}{
		{"it never answers", modeltest.Turn{Silent: true}, planner.FaultTimeout},
		{"it stops in the middle", modeltest.Turn{Text: strings.Repeat("x", 100), Stall: true}, planner.FaultTimeout},
		{"it never ends", modeltest.Turn{Flood: 1 << 30}, planner.FaultTooBig},
		{"it never ends in one event", modeltest.Turn{Raw: true, Body: "event: message_start\ndata: " + strings.Repeat("x", 5<<20)}, planner.FaultTooBig},
		{"it takes its time between two pieces", modeltest.Turn{Text: "hello", Chunk: 1, Pause: time.Hour}, planner.FaultTimeout},
		{"it hangs up", modeltest.Turn{Text: strings.Repeat("x", 100), CutAfter: 2}, planner.FaultCut},
	} {
		t.Run(test.name, func(t *testing.T) {
			begin := time.Now()
			var opts *endpoint.Options
			if test.fault == planner.FaultTimeout { // a busy machine keeps others waiting, too
				opts = &endpoint.Options{FirstByte: 200 * time.Millisecond, Idle: 200 * time.Millisecond}
			}
			m := model(t, modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{test.turn}}), opts)
			if e := fault(t, m, ask("a")); e.Fault != test.fault {
				t.Errorf("the error is %v, want %q", e, test.fault)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestManySmallPiecesCostNoMoreThanTheirBytes(t *testing.T) {
	for name, one := range map[string]string{
		"of a text": events(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"0123456789abcdef"}}`),
		"calls":     events(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"1"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString(events(start, textStart))
			n := 0
			for b.Len() < 4<<20-10_000 {
				b.WriteString(one)
				n++
			}
			b.WriteString(events(textStop, end, stop))
			begin := time.Now()
			a, err := raw(t, b.String()).Answer(t.Context(), ask("a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Text) != 16*n && len(a.Calls) != n {
				t.Errorf("%d bytes and %d calls came of %d pieces", len(a.Text), len(a.Calls), n)
			}
			took := time.Since(begin)
			t.Logf("%d pieces took %s", n, took)
			if took > time.Minute {
				t.Errorf("%d pieces took %s", n, took)
			}
		})
	}
}

func TestCancelledInTheMiddle(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: strings.Repeat("x", 1000), Stall: true}}}
	m := model(t, modeltest.Anthropic(t, script), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var over bool
	_, err := m.Answer(ctx, ask("a"), func(d planner.Delta) {
		if over {
			t.Error("something came after the end")
		}
		if d.Text != "" {
			cancel()
		}
	})
	over = true
	var e *planner.Error
	if !errors.As(err, &e) || e.Fault != planner.FaultCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("Answer: err = %v, want it canceled", err)
	}
}

func TestTheKeyIsInNoError(t *testing.T) {
	echo := `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key: ` + key + `"}}`
	for name, turn := range map[string]modeltest.Turn{
		"refused":             {Status: http.StatusUnauthorized, Body: echo},
		"refused as a page":   {Status: http.StatusForbidden, Body: "<html><title>" + key + "</title>", ContentType: "text/html"},
		"in the stream":       {Raw: true, Body: events(start, echo)},
		"in the stream, bare": {Raw: true, Body: events(start) + "event: error\ndata: your key is " + key + "\n\n"},
		"as garbage":          {Raw: true, Body: events(start) + "event: message_delta\ndata: " + key + "\n\n"},
		"in a redirect":       {Status: http.StatusFound, Header: http.Header{"Location": {"https://example.com/?key=" + key}}},
		"in the JSON":         {Raw: true, Body: echo, ContentType: "application/json"},
		"as a text":           {Raw: true, Body: key, ContentType: "text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(t, modeltest.Anthropic(t, &modeltest.Script{Turns: []modeltest.Turn{turn}}), nil)
			e := fault(t, m, ask("a")) // looks for it
			if e.Err != nil && strings.Contains(e.Err.Error(), key) {
				t.Errorf("the key is in the cause %q", e.Err)
			}
		})
	}
}
