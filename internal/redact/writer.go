package redact

import (
	"io"
	"sync"
	"unsafe"
)

// A Writer redacts what is written to it and hands it on: what comes out is what Text makes
// of the whole, however it was cut into writes. It holds back what may be the beginning of a
// secret until that is decided, which a rule does within 160 KiB. Close hands on the rest.
//
// It is safe for concurrent use.
type Writer struct {
	mu     sync.Mutex
	w      io.Writer
	passes [looks]pass
	err    error
}

// NewWriter gives a writer that hands on to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write takes all of p, unless an earlier or this write to the underlying writer failed.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 && w.err == nil {
		// Large writes are taken in pieces, so that memory stays bounded.
		piece := p[:min(len(p), 256<<10)]
		p = p[len(piece):]
		w.hand(piece, false)
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// Close hands on what was held back. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.hand(nil, true)
	}
	w.passes = [looks]pass{}
	return w.err
}

// hand sends a piece through all passes, and on.
func (w *Writer) hand(piece []byte, last bool) {
	for i := range w.passes {
		if len(piece) == 0 && !last {
			return
		}
		piece = w.passes[i].take(piece, last)
	}
	if len(piece) > 0 {
		_, w.err = w.w.Write(piece)
	}
}

// A pass is one look at a text that comes in pieces.
type pass struct {
	buf   []byte // what rules may look back at, and what is held
	from  int    // where what is held begins
	floor int    // a view's
	look  int    // how much must be held for another look to be worth it
}

// take adds a piece and gives what is decided.
func (p *pass) take(piece []byte, last bool) []byte {
	p.buf = append(p.buf, piece...)
	if !last && len(p.buf)-p.from < p.look {
		return nil
	}
	// The rules read strings; the buffer does not change while they do.
	v := view{unsafe.String(unsafe.SliceData(p.buf), len(p.buf)), last, p.floor}
	var out []byte
	stop, floor := scan(v, p.from, func(text string) {
		out = append(out, text...)
	}, func(r *rule) { out = append(out, mark(r.id)...) })
	keep := max(0, stop-lookBack)
	p.buf = append(p.buf[:0], p.buf[keep:]...)
	p.from, p.floor = stop-keep, max(0, floor-keep)
	// Much is held by few rules, and looking at it again for each byte would take long.
	p.look = 0
	if held := len(p.buf) - p.from; held > 1024 {
		p.look = held + held/16
	}
	return out
}
