package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a server whose requests answer gets, each with the turn that it is answered
// with. It ends with the test.
func serve(t testing.TB, s *Script, answer func(a *reply, r *http.Request, body []byte)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		turn := s.next(Seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body})
		answer(&reply{w: w, ctx: r.Context(), turn: turn}, r, body)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// A reply is the answer to one request: what all APIs have of it.
type reply struct {
	w    http.ResponseWriter
	ctx  context.Context //nolint:containedctx // the request's, for as long as it is answered
	turn Turn
	sent int // pieces
}

// send sends the turn with these usual headers, by stream or whole unless a fault takes its
// place.
func (a *reply) send(usual map[string]string, send func()) {
	turn := a.turn
	if turn.Silent {
		<-a.ctx.Done()
		return
	}
	if !a.pause(turn.Wait) {
		return
	}
	header := a.w.Header()
	for name, value := range usual {
		header.Set(name, value)
	}
	if turn.ContentType != "" {
		header.Set("Content-Type", turn.ContentType)
	}
	maps.Copy(header, turn.Header)
	switch {
	case turn.Status != 0 && turn.Status != http.StatusOK:
		a.w.WriteHeader(turn.Status)
		a.write(turn.Body)
	case turn.Raw:
		a.write(turn.Body)
	default:
		send()
	}
}

// write writes text; the client may have gone.
func (a *reply) write(text string) {
	io.WriteString(a.w, text) //nolint:errcheck // the client has gone
}

// event sends the text of an event of a stream at once.
func (a *reply) event(text string) {
	if _, err := io.WriteString(a.w, text); err != nil {
		panic(http.ErrAbortHandler)
	}
	a.w.(http.Flusher).Flush()
}

// pause waits, and reports whether the client is still there.
func (a *reply) pause(d time.Duration) bool {
	if d <= 0 {
		return a.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// piece has a piece of a stream sent, as the turn's faults let it.
func (a *reply) piece(send func()) {
	if !a.pause(a.turn.Pause) {
		panic(http.ErrAbortHandler)
	}
	send()
	a.sent++
	if a.turn.Stall {
		a.stall()
	}
	if a.turn.CutAfter > 0 && a.sent >= a.turn.CutAfter {
		panic(http.ErrAbortHandler)
	}
}

// end is before the end of a stream: a turn that is to be cut, or to stall, has none.
func (a *reply) end() {
	if a.turn.Stall {
		a.stall()
	}
	if a.turn.CutAfter > 0 {
		panic(http.ErrAbortHandler)
	}
}

func (a *reply) stall() {
	<-a.ctx.Done()
	panic(http.ErrAbortHandler)
}

// body sends an answer that is not streamed: half of it, where the turn is to be cut or to
// stall.
func (a *reply) body(text []byte) {
	if !a.turn.Stall && a.turn.CutAfter == 0 {
		a.w.Write(text) //nolint:errcheck // the client has gone
		return
	}
	a.w.Write(text[:len(text)/2]) //nolint:errcheck // the client has gone
	a.w.(http.Flusher).Flush()
	a.end()
}

// flood sends the turn's flood of text.
func (a *reply) flood(send func(piece string)) {
	piece := strings.Repeat("0123456789abcdef", 64<<10/16)
	for left := a.turn.Flood; left > 0; left -= int64(len(piece)) {
		if !a.pause(a.turn.Pause) {
			panic(http.ErrAbortHandler)
		}
		send(piece[:min(left, int64(len(piece)))])
	}
}

// floodWithin sends the turn's flood between the beginning and the end of a JSON value.
func (a *reply) floodWithin(begin, end string) {
	a.write(begin)
	a.flood(func(piece string) {
		if _, err := io.WriteString(a.w, piece); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
	a.write(end)
}

// chunk is how many bytes one piece of a stream has.
func (a *reply) chunk() int {
	if a.turn.Chunk > 0 {
		return a.turn.Chunk
	}
	return 16
}

// pieces cuts a text into pieces of about size bytes, and no character in two.
func pieces(text string, size int) []string {
	var all []string
	for text != "" {
		n := min(size, len(text))
		for n < len(text) && text[n]&0xC0 == 0x80 {
			n++
		}
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}

// compactJSON is a value as the APIs write it: <, > and & as they are.
func compactJSON(v any) []byte { return asJSON(v, "") }

func asJSON(v any, indent string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		panic(err) // a map of plain values
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
