package modeltest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/internal/planner"
)

// A bad is a turn that is no answer, and what it is told as.
type bad struct {
	name  string
	turn  Turn
	fault planner.Fault
	again bool
}

// bads are the faults that every API can have.
func bads() []bad {
	said := func(text string) string { return `{"error":{"message":"` + text + `"}}` }
	status := func(n int) Turn { return Turn{Status: n, Body: said("something is wrong")} }
	return []bad{
		{"a bad request", status(400), planner.FaultRejected, false},
		{"a wrong key", status(401), planner.FaultKey, false},
		{"no right", status(403), planner.FaultKey, false},
		{"no such model", status(404), planner.FaultNotFound, false},
		{"too large a request", status(413), planner.FaultTooLong, false},
		{"too many requests", Turn{Status: 429, Body: said("slow down"), Header: http.Header{"Retry-After": {"7"}}}, planner.FaultBusy, true},
		{"a failure", status(500), planner.FaultServer, true},
		{"a failure without words", Turn{Status: 502}, planner.FaultServer, true},
		{"no time for it", status(503), planner.FaultBusy, true},
		{"overload", status(529), planner.FaultBusy, true},
		{"an error that never ends", Turn{Status: 500, Body: strings.Repeat("no\x1b[31m ", 1<<20)}, planner.FaultServer, true},
		{"a redirect", Turn{Status: 307, Header: http.Header{"Location": {"https://elsewhere.example/v1?k=v"}}}, planner.FaultGarbled, false},
		{"a web page", Turn{Raw: true, ContentType: "text/html", Body: "<!doctype html><title>Sign in</title>"}, planner.FaultGarbled, false},
		{"a web page that is called an answer", Turn{Raw: true, Body: "<html></html>"}, planner.FaultGarbled, false},
		{"nothing at all", Turn{Raw: true}, planner.FaultGarbled, false},
		{"half an object", Turn{Raw: true, ContentType: "application/json", Body: `{"id":"x","choi`}, planner.FaultCut, true},
		{"an object of something else", Turn{Raw: true, ContentType: "application/json", Body: `{"status":"ok"}`}, planner.FaultGarbled, false},
		{"a stream of something else", Turn{Raw: true, ContentType: "text/event-stream", Body: "data: {\"status\":\"ok\"}\n\ndata: {\"status\":\"ok\"}\n\n"}, "", false},
		{"an error with a good status", Turn{Raw: true, ContentType: "application/json", Body: `{"error":{"message":"no","code":500}}`}, planner.FaultServer, true},
		{"a cut answer", Turn{Text: strings.Repeat("some text ", 40), CutAfter: 3}, planner.FaultCut, true},
		{"an answer that never ends", Turn{Flood: 1 << 30}, planner.FaultTooBig, false},
	}
}

func (s *suite) faults(t *testing.T) {
	for _, b := range bads() {
		t.Run(b.name, func(t *testing.T) {
			m, script := s.model(t, b.turn)
			start := time.Now()
			e := fault(t, t.Context(), m)
			if b.fault == "" && e.Fault != planner.FaultGarbled && e.Fault != planner.FaultCut || b.fault != "" && (e.Fault != b.fault || e.Again != b.again) {
				t.Errorf("fault = %q, again = %v, want %q, %v: %v", e.Fault, e.Again, b.fault, b.again, e)
			}
			if b.turn.Status == 429 && e.RetryAfter != 7*time.Second {
				t.Errorf("RetryAfter = %s, want 7s", e.RetryAfter)
			}
			if b.turn.Status != 0 && e.Status != b.turn.Status {
				t.Errorf("Status = %d, want %d", e.Status, b.turn.Status)
			}
			if n := len(e.Text); n > 2000 {
				t.Errorf("the text has %d bytes", n)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			if n := len(script.Requests()); n != 1 {
				t.Errorf("%d requests, want 1: trying again is the caller's", n)
			}
		})
	}
}

func (s *suite) echo(t *testing.T) {
	for _, status := range []int{400, 401, 500} {
		m, _ := s.model(t, Turn{Status: status, Body: `{"error":{"message":"\u001b]0;no\u0007 key ` + Key + ` (Bearer ` + Key + `)"}}`})
		if e := fault(t, t.Context(), m); e.Status != status {
			t.Errorf("Status = %d, want %d", e.Status, status)
		}
	}
	m, _ := s.model(t, Turn{Raw: true, ContentType: "text/plain", Body: "you said " + Key})
	if e := fault(t, t.Context(), m); e.Fault != planner.FaultGarbled {
		t.Errorf("error = %v, want a garbled answer", e)
	}
}

func (s *suite) bounds(t *testing.T) {
	for name, turn := range map[string]Turn{
		"nothing comes":          {Silent: true},
		"nothing more comes":     {Text: strings.Repeat("text ", 30), Stall: true},
		"it comes drop by drop":  {Text: strings.Repeat("text ", 300), Chunk: 1, Pause: 20 * time.Millisecond},
		"it takes long to begin": {Text: "late", Wait: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := s.model(t, turn)
			ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
			defer cancel()
			start := time.Now()
			e := fault(t, ctx, m)
			if e.Fault != planner.FaultTimeout || !errors.Is(e, context.DeadlineExceeded) {
				t.Errorf("error = %v, want a timeout that wraps the context's", e)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}
