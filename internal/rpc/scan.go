package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// maxDepth bounds how deep a frame's arrays and objects may nest. It is far above what
// any method needs and far below what costs a stack.
const maxDepth = 128

var (
	errSyntax    = errors.New("invalid JSON")
	errUTF8      = errors.New("invalid JSON: not UTF-8")
	errSurrogate = errors.New("invalid JSON: a string has half of a surrogate pair")
	errDepth     = errors.New("invalid JSON: nested too deep")
)

// kind is what a frame's JSON value is.
type kind uint8

const (
	kindOther kind = iota
	kindObject
	kindArray
)

// A state says what became of a member that must be an unsigned integer.
type state uint8

const (
	absent  state = iota
	null          // present, and null
	invalid       // present, and something else
	valid
)

// members are the envelope's names, as bits; a second one of a name sets dup.
type members uint8

const (
	memberVersion members = 1 << iota
	memberID
	memberMethod
	memberParams
	memberResult
	memberError
	memberRaw
)

// An envelope is the top level of one frame. Its slices point into the frame.
type envelope struct {
	kind kind
	dup  members // names that came more than once
	seen members

	version   bool // jsonrpc is "2.0"
	idState   state
	id        uint64
	methodOK  bool // method is a string
	method    []byte
	params    []byte
	result    []byte
	errObject []byte
	rawState  state
	raw       uint64
}

// scanEnvelope checks that the whole of line is one JSON value and finds the envelope's
// members in the same pass. It is stricter than encoding/json in three points, because
// each of them would otherwise change a path or a command silently: text that is not
// UTF-8, half surrogate pairs, and nesting deeper than maxDepth are errors. Names are
// compared exactly, not by case folding.
func scanEnvelope(line []byte, e *envelope) error {
	*e = envelope{}
	if !utf8.Valid(line) {
		return errUTF8
	}
	s := scanner{b: line}
	s.space()
	switch s.peek() {
	case '{':
		e.kind = kindObject
		if err := s.envelope(e); err != nil {
			return err
		}
	case '[':
		e.kind = kindArray
		if err := s.value(0); err != nil {
			return err
		}
	default:
		if err := s.value(0); err != nil {
			return err
		}
	}
	s.space()
	if s.i != len(s.b) {
		return errSyntax
	}
	return nil
}

// A scanner walks over JSON text that is known to be UTF-8.
type scanner struct {
	b []byte
	i int
}

// peek returns the next byte, or 0 at the end, which no JSON token begins with.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// envelope scans the top-level object, whose brace is next.
func (s *scanner) envelope(e *envelope) error {
	return s.object(func(key []byte) error {
		start := s.i
		if err := s.value(1); err != nil {
			return err
		}
		e.member(unquote(key), s.b[start:s.i])
		return nil
	})
}

// member notes one member of the envelope. Names it does not know are let pass.
func (e *envelope) member(name, v []byte) {
	var m members
	switch string(name) {
	case "jsonrpc":
		m = memberVersion
		e.version = v[0] == '"' && string(unquote(v)) == "2.0"
	case "id":
		m = memberID
		e.id, e.idState = scanUint(v)
	case "method":
		m = memberMethod
		if e.methodOK = v[0] == '"'; e.methodOK {
			e.method = unquote(v)
		}
	case "params":
		m = memberParams
		e.params = v
	case "result":
		m = memberResult
		e.result = v
	case "error":
		m = memberError
		e.errObject = v
	case "raw":
		m = memberRaw
		e.raw, e.rawState = scanUint(v)
	}
	e.dup |= e.seen & m
	e.seen |= m
}

// scanUint reads a JSON value as an unsigned integer, exactly. 1.0 and 1e3 are not
// integers here: a peer that writes them has put its ids through floating point.
func scanUint(v []byte) (uint64, state) {
	if v[0] == 'n' {
		return 0, null
	}
	var n uint64
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, invalid
		}
		d := uint64(c - '0')
		if n > (1<<64-1-d)/10 {
			return 0, invalid
		}
		n = n*10 + d
	}
	return n, valid
}

// unquote returns the text of a string token that the scanner has passed.
func unquote(tok []byte) []byte {
	in := tok[1 : len(tok)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	var out string
	if json.Unmarshal(tok, &out) != nil {
		return in // cannot be: the scanner is stricter
	}
	return []byte(out)
}

// value passes one value that is depth levels down.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); c {
	case '"':
		return s.str()
	case '{', '[':
		if depth >= maxDepth {
			return errDepth
		}
		if c == '[' {
			return s.array(depth)
		}
		return s.object(func([]byte) error { return s.value(depth + 1) })
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// object passes an object; member is called with each key's token, the scanner standing
// at that member's value, which member has to pass.
func (s *scanner) object(member func(key []byte) error) error {
	s.i++ // {
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		start := s.i
		if s.peek() != '"' {
			return errSyntax
		}
		if err := s.str(); err != nil {
			return err
		}
		key := s.b[start:s.i]
		s.space()
		if s.peek() != ':' {
			return errSyntax
		}
		s.i++
		s.space()
		if err := member(key); err != nil {
			return err
		}
		if more, err := s.next('}'); err != nil || !more {
			return err
		}
	}
}

func (s *scanner) array(depth int) error {
	s.i++ // [
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if more, err := s.next(']'); err != nil || !more {
			return err
		}
	}
}

// next passes the comma before another element, or the closing byte.
func (s *scanner) next(closing byte) (more bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		s.space()
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	return false, errSyntax
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return errSyntax
	}
	s.i += len(word)
	return nil
}

// digits passes one or more digits.
func (s *scanner) digits() error {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	if s.i == start {
		return errSyntax
	}
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.i++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return nil
}
