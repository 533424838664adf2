package modeltest

import (
	"encoding/json"
	"strings"
)

// anthropicConversation checks the messages of a request, one after the other.
func anthropicConversation(req *anthropicRequest) *refusal {
	open := map[string]bool{} // the calls of the message before
	seen := map[string]bool{} // all calls
	used := false
	for i, message := range req.Messages {
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}
		if message.Role != want {
			return invalid("messages.%d: roles must alternate, beginning with \"user\": the role is %q", i, message.Role)
		}
		blocks, err := anthropicBlocks(message.Content)
		if err != nil {
			return invalid("messages.%d.%v", i, err)
		}
		var refused *refusal
		if message.Role == "user" {
			refused = anthropicResults(i, blocks, open)
			clear(open)
		} else {
			refused = anthropicCalls(i, blocks, open, seen)
		}
		if refused != nil {
			return refused
		}
		used = used || len(open) > 0
	}
	switch {
	case len(req.Messages)%2 == 0:
		return invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
	case used && len(req.Tools) == 0:
		return invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
	}
	return nil
}

// anthropicResults checks a user's message: every call has one result, and they stand first.
func anthropicResults(i int, blocks []anthropicContent, open map[string]bool) *refusal {
	results := 0
	for j, block := range blocks {
		switch block.Type {
		case "text":
			continue
		case "tool_result":
		default:
			return invalid("messages.%d.content.%d: `%s` blocks are not permitted in user messages", i, j, block.Type)
		}
		if refused := anthropicResult(i, j, block); refused != nil {
			return refused
		}
		if !open[block.ToolUseID] {
			return invalid("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message", i, j, block.ToolUseID)
		}
		if j != results {
			return invalid("messages.%d.content.%d: `tool_result` blocks must come first", i, j)
		}
		delete(open, block.ToolUseID)
		results++
	}
	for id := range open {
		return invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, id)
	}
	return nil
}

func anthropicResult(i, j int, block anthropicContent) *refusal {
	if len(block.Content) == 0 {
		if block.IsError {
			return invalid("messages.%d.content.%d.tool_result: content cannot be empty if `is_error` is true", i, j)
		}
		return nil
	}
	content, err := anthropicBlocks(block.Content)
	if err != nil {
		return invalid("messages.%d.content.%d.tool_result.%v", i, j, err)
	}
	for k, part := range content {
		if part.Type != "text" {
			return invalid("messages.%d.content.%d.tool_result.content.%d: Input should be 'text'", i, j, k)
		}
	}
	return nil
}

// anthropicCalls checks an assistant's message, and notes its calls.
func anthropicCalls(i int, blocks []anthropicContent, open, seen map[string]bool) *refusal {
	for j, block := range blocks {
		switch block.Type {
		case "text":
		case "thinking":
			if block.Signature != anthropicSignature(block.Thinking) {
				return invalid("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j)
			}
		case "redacted_thinking":
			if !strings.HasPrefix(block.Data, "redacted.") {
				return invalid("messages.%d.content.%d: Invalid `data` in `redacted_thinking` block", i, j)
			}
		case "tool_use":
			var input map[string]json.RawMessage
			switch {
			case !anthropicWord(block.ID, 256):
				return invalid("messages.%d.content.%d.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", i, j)
			case !anthropicWord(block.Name, 200):
				return invalid("messages.%d.content.%d.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,200}$'", i, j)
			case seen[block.ID]:
				return invalid("messages.%d: `tool_use` ids must be unique", i)
			case json.Unmarshal(block.Input, &input) != nil || input == nil:
				return invalid("messages.%d.content.%d.tool_use.input: Input should be an object", i, j)
			}
			open[block.ID], seen[block.ID] = true, true
		default:
			return invalid("messages.%d.content.%d: `%s` blocks are not permitted in assistant messages", i, j, block.Type)
		}
	}
	if last := blocks[len(blocks)-1].Type; last == "thinking" || last == "redacted_thinking" {
		return invalid("messages.%d: The final block in an assistant message cannot be `%s`.", i, last)
	}
	return nil
}
