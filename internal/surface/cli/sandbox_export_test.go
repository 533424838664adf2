package cli

import "io"

// What of the commands on sandboxes is tested from outside.
var (
	ParseBytes   = parseBytes
	BytesText    = bytesText
	Span         = span
	LooksLikeID  = looksLikeID
	ParseOperand = func(word string) (id, path string, tar bool, err error) {
		o, err := parseOperand(word)
		return o.id, o.path, o.tar, err
	}
)

// TableLines are a table's lines.
func TableLines(titles []string, rows [][]string, width int) []string {
	return (&table{titles: titles, rows: rows}).lines(width)
}

// Relay is a relay of in: it gives readers, each with its end, and what is closed when the keys came.
func Relay(in io.Reader, detach bool) (next func() (io.Reader, func()), letGo <-chan struct{}) {
	r := newRelay(in, detach)
	return func() (io.Reader, func()) {
		v := r.reader()
		return v, v.stop
	}, r.letGo
}
