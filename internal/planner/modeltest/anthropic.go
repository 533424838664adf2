package modeltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"airlock/internal/planner"
)

// Anthropic starts a server that speaks the wire format of Anthropic's Messages API, as
// s says, and returns its base URL. It ends with the test.
//
// It fails the test for a request that the real API would refuse, and refuses it as that
// does: among them are unknown members, empty texts, results without their calls, roles that
// do not alternate, thoughts that were changed, and a key that is anywhere but in its header.
//
// What a model thinks is sent as a block of thoughts with a signature and one of redacted
// thoughts. Half of the input that no cache gave is told as written to the cache.
func Anthropic(t testing.TB, s *Script) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		turn := s.next(Seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body})
		req, refusal := readAnthropic(r, body)
		if refusal != nil {
			t.Errorf("the API would refuse the request: %s\n%s", refusal.message, body)
			refusal.write(w)
			return
		}
		answer := &anthropicAnswer{w: w, ctx: r.Context(), turn: turn, model: req.Model}
		answer.send(req.Stream)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// An anthropicAnswer is the answer to one request.
type anthropicAnswer struct {
	w     http.ResponseWriter
	ctx   context.Context //nolint:containedctx // the request's, for as long as it is answered
	turn  Turn
	model string
	sent  int // pieces
}

// send sends the turn, faults included.
func (a *anthropicAnswer) send(stream bool) {
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
	if stream && turn.Status == 0 {
		header.Set("Content-Type", "text/event-stream; charset=utf-8")
		header.Set("Cache-Control", "no-cache")
	}
	header.Set("Request-Id", "req_011CQ2wRVBKxLxUGmBc8xWbN")
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
	case stream:
		a.stream()
	default:
		a.whole()
	}
}

// pause waits, and reports whether the client is still there.
func (a *anthropicAnswer) pause(d time.Duration) bool {
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

// event sends one event of the stream.
func (a *anthropicAnswer) event(name string, data any) {
	if _, err := fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", name, compactJSON(data)); err != nil {
		panic(http.ErrAbortHandler)
	}
	a.w.(http.Flusher).Flush()
}

// piece sends a delta of a block, as the turn's faults let it.
func (a *anthropicAnswer) piece(index int, delta map[string]any) {
	if !a.pause(a.turn.Pause) {
		panic(http.ErrAbortHandler)
	}
	a.event("content_block_delta", map[string]any{"type": "content_block_delta", "index": index, "delta": delta})
	a.sent++
	if a.turn.Stall {
		<-a.ctx.Done()
		panic(http.ErrAbortHandler)
	}
	if a.turn.CutAfter > 0 && a.sent >= a.turn.CutAfter {
		panic(http.ErrAbortHandler)
	}
}

// stream sends the turn as a stream of events.
func (a *anthropicAnswer) stream() {
	usage := anthropicUsage(a.turn.Usage)
	usage["output_tokens"] = 1
	a.event("message_start", map[string]any{"type": "message_start", "message": a.message([]any{}, nil, usage)})
	for i, block := range a.blocks() {
		a.event("content_block_start", map[string]any{"type": "content_block_start", "index": i, "content_block": block.empty()})
		if i == 0 {
			a.event("ping", map[string]any{"type": "ping"})
		}
		block.deltas(a.chunk(), func(delta map[string]any) { a.piece(i, delta) })
		a.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": i})
	}
	if a.turn.Flood > 0 {
		flood := anthropicBlock{kind: "text"}
		a.event("content_block_start", map[string]any{"type": "content_block_start", "index": 0, "content_block": flood.empty()})
		a.flood(func(piece string) { a.piece(0, map[string]any{"type": "text_delta", "text": piece}) })
	}
	if a.turn.Stall {
		<-a.ctx.Done()
		return
	}
	if a.turn.CutAfter > 0 {
		panic(http.ErrAbortHandler)
	}
	a.event("message_delta", map[string]any{
		"type":  "message_delta",
		"delta": map[string]any{"stop_reason": a.stop(), "stop_sequence": nil, "stop_details": nil},
		"usage": anthropicUsage(a.turn.Usage),
	})
	a.event("message_stop", map[string]any{"type": "message_stop"})
}

// flood sends the turn's flood of text.
func (a *anthropicAnswer) flood(send func(piece string)) {
	piece := strings.Repeat("0123456789abcdef", 64<<10/16)
	for rest := a.turn.Flood; rest > 0; rest -= int64(len(piece)) {
		send(piece[:min(rest, int64(len(piece)))])
	}
}

