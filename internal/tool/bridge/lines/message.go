package lines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The kinds of messages, as their type names them.
const (
	hello    = "hello"
	progress = "progress"
	partial  = "partial"
	call     = "call"
	ask      = "ask"
	result   = "result"
)

// Limits of a message.
const (
	maxMessage = 1 << 20 // bytes
	maxID      = 128     // bytes of an id as it is written
	maxName    = 256     // bytes of a tool's and of an action's name, and of a version
	maxChoices = 100
	maxChoice  = 1000     // bytes of one
	maxText    = 16 << 10 // bytes of a question
	maxKnown   = 32       // members that a message is looked at for
)

// A message is what an agent says on a line of its own. What is set depends on its kind.
type message struct {
	kind string
	id   json.RawMessage // as it was written; nil: none, or none that is right

	protocol string // hello

	text  string // progress
	done  float64
	total *float64

	data json.RawMessage // partial, result

	tool, action string // call
	args         json.RawMessage

	question string // ask
	choices  []string
	fallback string
}

// membersOf are the members that a kind of message has beside type.
func membersOf(kind string) []string {
	switch kind {
	case hello:
		return []string{"protocol"}
	case progress:
		return []string{"message", "done", "total"}
	case partial:
		return []string{"data"}
	case call:
		return []string{"id", "tool", "action", "args", "params"}
	case ask:
		return []string{"id", "question", "choices", "default"}
	case result:
		return []string{"result"}
	}
	return nil
}

// A member is one of a line that is an object.
type member struct {
	name string
	raw  json.RawMessage
}

// decode reads a line. No message means that the line is none: it belongs to the answer.
// An error is what is not right with one, of which the kind and, where it has one, the id
// are known then.
func decode(line []byte) (*message, error) {
	if !couldBe(line) {
		return nil, nil //nolint:nilnil // a line that is no message is nothing wrong
	}
	all, ok := members(line)
	if !ok {
		return nil, nil //nolint:nilnil // as above
	}
	m := &message{}
	types := 0
	for _, one := range all {
		var word string
		if one.name != "type" {
			continue
		}
		types++
		if json.Unmarshal(one.raw, &word) == nil && membersOf(word) != nil {
			m.kind = word
		}
	}
	if m.kind == "" {
		return nil, nil //nolint:nilnil // as above
	}
	if err := m.fill(line, all, types); err != nil {
		return m, fmt.Errorf("%s: %w", m.kind, err)
	}
	return m, nil
}

// couldBe tells most lines that are no message without reading them.
func couldBe(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}' &&
		(bytes.Contains(line, []byte(`"type"`)) || bytes.IndexByte(line, '\\') >= 0)
}

