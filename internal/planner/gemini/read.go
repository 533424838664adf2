package gemini

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// A reply is what the reading of an answer's body came to. One goroutine uses it.
type reply struct {
	reported []byte // an error object that came in the middle of the answer
	garbled  string // what came that is not the API's
}

type replyKey struct{}

// reading is client with bodies that genai can read whatever comes: it gets events of one
// JSON object each and then the end. It would print any other end with the standard logger,
// and fails at comments and at names of events, which a proxy may send.
func reading(client *http.Client) *http.Client {
	copied := *client
	copied.Transport = reader{base: client.Transport}
	return &copied
}

// A reader is the transport of such a client.
type reader struct{ base http.RoundTripper }

// RoundTrip sends a request.
func (r reader) RoundTrip(req *http.Request) (*http.Response, error) {
	base := r.base
	if base == nil {
		base = http.DefaultTransport
	}
	req = req.WithContext(req.Context()) // a copy
	req.Header = req.Header.Clone()
	req.Header.Del("X-Goog-Api-Client") // what genai tells of this program
	res, err := base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	to, ok := req.Context().Value(replyKey{}).(*reply)
	if !ok {
		to = &reply{}
	}
	e := &events{rc: res.Body, from: bufio.NewReaderSize(res.Body, 16<<10), to: to}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		e.whole()
	}
	res.Body = e
	return res, nil
}

// CloseIdleConnections ends the connections that are kept.
func (r reader) CloseIdleConnections() {
	if c, ok := r.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// withReply gives a context whose request tells what came of its answer.
func withReply(ctx context.Context) (context.Context, *reply) {
	to := &reply{}
	return context.WithValue(ctx, replyKey{}, to), to
}

// Events are an answer's body as genai takes it. Its only error is io.EOF: what else there
// was stands in the reply, or was seen by the transport below.
type events struct {
	rc   io.ReadCloser
	from *bufio.Reader
	to   *reply
	out  []byte // of the event that is being handed on
	data []byte // of the event that is being read
	done bool
}

// Read hands events on.
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.done {
			return 0, io.EOF
		}
		e.next()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// Close gives up what was not read.
func (e *events) Close() error {
	e.done, e.out = true, nil
	_ = e.rc.Close() // genai would print it
	return nil
}

// next reads a line.
func (e *events) next() {
	line, err := e.from.ReadBytes('\n')
	if err != nil {
		e.done = true
		if err != io.EOF {
			return // the event is not whole
		}
	}
	line = bytes.TrimRight(line, "\r\n")
	if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
	}
	if len(line) == 0 || e.done {
		e.event(e.data)
		e.data = e.data[:0]
	}
}

// whole takes a body that is one JSON value: an answer that was not streamed, or the list of
// what a stream would have had.
func (e *events) whole() {
	e.done = true
	all, err := io.ReadAll(e.from)
	if err != nil {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(all, &list) != nil {
		list = []json.RawMessage{all}
	}
	var out []byte
	for _, data := range list {
		e.event(data)
		out = append(out, e.out...)
		if e.to.reported != nil || e.to.garbled != "" {
			break
		}
	}
	e.out = out
}

// event hands on what an event says.
func (e *events) event(data []byte) {
	e.out = nil
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return
	}
	var list []json.RawMessage // an error may stand in a list
	if data[0] == '[' && json.Unmarshal(data, &list) == nil && len(list) > 0 {
		data = bytes.TrimSpace(list[0])
	}
	var seen struct {
		Error json.RawMessage `json:"error"`
	}
	var line bytes.Buffer
	switch err := json.Unmarshal(data, &seen); {
	case err != nil || data[0] != '{' || json.Compact(&line, data) != nil:
		if e.done && !json.Valid(data) {
			return // it is cut: what is missing is told by that
		}
		e.done, e.to.garbled = true, "what came is not the API's: "+string(data[:min(len(data), 200)])
	case len(seen.Error) > 0 && string(seen.Error) != "null":
		e.done, e.to.reported = true, bytes.Clone(data)
	default:
		e.out = append(append([]byte("data: "), line.Bytes()...), "\n\n"...)
	}
}
