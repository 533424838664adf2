package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/internal/event"
	"airlock/internal/tool"
)

const (
	maxText      = 1 << 20 // bytes of an answer's text
	maxCalls     = 200     // tool calls that are listed
	maxLocations = 20      // of one that is listed
	maxInput     = 256 << 10
	maxInputs    = 4 << 20 // bytes of what is kept of tool calls until leave is asked for them
	maxSession   = 1024    // bytes of a session's name
)

// A turn is what the agent says of its work. It is safe for concurrent use.
type turn struct {
	tool string
	back tool.Back // may be nil

	mu     sync.Mutex
	id     sdk.SessionId
	closed bool
	text   strings.Builder
	cut    bool   // there was more text
	last   string // the message that the last text was of
	gap    bool   // it used a tool since

	calls []*used
	byID  map[sdk.ToolCallId]*used
	left  int // calls that are not listed
	kept  int // bytes of inputs
}

// A used tool is one of the agent's own, as it describes its call.
type used struct {
	Title     string     `json:"title"`
	Kind      string     `json:"kind"`
	Status    string     `json:"status"`
	Locations []location `json:"locations,omitempty"`

	input any // what was said of it, for when leave is asked for it
	at    []string
	diffs []edit
	size  int  // that they are counted with
	lost  bool // it was too much to keep
}

type location struct {
	Path string `json:"path"`
	Line *int   `json:"line,omitempty"`
}

// open begins the turn; false is a name that no session can have.
func (t *turn) open(id sdk.SessionId) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id = id
	return id != "" && len(id) <= maxSession
}

