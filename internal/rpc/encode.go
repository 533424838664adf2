package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// An encoder builds one line.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

// encoders keeps the encoders of a connection for reuse.
type encoders struct{ pool sync.Pool }

func (p *encoders) get() *encoder {
	if e, ok := p.pool.Get().(*encoder); ok {
		e.buf.Reset()
		return e
	}
	e := &encoder{}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false) // output full of '<' would be six times its size
	return e
}

func (p *encoders) put(e *encoder) {
	if e.buf.Cap() <= readKeep {
		p.pool.Put(e)
	}
}

// value appends v as JSON, in one line.
func (e *encoder) value(v any) error {
	if err := e.json.Encode(v); err != nil {
		return err
	}
	e.buf.Truncate(e.buf.Len() - 1) // Encode's newline
	return nil
}

func (e *encoder) uint(n uint64) {
	e.buf.Write(strconv.AppendUint(e.buf.AvailableBuffer(), n, 10))
}

// name appends a string, which is a plain word as a rule.
func (e *encoder) name(s string) error {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') {
			return e.value(s)
		}
	}
	e.buf.WriteByte('"')
	e.buf.WriteString(s)
	e.buf.WriteByte('"')
	return nil
}

// altered reports whether encoding/json replaced bytes that are not UTF-8: it writes the
// escape for them, and the character itself where that was meant. A path or a command
// that changed on its way must not be sent.
func altered(line []byte) bool {
	const mark = `\ufffd`
	for {
		i := bytes.Index(line, []byte(mark))
		if i < 0 {
			return false
		}
		slashes := 0
		for slashes < i && line[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		line = line[i+len(mark):]
	}
}

// end closes the frame, announcing a payload when raw is not nil.
func (e *encoder) end(raw []byte) []byte {
	if raw != nil {
		e.buf.WriteString(`,"raw":`)
		e.uint(uint64(len(raw)))
	}
	e.buf.WriteString("}\n")
	return e.buf.Bytes()
}

// request builds a request, or a notification when id is nil.
func (e *encoder) request(id *uint64, method string, params any, raw []byte) ([]byte, error) {
	e.buf.WriteString(`{"jsonrpc":"2.0",`)
	if id != nil {
		e.buf.WriteString(`"id":`)
		e.uint(*id)
		e.buf.WriteByte(',')
	}
	e.buf.WriteString(`"method":`)
	if err := e.name(method); err != nil {
		return nil, err
	}
	if params != nil {
		e.buf.WriteString(`,"params":`)
		if err := e.value(params); err != nil {
			return nil, err
		}
	}
	return e.end(raw), nil
}

// result builds a response that carries v.
func (e *encoder) result(id uint64, v any, raw []byte) ([]byte, error) {
	e.buf.WriteString(`{"jsonrpc":"2.0","id":`)
	e.uint(id)
	e.buf.WriteString(`,"result":`)
	if err := e.value(v); err != nil {
		return nil, err
	}
	return e.end(raw), nil
}

// failure builds an error response; id nil is null.
func (e *encoder) failure(id *uint64, cause *Error) []byte {
	start := e.buf.Len()
	e.buf.WriteString(`{"jsonrpc":"2.0","id":`)
	if id != nil {
		e.uint(*id)
	} else {
		e.buf.WriteString("null")
	}
	e.buf.WriteString(`,"error":`)
	if err := e.value(cause); err != nil { // its data is not JSON
		e.buf.Truncate(start)
		return e.failure(id, &Error{Code: cause.Code, Message: cause.Message})
	}
	return e.end(nil)
}

// asError is the wire's form of what a Handler returned.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// errTooLarge is a frame that this side may not send.
func errTooLarge(what string, size int, limit int64) error {
	return fmt.Errorf("%s of %d bytes exceeds the frame limit of %d", what, size, limit)
}
