package gemini_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

func TestAnAnswerComesAsItIsWritten(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{{
		Thinking: "A file is wanted.",
		Text:     "Ich schaue nach: größer als < & >.",
		Calls:    []planner.ToolCall{{ID: "fc_1", Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/<hostname>"}`)}},
		Usage:    planner.Usage{Input: 2101, Cached: 1500, Output: 87},
		Chunk:    5,
	}}}
	m := model(t, newModel, modeltest.Gemini(t, script), nil)
	var text strings.Builder
	thoughts, pieces, tool, args := 0, 0, "", ""
	got, err := m.Answer(t.Context(), ask("what is this machine called?"), func(d planner.Delta) {
		switch {
		case d.Thinking:
			thoughts++
			if d.Text != "" {
				t.Errorf("a thought has the text %q", d.Text)
			}
		case d.Tool != "":
			tool, args = d.Tool, args+d.Args
		default:
			pieces++
			text.WriteString(d.Text)
		}
	})
	if err != nil {
		t.Fatalf("Answer: %v", err)
	}
	got.Opaque = nil
	want := &planner.Answer{
		Text:  "Ich schaue nach: größer als < & >.",
		Calls: []planner.ToolCall{{ID: "fc_1", Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/<hostname>"}`)}},
		Stop:  planner.StopTools,
		Usage: planner.Usage{Input: 2101, Cached: 1500, Output: 87},
		Model: newModel,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	if text.String() != want.Text || pieces < 5 || thoughts < 3 || tool != "fs_read_file" || args != `{"path":"/etc/<hostname>"}` {
		t.Errorf("on the way came %q in %d pieces, %d thoughts, %s(%s)", text.String(), pieces, thoughts, tool, args)
	}
}

func TestResultsGoBackWithTheModelsOwnParts(t *testing.T) {
	for _, name := range []string{newModel, oldModel} {
		for _, id := range []string{"", "fc_"} {
			t.Run(name+" with the IDs "+id, func(t *testing.T) {
				calls := []planner.ToolCall{
					{Name: "sysinfo", Args: json.RawMessage(`{}`)},
					{Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/hosts"}`)},
					{Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/hostname"}`)},
				}
				for i := range calls {
					if id != "" {
						calls[i].ID = id + string(rune('a'+i))
					}
				}
				script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "I look.", Calls: calls}, {Calls: calls[:1]}, {Text: "done"}}}
				m := model(t, name, modeltest.Gemini(t, script), nil)
				req := ask("what is this machine called?")
				seen := map[string]bool{}
				for range 2 {
					a := answer(t, m, req)
					msg := planner.Message{Role: planner.User}
					for i := range a.Calls { // the other way round
						call := a.Calls[len(a.Calls)-1-i]
						if call.ID == "" || id == "" && seen[call.ID] {
							t.Errorf("the ID %q is empty or came before", call.ID)
						}
						seen[call.ID] = true
						msg.Results = append(msg.Results, planner.ToolResult{ID: call.ID, Name: call.Name, Text: "result of " + string(call.Args), Failed: i == 0})
					}
					req.Messages = append(req.Messages, planner.Message{Role: planner.Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque}, msg)
				}
				if a := answer(t, m, req); a.Text != "done" || a.Stop != planner.StopEnd {
					t.Errorf("the answer is %+v", a)
				}
				sent := string(script.Requests()[2].Body)
				if !strings.Contains(sent, `"response":{"error":"result of {\"path\":\"/etc/hostname\"}"}`) ||
					!strings.Contains(sent, `"response":{"output":"result of {\"path\":\"/etc/hosts\"}"}`) {
					t.Errorf("the results are not as they were given:\n%s", sent)
				}
			})
		}
	}
}

func TestASignedTextGoesBackAsItCame(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "a text in pieces", Chunk: 3}, {Text: "done"}}}
	m := model(t, newModel, modeltest.Gemini(t, script), nil)
	req := ask("hello")
	a := answer(t, m, req)
	req.Messages = append(req.Messages,
		planner.Message{Role: planner.Assistant, Text: a.Text, Opaque: a.Opaque}, planner.Message{Role: planner.User, Text: "go on"})
	answer(t, m, req)
	sent := string(script.Requests()[1].Body)
	if !strings.Contains(sent, `{"text":"a text in pieces"},{"text":"","thoughtSignature":"`) {
		t.Errorf("the text is not as it came:\n%s", sent)
	}
}

