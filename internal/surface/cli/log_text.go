package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/internal/audit"
	"airlock/internal/changes"
)

// A phrase says one member of a row's data within a sentence.
type phrase struct {
	member string
	say    func(any) string // "" leaves it out
}

// phrases are what a sentence about a row is made of, in this order. What none of them
// knows is seen in airlock log show.
var phrases = []phrase{
	{"of", func(v any) string { return "of " + plain(v) + ":" }},
	{"step", func(v any) string { return "step " + plain(v) + ":" }},
	{"asked", func(any) string { return "asked" }},
	{"verdict", plain},
	{"approved", func(v any) string {
		if v == true {
			return "approved"
		}
		return "refused"
	}},
	{"by", func(v any) string { return "by " + plain(v) }},
	{"ok", func(v any) string {
		if v == true {
			return "ok"
		}
		return "failed"
	}},
	{"error_code", plain},
	{"refused", func(any) string { return "(refused)" }},
	{"tool", plain},
	{"action", plain},
	{"verb", plain},
	{"words", func(v any) string { return strconv.Quote(cut(plain(v), 80)) }},
	{"model", func(v any) string {
		if _, ok := v.(string); ok {
			return "asked of " + plain(v) + ":"
		}
		return ""
	}},
	{"allowed", func(v any) string {
		if v == true {
			return "let out:"
		}
		return "refused:"
	}},
	{"host", plain},
	{"port", func(v any) string { return "port " + plain(v) }},
	{"lang", func(v any) string { return plain(v) + " code" }},
	{"argv", words},
	{"command", words},
	{"shell_command", plain},
	{"path", plain},
	{"summary", plain},
	{"steps", func(v any) string { return counted(v, "step") }},
	{"steps_executed", func(v any) string { return counted(v, "step") }},
	{"exit_code", func(v any) string { return "exit code " + plain(v) }},
	{"success", func(v any) string {
		if v == true {
			return "success"
		}
		return "failed"
	}},
	{"timed_out", func(v any) string {
		if v == true {
			return "timed out"
		}
		return ""
	}},
	{"duration_ms", func(v any) string { return "in " + lasted(v) }},
	{"changes", func(v any) string { return "with " + counted(v, "change") }},
	{"outside", func(v any) string { return "and " + counted(v, "change") + " outside" }},
	{"committed", func(v any) string { return counted(v, "path") }},
	{"undone", func(v any) string { return counted(v, "path") }},
	{"paths", func(v any) string { return "of " + words(v) }},
	{"state", func(v any) string { return "[" + plain(v) + "]" }},
	{"risk", func(v any) string { return "(" + plain(v) + ")" }},
	{"rule", func(v any) string { return "by rule " + plain(v) }},
	{"why", func(v any) string { return "– " + plain(v) }},
	{"reason", func(v any) string { return "– " + plain(v) }},
	{"error", func(v any) string { return "– " + plain(v) }},
	{"workdir", func(v any) string { return "in " + plain(v) }},
	{"working_directory", func(v any) string { return "in " + plain(v) }},
	{"where", func(v any) string {
		if v == "host" {
			return "on the host"
		}
		return ""
	}},
	{"rows", func(v any) string { return counted(v, "row") + " removed" }},
}

// sentenceLength is how many characters of a row its line shows.
const sentenceLength = 160

// sentence says what a row is about, in printable characters.
func sentence(r *audit.Row) string {
	var data any
	dec := json.NewDecoder(bytes.NewReader(r.Data))
	dec.UseNumber()
	if dec.Decode(&data) != nil {
		data = string(r.Data)
	}
	object, ok := data.(map[string]any)
	var parts []string
	if ok {
		for _, ph := range phrases {
			v, found := member(object, ph.member)
			if !found || v == nil || v == "" {
				continue
			}
			if text := ph.say(v); text != "" {
				parts = append(parts, text)
			}
		}
	}
	text := strings.Join(parts, " ")
	if text == "" && data != nil && len(object) != 0 == ok {
		text = string(r.Data)
	}
	return cut(changes.Printable(text), sentenceLength)
}

// member finds a member of an object, or of an object in it.
func member(object map[string]any, name string) (any, bool) {
	if v, ok := object[name]; ok {
		return v, true
	}
	names := make([]string, 0, len(object))
	for n := range object {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if inner, ok := object[n].(map[string]any); ok {
			if v, ok := inner[name]; ok {
				return v, true
			}
		}
	}
	return nil, false
}

// plain is a value as text.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	case []any, map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}

// words is a command: a line, or a list of words, of which those are quoted that would not
// be one otherwise.
func words(v any) string {
	list, ok := v.([]any)
	if !ok {
		return plain(v)
	}
	var out []string
	for _, w := range list {
		word := plain(w)
		if word == "" || strings.ContainsAny(word, " \t\r\n'\"$;&|<>()*?`\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// lasted is a number of milliseconds for a person.
func lasted(v any) string {
	n, ok := v.(json.Number)
	if !ok {
		return plain(v)
	}
	ms, err := n.Int64()
	if err != nil || ms < 0 || ms > int64(1000*time.Hour/time.Millisecond) {
		return plain(v) + " ms"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// counted is a number of things, or how many there are in a list.
func counted(v any, one string) string {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= 0 && n < 1<<31 {
			return plural(int(n), one)
		}
	case []any:
		return plural(len(v), one)
	}
	return plain(v) + " " + one + "s"
}

// members are the members of a row's data, a line each, in the order in which they were
// written; large texts are as they were recorded.
func members(data json.RawMessage) []string {
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		if string(data) == "null" {
			return nil
		}
		return []string{changes.Printable(string(data))}
	}
	var out []string
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			break
		}
		text := string(value)
		var s string
		if json.Unmarshal(value, &s) == nil {
			text = s
		}
		out = append(out, changes.Printable(fmt.Sprintf("%s: %s", name, text)))
	}
	return out
}
