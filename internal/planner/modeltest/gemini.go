package modeltest

import (
	"encoding/json"
	"net/http"
	"testing"

	"airlock/internal/planner"
)

// Gemini starts a server that speaks the wire format of the Gemini Developer API, as s says,
// and returns its base URL. It ends with the test.
//
// It fails the test for a request that the real API would refuse, and refuses it as that
// does: among them are unknown members, roles that do not alternate, results without their
// calls, signatures that are missing or were changed, and a key that is anywhere but in its
// header. That an older model has no tools together with a format of the answer is refused
// without failing the test: a caller finds it out so.
//
// Thoughts are sent where the request asks for them. A call has an ID where the turn gives
// it one, and models from Gemini 3 sign the first call of a message.
func Gemini(t testing.TB, s *Script) string {
	t.Helper()
	return serve(t, s, func(a *reply, r *http.Request, body []byte) {
		req, refusal := readGemini(r, body)
		if refusal != nil {
			if !refusal.isExpected {
				t.Errorf("the API would refuse the request: %s\n%s", refusal.message, body)
			}
			refusal.write(a.w)
			return
		}
		answer := &geminiAnswer{reply: a, req: req}
		headers := map[string]string{
			"Content-Type": "application/json; charset=UTF-8", "Server": "scaffolding on HTTPServer2", "Vary": "Origin, X-Origin, Referer",
		}
		if !req.isStream {
			a.send(headers, answer.whole)
			return
		}
		if a.turn.Status == 0 {
			headers["Content-Type"] = "text/event-stream"
		}
		a.send(headers, answer.stream)
	})
}

// A geminiAnswer is the answer to one request.
type geminiAnswer struct {
	*reply
	req *geminiRequest
}

// stream sends the turn as a stream of events.
func (a *geminiAnswer) stream() {
	a.flood(func(piece string) { a.data(a.response([]any{map[string]any{"text": piece}}, "")) })
	for _, part := range a.parts(a.chunk()) {
		a.piece(func() { a.data(a.response([]any{part}, "")) })
	}
	a.end()
	last := []any{map[string]any{"text": ""}}
	if a.req.isSigned() && len(a.turn.Calls) == 0 {
		last = []any{map[string]any{"text": "", "thoughtSignature": geminiSignature("")}}
	}
	a.data(a.response(last, a.reason()))
}

// data sends one event of the stream.
func (a *geminiAnswer) data(data any) { a.event("data: " + string(asJSON(data, "")) + "\r\n\r\n") }

// whole sends the turn as one JSON value, printed as the API does.
func (a *geminiAnswer) whole() {
	if a.turn.Flood > 0 {
		a.floodWithin(`{"candidates": [{"content": {"parts": [{"text": "`, `"}], "role": "model"}, "finishReason": "STOP"}]}`)
		return
	}
	a.body(asJSON(a.response(a.parts(1<<30), a.reason()), "  "))
}

// response is a GenerateContentResponse.
func (a *geminiAnswer) response(parts []any, reason string) map[string]any {
	candidate := map[string]any{"content": map[string]any{"parts": parts, "role": "model"}, "index": 0}
	if reason != "" {
		candidate["finishReason"] = reason
	}
	thoughts := int64(0)
	if a.turn.Thinking != "" {
		thoughts = a.turn.Usage.Output / 3
	}
	u := a.turn.Usage
	usage := map[string]any{
		"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - thoughts, "totalTokenCount": u.Input + u.Output,
		"promptTokensDetails": []any{map[string]any{"modality": "TEXT", "tokenCount": u.Input}},
	}
	if thoughts > 0 {
		usage["thoughtsTokenCount"] = thoughts
	}
	if u.Cached > 0 {
		usage["cachedContentTokenCount"] = u.Cached
		usage["cacheTokensDetails"] = []any{map[string]any{"modality": "TEXT", "tokenCount": u.Cached}}
	}
	return map[string]any{
		"candidates": []any{candidate}, "usageMetadata": usage,
		"modelVersion": a.req.model, "responseId": "pF0eadqPFYbg1e8P5frLsAQ",
	}
}

func (a *geminiAnswer) reason() string {
	switch a.turn.Stop {
	case planner.StopLength:
		return "MAX_TOKENS"
	case planner.StopRefused:
		return "SAFETY"
	}
	return "STOP"
}

// parts are the turn's, its texts in pieces of size bytes.
func (a *geminiAnswer) parts(size int) []any {
	var parts []any
	if a.turn.Thinking != "" && a.req.wantsThoughts() {
		for _, piece := range pieces(a.turn.Thinking, size) {
			parts = append(parts, map[string]any{"text": piece, "thought": true})
		}
	}
	for _, piece := range pieces(a.turn.Text, size) {
		parts = append(parts, map[string]any{"text": piece})
	}
	for i, call := range a.turn.Calls {
		function := map[string]any{"name": call.Name, "args": map[string]any{}}
		if call.ID != "" {
			function["id"] = call.ID
		}
		if json.Valid(call.Args) {
			function["args"] = call.Args
		}
		part := map[string]any{"functionCall": function}
		if i == 0 && a.req.isSigned() {
			part["thoughtSignature"] = geminiSignature(call.Name)
		}
		parts = append(parts, part)
	}
	return parts
}
