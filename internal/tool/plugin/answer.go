package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"airlock/internal/tool"
)

const (
	maxMeta    = 64 << 10 // bytes of meta as it was printed
	maxDepth   = 32       // of objects and lists within each other in meta
	maxMembers = 1000     // values in meta
)

// parseAnswer reads what an executable printed: one object with the envelope's members.
// The error names the member that is not right. Meta's duration_ms is dropped: how long
// a call took is not its executable's to say.
func parseAnswer(data []byte) (tool.Result, error) {
	var none tool.Result
	if !utf8.Valid(data) {
		return none, errors.New("its answer is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	members, err := answerMembers(dec)
	if err != nil {
		return none, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return none, fmt.Errorf("there is more behind its answer, from byte %d on: an answer is one JSON object and nothing else", dec.InputOffset())
	}
	var res tool.Result
	for _, m := range members {
		var err error
		switch m.name {
		case "ok":
			err = into(m.raw, &res.OK, "true or false")
		case "stdout":
			err = into(m.raw, &res.Stdout, "text")
		case "stderr":
			err = into(m.raw, &res.Stderr, "text")
		case "meta":
			res.Meta, err = parseMeta(m.raw)
		default:
			err = errors.New("is not known; there are ok, stdout, stderr and meta")
		}
		if err != nil {
			return none, fmt.Errorf("its answer's member %.80q: %w", m.name, err)
		}
	}
	if !slices.ContainsFunc(members, func(m rawMember) bool { return m.name == "ok" }) {
		return none, errors.New(`its answer's member "ok" is missing`)
	}
	if res.Meta == nil {
		res.Meta = tool.Meta{}
	}
	return res, checkCode(&res)
}

// checkCode holds ok and error_code together.
func checkCode(res *tool.Result) error {
	given, present := res.Meta[tool.MetaErrorCode]
	switch {
	case !present && !res.OK:
		res.Meta[tool.MetaErrorCode] = tool.IOError // it failed, and does not say at what
		return nil
	case !present:
		return nil
	case res.OK:
		return errors.New("its answer is ok, and has a meta.error_code: leave one out")
	}
	code, ok := given.(string)
	if !ok || !slices.Contains(tool.ErrorCodes, tool.ErrorCode(code)) {
		return fmt.Errorf("its answer's meta.error_code is %.80s; there are %s", compact(given), strings.Trim(strings.ReplaceAll(fmt.Sprint(tool.ErrorCodes), " ", ", "), "[]"))
	}
	res.Meta[tool.MetaErrorCode] = tool.ErrorCode(code)
	return nil
}

// compact is a value as JSON.
func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "no JSON"
	}
	return string(text)
}

// A rawMember is a member of the answer that was not looked at yet.
type rawMember struct {
	name string
	raw  json.RawMessage
}

// answerMembers reads the outer object.
func answerMembers(dec *json.Decoder) ([]rawMember, error) {
	first, err := dec.Token()
	if err != nil {
		return nil, notJSON(err)
	}
	if first != json.Delim('{') {
		return nil, errors.New("its answer is no JSON object")
	}
	var members []rawMember
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		name, ok := key.(string)
		if !ok {
			return nil, errors.New("its answer is not JSON: a member has no name")
		}
		m := rawMember{name: name}
		if slices.ContainsFunc(members, func(o rawMember) bool { return o.name == m.name }) {
			return nil, fmt.Errorf("its answer's member %.80q is there twice", m.name)
		}
		if len(members) > 16 {
			return nil, errors.New("its answer has too many members")
		}
		if err := dec.Decode(&m.raw); err != nil {
			return nil, notJSON(err)
		}
		members = append(members, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	}
	return members, nil
}

// notJSON says why data is not JSON.
func notJSON(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("its answer is not JSON: it ends too early")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("its answer is not JSON: %w at byte %d", err, syntax.Offset)
	}
	return fmt.Errorf("its answer is not JSON: %w", err)
}

// into reads a member of one type. Null is no value.
func into(raw json.RawMessage, value any, want string) error {
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, value) != nil {
		return fmt.Errorf("must be %s, and is %s", want, kind(raw))
	}
	return nil
}

// kind names what a JSON value is.
func kind(raw json.RawMessage) string {
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

// parseMeta reads meta: bounded, with every name once.
func parseMeta(raw json.RawMessage) (tool.Meta, error) {
	if raw[0] != '{' {
		return nil, fmt.Errorf("must be an object, and is %s", kind(raw))
	}
	if len(raw) > maxMeta {
		return nil, fmt.Errorf("has %d bytes, more than %d: what is long belongs into stdout", len(raw), maxMeta)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	left := maxMembers
	value, err := metaValue(dec, 0, &left)
	if err != nil {
		return nil, err
	}
	meta := tool.Meta(value.(map[string]any))
	delete(meta, tool.MetaDurationMS)
	if code, given := meta[tool.MetaExitCode]; given {
		n, ok := code.(int64)
		if !ok || int64(int32(n)) != n {
			return nil, fmt.Errorf("%s must be a whole number, and is %.80s", tool.MetaExitCode, compact(code))
		}
		meta[tool.MetaExitCode] = int(n)
	}
	return meta, nil
}

// metaValue reads one value; left counts those that may still come.
func metaValue(dec *json.Decoder, depth int, left *int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	if *left--; *left < 0 {
		return nil, fmt.Errorf("has more than %d values", maxMembers)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		if t == '[' {
			return metaList(dec, depth, left)
		}
		return metaObject(dec, depth, left)
	}
	return token, nil
}

func metaList(dec *json.Decoder, depth int, left *int) (any, error) {
	list := []any{}
	for dec.More() {
		item, err := metaValue(dec, depth+1, left)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := dec.Token()
	return list, err
}

func metaObject(dec *json.Decoder, depth int, left *int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, errors.New("has a member without a name")
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("has %.80q twice", name)
		}
		if object[name], err = metaValue(dec, depth+1, left); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

// number is a whole number as int64 where it fits, any other as float64.
func number(n json.Number) (any, error) {
	if len(n) > 64 {
		return nil, fmt.Errorf("has a number of %d characters", len(n))
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("has a number that is too large: %.80s", string(n))
	}
	return f, nil
}
