package openai_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
	"airlock/internal/planner/openai"
)

// A sender answers each request with the same bytes.
type sender struct{ contentType, body string }

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	_ = req.Body.Close()
	return &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Request: req, ContentLength: -1,
		Header: http.Header{"Content-Type": {s.contentType}}, Body: io.NopCloser(strings.NewReader(s.body)),
	}, nil
}

func FuzzAnswer(f *testing.F) {
	f.Add(events(delta(`{"content":"<think>a</think>b"}`, `null`), delta(`{"content":"c"}`, `"stop"`), "[DONE]"))
	f.Add(events(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":"{"}},{"index":1e3,"function":{"arguments":{}}}]}`, `"tool_calls"`)))
	f.Add(events(delta(`{"content":[{"type":"text","text":"a"}],"refusal":"no","reasoning":{}}`, `"length"`), `{"choices":[],"usage":{"prompt_tokens":"1"}}`))
	f.Add(`{"choices":[{"message":{"content":"a","tool_calls":[{"function":{"name":"n","arguments":null}}]},"finish_reason":"stop"}]}`)
	f.Add("event: error\ndata: {\"error\":\"\x1b\"}\n\n")
	f.Add(events(`{"error":{"code":429}}`))
	f.Fuzz(func(t *testing.T, body string) {
		client := endpoint.Client(&endpoint.Options{Transport: sender{"text/event-stream", body}})
		m, err := openai.New(&openai.Options{Provider: "vllm", Model: "m", Key: modeltest.Key, HTTP: client})
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		a, err := m.Answer(t.Context(), &planner.Request{}, func(d planner.Delta) { told.WriteString(d.Text) })
		if err != nil {
			e, ok := errors.AsType[*planner.Error](err)
			if !ok || e.Fault == "" || a != nil {
				t.Fatalf("Answer = %+v, %v", a, err)
			}
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) || len(err.Error()) > 5000 {
				t.Errorf("the error %q cannot be shown", err)
			}
			return
		}
		if a.Stop == planner.StopTools != (len(a.Calls) > 0) && (a.Stop == planner.StopTools || a.Stop == planner.StopEnd) {
			t.Errorf("Stop = %q with %d calls", a.Stop, len(a.Calls))
		}
		ids := map[string]bool{"": true}
		for _, c := range a.Calls {
			if ids[c.ID] {
				t.Errorf("the ID %q is empty or not unique", c.ID)
			}
			ids[c.ID] = true
		}
		if a.Stop != planner.StopRefused && told.String() != a.Text && !strings.HasSuffix(told.String(), a.Text) {
			t.Errorf("told %q, answered %q", told.String(), a.Text)
		}
		if a.Usage.Input < 0 || a.Usage.Output < 0 || a.Usage.Cached < 0 || a.Usage.Cached > a.Usage.Input {
			t.Errorf("Usage = %+v", a.Usage)
		}
	})
}
