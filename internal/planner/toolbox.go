package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"airlock/internal/tool"
)

const (
	maxArgs  = 64 << 10 // bytes of a call's arguments
	maxName  = 64       // bytes of a tool's name, as endpoints bound it
	overhead = 512      // bytes of a result without its texts
)

// A toolbox is the tools that a model may use, by the names that it knows them by.
type toolbox struct {
	tools  Tools
	defs   []ToolDef
	byName map[string]tool.Call // without arguments
}

// newToolbox offers those of tools that only read, whoever lists them. Two that a model could
// not tell apart are none.
func newToolbox(tools Tools) *toolbox {
	b := &toolbox{tools: tools, byName: map[string]tool.Call{}}
	if tools == nil {
		return b
	}
	for _, info := range tools.List() {
		if len(info.Actions) != 1 || info.Actions[0].Risk != tool.RiskReadOnly {
			continue
		}
		name := strings.ReplaceAll(info.Name, ".", "_")
		if _, taken := b.byName[name]; taken || name == propose || !wireName(name) {
			continue
		}
		act := &info.Actions[0]
		b.byName[name] = tool.Call{Tool: info.Name, Action: act.Name}
		b.defs = append(b.defs, ToolDef{
			Name:        name,
			Description: fmt.Sprintf("%s: %s %s", info.Name, info.Description, act.Description),
			Schema:      slices.Clone(act.Schema),
		})
	}
	return b
}

func wireName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// offered is what a request offers.
func (b *toolbox) offered() []ToolDef { return slices.Clone(b.defs) }

// names lists them for a model.
func (b *toolbox) names() string {
	if len(b.defs) == 0 {
		return "there are none"
	}
	names := make([]string, len(b.defs))
	for i := range b.defs {
		names[i] = b.defs[i].Name
	}
	return "there are " + strings.Join(names, ", ")
}

// A reply is a result as a model gets it: the envelope of tools, without what says a thing twice.
type reply struct {
	OK        bool           `json:"ok"`
	Stdout    string         `json:"stdout,omitempty"`
	Stderr    string         `json:"stderr,omitempty"`
	Meta      map[string]any `json:"meta,omitempty"`
	Truncated string         `json:"truncated,omitempty"`
	Note      string         `json:"note,omitempty"`
}

// refusal is a reply to a call that was not made.
func refusal(code tool.ErrorCode, why string) reply {
	return reply{Stderr: why, Meta: map[string]any{tool.MetaErrorCode: string(code)}}
}

// call makes a call, and makes a reply of at most limit bytes of the result. Secrets are
// taken out before anything is cut.
func (b *toolbox) call(ctx context.Context, scrub scrubber, call tool.Call, limit int) (reply, bool, error) {
	res, err := b.tools.Call(ctx, call)
	if err != nil {
		return reply{}, false, err
	}
	r := reply{OK: res.OK, Stdout: string(scrub.text(res.Stdout)), Stderr: string(scrub.text(res.Stderr)), Meta: small(scrub, res.Meta)}
	return r, r.shorten(limit), nil
}

// small is what of a Meta is short: the rest says again what stdout says.
func small(scrub scrubber, meta tool.Meta) map[string]any {
	out := map[string]any{}
	for name, value := range meta {
		if name == tool.MetaDurationMS || len(name) > maxName || len(out) == 16 {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil || len(raw) > 100 || raw[0] == '{' || raw[0] == '[' {
			continue
		}
		var plain any
		if json.Unmarshal(raw, &plain) == nil {
			out[string(scrub.text(name))] = scrub.value(plain)
		}
	}
	return out
}

// shorten cuts the texts so that the reply, as it is sent, takes no more than limit bytes.
func (r *reply) shorten(limit int) bool {
	room := max(limit-overhead, 0)
	out, outCut := fit(r.Stdout, room-min(encodedSize(r.Stderr), room/4))
	r.Stdout = out
	err, errCut := fit(r.Stderr, room-encodedSize(out))
	r.Stderr = err
	if !outCut && !errCut {
		return false
	}
	r.Truncated = "this is only the beginning; the rest was left out: ask for less at once, if it is needed"
	return true
}

// fit cuts a text to what takes no more than room bytes in JSON.
func fit(s string, room int) (string, bool) {
	size := 0
	for i, c := range s {
		size += encodedRune(c)
		if size > room {
			return s[:i], true
		}
	}
	return s, false
}

func encodedSize(s string) int {
	size := 0
	for _, c := range s {
		size += encodedRune(c)
	}
	return size
}

// encodedRune is how many bytes a character takes in JSON, at most.
func encodedRune(c rune) int {
	switch {
	case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
		return 2
	case c < 0x20 || c == '\u2028' || c == '\u2029':
		return 6
	case c < 0x80:
		return 1
	case c < 0x800:
		return 2
	case c < 0x10000:
		return 3
	}
	return 4
}

// text is the reply as it is sent.
func (r *reply) text() string {
	text, err := marshal(r)
	if err != nil {
		return `{"ok":false,"stderr":"the result cannot be shown"}`
	}
	return string(text)
}

// flatten makes a conversation without calls of one with them: what was called, and what
// came of it, is told in words.
func (f scrubber) flatten(messages []Message) []Message {
	out := make([]Message, 0, len(messages))
	for i := range messages {
		m := messages[i]
		switch {
		case len(m.Calls) > 0:
			var b strings.Builder
			b.WriteString(m.Text)
			for _, c := range m.Calls {
				fmt.Fprintf(&b, "\nI use the tool %s with %s.", printable(f.text(c.Name)), f.args(c.Args))
			}
			m = Message{Role: m.Role, Text: strings.TrimSpace(b.String())}
		case len(m.Results) > 0:
			var parts []part
			for _, r := range m.Results {
				parts = append(parts, f.piece(&Piece{Kind: "tool result", Name: r.Name, Text: r.Text}))
			}
			m = Message{Role: m.Role, Text: "What the tools gave.\n" + string(fence(parts))}
		}
		out = append(out, m)
	}
	return out
}
