package rpc

import "io"

// Scan is the envelope scanner as the tests see it: whether line is well formed, and the
// members as encoding/json would give them.
func Scan(line []byte) (ok bool, found map[string]string, dup bool) {
	var e envelope
	if scanEnvelope(line, &e) != nil {
		return false, nil, false
	}
	found = map[string]string{}
	put := func(bit members, name string, v []byte) {
		if e.seen&bit != 0 {
			found[name] = string(v)
		}
	}
	put(memberParams, "params", e.params)
	put(memberResult, "result", e.result)
	put(memberError, "error", e.errObject)
	if e.methodOK {
		found["method"] = string(e.method)
	}
	return true, found, e.dup != 0
}

// ScanID is the envelope's id, if it is a u64.
func ScanID(line []byte) (uint64, bool) {
	var e envelope
	if scanEnvelope(line, &e) != nil {
		return 0, false
	}
	return e.id, e.idState == valid
}

// A Reader is the frame reader.
type Reader struct{ r *reader }

// NewReader makes a Reader.
func NewReader(src io.Reader, limit int64) *Reader { return &Reader{newReader(src, limit)} }

// Line reads a line.
func (r *Reader) Line() ([]byte, error) { return r.r.line() }

// Buffered reports whether a line is at hand.
func (r *Reader) Buffered() bool { return r.r.buffered() }

// Payload reads n bytes.
func (r *Reader) Payload(n int64) ([]byte, error) {
	p := newPayload(n, nil)
	err := r.r.fill(&p)
	return p.buf, err
}

// Altered is the check for text that is not UTF-8.
var Altered = altered
