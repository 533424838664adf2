package anthropic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/anthropic"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
)

// A wire answers every request with a body, once it has been found to be one that the API
// takes. Signatures are another's to judge.
type wire struct {
	t    testing.TB
	body []byte
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	if err := modeltest.CheckAnthropic(req, body); err != nil && !strings.Contains(err.Error(), "Invalid `signature`") && !strings.Contains(err.Error(), "Invalid `data`") {
		w.t.Errorf("the API would refuse the request: %v\n%s", err, body)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(w.body)),
	}, nil
}

// wired makes a model that is answered with body.
func wired(t testing.TB, body []byte) *anthropic.Model {
	return model(t, "http://model.test", &endpoint.Options{Transport: &wire{t: t, body: body}})
}

// FuzzAnswer: whatever an endpoint sends is an answer or a *planner.Error, and what is an
// answer can be sent back.
func FuzzAnswer(f *testing.F) {
	toolStart := `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"fs.read","input":{}}}`
	for _, body := range []string{
		events(start, textStart, textHello, textStop, end, stop),
		events(start, textStart, toolStart, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, textHello, ended(`"tool_use"`), stop),
		events(start, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`, toolStart,
			`{"type":"content_block_start","index":2,"content_block":{"type":"redacted_thinking","data":"x"}}`, toolStart, ended(`"max_tokens"`), stop),
		events(start, ended(`"refusal"`), stop), events(start, ended(`"model_context_window_exceeded"`), stop),
		events(start, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		`{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":" "},{"type":"tool_use","id":"","name":"","input":[1]}],"stop_reason":"end_turn","usage":{"input_tokens":1e30}}`,
		"event: message_stop\ndata: {}\n\n", "event: message_delta\ndata: null\n\n", "\xef\xbb\xbf: x\n\n", "[]", "{", "<html>",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m := wired(t, body)
		var text strings.Builder
		a, err := m.Answer(t.Context(), ask("a"), func(d planner.Delta) { text.WriteString(d.Text) })
		if err != nil {
			var e *planner.Error
			if !errors.As(err, &e) || a != nil || e.Fault == "" || strings.Contains(err.Error(), key) {
				t.Fatalf("Answer = %+v, %v, want a *planner.Error", a, err)
			}
			return
		}
		if text.String() != a.Text && a.Stop != planner.StopRefused {
			t.Errorf("it came as %q, and is %q", &text, a.Text)
		}
		if u := a.Usage; u.Input < u.Cached || u.Cached < 0 || u.Output < 0 {
			t.Errorf("Usage = %+v", u)
		}
		if waits := a.Stop == planner.StopTools; waits && len(a.Calls) == 0 || a.Stop == planner.StopEnd && len(a.Calls) > 0 {
			t.Errorf("Stop = %q with %d calls", a.Stop, len(a.Calls))
		}
		ids := map[string]bool{}
		back := planner.Message{Role: planner.User, Text: "go on"}
		for _, call := range a.Calls {
			if call.ID == "" || ids[call.ID] {
				t.Errorf("the ID %q is empty, or another's", call.ID)
			}
			ids[call.ID] = true
			back.Results = append(back.Results, planner.ToolResult{ID: call.ID, Name: call.Name, Text: "r"})
		}
		req := ask("a")
		req.Messages = append(req.Messages, planner.Message{Role: planner.Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque}, back)
		_, _ = m.Answer(t.Context(), req, nil) // the wire looks at it
	})
}

// FuzzConversation: whatever stands in a conversation, which may come from a file, the request
// is one that the API takes, and no opaque part brings in more than thoughts.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":[{"type":"thinking","text":"t","signature":"s"},{"type":"text","text":"b"},{"type":"tool_use","id":"1","name":"x","input":{"a":1}}]}`), "b", []byte(`{"a":1}`), "1", "x", "r")
	f.Add([]byte(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":[{"type":"redacted_thinking","data":"redacted.x"},{"type":"tool_use","id":"1","name":"x"}]}`), "", []byte(``), "1", "x", "")
	f.Add([]byte(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":[{"type":"text","text":"b"},{"type":"redacted_thinking","data":"x"}]}`), "b", []byte(`null`), "", "", " ")
	f.Add([]byte(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":[{"type":"document"},{"type":"tool_use","id":"2","name":"y","input":3}]}`), " ", []byte("\xff"), "a.b:c", "fs.read\x00", "\xff")
	f.Add([]byte(`{"provider":"anthropic","model":"claude-sonnet-5-5","blocks":null}`), "\u00a0", []byte(`{"a":1,"a":{"b":[]}}`), strings.Repeat("x", 300), strings.Repeat("y", 300), "r")
	body := []byte(events(start, textStart, textHello, textStop, end, stop))
	f.Fuzz(func(t *testing.T, opaque []byte, text string, args []byte, id, name, result string) {
		req := ask("a")
		req.Messages = append(req.Messages,
			planner.Message{Role: planner.Assistant, Text: text, Calls: []planner.ToolCall{{ID: id, Name: name, Args: json.RawMessage(args)}}, Opaque: opaque},
			planner.Message{Role: planner.User, Results: []planner.ToolResult{{ID: id, Name: name, Text: result, Failed: result == ""}}, Text: text},
			planner.Message{Role: planner.Assistant, Text: text, Opaque: opaque},
			planner.Message{Role: planner.User, Text: "b"})
		if _, err := wired(t, body).Answer(t.Context(), req, nil); err != nil {
			t.Errorf("Answer: %v", err)
		}
	})
}
