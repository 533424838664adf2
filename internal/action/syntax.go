package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds how deep values are nested. A plan needs four.
const maxDepth = 32

// decode reads one JSON value. It is stricter than encoding/json: no text that is not
// UTF-8 and no half of a surrogate pair (both would be replaced silently: what runs would
// not be what was written), no member twice, no more than maxDepth.
func decode(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, invalid(position(data, badUTF8(data)), "text in UTF-8", "a byte that is none")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, invalid("", "a JSON object", "an empty text")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			// Offset counts the byte that is wrong; at the end of the text there is none.
			at := max(int(syntax.Offset)-1, 0)
			if syntax.Error() == "unexpected end of JSON input" {
				return nil, invalid(position(data, len(data)), "valid JSON", "the end of the text")
			}
			return nil, invalid(position(data, at), "valid JSON", syntax.Error())
		}
		return nil, invalid("", "valid JSON", brief(err.Error()))
	}
	if at := loneSurrogate(data); at >= 0 {
		return nil, invalid(position(data, at), "both halves of a surrogate pair", "one: "+string(data[at:at+6]))
	}
	r := reader{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	return r.value(0)
}

// A reader makes values of a text that has been found to be JSON.
type reader struct {
	data []byte
	dec  *json.Decoder
}

func (r *reader) value(depth int) (any, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, invalid(r.position(), "valid JSON", brief(err.Error()))
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, invalid(r.position(), fmt.Sprintf("at most %d levels of nesting", maxDepth), "more")
	}
	if delim == '[' {
		return r.list(depth)
	}
	return r.object(depth)
}

func (r *reader) list(depth int) (any, error) {
	list := []any{}
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := r.dec.Token()
	return list, err
}

func (r *reader) object(depth int) (any, error) {
	object := make(map[string]any)
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return nil, invalid(r.position(), "valid JSON", brief(err.Error()))
		}
		name, _ := token.(string) // JSON knows no other
		if _, twice := object[name]; twice {
			return nil, invalid(r.position(), "each member once", brief(strconv.Quote(name))+" twice")
		}
		if object[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.Token()
	return object, err
}

// position is that of the last byte read.
func (r *reader) position() string { return position(r.data, max(int(r.dec.InputOffset())-1, 0)) }

// position says where in a text a byte is. Lines and columns count from 1, columns in
// characters.
func position(data []byte, at int) string {
	before := data[:min(at, len(data))]
	line := bytes.Count(before, []byte("\n"))
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line+1, column+1)
}

// badUTF8 is where the first byte that is not UTF-8 is.
func badUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// loneSurrogate is where, in valid JSON, the first \u escape is that names half of a
// surrogate pair without the other half; -1: nowhere.
func loneSurrogate(data []byte) int {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		unit, ok := escape(data[i:])
		switch {
		case !ok: // an escape of two bytes
			i++
		case unit < 0xD800 || unit > 0xDFFF:
			i += 5
		default:
			low, ok := escape(data[i+6:])
			if unit >= 0xDC00 || !ok || low < 0xDC00 || low > 0xDFFF {
				return i
			}
			i += 11
		}
	}
	return -1
}

// escape reads the \uXXXX that a text begins with.
func escape(data []byte) (unit uint64, ok bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return unit, err == nil
}

// readAll reads a text of at most MaxSize bytes.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return data, nil
}