// close ends it: what is said then is passed over.
func (t *turn) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// session is the session's name; "" while there is none.
func (t *turn) session() sdk.SessionId {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

// update takes what the agent says of itself. size is how large that was.
func (t *turn) update(n *sdk.SessionNotification, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id == "" || n.SessionId != t.id || t.closed {
		return
	}
	u := &n.Update
	switch {
	case u.AgentMessageChunk != nil:
		t.sayLocked(u.AgentMessageChunk)
	case u.ToolCall != nil:
		c := u.ToolCall
		t.usedLocked(c.ToolCallId, &c.Title, &c.Kind, &c.Status, c.Locations, c.Content, c.RawInput, size)
		t.gap = t.text.Len() > 0
		t.progressLocked(event.Progress{Message: c.Title})
	case u.ToolCallUpdate != nil:
		c := u.ToolCallUpdate
		t.usedLocked(c.ToolCallId, c.Title, c.Kind, c.Status, c.Locations, c.Content, c.RawInput, size)
	case u.Plan != nil:
		t.planLocked(u.Plan.Entries)
	}
}

// sayLocked takes a piece of the answer.
func (t *turn) sayLocked(c *sdk.SessionUpdateAgentMessageChunk) {
	if c.Content.Text == nil || c.Content.Text.Text == "" {
		return
	}
	piece, message := c.Content.Text.Text, ""
	if c.MessageId != nil && len(*c.MessageId) <= maxSession {
		message = *c.MessageId
	}
	if (t.gap || message != t.last && t.text.Len() > 0) && !strings.HasSuffix(t.text.String(), "\n\n") {
		piece = "\n\n" + piece
	}
	t.gap, t.last = false, message
	if room := maxText - t.text.Len(); len(piece) > room {
		for room > 0 && !utf8.RuneStart(piece[room]) {
			room--
		}
		t.cut, piece = true, piece[:room]
	}
	if piece == "" {
		return
	}
	t.text.WriteString(piece)
	if t.back != nil {
		t.back.Publish(event.Partial{Tool: t.tool, Data: encode(piece)})
	}
}

// usedLocked takes what is new of a call of a tool.
func (t *turn) usedLocked(id sdk.ToolCallId, title *string, kind *sdk.ToolKind, status *sdk.ToolCallStatus,
	at []sdk.ToolCallLocation, content []sdk.ToolCallContent, input any, size int,
) {
	c := t.byID[id]
	if c == nil {
		if len(t.calls) == maxCalls || len(id) > maxSession {
			t.left++
			return
		}
		c = &used{Kind: string(sdk.ToolKindOther), Status: string(sdk.ToolCallStatusPending)}
		if t.byID == nil {
			t.byID = map[sdk.ToolCallId]*used{}
		}
		t.byID[id] = c
		t.calls = append(t.calls, c)
	}
	set(&c.Title, title)
	set(&c.Kind, kind)
	set(&c.Status, status)
	if at != nil {
		c.Locations = nil
		for _, l := range at[:min(len(at), maxLocations)] {
			c.Locations = append(c.Locations, location{clip(l.Path), l.Line})
		}
	}
	if c.Status == string(sdk.ToolCallStatusCompleted) || c.Status == string(sdk.ToolCallStatusFailed) {
		t.kept -= c.size
		c.input, c.at, c.diffs, c.size = nil, nil, nil, 0
		return
	}
	t.keepLocked(c, at, content, input, size)
}

// keepLocked keeps what the gate must know of a call when leave is asked for it.
func (t *turn) keepLocked(c *used, at []sdk.ToolCallLocation, content []sdk.ToolCallContent, input any, size int) {
	diffs := diffsOf(content)
	if input == nil && len(diffs) == 0 && len(at) == 0 || c.lost {
		return
	}
	if c.size+size > maxInput || t.kept+size > maxInputs {
		t.kept -= c.size
		c.input, c.at, c.diffs, c.size, c.lost = nil, nil, nil, 0, true
		return
	}
	t.kept += size
	c.size += size
	if input != nil {
		c.input = input
	}
	if len(diffs) > 0 {
		c.diffs = diffs
	}
	if len(at) > 0 {
		c.at = nil
		for _, l := range at {
			c.at = append(c.at, l.Path)
		}
	}
}

// diffsOf are the changes among what a call shows.
func diffsOf(content []sdk.ToolCallContent) []edit {
	var diffs []edit
	for _, d := range content {
		if d.Diff != nil {
			diffs = append(diffs, edit{d.Diff.Path, d.Diff.NewText})
		}
	}
	return diffs
}

// set takes over a text, if there is one.
func set[T ~string](to *string, from *T) {
	if from != nil && *from != "" {
		*to = clip(string(*from))
	}
}

// clip is a text of the agent's for a list.
func clip(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}

// planLocked shows how far the agent has come by its own plan.
func (t *turn) planLocked(entries []sdk.PlanEntry) {
	if len(entries) == 0 {
		return
	}
	total := float64(len(entries))
	p := event.Progress{Total: &total}
	for _, e := range entries {
		switch {
		case e.Status == sdk.PlanEntryStatusCompleted:
			p.Done++
		case e.Status == sdk.PlanEntryStatusInProgress && p.Message == "":
			p.Message = e.Content
		}
	}
	t.progressLocked(p)
}

func (t *turn) progressLocked(p event.Progress) {
	if t.back == nil {
		return
	}
	p.Tool, p.Message = t.tool, shown(p.Message)
	t.back.Publish(p)
}

// asked is what is known of a call that leave is asked for: what was said before, unless
// the request says it anew.
func (t *turn) asked(c *sdk.ToolCallUpdate) wish {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := wish{input: c.RawInput, edits: diffsOf(c.Content)}
	for _, l := range c.Locations {
		w.paths = append(w.paths, l.Path)
	}
	if before := t.byID[c.ToolCallId]; before != nil {
		w.title, w.kind, w.lost = before.Title, sdk.ToolKind(before.Kind), before.lost
		if w.input == nil {
			w.input = before.input
		}
		if len(w.paths) == 0 {
			w.paths = slices.Clone(before.at)
		}
		if len(w.edits) == 0 {
			w.edits = before.diffs
		}
	}
	if c.Title != nil {
		w.title = *c.Title
	}
	if c.Kind != nil {
		w.kind = *c.Kind
	}
	return w
}

// said is the text that there is.
func (t *turn) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// A result is what a turn came to.
type result struct {
	Text       string         `json:"text"`
	StopReason sdk.StopReason `json:"stop_reason"`
	ToolCalls  []*used        `json:"tool_calls"`
	Truncated  bool           `json:"truncated,omitempty"`       // there was more text
	LeftOut    int            `json:"tool_calls_left,omitempty"` // that are not listed
}

// document is the answer.
func (t *turn) document(stop sdk.StopReason) json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	res := &result{t.text.String(), sdk.StopReason(clip(string(stop))), t.calls, t.cut, t.left}
	if res.ToolCalls == nil {
		res.ToolCalls = []*used{}
	}
	switch stop {
	case sdk.StopReasonEndTurn, sdk.StopReasonMaxTokens, sdk.StopReasonMaxTurnRequests:
		return encode(answer{Status: "success", Result: res})
	case sdk.StopReasonRefusal:
		return failure("Agent refused to go on", res)
	case sdk.StopReasonCancelled:
		return failure("Agent canceled its turn", res)
	}
	return failure(fmt.Sprintf("Agent ended its turn for a reason that the protocol does not know: %s", shown(string(stop))), res)
}

// An answer is the document.
type answer struct {
	Status string  `json:"status"`
	Error  string  `json:"error,omitempty"`
	Result *result `json:"result,omitempty"`
}

// failure is the answer that something went wrong, with what there is all the same.
func failure(text string, res *result) json.RawMessage {
	return encode(answer{Status: "error", Error: text, Result: res})
}

// encode is v as JSON that a person can read: with no more escapes than JSON asks for.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // texts and numbers always are JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
