package planner

import (
	"context"
	"encoding/json"

	"airlock/internal/tool"
)

// A Model is a language model behind an endpoint. It is safe for concurrent use.
//
// Answer asks for the conversation's next message and hands on what comes of it, as it
// comes, to on, which may be nil and is called by one goroutine at a time, never after
// Answer has returned. Answer returns soon after ctx is done. It tries once: what can be
// tried again is the caller's to decide. Its error is an *Error, which may wrap ctx's.
type Model interface {
	Info() Info
	Answer(ctx context.Context, req *Request, on func(Delta)) (*Answer, error)
}

// Info is what is known of a model without asking it. It does not change.
type Info struct {
	Provider string `json:"provider"` // "openai", "ollama", "anthropic", …
	Model    string `json:"model"`
	Endpoint string `json:"endpoint"` // the URL that requests go to, without credentials
	Local    bool   `json:"local,omitempty"`

	// Formats are the ways to a structured answer that are worth trying, the best first.
	// The last one is always FormatText.
	Formats []Format `json:"formats"`
}

// A Format is a way of making a model answer with a plan.
type Format string

// The formats, from the strictest. None of them is trusted: every answer is checked.
const (
	FormatSchema Format = "schema" // the endpoint holds the answer to a JSON Schema
	FormatTool   Format = "tool"   // the answer is the arguments of a tool
	FormatJSON   Format = "json"   // the endpoint holds the answer to JSON
	FormatText   Format = "text"   // the answer is found in a text
)

// A Request is one question to a model: a conversation, and how to answer it.
type Request struct {
	System   string    `json:"system"`
	Messages []Message `json:"messages"` // the last one is the user's

	// Tools may be called by the model. MustCall: it has to call one of them.
	Tools    []ToolDef `json:"tools,omitempty"`
	MustCall bool      `json:"must_call,omitempty"`

	// Format is how the text of the answer is asked for. Schema is for FormatSchema: an
	// object all of whose members are required, those without a value being null, as the
	// strictest endpoints ask for it. FormatTool asks nothing of the text.
	Format Format          `json:"format"`
	Schema json.RawMessage `json:"schema,omitempty"`

	MaxTokens int64 `json:"max_tokens,omitempty"` // of the answer; 0: the provider's own bound
}

// A Role says whose a message is.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Message is a part of a conversation. The assistant's has a text, calls of tools, or
// both; the user's has a text, or the results of all the calls of the message before it.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []ToolCall   `json:"calls,omitempty"`
	Results []ToolResult `json:"results,omitempty"`

	// Opaque is what the provider that made an assistant's message wants back with it, such
	// as signatures of its thoughts. Another provider leaves it out.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// A ToolDef is a tool as a model is told of it.
type ToolDef struct {
	Name        string          `json:"name"` // of a-z, 0-9 and _ alone
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // of the arguments, an object
}

// A ToolCall is a model's call of a tool.
type ToolCall struct {
	ID   string          `json:"id"` // never empty: the provider makes one up where the endpoint gives none
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // what the model wrote: JSON as a rule, never trusted; empty means {}
}

// A ToolResult answers a ToolCall.
type ToolResult struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// A Delta is a piece of an answer that is on its way.
type Delta struct {
	Text     string // of the answer
	Thinking bool   // the model is thinking: Text is empty
	Tool     string // the tool that is being called
	Args     string // of its arguments
}

// An Answer is a model's whole message.
type Answer struct {
	Text  string     `json:"text"`
	Calls []ToolCall `json:"calls,omitempty"`
	Stop  Stop       `json:"stop"`
	Usage Usage      `json:"usage"`
	Model string     `json:"model,omitempty"` // the model that did answer, where the endpoint tells

	Opaque json.RawMessage `json:"opaque,omitempty"` // for Message.Opaque
}

// A Stop is why an answer ended.
type Stop string

// The ways an answer ends.
const (
	StopEnd     Stop = "end"
	StopTools   Stop = "tools"   // results are waited for
	StopLength  Stop = "length"  // it was cut off at a bound for its length
	StopRefused Stop = "refused" // the model or a filter of the endpoint's would not answer
)

// Usage is what an answer cost, as far as the endpoint tells.
type Usage struct {
	Input  int64    `json:"input_tokens"`  // all of them, cached ones among them
	Cached int64    `json:"cached_tokens"` // of Input
	Output int64    `json:"output_tokens"`
	Cost   *float64 `json:"cost_usd,omitempty"` // nil: not told
}

// Add adds what another answer cost.
func (u *Usage) Add(v Usage) {
	u.Input += v.Input
	u.Cached += v.Cached
	u.Output += v.Output
	if v.Cost != nil {
		sum := *v.Cost
		if u.Cost != nil {
			sum += *u.Cost
		}
		u.Cost = &sum
	}
}

// Tools are what a model may call while it makes a plan. They are safe for concurrent use.
type Tools interface {
	// List is what is offered. Each of the tools has one action here.
	List() []*tool.Info

	// Call makes a call, through the gate and into the record. A refusal is a Result too;
	// the error says that ctx has ended or that nothing can be recorded.
	Call(ctx context.Context, call tool.Call) (tool.Result, error)
}
