package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a call.
const (
	MaxArgs  = 1 << 20          // bytes of a call's arguments
	MaxCall  = MaxArgs + 64<<10 // bytes of a call with all around it
	maxDepth = 64               // objects and lists within each other
	maxName  = 64               // characters of a tool's or an action's name
	maxDigit = 64               // characters of one number
	maxExp   = 400              // exponent of one number: 1e1000000 would fill the memory
)

// DecodeCall reads one call, a JSON object, up to the end of r. It takes no more than
// MaxCall bytes, and refuses what two readers could understand differently: members
// that come twice, or that differ from tool, action and args in upper and lower case alone,
// text that is not UTF-8, anything behind the object. Other members are passed over. Args are
// kept as they were written, which are an empty object where there are none; whether they
// are the action's is for Registry.Check to say. An error is for PARSE_ERROR.
func DecodeCall(r io.Reader) (Call, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxCall+1))
	if err != nil {
		return Call{}, fmt.Errorf("read the call: %w", err)
	}
	if len(data) > MaxCall {
		return Call{}, fmt.Errorf("the call has more than %d bytes", MaxCall)
	}
	value, err := ParseJSON(data)
	if err != nil {
		return Call{}, fmt.Errorf("the call: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return Call{}, fmt.Errorf(`the call is %s: want an object with "tool", "action" and "args"`, kindWord(value))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return Call{}, fmt.Errorf("the call: %w", err)
	}
	var call Call
	for name := range members {
		for _, known := range []string{"tool", "action", "args"} {
			if name != known && strings.EqualFold(name, known) {
				return Call{}, fmt.Errorf("the call has a member %s: did you mean %q?", quote(name), known)
			}
		}
	}
	if call.Tool, err = nameOf(members, "tool"); err != nil {
		return Call{}, err
	}
	if call.Tool == "" {
		return Call{}, errors.New(`the call names no tool: add "tool"`)
	}
	if call.Action, err = nameOf(members, "action"); err != nil {
		return Call{}, err
	}
	call.Args = members["args"]
	if len(call.Args) == 0 {
		call.Args = json.RawMessage("{}")
	}
	if len(call.Args) > MaxArgs {
		return Call{}, fmt.Errorf("the call's args have %d bytes, more than %d", len(call.Args), MaxArgs)
	}
	return call, nil
}

// nameOf is a member that is a text; "" where it is absent.
func nameOf(members map[string]json.RawMessage, member string) (string, error) {
	text, ok := members[member]
	if !ok {
		return "", nil
	}
	value, err := ParseJSON(text)
	if err != nil {
		return "", fmt.Errorf("the call's %s: %w", member, err)
	}
	name, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("the call's %s is %s: want a text", member, kindWord(value))
	}
	return name, nil
}

// kindWord names a JSON value's type.
func kindWord(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "an object"
}

// ParseJSON reads one JSON value. Numbers stay as they are written. It refuses what
// readers of JSON disagree on: names that come twice in an object, text that is not
// UTF-8, halves of surrogate pairs; and what takes more than its bytes to read: deep
// nesting, numbers of unusual size.
func ParseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	if !pairedSurrogates(data) {
		return nil, errors.New(`has half of a surrogate pair (such as \ud800), which is no character`)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	value, err := parseValue(dec, 0)
	if err != nil {
		return nil, parseError(err, dec)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("has something behind its end, at byte %d", dec.InputOffset())
	}
	return value, nil
}

// parseError is err with where it is.
func parseError(err error, dec *json.Decoder) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if dec.InputOffset() == 0 {
			return errors.New("is empty")
		}
		return errors.New("is not JSON: it ends too early")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("is not JSON: %w, at byte %d", syntax, syntax.Offset)
	}
	return err
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return t, checkNumber(string(t))
	case json.Delim:
		if depth >= maxDepth {
			return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
		}
		if t == '{' {
			return parseObject(dec, depth+1)
		}
		return parseList(dec, depth+1)
	}
	return token, nil
}

func parseObject(dec *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("is not JSON: a name is wanted at byte %d", dec.InputOffset())
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("has the name %s twice in one object", quote(name))
		}
		if object[name], err = parseValue(dec, depth); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

func parseList(dec *json.Decoder, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		value, err := parseValue(dec, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := dec.Token()
	return list, err
}

func checkNumber(s string) error {
	if len(s) > maxDigit {
		return fmt.Errorf("has a number of %d characters, more than %d", len(s), maxDigit)
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if n, err := strconv.Atoi(s[i+1:]); err != nil || n > maxExp || n < -maxExp {
			return fmt.Errorf("has a number that is out of bounds: %s", s)
		}
	}
	return nil
}

// pairedSurrogates reports whether every \u escape of a surrogate has its other half. A
// backslash outside of a text is for the decoder to find.
func pairedSurrogates(data []byte) bool {
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 {
			return true
		}
		data = data[i:]
		r, ok := escapedUnit(data)
		switch {
		case !ok:
			data = data[min(2, len(data)):]
			continue
		case r >= 0xdc00 && r <= 0xdfff:
			return false
		case r >= 0xd800 && r <= 0xdbff:
			low, ok := escapedUnit(data[6:])
			if !ok || low < 0xdc00 || low > 0xdfff {
				return false
			}
			data = data[6:]
		}
		data = data[6:]
	}
}

// escapedUnit is the UTF-16 unit that data begins with as \uXXXX.
func escapedUnit(data []byte) (uint64, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	r, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return r, err == nil
}
