package planner

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"airlock/internal/redact"
)

// clean is text that may leave this machine: secrets are taken out of it, and it is UTF-8.
// What is put into a request is made of clean text and of constants alone, and scrubber
// is what makes clean text of other text: that is the one place where it is decided what a
// model gets to see. A conversion to clean elsewhere is of what is put together of clean text, or
// is not sent.
type clean string

// A scrubber makes text clean.
type scrubber func(string) string

func newScrubber(f func(string) string) scrubber {
	if f == nil {
		return redact.Text
	}
	return f
}

// text makes s clean. It is called with whole texts: of one that was cut, a secret's half
// could be left.
func (f scrubber) text(s string) clean {
	if s == "" {
		return ""
	}
	return clean(strings.ToValidUTF8(f(strings.ToValidUTF8(s, "\uFFFD")), "\uFFFD"))
}

// args makes a call's arguments clean. What is no JSON object, or not clean after that,
// becomes an empty one.
func (f scrubber) args(raw json.RawMessage) json.RawMessage {
	value, ok := object(raw)
	if !ok {
		return json.RawMessage("{}")
	}
	text, err := marshal(f.value(value))
	if err != nil {
		return json.RawMessage("{}")
	}
	// A secret that shows only in the whole, such as one behind its name, is looked for, too.
	whole := []byte(f.text(string(text)))
	if _, ok := object(whole); !ok {
		return json.RawMessage("{}")
	}
	return whole
}

// value makes the texts in a JSON value clean.
func (f scrubber) value(v any) any {
	switch v := v.(type) {
	case string:
		return string(f.text(v))
	case []any:
		for i := range v {
			v[i] = f.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[string(f.text(name))] = f.value(member)
		}
		return out
	}
	return v
}

// message makes a message of an earlier conversation clean, which it is unless it was made
// by others or before a secret was known. What a provider wants back as it was stays.
func (f scrubber) message(m *Message) Message {
	out := Message{Role: m.Role, Text: string(f.again(m.Text)), Opaque: m.Opaque}
	for _, c := range m.Calls {
		out.Calls = append(out.Calls, ToolCall{ID: c.ID, Name: c.Name, Args: f.args(c.Args)})
	}
	for _, r := range m.Results {
		r.Text = string(f.text(r.Text))
		out.Results = append(out.Results, r)
	}
	return out
}

// again makes a message clean that compose made, part by part: what looks like a secret's
// beginning in one part must not take the fences around it, and so the whole order, away.
func (f scrubber) again(text string) clean {
	const begin = "\n{\n  \"context\": {\n"
	var out, segment strings.Builder
	flush := func() {
		out.WriteString(string(f.text(segment.String())))
		segment.Reset()
	}
	context := clean("")
	if i := strings.LastIndex(text, begin); i >= 0 {
		var c struct{ Context Context }
		if json.Unmarshal([]byte(text[i:]), &c) == nil {
			if whole, err := f.context(&c.Context); err == nil {
				text, context = text[:i], "\n"+whole+"\n"
			}
		}
	}
	for line := range strings.Lines(text) {
		if isFence(line) {
			flush()
			segment.WriteString(line)
			flush()
			continue
		}
		segment.WriteString(line)
	}
	flush()
	return clean(out.String()) + context
}

// object reads a JSON object, and nothing else; nothing at all is an empty one.
func object(raw []byte) (map[string]any, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return map[string]any{}, true
	}
	if raw[0] != '{' || !json.Valid(raw) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return nil, false
	}
	return v, true
}

// marshal is json.Marshal without what HTML asks for.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// cut is the beginning of s, at most n bytes of it, which ends between two characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