// whole sends the turn as one JSON value.
func (a *anthropicAnswer) whole() {
	if a.turn.Flood > 0 {
		io.WriteString(a.w, `{"type":"message","role":"assistant","content":[{"type":"text","text":"`) //nolint:errcheck // the client has gone
		a.flood(func(piece string) {
			if _, err := io.WriteString(a.w, piece); err != nil {
				panic(http.ErrAbortHandler)
			}
		})
		io.WriteString(a.w, `"}]}`) //nolint:errcheck // the client has gone
		return
	}
	content := []any{}
	for _, block := range a.blocks() {
		content = append(content, block.whole())
	}
	body := compactJSON(a.message(content, a.stop(), anthropicUsage(a.turn.Usage)))
	a.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if a.turn.Stall || a.turn.CutAfter > 0 {
		body = body[:len(body)/2]
	}
	a.w.Write(body) //nolint:errcheck // the client has gone
	if !a.turn.Stall && a.turn.CutAfter == 0 {
		return
	}
	a.w.(http.Flusher).Flush()
	if a.turn.Stall {
		<-a.ctx.Done()
	}
	panic(http.ErrAbortHandler)
}

func (a *anthropicAnswer) message(content []any, stop, usage any) map[string]any {
	return map[string]any{
		"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant", "model": a.model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "stop_details": nil, "container": nil, "usage": usage,
	}
}

func (a *anthropicAnswer) chunk() int {
	if a.turn.Chunk > 0 {
		return a.turn.Chunk
	}
	return 16
}

func (a *anthropicAnswer) stop() string {
	switch a.turn.Stop {
	case planner.StopLength:
		return "max_tokens"
	case planner.StopRefused:
		return "refusal"
	case planner.StopEnd:
		return "end_turn"
	}
	if len(a.turn.Calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// blocks are the turn's.
func (a *anthropicAnswer) blocks() []anthropicBlock {
	var blocks []anthropicBlock
	if a.turn.Flood > 0 {
		return nil
	}
	if a.turn.Thinking != "" {
		blocks = append(blocks,
			anthropicBlock{kind: "thinking", text: a.turn.Thinking},
			anthropicBlock{kind: "redacted_thinking", text: anthropicRedacted(a.turn.Thinking)})
	}
	if a.turn.Text != "" {
		blocks = append(blocks, anthropicBlock{kind: "text", text: a.turn.Text})
	}
	for i, call := range a.turn.Calls {
		if call.ID == "" {
			call.ID = fmt.Sprintf("toolu_01T1x1fJ34qAmk2tNTrN7Up%d", i)
		}
		blocks = append(blocks, anthropicBlock{kind: "tool_use", text: string(call.Args), call: call})
	}
	return blocks
}

// An anthropicBlock is a block of an answer's content.
type anthropicBlock struct {
	kind string
	text string // thoughts or arguments among them
	call planner.ToolCall
}

// empty is the block as it begins in a stream.
func (b anthropicBlock) empty() map[string]any {
	switch b.kind {
	case "thinking":
		return map[string]any{"type": "thinking", "thinking": "", "signature": ""}
	case "redacted_thinking":
		return b.whole()
	case "tool_use":
		return map[string]any{"type": "tool_use", "id": b.call.ID, "name": b.call.Name, "input": map[string]any{}, "caller": map[string]any{"type": "direct"}}
	}
	return map[string]any{"type": "text", "text": ""}
}

// whole is the block in an answer that is not streamed.
func (b anthropicBlock) whole() map[string]any {
	switch b.kind {
	case "thinking":
		return map[string]any{"type": "thinking", "thinking": b.text, "signature": anthropicSignature(b.text)}
	case "redacted_thinking":
		return map[string]any{"type": "redacted_thinking", "data": b.text}
	case "tool_use":
		block := b.empty()
		if input := json.RawMessage(b.text); json.Valid(input) {
			block["input"] = input
		}
		return block
	}
	return map[string]any{"type": "text", "text": b.text, "citations": nil}
}

// deltas are what comes of the block between its beginning and its end.
func (b anthropicBlock) deltas(size int, send func(map[string]any)) {
	kind, member := "text_delta", "text"
	switch b.kind {
	case "redacted_thinking":
		return
	case "thinking":
		kind, member = "thinking_delta", "thinking"
	case "tool_use":
		kind, member = "input_json_delta", "partial_json"
	}
	for rest := b.text; rest != ""; {
		n := min(size, len(rest))
		for n < len(rest) && rest[n]&0xC0 == 0x80 { // a character is never cut in two
			n++
		}
		send(map[string]any{"type": kind, member: rest[:n]})
		rest = rest[n:]
	}
	if b.kind == "thinking" {
		send(map[string]any{"type": "signature_delta", "signature": anthropicSignature(b.text)})
	}
}

func anthropicUsage(u planner.Usage) map[string]any {
	fresh := u.Input - u.Cached
	return map[string]any{
		"input_tokens":                fresh - fresh/2,
		"cache_creation_input_tokens": fresh / 2,
		"cache_read_input_tokens":     u.Cached,
		"output_tokens":               u.Output,
	}
}

// anthropicSignature is what proves that thoughts come back as they were.
func anthropicSignature(thoughts string) string {
	sum := sha256.Sum256([]byte("thoughts\x00" + thoughts))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// anthropicRedacted stands for thoughts that are not shown.
func anthropicRedacted(thoughts string) string {
	return "redacted." + anthropicSignature(thoughts)
}

// compactJSON is a value as the API writes it: <, > and & as they are.
func compactJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // a map of plain values
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
