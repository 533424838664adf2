package modeltest

import (
	"fmt"
	"net/http"
	"testing"

	"airlock/internal/planner"
)

// OpenAI starts a server that speaks the wire format of OpenAI's Chat Completions API, as s
// says, and returns its base URL. It ends with the test.
//
// It fails the test for a request that the real API would refuse, and refuses it as that does:
// among them are unknown members, results without their calls, calls without their results, a
// schema that is not strict, and a key that is anywhere but in its header. It takes what the
// servers of other dialects add: Azure's header and addresses, OpenRouter's usage.
//
// What a model thinks is sent as reasoning_content, as vLLM and llama.cpp do.
func OpenAI(t testing.TB, s *Script) (baseURL string) {
	t.Helper()
	return serve(t, s, func(a *reply, r *http.Request, body []byte) {
		req, err := readOpenAI(r, body)
		if err != nil {
			t.Errorf("the API would refuse the request: %v\n%s", err, body)
			a.w.Header().Set("Content-Type", "application/json")
			a.w.WriteHeader(http.StatusBadRequest)
			a.write(string(compactJSON(map[string]any{"error": map[string]any{
				"message": err.Error(), "type": "invalid_request_error", "param": nil, "code": nil,
			}})))
			return
		}
		answer := &openaiAnswer{reply: a, req: req}
		headers := map[string]string{"Content-Type": "application/json", "X-Request-Id": "req_5d2f0c7be1a94c0f8d3b6a1e2f4c7d90"}
		if !req.Stream {
			a.send(headers, answer.whole)
			return
		}
		if a.turn.Status == 0 {
			headers["Content-Type"], headers["Cache-Control"] = "text/event-stream; charset=utf-8", "no-cache"
		}
		a.send(headers, answer.stream)
	}) + "/v1"
}

// An openaiAnswer is the answer to one request.
type openaiAnswer struct {
	*reply
	req *openaiRequest
}

// data sends one event of the stream.
func (a *openaiAnswer) data(text []byte) {
	a.event("data: " + string(text) + "\n\n")
}

// choice sends a chunk with one choice.
func (a *openaiAnswer) choice(delta map[string]any, finish any) {
	choice := map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}
	a.data(compactJSON(a.object("chat.completion.chunk", []any{choice}, nil)))
}

// delta sends a delta, as the turn's faults let it.
func (a *openaiAnswer) delta(delta map[string]any) { a.piece(func() { a.choice(delta, nil) }) }

// stream sends the turn as a stream of chunks.
func (a *openaiAnswer) stream() {
	a.choice(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, piece := range pieces(a.turn.Thinking, a.chunk()) {
		a.delta(map[string]any{"reasoning_content": piece})
	}
	for _, piece := range pieces(a.turn.Text, a.chunk()) {
		a.delta(map[string]any{"content": piece})
	}
	for i, c := range a.turn.Calls {
		a.delta(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": callID(c, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""},
		}}})
		for _, piece := range pieces(string(c.Args), a.chunk()) {
			a.delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}})
		}
	}
	a.flood(func(piece string) { a.choice(map[string]any{"content": piece}, nil) })
	a.end()
	a.choice(map[string]any{}, a.reason())
	if a.req.StreamOptions != nil && a.req.StreamOptions.IncludeUsage || a.req.Usage != nil {
		a.data(compactJSON(a.object("chat.completion.chunk", []any{}, a.usage())))
	}
	a.data([]byte("[DONE]"))
}

// whole sends the turn in one piece.
func (a *openaiAnswer) whole() {
	message := map[string]any{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}
	if a.turn.Text != "" || len(a.turn.Calls) == 0 {
		message["content"] = a.turn.Text
	}
	if a.turn.Thinking != "" {
		message["reasoning_content"] = a.turn.Thinking
	}
	var calls []any
	for i, c := range a.turn.Calls {
		calls = append(calls, map[string]any{
			"id": callID(c, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": string(c.Args)},
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	choice := map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": a.reason()}
	body := compactJSON(a.object("chat.completion", []any{choice}, a.usage()))
	if a.turn.Flood > 0 {
		a.floodWithin(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"`, `"},"finish_reason":"stop"}]}`)
		return
	}
	a.body(body)
}

// object is a chunk, or a whole answer.
func (a *openaiAnswer) object(kind string, choices []any, usage any) map[string]any {
	return map[string]any{
		"id": "chatcmpl-CkQ1x7bD3vN5mR8tY2wZ4aE6", "object": kind, "created": 1763660000, "model": a.req.Model + "-2026-03-05",
		"service_tier": "default", "system_fingerprint": "fp_b1442291a8", "choices": choices, "usage": usage,
	}
}

// usage is what the answer cost.
func (a *openaiAnswer) usage() map[string]any {
	u := a.turn.Usage
	usage := map[string]any{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}
	if u.Cost != nil && a.req.Usage != nil {
		usage["cost"] = *u.Cost
	}
	return usage
}

// reason is the turn's finish_reason.
func (a *openaiAnswer) reason() string {
	switch a.turn.Stop {
	case planner.StopLength:
		return "length"
	case planner.StopRefused:
		return "content_filter"
	case planner.StopTools:
		return "tool_calls"
	case planner.StopEnd:
		return "stop"
	}
	if len(a.turn.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// callID is the ID of a call.
func callID(c planner.ToolCall, i int) string {
	if c.ID != "" {
		return c.ID
	}
	return fmt.Sprintf("call_%024d", i+1)
}
