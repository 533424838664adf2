package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A completion is a chunk of a stream, or a whole answer. The SDK's own type takes less than
// servers send, so it is read here: a text may be null or a list, arguments an object.
type completion struct {
	Model   loose           `json:"model"`
	Object  loose           `json:"object"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Groq    *struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Delta        *message        `json:"delta"`
	Message      *message        `json:"message"`
	FinishReason loose           `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

type message struct {
	Content          loose  `json:"content"`
	Refusal          loose  `json:"refusal"`
	Reasoning        loose  `json:"reasoning"`         // OpenRouter, Groq, vLLM, Ollama
	ReasoningContent loose  `json:"reasoning_content"` // DeepSeek, vLLM, llama.cpp
	ToolCalls        []call `json:"tool_calls"`
}

type call struct {
	Index    *number `json:"index"`
	ID       loose   `json:"id"`
	Function struct {
		Name      loose `json:"name"`
		Arguments loose `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     number `json:"prompt_tokens"`
	Completion number `json:"completion_tokens"`
	Details    *struct {
		Cached number `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheHit number   `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cost     *float64 `json:"cost"`                    // OpenRouter
}

// A loose text is a string, null, a list of parts with texts, or another value, which is
// taken as its JSON.
type loose struct {
	text   string
	object bool // it is no string, but an object
}

// UnmarshalJSON takes any value.
func (l *loose) UnmarshalJSON(data []byte) error {
	*l = loose{}
	switch data[0] {
	case '"':
		return json.Unmarshal(data, &l.text)
	case 'n':
		return nil
	case '[':
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(data, &parts) == nil {
			var b strings.Builder
			for _, p := range parts {
				if p.Type == "" || p.Type == "text" {
					b.WriteString(p.Text)
				}
			}
			l.text = b.String()
			return nil
		}
	case '{':
		l.object = true
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return err
	}
	l.text = b.String()
	return nil
}

// A number is one that may be written as a string, or be none.
type number int64

// UnmarshalJSON takes any value; what is no number is 0.
func (n *number) UnmarshalJSON(data []byte) error {
	*n = 0
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err == nil && f > 0 && f < 1<<53 {
		*n = number(f)
	}
	return nil
}

// isNull reports whether a member is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
