package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// space is JSON's white space.
const space = " \t\r\n"

// trimmed is data without white space around it, and UTF-8: what is not becomes U+FFFD.
func trimmed(data []byte) []byte {
	data = bytes.Trim(data, space)
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("�"))
	}
	return data
}

// notJSON says why data is not one JSON document; nil where it is.
func notJSON(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte{'\n'})
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// lastValue is where the JSON object or list begins that ends data; ok says whether there
// is one. It looks at each byte a few times at most, whatever data holds: from the end it
// finds the bracket that the last one closes, and only what stands between them is parsed.
func lastValue(data []byte) (begin int, ok bool) {
	if len(data) == 0 || data[len(data)-1] != '}' && data[len(data)-1] != ']' {
		return 0, false
	}
	depth, inside := 0, false
	for i := len(data) - 1; i >= 0; i-- {
		switch c := data[i]; {
		case c == '"':
			// Outside of strings JSON has no backslash; inside, a quote behind an odd number of
			// them does not end it.
			back := 0
			for back < i && data[i-1-back] == '\\' {
				back++
			}
			if !inside || back%2 == 0 {
				inside = !inside
			}
			i -= back
		case inside:
		case c == '}' || c == ']':
			depth++
		case c == '{' || c == '[':
			if depth--; depth == 0 {
				return i, json.Valid(data[i:])
			}
		}
	}
	return 0, false
}

// A said is what an answer says of itself.
type said struct {
	failed bool   // it is an object whose status is "error"
	text   string // its error, where that is text
	object bool
}

// read looks at a document's outermost members.
func read(document []byte) said {
	var members map[string]json.RawMessage
	if len(document) == 0 || document[0] != '{' || json.Unmarshal(document, &members) != nil {
		return said{}
	}
	var status string
	s := said{object: true}
	_ = json.Unmarshal(members["status"], &status) // another type is another status
	_ = json.Unmarshal(members["error"], &s.text)
	s.failed = status == "error"
	return s
}
