package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// A canned transport answers with the same body.
type canned []byte

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(c)),
		ContentLength: -1, Request: req,
	}, nil
}

// FuzzAnswer holds answers to this: whatever comes, it is an answer that can be sent back, or
// an error of ours that can be shown.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP"}]}` + "\r\n\r\n",
		`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":[1,null]}},"thoughtSignature":"YQ=="}]}}]}` + "\n\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
		`data: {"candidates":[{"content":{"parts":[{"text":"a","thought":true,"thoughtSignature":"YQ=="},{"text":"","thoughtSignature":"YQ=="}]},"finishReason":"MAX_TOKENS"}]}`,
		`[{"error":{"code":429,"message":"m","details":[{"retryDelay":"37s"}]}}]`,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`,
		": ping\n\nevent: a\ndata: {\ndata: }\n\ndata: [DONE]\n\n",
		`data: {"candidates":[null]}` + "\n\n", `data: {"candidates":[{"content":7}]}` + "\n\n", "data: {\"a\"", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := model(t, newModel, "http://localhost", &endpoint.Options{Transport: canned(raw)})
		req := ask("hello")
		var text strings.Builder
		a, err := m.Answer(t.Context(), req, func(d planner.Delta) { text.WriteString(d.Text) })
		if err != nil {
			var e *planner.Error
			if !errors.As(err, &e) || e.Fault == "" || a != nil {
				t.Fatalf("Answer = %v, %v, want a *planner.Error alone", a, err)
			}
			if strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) || len(e.Error()) > 4000 {
				t.Fatalf("the error is not fit to be shown: %q", e.Error())
			}
			return
		}
		if a.Stop != planner.StopRefused && a.Text != text.String() {
			t.Fatalf("the text is %q, where %q came", a.Text, text.String())
		}
		msg := planner.Message{Role: planner.Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque}
		next := planner.Message{Role: planner.User, Text: "go on"}
		seen := map[string]bool{}
		for _, call := range a.Calls {
			if call.ID == "" || !json.Valid(call.Args) {
				t.Fatalf("the call %+v has no ID or no arguments", call)
			}
			seen[call.ID] = true
			next.Results = append(next.Results, planner.ToolResult{ID: call.ID, Name: call.Name, Text: "done"})
		}
		if a.Stop == planner.StopTools && len(a.Calls) == 0 {
			t.Fatal("results are waited for of no call")
		}
		req.Messages = append(req.Messages, msg, next)
		shown(t, newModel, req)
	})
}

// FuzzOpaque holds what is kept of a message to this: whatever stands in it, the request can
// be made, and nothing is in it but what the message says.
func FuzzOpaque(f *testing.F) {
	f.Add([]byte(`{"provider":"gemini","parts":[{"text":"hello"},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"YQ=="}]}`))
	f.Add([]byte(`{"provider":"gemini","parts":[{"text":"hello","fileData":{"fileUri":"canary"}},null,{"functionCall":null}]}`))
	f.Add([]byte(`{"provider":"gemini","parts":[{"text":"canary"},{"functionResponse":{"name":"canary"}}]}`))
	f.Add([]byte(`{"provider":"gemini","parts":[{"inlineData":{"data":"Y2FuYXJ5","mimeType":"canary"}},{"toolCall":{"id":"canary"}}]}`))
	f.Fuzz(func(t *testing.T, opaque []byte) {
		req := ask("one")
		req.Messages = append(req.Messages,
			planner.Message{
				Role: planner.Assistant, Text: "hello", Opaque: opaque,
				Calls: []planner.ToolCall{{ID: "c", Name: "f", Args: json.RawMessage(`{"a":1}`)}},
			},
			planner.Message{Role: planner.User, Results: []planner.ToolResult{{ID: "c", Name: "f", Text: "done"}}})
		var got struct {
			Contents []struct {
				Role  string
				Parts []map[string]json.RawMessage
			}
		}
		if err := json.Unmarshal(shown(t, newModel, req), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Contents) != 3 {
			t.Fatalf("%d contents are sent, want 3", len(got.Contents))
		}
		calls, text := 0, ""
		for _, part := range got.Contents[1].Parts {
			for member, value := range part {
				switch member {
				case "functionCall":
					calls++
				case "text":
					var piece string
					if json.Unmarshal(value, &piece) == nil && part["thought"] == nil {
						text += piece
					}
				case "thought", "thoughtSignature":
				default:
					t.Fatalf("the member %s is sent", member)
				}
			}
		}
		if calls != 1 || text != "hello" {
			t.Fatalf("%d calls and the text %q are sent, where the message has one and hello", calls, text)
		}
	})
}
