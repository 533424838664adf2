// Package transcript writes down what was asked of a model, what it answered and what its
// tools gave, and plays it again without model, tools and network. It takes secrets out of all it
// writes, and trusts nothing that it reads: a transcript can do what a model can do, and no
// more.
//
// A transcript is JSON lines: a head, then what happened, in order. Its members are those of
// the types in this file.
package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"airlock/internal/planner"
	"airlock/internal/tool"
)

// What a transcript may hold.
const (
	MaxFile  = 16 << 20 // bytes
	MaxLine  = 4 << 20  // bytes of one line
	maxLines = 10000
	maxText  = 200     // bytes of a name
	maxMeta  = 4 << 10 // bytes of a member of a result's meta; longer ones are left out
	maxMetas = 64 << 10
	maxCalls = 1000 // of tools, in one answer, and tools in one list
	pieces   = 20000
	// maxOutput bounds what is written down of what a tool wrote, in bytes.
	maxOutput = 256 << 10
)

const (
	format    = "airlock-transcript"
	version   = 1
	maxAmount = 1 << 40 // tokens, or dollars
)

// A Head is what is known before the first request.
type Head struct {
	Airlock string       // the version of airlock that records
	Model   planner.Info // that is asked
	Created time.Time
}

// head is the first line.
type head struct {
	Format   string           `json:"format"`
	Version  int              `json:"version"`
	Airlock  string           `json:"airlock"`
	Provider string           `json:"provider"`
	Model    string           `json:"model"`
	Endpoint string           `json:"endpoint"`
	Formats  []planner.Format `json:"formats"`
	Created  time.Time        `json:"created"`
	Redacted bool             `json:"redacted"` // always true: nothing else is written
}

// A line is every other line; one member beside the kind is there, the one that the kind names.
type line struct {
	Kind    kind     `json:"kind"`
	Tools   []offer  `json:"tools,omitempty"`
	Ask     *ask     `json:"ask,omitempty"`
	Request *request `json:"request,omitempty"`
	Answer  *answer  `json:"answer,omitempty"`
	Call    *use     `json:"call,omitempty"`
}

type kind string

// The kinds of lines.
const (
	ofTools   kind = "tools"
	ofAsk     kind = "ask"
	ofRequest kind = "request"
	ofAnswer  kind = "answer"
	ofCall    kind = "call"
)

// An offer is a tool that the model may use.
type offer struct {
	Name   string `json:"name"`
	Action string `json:"action"`
}

type ask struct {
	Verb      planner.Verb    `json:"verb"`
	Words     string          `json:"words"`
	Context   planner.Context `json:"context"`
	Material  []planner.Piece `json:"material,omitempty"`
	Continues bool            `json:"continues,omitempty"` // the conversation of the ask before it
}

// A request is what the model was asked. Of a conversation that was sent before, only what is
// new is written.
type request struct {
	System   string         `json:"system,omitempty"` // "": the same as before
	Same     int            `json:"same,omitempty"`   // so many messages are those of the request before
	Messages []message      `json:"messages"`
	Tools    []string       `json:"tools,omitempty"` // their names
	MustCall bool           `json:"must_call,omitempty"`
	Format   planner.Format `json:"format"`
}

type message struct {
	Role    planner.Role         `json:"role"`
	Text    string               `json:"text,omitempty"`
	Calls   []toolCall           `json:"calls,omitempty"`
	Results []planner.ToolResult `json:"results,omitempty"`
}

// A toolCall has its arguments as a text: a model may write what is no JSON.
type toolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// An answer is what came of a request: pieces, then the whole or an error.
type answer struct {
	Pieces   []piece       `json:"pieces,omitempty"`
	Text     string        `json:"text,omitempty"`
	Streamed bool          `json:"streamed,omitempty"` // the text is that of the pieces
	Calls    []toolCall    `json:"calls,omitempty"`
	Stop     planner.Stop  `json:"stop,omitempty"`
	Usage    planner.Usage `json:"usage"`
	Model    string        `json:"model,omitempty"`
	Error    *fault        `json:"error,omitempty"`
}

type piece struct {
	Text     string `json:"text,omitempty"`
	Thinking bool   `json:"thinking,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Args     string `json:"args,omitempty"`
}

type fault struct {
	Fault        planner.Fault   `json:"fault"`
	Feature      planner.Feature `json:"feature,omitempty"`
	Endpoint     string          `json:"endpoint,omitempty"`
	Status       int             `json:"status,omitempty"`
	Text         string          `json:"text,omitempty"`
	Again        bool            `json:"again,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Mend         string          `json:"mend,omitempty"`
}

// A use is a call of a tool, and what it gave.
type use struct {
	Tool   string  `json:"tool"`
	Action string  `json:"action"`
	Args   string  `json:"args"`
	Result *result `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"` // there was no result
}

type result struct {
	OK     bool                       `json:"ok"`
	Stdout string                     `json:"stdout"`
	Stderr string                     `json:"stderr"`
	Meta   map[string]json.RawMessage `json:"meta,omitempty"`
}

// streamed is the text of the pieces.
func (a *answer) streamed() string {
	var b strings.Builder
	for _, p := range a.Pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// strict reads one JSON value without unknown members, and nothing behind it.
func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("there is more behind the object")
	}
	return nil
}

