package modeltest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

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
	return serve(t, s, func(a *reply, r *http.Request, body []byte) {
		req, refusal := readAnthropic(r, body)
		if refusal != nil {
			t.Errorf("the API would refuse the request: %s\n%s", refusal.message, body)
			refusal.write(a.w)
			return
		}
		answer := &anthropicAnswer{reply: a, model: req.Model}
		headers := map[string]string{"Content-Type": "application/json", "Request-Id": "req_011CQ2wRVBKxLxUGmBc8xWbN"}
		if !req.Stream {
			a.send(headers, answer.whole)
			return
		}
		if a.turn.Status == 0 {
			headers["Content-Type"], headers["Cache-Control"] = "text/event-stream; charset=utf-8", "no-cache"
		}
		a.send(headers, answer.stream)
	})
}

// An anthropicAnswer is the answer to one request.
type anthropicAnswer struct {
	*reply
	model string
}

// data sends one event of the stream.
func (a *anthropicAnswer) data(name string, data any) {
	a.event("event: " + name + "\ndata: " + string(compactJSON(data)) + "\n\n")
}

// delta sends a delta of a block.
func (a *anthropicAnswer) delta(index int, delta map[string]any) {
	a.data("content_block_delta", map[string]any{"type": "content_block_delta", "index": index, "delta": delta})
}

// stream sends the turn as a stream of events.
func (a *anthropicAnswer) stream() {
	usage := anthropicUsage(a.turn.Usage)
	usage["output_tokens"] = 1
	a.data("message_start", map[string]any{"type": "message_start", "message": a.message([]any{}, nil, usage)})
	for i, block := range a.blocks() {
		a.data("content_block_start", map[string]any{"type": "content_block_start", "index": i, "content_block": block.empty()})
		if i == 0 {
			a.data("ping", map[string]any{"type": "ping"})
		}
		block.deltas(a.chunk(), func(delta map[string]any) { a.piece(func() { a.delta(i, delta) }) })
		a.data("content_block_stop", map[string]any{"type": "content_block_stop", "index": i})
	}
	if a.turn.Flood > 0 {
		flood := anthropicBlock{kind: "text"}
		a.data("content_block_start", map[string]any{"type": "content_block_start", "index": 0, "content_block": flood.empty()})
		a.flood(func(piece string) { a.delta(0, map[string]any{"type": "text_delta", "text": piece}) })
	}
	a.end()
	a.data("message_delta", map[string]any{
		"type":  "message_delta",
		"delta": map[string]any{"stop_reason": a.stop(), "stop_sequence": nil, "stop_details": nil},
		"usage": anthropicUsage(a.turn.Usage),
	})
	a.data("message_stop", map[string]any{"type": "message_stop"})
}

// whole sends the turn as one JSON value.
func (a *anthropicAnswer) whole() {
	if a.turn.Flood > 0 {
		a.floodWithin(`{"type":"message","role":"assistant","content":[{"type":"text","text":"`, `"}]}`)
		return
	}
	content := []any{}
	for _, block := range a.blocks() {
		content = append(content, block.whole())
	}
	body := compactJSON(a.message(content, a.stop(), anthropicUsage(a.turn.Usage)))
	a.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	a.body(body)
}

func (a *anthropicAnswer) message(content []any, stop, usage any) map[string]any {
	return map[string]any{
		"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant", "model": a.model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "stop_details": nil, "container": nil, "usage": usage,
	}
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
	for _, piece := range pieces(b.text, size) {
		send(map[string]any{"type": kind, member: piece})
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
