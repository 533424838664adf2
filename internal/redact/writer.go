package redact

import (
	"io"
	"sync"
	"unsafe"
)

// A Writer redacts what is written to it and hands it on: what comes out is what Text makes
// of the whole, however it was cut into writes. It holds back what may be the beginning of a
// secret until that is decided, which a rule does within 80 KiB. Close hands on the rest.
//
// It is safe for concurrent use.
type Writer struct {
	mu    sync.Mutex
	w     io.Writer
	buf   []byte // what rules may look back at, and what is held
	from  int    // where what is held begins
	floor int    // a view's
	look  int    // how much must be held for another look to be worth it
	err   error
}

// NewWriter gives a writer that hands on to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write takes all of p, unless an earlier or this write to the underlying writer failed.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	n := len(p)
	for len(p) > 0 && w.err == nil {
		// Large writes are taken in pieces, so that memory stays bounded.
		piece := p[:min(len(p), 256<<10)]
		p = p[len(piece):]
		w.buf = append(w.buf, piece...)
		w.pass(false)
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
		w.pass(true)
	}
	w.buf, w.from, w.floor = nil, 0, 0
	return w.err
}

// pass hands on what is decided.
func (w *Writer) pass(last bool) {
	if !last && len(w.buf)-w.from < w.look {
		return
	}
	// The rules read strings; the buffer does not change while they do.
	v := view{unsafe.String(unsafe.SliceData(w.buf), len(w.buf)), last, w.floor}
	var out []byte
	stop, floor := scan(v, w.from, func(text string) {
		out = append(out, text...)
	}, func(r *rule, _ span) { out = append(out, mark(r.id)...) })
	if len(out) > 0 {
		_, w.err = w.w.Write(out)
	}
	keep := max(0, stop-lookBack)
	w.buf = append(w.buf[:0], w.buf[keep:]...)
	w.from, w.floor = stop-keep, max(0, floor-keep)
	// Much is held by few rules, and looking at it again for each byte would take long.
	w.look = 0
	if held := len(w.buf) - w.from; held > 1024 {
		w.look = held + held/16
	}
}