// members reads a line that is one JSON object and nothing else. Of its members those are
// kept that a message could mean, also where they are there twice or in another case.
func members(line []byte) (all []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		name, isText := key.(string)
		var raw json.RawMessage
		if !isText || dec.Decode(&raw) != nil {
			return nil, false
		}
		if meant(name) && len(all) < maxKnown {
			all = append(all, member{name, raw})
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	_, err := dec.Token()
	return all, errors.Is(err, io.EOF)
}

// meant reports whether a name is, but for its case, one that some message knows.
func meant(name string) bool {
	if strings.EqualFold(name, "type") {
		return true
	}
	for _, kind := range []string{hello, progress, partial, call, ask, result} {
		if slices.ContainsFunc(membersOf(kind), func(known string) bool { return strings.EqualFold(known, name) }) {
			return true
		}
	}
	return false
}

// fill takes from the members what the kind has.
func (m *message) fill(line []byte, all []member, types int) error {
	known := membersOf(m.kind)
	have := make(map[string]json.RawMessage, len(known))
	var wrong error
	for _, one := range all {
		i := slices.IndexFunc(known, func(name string) bool { return strings.EqualFold(name, one.name) })
		if i < 0 {
			continue // another kind's, or one of no kind: it is passed over
		}
		_, twice := have[known[i]]
		switch {
		case wrong != nil:
		case one.name != known[i]:
			wrong = fmt.Errorf("it has a member %q: did you mean %q?", one.name, known[i])
		case twice:
			wrong = fmt.Errorf("%s is there twice", one.name)
		}
		if one.name == known[i] {
			have[one.name] = one.raw
		}
	}
	if problem := m.takeID(all); wrong == nil && have["id"] != nil {
		wrong = problem
	}
	switch {
	case types > 1:
		return errors.New("type is there twice")
	case !utf8.Valid(line):
		return errors.New("it is not UTF-8")
	case len(line) > maxMessage:
		return fmt.Errorf("it has %d bytes, more than %d: what is long is printed, not said", len(line), maxMessage)
	case wrong != nil:
		return wrong
	}
	return m.take(have)
}

// takeID takes the id, also of a kind that has none: it is what an error is told by.
func (m *message) takeID(all []member) error {
	var raw json.RawMessage
	for _, one := range all {
		switch {
		case one.name != "id":
		case raw != nil:
			return errors.New("id is there twice")
		default:
			raw = one.raw
		}
	}
	switch {
	case raw == nil:
		return nil
	case raw[0] != '"' && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		return fmt.Errorf("id is %s: want text or a number", kindOf(raw))
	case len(raw) > maxID:
		return fmt.Errorf("id has %d bytes, more than %d", len(raw), maxID)
	case !utf8.Valid(raw):
		return errors.New("id is not UTF-8")
	}
	m.id = raw
	return nil
}

// take reads the members, each of which is there once at most.
func (m *message) take(have map[string]json.RawMessage) error {
	switch m.kind {
	case hello:
		return text(have, "protocol", maxName, true, &m.protocol)
	case progress:
		return m.takeProgress(have)
	case partial:
		return value(have, "data", &m.data)
	case result:
		return value(have, "result", &m.data)
	}
	if m.id == nil {
		return errors.New("it has no id: without one there is no telling which answer is whose")
	}
	if m.kind == ask {
		return m.takeAsk(have)
	}
	return m.takeCall(have)
}

func (m *message) takeProgress(have map[string]json.RawMessage) error {
	if err := text(have, "message", maxMessage, false, &m.text); err != nil {
		return err
	}
	for _, name := range []string{"done", "total"} {
		raw, given := have[name]
		if !given {
			continue
		}
		var n float64
		if kindOf(raw) != "a number" || json.Unmarshal(raw, &n) != nil || n < 0 {
			return fmt.Errorf("%s is %s: want a number from 0", name, clip(raw))
		}
		if name == "done" {
			m.done = n
		} else {
			m.total = &n
		}
	}
	return nil
}

func (m *message) takeCall(have map[string]json.RawMessage) error {
	if err := text(have, "tool", maxName, true, &m.tool); err != nil {
		return err
	}
	if err := text(have, "action", maxName, false, &m.action); err != nil {
		return err
	}
	args, given := have["args"]
	params, too := have["params"]
	switch {
	case given && too:
		return errors.New("args and params are the same: leave one out")
	case too:
		args = params
	case !given:
		args = json.RawMessage("{}")
	}
	if kindOf(args) != "an object" {
		return fmt.Errorf("args is %s: want an object", kindOf(args))
	}
	m.args = args
	return nil
}

func (m *message) takeAsk(have map[string]json.RawMessage) error {
	if err := text(have, "question", maxText, true, &m.question); err != nil {
		return err
	}
	if err := text(have, "default", maxText, false, &m.fallback); err != nil {
		return err
	}
	raw, given := have["choices"]
	if !given {
		return nil
	}
	var list []json.RawMessage
	if kindOf(raw) != "a list" || json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > maxChoices {
		return fmt.Errorf("choices is not right: want a list of 1 to %d texts, or leave it out", maxChoices)
	}
	for i, raw := range list {
		var choice string
		if kindOf(raw) != "text" || json.Unmarshal(raw, &choice) != nil || choice == "" || len(choice) > maxChoice {
			return fmt.Errorf("choices[%d] is not right: want text of 1 to %d bytes", i, maxChoice)
		}
		if slices.Contains(m.choices, choice) {
			return fmt.Errorf("choices[%d] is there twice", i)
		}
		m.choices = append(m.choices, choice)
	}
	if m.fallback != "" && !slices.Contains(m.choices, m.fallback) {
		return errors.New("default is none of choices")
	}
	return nil
}

// text reads a member that is text; one that must be there must not be empty.
func text(have map[string]json.RawMessage, name string, most int, must bool, into *string) error {
	raw, given := have[name]
	switch {
	case !given && must:
		return fmt.Errorf("%s is missing", name)
	case !given:
		return nil
	case kindOf(raw) != "text" || json.Unmarshal(raw, into) != nil:
		return fmt.Errorf("%s is %s: want text", name, kindOf(raw))
	case len(*into) > most:
		return fmt.Errorf("%s has %d bytes, more than %d", name, len(*into), most)
	case *into == "" && must:
		return fmt.Errorf("%s is empty", name)
	}
	return nil
}

// value reads a member that may be anything, null too.
func value(have map[string]json.RawMessage, name string, into *json.RawMessage) error {
	raw, given := have[name]
	if !given {
		return fmt.Errorf("%s is missing", name)
	}
	*into = raw
	return nil
}

// clip is a value's beginning, for an error.
func clip(raw json.RawMessage) string {
	if len(raw) > 40 {
		return string(raw[:40]) + "…"
	}
	return string(raw)
}

// kindOf names what a JSON value is.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
