package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxFrame is the limit on one line, and on one raw payload, in bytes.
const DefaultMaxFrame = 64 << 20

const (
	readBuffer   = 16 << 10  // a connection's buffer at rest
	readKeep     = 256 << 10 // a buffer above this is given up once its frame is done
	payloadFirst = 1 << 20   // of a payload's memory, taken before its bytes arrive
	maxEmpty     = 100       // reads that bring nothing before the source counts as broken
)

// errTooLong is a line, or an announced payload, above the limit.
var errTooLong = errors.New("frame exceeds the limit")

// A reader cuts a byte stream into lines and payloads. It takes memory only as bytes
// arrive, and gives it back after a large frame. After an error that is a timeout the
// same call can be made again and goes on where it stopped.
type reader struct {
	src        io.Reader
	max        int64
	buf        []byte
	start, end int // buf[start:end] has been read from src and not been handed out
	seen       int // bytes from start on that are known to hold no newline

	mem  *Memory // what large frames share; nil: no limit
	held int64   // of it, for the frame being read
}

// hold counts a buffer of size bytes, of which all but the first small ones are shared
// memory, against mem.
func (r *reader) hold(before, size, small int64) error {
	n := max(size-small, 0) - max(before-small, 0)
	if !r.mem.take(n) {
		return errNoMemory
	}
	r.held += max(n, 0)
	return nil
}

// release hands the count of the frame that was read to whoever keeps its bytes.
func (r *reader) release() int64 {
	n := r.held
	r.held = 0
	return n
}

func newReader(src io.Reader, limit int64) *reader {
	return &reader{src: src, max: limit}
}

// line returns the next line without its end, "\n" or "\r\n". The slice is good until
// the next call, or for ever after detach. io.EOF means that the stream ended between
// frames; half a line is io.ErrUnexpectedEOF.
func (r *reader) line() ([]byte, error) {
	r.shrink()
	for {
		if i := bytes.IndexByte(r.buf[r.start+r.seen:r.end], '\n'); i >= 0 {
			line := r.buf[r.start : r.start+r.seen+i]
			r.start += r.seen + i + 1
			r.seen = 0
			if int64(len(line)) > r.max {
				return nil, fmt.Errorf("%w of %d bytes", errTooLong, r.max)
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return line, nil
		}
		r.seen = r.end - r.start
		if int64(r.seen) > r.max {
			return nil, fmt.Errorf("%w of %d bytes", errTooLong, r.max)
		}
		if err := r.more(); err != nil {
			if errors.Is(err, io.EOF) && r.seen > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// buffered reports whether the next line is here already, so that line will not wait.
func (r *reader) buffered() bool {
	if r.start+r.seen >= r.end {
		return false
	}
	i := bytes.IndexByte(r.buf[r.start+r.seen:r.end], '\n')
	if i < 0 {
		r.seen = r.end - r.start
	}
	return i >= 0
}

// detach gives the buffer of the last line away, with everything cut from it.
func (r *reader) detach() {
	rest := r.buf[r.start:r.end]
	r.buf = append(make([]byte, 0, max(readBuffer, len(rest))), rest...)
	r.buf = r.buf[:cap(r.buf)]
	r.start, r.end = 0, len(rest)
}

// shrink gives up the memory of a large frame.
func (r *reader) shrink() {
	if len(r.buf) > readKeep && r.end-r.start <= readBuffer {
		r.detach()
	}
}

// more reads once, making room first.
func (r *reader) more() error {
	switch {
	case r.start == r.end:
		r.start, r.end = 0, 0
	case r.end == len(r.buf) && r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
		r.end -= r.start
		r.start = 0
	}
	if r.end == len(r.buf) {
		// The limit's line, its "\r\n" at most, and nothing above.
		size := min(int64(max(readBuffer, 2*len(r.buf))), r.max+2)
		size = max(size, int64(r.end)+1)
		if err := r.hold(int64(len(r.buf)), size, readKeep); err != nil {
			return err
		}
		grown := make([]byte, size)
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	n, err := readSome(r.src, r.buf[r.end:])
	r.end += n
	return err
}

// readSome reads at least one byte, or fails.
func readSome(src io.Reader, p []byte) (int, error) {
	for range maxEmpty {
		n, err := src.Read(p)
		if n > 0 {
			return n, nil // an error comes again at the next call
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// A payload is the raw bytes behind a line, while they arrive.
type payload struct {
	buf  []byte // what has arrived
	want int64
}

// newPayload prepares for want bytes, into dst where it is large enough.
func newPayload(want int64, dst []byte) payload {
	if dst != nil && int64(cap(dst)) >= want {
		return payload{buf: dst[:0], want: want}
	}
	return payload{buf: make([]byte, 0, min(want, payloadFirst)), want: want}
}

// fill reads the rest of p.
func (r *reader) fill(p *payload) error {
	for int64(len(p.buf)) < p.want {
		if len(p.buf) == cap(p.buf) {
			size := min(p.want, 2*int64(cap(p.buf)))
			if err := r.hold(int64(cap(p.buf)), size, payloadFirst); err != nil {
				return err
			}
			grown := make([]byte, len(p.buf), size)
			copy(grown, p.buf)
			p.buf = grown
		}
		room := p.buf[len(p.buf):min(int64(cap(p.buf)), p.want)]
		n := copy(room, r.buf[r.start:r.end])
		r.start += n
		r.seen = 0
		if n == 0 {
			var err error
			if n, err = readSome(r.src, room); err != nil {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
		}
		p.buf = p.buf[:len(p.buf)+n]
	}
	return nil
}
