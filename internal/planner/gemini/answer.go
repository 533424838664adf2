package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// Answer asks the model for its next message.
func (m *Model) Answer(ctx context.Context, req *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	ctx, watched := endpoint.Watch(ctx)
	ctx, reply := withReply(ctx)
	url := m.info.Endpoint
	if err := ctx.Err(); err != nil {
		return nil, watched.Error(url, err)
	}
	config, err := m.config(req)
	if err != nil {
		return nil, watched.Fault(url, planner.FaultRejected, err.Error())
	}
	client, err := m.client()
	if err != nil {
		return nil, watched.Fault(url, planner.FaultRejected, err.Error())
	}
	if on == nil {
		on = func(planner.Delta) {}
	}
	g := &gathered{on: on, earlier: earlierCalls(req.Messages)}
	err = m.stream(ctx, client, m.contents(req.Messages), config, g)
	return g.finish(ctx, url, watched, reply, err)
}

// errShape says that an answer has members of another type than the API's.
type errShape struct{}

func (errShape) Error() string { return "the answer is not as the API's are" }

// stream asks and gathers what comes.
//
// genai panics at members that are of another type than it expects, which is the endpoint's
// fault; a panic of the caller's own function goes on.
func (m *Model) stream(ctx context.Context, client *genai.Client, contents []*genai.Content, config *genai.GenerateContentConfig, g *gathered) (err error) {
	isOurs := false
	defer func() {
		if isOurs {
			return
		}
		if r := recover(); r != nil {
			err = errShape{}
		}
	}()
	for chunk, err := range client.Models.GenerateContentStream(ctx, m.name, contents, config) {
		if err != nil {
			return err
		}
		isOurs = true
		g.add(chunk)
		isOurs = false
	}
	return nil
}

// earlierCalls is how many calls a conversation has.
func earlierCalls(messages []planner.Message) int {
	n := 0
	for i := range messages {
		n += len(messages[i].Calls)
	}
	return n
}

// Gathered is an answer as far as it has come.
type gathered struct {
	on      func(planner.Delta)
	earlier int // calls before this answer's

	text    strings.Builder
	calls   []planner.ToolCall
	parts   []*genai.Part
	usage   planner.Usage
	model   string
	reason  genai.FinishReason
	message string // what the endpoint says of the end
	blocked genai.BlockedReason
	isAPI   bool // something came that only this API has
}

// add takes a chunk.
func (g *gathered) add(chunk *genai.GenerateContentResponse) {
	g.isAPI = g.isAPI || len(chunk.Candidates) > 0 || chunk.PromptFeedback != nil || chunk.UsageMetadata != nil
	if u := chunk.UsageMetadata; u != nil {
		g.usage = planner.Usage{
			Input:  tokens(u.PromptTokenCount, u.ToolUsePromptTokenCount),
			Cached: tokens(u.CachedContentTokenCount),
			Output: tokens(u.CandidatesTokenCount, u.ThoughtsTokenCount),
		}
	}
	if chunk.ModelVersion != "" {
		g.model = chunk.ModelVersion
	}
	if f := chunk.PromptFeedback; f != nil && f.BlockReason != "" {
		g.blocked, g.message = f.BlockReason, f.BlockReasonMessage
	}
	for _, candidate := range chunk.Candidates {
		if candidate == nil || candidate.Index != 0 {
			continue
		}
		if candidate.Content != nil {
			for _, part := range candidate.Content.Parts {
				g.part(part)
			}
		}
		if candidate.FinishReason != "" && candidate.FinishReason != genai.FinishReasonUnspecified {
			g.reason, g.message = candidate.FinishReason, candidate.FinishMessage
		}
	}
}

// part takes a part of the model's content.
func (g *gathered) part(part *genai.Part) {
	switch {
	case part == nil:
	case part.FunctionCall != nil:
		g.call(part)
	case part.Thought:
		g.on(planner.Delta{Thinking: true})
		if len(part.ThoughtSignature) > 0 {
			g.parts = append(g.parts, &genai.Part{Text: part.Text, Thought: true, ThoughtSignature: part.ThoughtSignature})
		}
	case part.Text != "" || len(part.ThoughtSignature) > 0:
		g.text.WriteString(part.Text)
		g.parts = append(g.parts, &genai.Part{Text: part.Text, ThoughtSignature: part.ThoughtSignature})
		if part.Text != "" {
			g.on(planner.Delta{Text: part.Text})
		}
	}
}

// call takes a call of a tool.
func (g *gathered) call(part *genai.Part) {
	call := part.FunctionCall
	args := []byte("{}")
	if len(call.Args) > 0 {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(call.Args) == nil { // what came as JSON
			args = bytes.TrimSpace(b.Bytes())
		}
	}
	id := call.ID
	if id == "" {
		id = fmt.Sprintf("call-%d", g.earlier+len(g.calls)+1)
	}
	g.calls = append(g.calls, planner.ToolCall{ID: id, Name: call.Name, Args: args})
	g.parts = append(g.parts, &genai.Part{
		FunctionCall:     &genai.FunctionCall{ID: call.ID, Name: call.Name, Args: call.Args},
		ThoughtSignature: part.ThoughtSignature,
	})
	g.on(planner.Delta{Tool: call.Name, Args: string(args)})
}

// tokens adds counts up; an endpoint may send anything.
func tokens(counts ...int32) int64 {
	var sum int64
	for _, n := range counts {
		sum += int64(max(n, 0))
	}
	return sum
}
