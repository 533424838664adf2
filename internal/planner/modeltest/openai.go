package modeltest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		turn := s.next(Seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body})
		req, err := readOpenAI(r, body)
		if err != nil {
			t.Errorf("the API would refuse the request: %v\n%s", err, body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			w.Write(compactJSON(map[string]any{"error": map[string]any{ //nolint:errcheck // the client has gone
				"message": err.Error(), "type": "invalid_request_error", "param": nil, "code": nil,
			}}))
			return
		}
		answer := &openaiAnswer{w: w, ctx: r.Context(), turn: turn, req: req}
		answer.send()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/v1"
}

// An openaiAnswer is the answer to one request.
type openaiAnswer struct {
	w    http.ResponseWriter
	ctx  context.Context //nolint:containedctx // the request's, for as long as it is answered
	turn Turn
	req  *openaiRequest
	sent int // pieces
}

// send sends the turn, faults included.
func (a *openaiAnswer) send() {
	turn := a.turn
	if turn.Silent {
		<-a.ctx.Done()
		return
	}
	if !a.pause(turn.Wait) {
		return
	}
	header := a.w.Header()
	header.Set("Content-Type", "application/json")
	if a.req.Stream && turn.Status == 0 {
		header.Set("Content-Type", "text/event-stream; charset=utf-8")
		header.Set("Cache-Control", "no-cache")
	}
	header.Set("X-Request-Id", "req_5d2f0c7be1a94c0f8d3b6a1e2f4c7d90")
	if turn.ContentType != "" {
		header.Set("Content-Type", turn.ContentType)
	}
	maps.Copy(header, turn.Header)
	switch {
	case turn.Status != 0 && turn.Status != http.StatusOK:
		a.w.WriteHeader(turn.Status)
		io.WriteString(a.w, turn.Body) //nolint:errcheck // the client has gone
	case turn.Raw:
		io.WriteString(a.w, turn.Body) //nolint:errcheck // the client has gone
	case a.req.Stream:
		a.stream()
	default:
		a.whole()
	}
}

// pause waits, and reports whether the client is still there.
func (a *openaiAnswer) pause(d time.Duration) bool {
	if d <= 0 {
		return a.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// data sends one event of the stream.
func (a *openaiAnswer) data(text []byte) {
	if _, err := fmt.Fprintf(a.w, "data: %s\n\n", text); err != nil {
		panic(http.ErrAbortHandler)
	}
	a.w.(http.Flusher).Flush()
}

// chunk sends a chunk with one choice.
func (a *openaiAnswer) chunk(delta map[string]any, finish any) {
	choice := map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}
	a.data(compactJSON(a.object("chat.completion.chunk", []any{choice}, nil)))
}

// piece sends a delta, as the turn's faults let it.
func (a *openaiAnswer) piece(delta map[string]any) {
	if !a.pause(a.turn.Pause) {
		panic(http.ErrAbortHandler)
	}
	a.chunk(delta, nil)
	a.sent++
	if a.turn.Stall {
		<-a.ctx.Done()
		panic(http.ErrAbortHandler)
	}
	if a.turn.CutAfter > 0 && a.sent >= a.turn.CutAfter {
		panic(http.ErrAbortHandler)
	}
}

// stream sends the turn as a stream of chunks.
func (a *openaiAnswer) stream() {
	a.chunk(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, piece := range pieces(a.turn.Thinking, a.size()) {
		a.piece(map[string]any{"reasoning_content": piece})
	}
	for _, piece := range pieces(a.turn.Text, a.size()) {
		a.piece(map[string]any{"content": piece})
	}
	for i, c := range a.turn.Calls {
		a.piece(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": callID(c, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""},
		}}})
		for _, piece := range pieces(string(c.Args), a.size()) {
			a.piece(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}})
		}
	}
	for sent := int64(0); sent < a.turn.Flood; sent += 64 << 10 {
		a.piece(map[string]any{"content": strings.Repeat("flood ", 64<<10/6+1)[:64<<10]})
	}
	a.chunk(map[string]any{}, a.reason())
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
	switch {
	case a.turn.Flood > 0:
		body = compactJSON(a.object("chat.completion", []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": strings.Repeat("x", int(a.turn.Flood))}, "finish_reason": "stop",
		}}, a.usage()))
	case a.turn.CutAfter > 0 || a.turn.Stall:
		a.w.Write(body[:len(body)/2]) //nolint:errcheck // the client has gone
		a.w.(http.Flusher).Flush()
		if a.turn.Stall {
			<-a.ctx.Done()
		}
		panic(http.ErrAbortHandler)
	}
	a.w.Write(body) //nolint:errcheck // the client has gone
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

// size is how many bytes one piece of a stream has.
func (a *openaiAnswer) size() int {
	if a.turn.Chunk > 0 {
		return a.turn.Chunk
	}
	return 16
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

// pieces cuts a text into pieces of about size bytes, and no character in two.
func pieces(text string, size int) []string {
	var all []string
	for len(text) > 0 {
		n := 0
		for i, r := range text {
			if i >= size {
				break
			}
			n = i + len(string(r))
		}
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}