func TestAnAnswerThatWasNotStreamedIsTakenToo(t *testing.T) {
	whole := `{"candidates":[{"content":{"parts":[{"text":"all at once"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5},"modelVersion":"gemini-2.5-flash"}`
	first := `{"candidates":[{"content":{"parts":[{"text":"all "}],"role":"model"}}]}`
	last := `{"candidates":[{"content":{"parts":[{"text":"at once"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`
	tests := map[string]string{
		"one object":                       whole,
		"a list":                           "[" + first + "\n,\r\n" + last + "]",
		"a stream with plain line ends":    "data: " + first + "\n\ndata: " + last + "\n\n",
		"a stream without spaces":          "data:" + first + "\n\ndata:" + last + "\n\n",
		"a stream without a last line end": "data: " + first + "\n\ndata: " + last,
		"a stream with comments":           ": ping\n\ndata: " + first + "\n\n: ping\n\nevent: message\nid: 7\ndata: " + last + "\n\n",
		"a stream with OpenAI's end":       "data: " + first + "\n\ndata: " + last + "\n\ndata: [DONE]\n\n",
		"an event of two lines":            "data: " + first + "\n\ndata: {\ndata: " + last[1:] + "\n\n",
		"members of tomorrow":              "data: " + first + "\n\ndata: " + `{"tomorrow":{"a":[1]},` + last[1:] + "\n\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, Body: text}}}), nil)
			a := answer(t, m, ask("hello"))
			if a.Text != "all at once" || a.Stop != planner.StopEnd || a.Usage.Input != 3 || a.Usage.Output != 2 {
				t.Errorf("the answer is %+v", a)
			}
		})
	}
}

func TestTheEndOfAnAnswerSaysWhy(t *testing.T) {
	type end struct {
		Fault planner.Fault
		Again bool
		Stop  planner.Stop
		Text  string
	}
	tests := map[string]struct {
		reason string
		want   end
	}{
		"it is done":                  {`STOP`, end{Stop: planner.StopEnd, Text: "so far"}},
		"it is too long":              {`MAX_TOKENS`, end{Stop: planner.StopLength, Text: "so far"}},
		"it is too long for one":      {`CONTINUATION`, end{Stop: planner.StopLength, Text: "so far"}},
		"it is not safe":              {`SAFETY`, end{Stop: planner.StopRefused, Text: "so far"}},
		"it is recited":               {`RECITATION`, end{Stop: planner.StopRefused, Text: "so far"}},
		"a word is forbidden":         {`BLOCKLIST`, end{Stop: planner.StopRefused, Text: "so far"}},
		"it is prohibited":            {`PROHIBITED_CONTENT`, end{Stop: planner.StopRefused, Text: "so far"}},
		"it is personal":              {`SPII`, end{Stop: planner.StopRefused, Text: "so far"}},
		"the model wrote a bad call":  {`MALFORMED_FUNCTION_CALL`, end{Fault: planner.FaultGarbled, Again: true}},
		"the model called no tool":    {`UNEXPECTED_TOOL_CALL`, end{Fault: planner.FaultGarbled, Again: true}},
		"it ended for another reason": {`OTHER`, end{Fault: planner.FaultServer, Again: true}},
		"a reason of tomorrow":        {`TOMORROW`, end{Fault: planner.FaultServer, Again: true}},
		"there is no reason":          {``, end{Fault: planner.FaultCut, Again: true}},
		"the reason is not told":      {`FINISH_REASON_UNSPECIFIED`, end{Fault: planner.FaultCut, Again: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := `data: {"candidates":[{"content":{"parts":[{"text":"so far"}],"role":"model"},"index":0}]}` + "\r\n\r\n" +
				`data: {"candidates":[{"index":0,"finishReason":"` + tt.reason + `"}]}` + "\r\n\r\n"
			m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, Body: text}}}), nil)
			if tt.want.Fault != "" {
				if e := fault(t, m, ask("hello")); e.Fault != tt.want.Fault || e.Again != tt.want.Again {
					t.Errorf("the fault is %q, Again %v, want %+v", e.Fault, e.Again, tt.want)
				}
				return
			}
			a := answer(t, m, ask("hello"))
			if got := (end{Stop: a.Stop, Text: a.Text}); got != tt.want {
				t.Errorf("the answer is %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestABlockedPromptIsARefusal(t *testing.T) {
	text := `data: {"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9},"modelVersion":"gemini-2.5-flash"}` + "\r\n\r\n"
	m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, Body: text}}}), nil)
	a := answer(t, m, ask("hello"))
	if a.Stop != planner.StopRefused || !strings.Contains(a.Text, "PROHIBITED_CONTENT") || a.Usage.Input != 9 {
		t.Errorf("the answer is %+v", a)
	}
}

