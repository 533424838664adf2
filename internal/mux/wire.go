package mux

import (
	"bytes"
	"encoding/binary"
	"io"
)

// A wire is what is read of the stream: greetings and frames.
type wire struct {
	r          io.Reader
	buf        []byte // of readAhead bytes
	start, end int    // what was read and not taken yet
}

func newWire(r io.Reader) *wire { return &wire{r: r, buf: make([]byte, readAhead)} }

// fill reads more, at least one byte.
func (w *wire) fill() error {
	if w.start > 0 && w.end-w.start < w.start {
		w.end = copy(w.buf, w.buf[w.start:w.end])
		w.start = 0
	}
	if w.end == len(w.buf) {
		w.end = copy(w.buf, w.buf[w.start:w.end])
		w.start = 0
	}
	for range maxEmptyReads {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		switch {
		case n > 0:
			return nil
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

const maxEmptyReads = 100

// greeting finds the next line of the greeting, whatever comes before it.
func (w *wire) greeting() (word, nonce string, err error) {
	for {
		data := w.buf[w.start:w.end]
		at := bytes.Index(data, []byte(magic))
		if at < 0 {
			// What could be its beginning stays.
			w.start = w.end - beginning(data)
		} else {
			w.start += at
			line := data[at+len(magic):]
			word, nonce, size := parseGreeting(line)
			switch {
			case size > 0:
				w.start += len(magic) + size
				return word, nonce, nil
			case size < 0:
				w.start++
				continue
			}
		}
		if err := w.fill(); err != nil {
			return "", "", err
		}
	}
}

// beginning is how many bytes at the end of data may be the beginning of magic.
func beginning(data []byte) int {
	for n := min(len(magic)-1, len(data)); n > 0; n-- {
		if bytes.HasPrefix([]byte(magic), data[len(data)-n:]) {
			return n
		}
	}
	return 0
}

// parseGreeting reads what follows magic. size is 0 where more is needed to tell, and -1 where it
// is no greeting.
func parseGreeting(line []byte) (word, nonce string, size int) {
	for _, word := range []string{ok, start, ""} {
		if !bytes.HasPrefix(line, []byte(word)) {
			if len(line) < len(word) && bytes.HasPrefix([]byte(word), line) {
				return "", "", 0
			}
			continue
		}
		rest := line[len(word):]
		for i := range min(len(rest), nonceLen) {
			if !isHex(rest[i]) {
				return "", "", -1
			}
		}
		switch {
		case len(rest) <= nonceLen:
			return "", "", 0
		case rest[nonceLen] != '\n':
			return "", "", -1
		}
		return word, string(rest[:nonceLen]), len(word) + nonceLen + 1
	}
	return "", "", -1
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// A frame's payload is valid until the next one is read.
type frame struct {
	kind    byte
	n       uint32 // length, or the number that a frame without payload has in its place
	id      uint32
	payload []byte
}

// frame reads the next frame, once all of it is here. After errFrame what was taken for it is still
// there, for greeting to look through.
func (w *wire) frame() (frame, error) {
	for {
		data := w.buf[w.start:w.end]
		if len(data) > 0 && (data[0] < kindOpen || data[0] > kindRefuse) {
			return frame{}, errFrame
		}
		if len(data) > headLen {
			f := frame{kind: data[0], n: binary.BigEndian.Uint32(data) & 0xFFFFFF, id: binary.BigEndian.Uint32(data[4:])}
			size := headLen + 1
			if f.kind == kindData {
				if f.n > maxPayload {
					return frame{}, errFrame
				}
				size += int(f.n)
			}
			if len(data) >= size {
				if data[size-1] != endMark {
					return frame{}, errFrame
				}
				f.payload = data[headLen : size-1]
				w.start += size
				return f, nil
			}
		}
		if err := w.fill(); err != nil {
			return frame{}, err
		}
	}
}

// appendFrame appends a frame to b. n counts where payload is nil.
func appendFrame(b []byte, kind byte, id, n uint32, payload []byte) []byte {
	if payload != nil {
		n = uint32(len(payload))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(kind)<<24|n)
	b = binary.BigEndian.AppendUint32(b, id)
	b = append(b, payload...)
	return append(b, endMark)
}
