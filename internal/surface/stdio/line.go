package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"airlock/internal/tool"
)

// Bounds of what is read.
const (
	maxBatch = 1000 // calls of a batch

	// What is read ahead, so that a cancel is seen while a call runs: this many lines, a long
	// one counting once more for each of its parts.
	ahead = 64
	part  = 64 << 10
)

// A line is what came in on one.
type line struct {
	number int
	calls  []call // one, but of a batch
	batch  bool
	cancel bool
	weight int // of ahead
}

// A call is one that a line asks for, or what is wrong with it.
type call struct {
	tool   string
	params json.RawMessage
	wrong  string // the error that answers it; "" where it is right
}

// A reader reads lines ahead of who answers them.
type reader struct {
	lines   chan line // closed behind the last
	err     error     // why it is; nil is the end of the text. To be read when lines is closed
	room    chan struct{}
	cancels cancels
}

func newReader() *reader {
	return &reader{lines: make(chan line, ahead), room: make(chan struct{}, ahead)}
}

// read reads to the end, or until ctx is done.
func (r *reader) read(ctx context.Context, in io.Reader) {
	defer close(r.lines)
	buf := bufio.NewReaderSize(in, part)
	for number := 1; ; number++ {
		text, tooLong, err := readLine(buf)
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		text = bytes.TrimSpace(text)
		var l line
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			r.err = err // half a line is no call
			return
		case tooLong:
			l = wrong(fmt.Sprintf("Invalid JSON on line %d: it has more than %d bytes", number, tool.MaxCall))
		case len(text) > 0:
			l = decode(number, text)
		}
		l.number = number
		switch {
		case l.cancel:
			r.cancels.before(number)
		case len(l.calls) > 0 || l.batch:
			l.weight = 1 + len(text)/part
			if !r.send(ctx, &l) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// send hands a line on when there is room for it, and reports whether it did.
func (r *reader) send(ctx context.Context, l *line) bool {
	for range l.weight {
		select {
		case r.room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	r.lines <- *l // each has taken room, and there is as much as that
	return true
}

// release makes room again, of a line that was answered.
func (r *reader) release(l *line) {
	for range l.weight {
		<-r.room
	}
}

// readLine reads up to a line's end. What is more than a line may have is passed over. The
// error is io.EOF where the text ended, with what there was of the last line.
func readLine(buf *bufio.Reader) (text []byte, tooLong bool, err error) {
	for {
		some, err := buf.ReadSlice('\n')
		if !tooLong {
			text = append(text, some...)
			if len(bytes.TrimRight(text, "\r\n")) > tool.MaxCall {
				text, tooLong = nil, true
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, tooLong, err
		}
	}
}

// wrong is a line that is answered with an error.
func wrong(text string) line { return line{calls: []call{{wrong: text}}} }

// decode reads a line's text, which is not empty.
func decode(number int, text []byte) line {
	invalid := func(format string, args ...any) line {
		return wrong(fmt.Sprintf("Invalid JSON on line %d: %s", number, fmt.Sprintf(format, args...)))
	}
	value, err := tool.ParseJSON(text)
	if err != nil {
		said, syntax := strings.CutPrefix(err.Error(), "is not JSON: ")
		if !syntax {
			said = "it " + said
		}
		return invalid("%s", said)
	}
	switch value := value.(type) {
	case map[string]any:
		if value["cancel"] == true && len(value) == 1 {
			return line{cancel: true}
		}
		return line{calls: []call{decodeCall(text)}}
	case []any:
		if len(value) > maxBatch {
			return invalid("it is a batch of %d calls, more than %d", len(value), maxBatch)
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(text, &parts); err != nil {
			return invalid("%v", err)
		}
		l := line{batch: true, calls: make([]call, len(parts))}
		for i, p := range parts {
			l.calls[i] = decodeCall(p)
		}
		return l
	}
	return invalid("it is %s: want an object with 'tool' and 'params', or a list of them", kind(text))
}

// decodeCall reads one call of a line that is JSON with each name once in an object.
// Members that nobody knows are passed over, but for those that another reader could take
// for one that it knows.
func decodeCall(text json.RawMessage) call {
	bad := func(format string, args ...any) call { return call{wrong: fmt.Sprintf(format, args...)} }
	if text[0] != '{' {
		return bad("Invalid call: it is %s: want an object with 'tool' and 'params'", kind(text))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return bad("Invalid call: %v", err)
	}
	for name, value := range members {
		for _, known := range []string{"tool", "params", "cancel"} {
			if name != known && strings.EqualFold(name, known) {
				return bad("Unknown member %.80q in payload; did you mean '%s'?", name, known)
			}
		}
		if name == "cancel" && string(value) == "true" {
			return bad("'cancel' is no part of a call: it stands on a line of its own")
		}
	}
	name, params := members["tool"], members["params"]
	if len(name) == 0 || slices.Contains([]string{`null`, `""`}, string(name)) {
		return bad("Missing 'tool' in payload")
	}
	var c call
	switch {
	case name[0] != '"':
		return bad("'tool' in payload is %s: want a text", kind(name))
	case json.Unmarshal(name, &c.tool) != nil:
		return bad("'tool' in payload is no text")
	case len(params) == 0 || string(params) == "null":
		c.params = json.RawMessage("{}")
	case params[0] != '{':
		return bad("'params' in payload is %s: want an object", kind(params))
	default:
		c.params = params
	}
	return c
}

// kind names a JSON value's type.
func kind(text []byte) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
