package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		turn := s.next(Seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body})
		req, refusal := readGemini(r, body)
		if refusal != nil {
			if !refusal.isExpected {
				t.Errorf("the API would refuse the request: %s\n%s", refusal.message, body)
			}
			refusal.write(w)
			return
		}
		answer := &geminiAnswer{w: w, ctx: r.Context(), turn: turn, req: req}
		answer.send()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// A geminiAnswer is the answer to one request.
type geminiAnswer struct {
	w    http.ResponseWriter
	ctx  context.Context //nolint:containedctx // the request's, for as long as it is answered
	turn Turn
	req  *geminiRequest
	sent int // pieces
}

// send sends the turn, faults included.
func (a *geminiAnswer) send() {
	turn := a.turn
	if turn.Silent {
		<-a.ctx.Done()
		return
	}
	if !a.pause(turn.Wait) {
		return
	}
	header := a.w.Header()
	header.Set("Content-Type", "application/json; charset=UTF-8")
	if a.req.isStream && turn.Status == 0 {
		header.Set("Content-Type", "text/event-stream")
	}
	header.Set("Server", "scaffolding on HTTPServer2")
	header.Set("Vary", "Origin, X-Origin, Referer")
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
	case a.req.isStream:
		a.stream()
	default:
		a.whole()
	}
}

// pause waits, and reports whether the client is still there.
func (a *geminiAnswer) pause(d time.Duration) bool {
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

// stream sends the turn as a stream of events.
func (a *geminiAnswer) stream() {
	a.flood(func(piece string) { a.event(a.response([]any{map[string]any{"text": piece}}, "")) })
	for _, part := range a.parts(a.chunk()) {
		if !a.pause(a.turn.Pause) {
			panic(http.ErrAbortHandler)
		}
		a.event(a.response([]any{part}, ""))
		a.sent++
		if a.turn.Stall {
			break
		}
		if a.turn.CutAfter > 0 && a.sent >= a.turn.CutAfter {
			panic(http.ErrAbortHandler)
		}
	}
	if a.turn.Stall {
		<-a.ctx.Done()
		panic(http.ErrAbortHandler)
	}
	if a.turn.CutAfter > 0 {
		panic(http.ErrAbortHandler)
	}
	last := []any{map[string]any{"text": ""}}
	if a.req.isSigned() && len(a.turn.Calls) == 0 {
		last = []any{map[string]any{"text": "", "thoughtSignature": geminiSignature("")}}
	}
	a.event(a.response(last, a.reason()))
}

// event sends one event of the stream.
func (a *geminiAnswer) event(data any) {
	if _, err := fmt.Fprintf(a.w, "data: %s\r\n\r\n", geminiJSON(data, "")); err != nil {
		panic(http.ErrAbortHandler)
	}
	a.w.(http.Flusher).Flush()
}

// whole sends the turn as one JSON value, printed as the API does.
func (a *geminiAnswer) whole() {
	if a.turn.Flood > 0 {
		io.WriteString(a.w, `{"candidates": [{"content": {"parts": [{"text": "`) //nolint:errcheck // the client has gone
		a.flood(func(piece string) { io.WriteString(a.w, piece) })               //nolint:errcheck // the client has gone
		io.WriteString(a.w, `"}], "role": "model"}, "finishReason": "STOP"}]}`)  //nolint:errcheck // the client has gone
		return
	}
	body := geminiJSON(a.response(a.parts(1<<30), a.reason()), "  ")
	if a.turn.Stall || a.turn.CutAfter > 0 {
		a.w.Write(body[:len(body)/2]) //nolint:errcheck // the client has gone
		a.w.(http.Flusher).Flush()
		if a.turn.Stall {
			<-a.ctx.Done()
		}
		panic(http.ErrAbortHandler)
	}
	a.w.Write(body) //nolint:errcheck // the client has gone
}

// flood sends the turn's flood, as long as the client is there.
func (a *geminiAnswer) flood(send func(piece string)) {
	full := strings.Repeat("0123456789abcdef", 4<<10)
	for left := a.turn.Flood; left > 0 && a.pause(a.turn.Pause); left -= int64(len(full)) {
		send(full[:min(left, int64(len(full)))])
	}
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

func (a *geminiAnswer) chunk() int {
	if a.turn.Chunk > 0 {
		return a.turn.Chunk
	}
	return 16
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
		for _, piece := range geminiPieces(a.turn.Thinking, size) {
			parts = append(parts, map[string]any{"text": piece, "thought": true})
		}
	}
	for _, piece := range geminiPieces(a.turn.Text, size) {
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

// geminiPieces cuts a text into pieces of whole characters.
func geminiPieces(text string, size int) []string {
	var pieces []string
	for text != "" {
		n := min(size, len(text))
		for n < len(text) && text[n]&0xC0 == 0x80 {
			n++
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// geminiJSON is a value as the API writes it.
func geminiJSON(v any, indent string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		panic(err) // a map of plain values
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