// check says what is wrong with a head.
func (h *head) check() error {
	switch {
	case h.Format != format:
		return fmt.Errorf("it is no transcript of airlock: want format %q", format)
	case h.Version != version:
		return fmt.Errorf("it has version %d, and only %d is known here", h.Version, version)
	case !name(h.Airlock) || !name(h.Provider) || !name(h.Model) || !name(h.Endpoint):
		return fmt.Errorf("airlock, provider, model and endpoint must be of at most %d printable bytes", maxText)
	case len(h.Formats) == 0 || len(h.Formats) > 4:
		return fmt.Errorf("want one to four formats, got %d", len(h.Formats))
	}
	for i, f := range h.Formats {
		if !slices.Contains([]planner.Format{planner.FormatSchema, planner.FormatTool, planner.FormatJSON, planner.FormatText}, f) {
			return fmt.Errorf("formats[%d]: there is no such format", i)
		}
	}
	return nil
}

// check says what is wrong with a line.
func (l *line) check() error {
	known := false
	for _, m := range []struct {
		kind  kind
		there bool
	}{
		{ofTools, l.Tools != nil || l.Kind == ofTools}, // a list of none is left out
		{ofAsk, l.Ask != nil}, {ofRequest, l.Request != nil}, {ofAnswer, l.Answer != nil}, {ofCall, l.Call != nil},
	} {
		known = known || m.kind == l.Kind
		if m.there != (m.kind == l.Kind) {
			return fmt.Errorf("a line of kind %s must have its member and no other", strconv.Quote(brief(string(l.Kind))))
		}
	}
	if !known {
		return fmt.Errorf("there is no such kind of line: want tools, ask, request, answer or call")
	}
	switch l.Kind {
	case ofTools:
		return checkOffers(l.Tools)
	case ofAsk:
		return l.Ask.check()
	case ofAnswer:
		return l.Answer.check()
	case ofCall:
		return l.Call.check()
	}
	return nil
}

func checkOffers(offers []offer) error {
	if len(offers) > maxCalls {
		return fmt.Errorf("tools: more than %d", maxCalls)
	}
	for i, o := range offers {
		if o.Name == "" || !name(o.Name) || !name(o.Action) {
			return fmt.Errorf("tools[%d]: want a name and an action", i)
		}
	}
	return nil
}

func (a *ask) check() error {
	verbs := []planner.Verb{planner.Any, planner.Explain, planner.Question, planner.Run, planner.Do, planner.Fix}
	if !slices.Contains(verbs, a.Verb) {
		return fmt.Errorf("ask.verb: there is no such verb")
	}
	kinds := []planner.PieceKind{planner.FromPipe, planner.FromFile, planner.FromInstructions, planner.FromFailure, planner.FromShell}
	for i := range a.Material {
		if !slices.Contains(kinds, a.Material[i].Kind) {
			return fmt.Errorf("ask.material[%d].kind: there is no such kind", i)
		}
	}
	return nil
}

func (a *answer) check() error {
	switch {
	case len(a.Pieces) > 2*pieces:
		return fmt.Errorf("answer.pieces: more than %d", 2*pieces)
	case len(a.Calls) > maxCalls:
		return fmt.Errorf("answer.calls: more than %d", maxCalls)
	case !name(a.Model):
		return fmt.Errorf("answer.model: want at most %d printable bytes", maxText)
	case !slices.Contains([]planner.Stop{"", planner.StopEnd, planner.StopTools, planner.StopLength, planner.StopRefused}, a.Stop):
		return fmt.Errorf("answer.stop: there is no such stop")
	case !amount(a.Usage.Input) || !amount(a.Usage.Cached) || !amount(a.Usage.Output) || a.Usage.Cost != nil && (*a.Usage.Cost < 0 || *a.Usage.Cost > maxAmount):
		return fmt.Errorf("answer.usage: less than nothing, or more than there is")
	}
	for i, c := range a.Calls {
		if c.ID == "" {
			return fmt.Errorf("answer.calls[%d].id: want one", i)
		}
	}
	if e := a.Error; e != nil && (!short(string(e.Fault)) || !short(string(e.Feature)) || !short(e.Endpoint) || !short(e.Text) || !short(e.Mend) || e.RetryAfterMS < 0 || e.RetryAfterMS > 1e9) {
		return fmt.Errorf("answer.error: its texts must be short and printable, and retry_after_ms no less than nothing")
	}
	return nil
}

func (u *use) check() error {
	size := 0
	if u.Result != nil {
		for k, v := range u.Result.Meta {
			size += len(k) + len(v)
		}
	}
	switch {
	case (u.Result == nil) == (u.Error == ""):
		return fmt.Errorf("call: want a result or an error")
	case size > maxMetas:
		return fmt.Errorf("call.result.meta: more than %d bytes", maxMetas)
	case !short(u.Error):
		return fmt.Errorf("call.error: want a short printable text")
	case len(u.Args) > tool.MaxArgs:
		return fmt.Errorf("call.args: more than %d bytes", tool.MaxArgs)
	}
	return nil
}

// amount reports whether so much can have been used.
func amount(n int64) bool { return n >= 0 && n <= maxAmount }

// name reports whether a person who is shown s sees all of it.
func name(s string) bool { return len(s) <= maxText && shows(s) }

func short(s string) bool { return len(s) <= 4<<10 && shows(s) }

func shows(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