func TestARefusedAnswerCallsNothing(t *testing.T) {
	text := `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"sysinfo","args":{}}}],"role":"model"},"finishReason":"SAFETY"}]}` + "\r\n\r\n"
	m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, Body: text}}}), nil)
	a := answer(t, m, ask("hello"))
	if a.Stop != planner.StopRefused || len(a.Calls) != 0 || a.Opaque != nil {
		t.Errorf("the answer is %+v", a)
	}
}

func TestNoFurtherRequestIsMade(t *testing.T) {
	tests := map[string]modeltest.Turn{
		"a bad status":              {Status: http.StatusServiceUnavailable, Body: `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`},
		"too many requests":         {Status: http.StatusTooManyRequests, Body: `{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}`},
		"a cut stream":              {Text: "a text", Chunk: 2, CutAfter: 1},
		"a token to continue with":  {Raw: true, Body: `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"continuationToken":"YWJj"}]}` + "\r\n\r\n"},
		"an end to continue at":     {Raw: true, Body: `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"CONTINUATION","continuationToken":"YWJj"}]}` + "\r\n\r\n"},
		"a redirect":                {Status: http.StatusTemporaryRedirect, Header: http.Header{"Location": {"/elsewhere"}}},
		"a redirect to another one": {Status: http.StatusFound, Header: http.Header{"Location": {"http://169.254.169.254/"}}},
	}
	for name, turn := range tests {
		t.Run(name, func(t *testing.T) {
			script := &modeltest.Script{Turns: []modeltest.Turn{turn}}
			start := time.Now()
			a, err := model(t, newModel, modeltest.Gemini(t, script), nil).Answer(t.Context(), ask("hello"), nil)
			if err == nil && a.Stop != planner.StopLength {
				t.Errorf("the answer is %+v", a)
			}
			if n := len(script.Requests()); n != 1 {
				t.Errorf("%d requests came, want 1", n)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("it took %s", d)
			}
		})
	}
}

func TestAPanicOfTheCallersGoesOn(t *testing.T) {
	m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Text: "a text"}}}), nil)
	defer func() {
		if r := recover(); r != "the caller's" {
			t.Errorf("recovered %v, want the caller's", r)
		}
	}()
	_, err := m.Answer(t.Context(), ask("hello"), func(planner.Delta) { panic("the caller's") })
	t.Errorf("Answer: %v, want a panic", err)
}

func TestALineWithoutAnEndIsBoundedInTimeAndSpace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		piece := []byte(strings.Repeat("0123456789", 100))
		_, err := w.Write([]byte(`data: {"candidates":[{"content":{"parts":[{"text":"`))
		for err == nil && r.Context().Err() == nil {
			_, err = w.Write(piece)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	start := time.Now()
	if e := fault(t, model(t, oldModel, server.URL, nil), ask("hello")); e.Fault != planner.FaultTooBig {
		t.Errorf("the fault is %q, want it too big", e.Fault)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %s", d)
	}
}
