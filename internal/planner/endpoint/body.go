package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"airlock/internal/planner"
)

// How much is read of an answer that is an error, and for how long.
const (
	maxErrorBody  = 64 << 10
	errorBodyTime = 10 * time.Second
)

// judge takes an answer apart that is none, and puts a bounded body into one that is.
func (x *exchange) judge(res *http.Response) *planner.Error {
	body := &body{x: x, rc: res.Body}
	res.Body = body
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return x.redirected(res)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return x.refused(res, body)
	}
	start, err := body.peek()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return x.fault(planner.FaultGarbled, "the answer is empty", "check that base_url is that of the API")
		}
		return err.(*planner.Error) //nolint:errorlint // a body's own error, which is this or io.EOF
	}
	switch kindOf(start) {
	case kindJSON:
		return x.whole(res, body)
	case kindStream:
		res.Header.Set("Content-Type", "text/event-stream")
		return nil
	case kindHTML:
		return x.html(res, body)
	}
	e := x.fault(planner.FaultGarbled, fmt.Sprintf("the answer (%s) is neither JSON nor an event stream: %s", mediaType(res), x.excerpt(x.page(body))),
		"check that base_url is that of the API")
	e.Status = res.StatusCode
	return e
}

// whole reads an answer that is JSON, and finds the error in one that says so with a good status.
func (x *exchange) whole(res *http.Response, body *body) *planner.Error {
	all, err := io.ReadAll(body)
	if err != nil {
		return err.(*planner.Error) //nolint:errorlint // a body's own error
	}
	_ = body.Close()
	if !json.Valid(all) {
		var v any
		if dec := json.NewDecoder(bytes.NewReader(all)); errors.Is(dec.Decode(&v), io.ErrUnexpectedEOF) {
			e := x.fault(planner.FaultCut, "the answer ends in its middle", "")
			e.Again, e.Status = true, res.StatusCode
			return e
		}
		e := x.fault(planner.FaultGarbled, "the answer is no JSON: "+x.excerpt(all), "check that base_url is that of the API")
		e.Status = res.StatusCode
		return e
	}
	if s := dig(all); s.isError {
		status := res.StatusCode
		if s.status != 0 {
			status = s.status
		}
		e := x.w.judge(status, s)
		e.Endpoint = x.endpoint
		return e
	}
	res.Header.Set("Content-Type", "application/json")
	res.Header.Del("Content-Length")
	res.ContentLength = int64(len(all))
	res.Body = io.NopCloser(bytes.NewReader(all))
	return nil
}

// redirected says where an endpoint wanted to send the request to.
func (x *exchange) redirected(res *http.Response) *planner.Error {
	text := "it redirects"
	if u, err := x.url.Parse(res.Header.Get("Location")); err == nil && res.Header.Get("Location") != "" {
		text += " to " + bareURL(u)
	}
	e := x.fault(planner.FaultGarbled, text, "redirects are not followed: set base_url to the API's own address")
	e.Status = res.StatusCode
	return e
}

// refused reads what an endpoint says with a bad status.
func (x *exchange) refused(res *http.Response, body *body) *planner.Error {
	text := x.page(body)
	if x.parent() != nil {
		return x.failed(x.parent())
	}
	s := dig(text)
	s.html = kindOf(bytes.TrimSpace(text)) == kindHTML
	e := x.w.judge(res.StatusCode, s)
	e.Endpoint = x.endpoint
	if wait, ok := retryAfter(res.Header, time.Now()); ok {
		e.RetryAfter = wait
	}
	if strings.Contains(e.Text, "HTTP request to an HTTPS server") {
		e.Mend = "set base_url to https://"
	}
	return e
}

// page reads what is no answer, as much of it as comes soon and is worth it.
func (x *exchange) page(body *body) []byte {
	x.first, x.idle = min(x.first, errorBodyTime), min(x.idle, errorBodyTime)
	x.started = time.Now()
	body.quiet = true
	guard := time.AfterFunc(errorBodyTime, func() { x.cancel(errIdle) })
	defer guard.Stop()
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what was read has to do
	if len(text) == maxErrorBody || err != nil {                // a secret may have been cut in two
		text = text[:len(text)-min(len(text), x.w.longest())]
	}
	return text
}

// excerpt is how a text begins. Secrets are taken out before it is cut.
func (x *exchange) excerpt(text []byte) string {
	hidden := x.w.hide(string(text[:min(len(text), maxErrorBody)]))
	return hidden[:min(len(hidden), maxExcerpt)]
}

// html says what page came in place of an answer.
func (x *exchange) html(res *http.Response, body *body) *planner.Error {
	page := x.page(body)
	if x.parent() != nil {
		return x.failed(x.parent())
	}
	text := "a web page came in place of an answer"
	if title := titleOf(page); title != "" {
		text += fmt.Sprintf(" (%q)", x.w.clean(title))
	}
	e := x.fault(planner.FaultGarbled, text, "check that base_url is that of the API, and that no login or proxy stands before it")
	e.Status = res.StatusCode
	return e
}

// titleOf is the title of a web page.
func titleOf(page []byte) string {
	lower := bytes.ToLower(page)
	if len(lower) != len(page) { // lower case of another length: positions would be wrong
		page = lower
	}
	start := bytes.Index(lower, []byte("<title"))
	if start < 0 {
		return ""
	}
	open := bytes.IndexByte(lower[start:], '>')
	if open < 0 {
		return ""
	}
	start += open + 1
	end := bytes.Index(lower[start:], []byte("</title"))
	if end < 0 {
		return ""
	}
	return string(bytes.TrimSpace(page[start : start+end]))
}

// mediaType is what an endpoint calls its answer.
func mediaType(res *http.Response) string {
	name, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || name == "" {
		return "of an unknown type"
	}
	return name
}

// The kinds of what may come.
const (
	kindOther = iota
	kindJSON
	kindStream
	kindHTML
)

// kindOf tells by its beginning what an answer is: what an endpoint calls it is often wrong.
func kindOf(start []byte) int {
	if len(start) == 0 {
		return kindOther
	}
	switch start[0] {
	case '{', '[':
		return kindJSON
	case '<':
		return kindHTML
	case ':':
		return kindStream
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(start, []byte(field)) || strings.HasPrefix(field, string(start)) {
			return kindStream
		}
	}
	return kindOther
}

// A body is an answer's body within its bounds. Its error is a *planner.Error or io.EOF.
type body struct {
	x     *exchange
	rc    io.ReadCloser
	ahead []byte // was read, and not yet handed on
	n     int64  // bytes so far
	err   error
	quiet bool // what goes wrong while it is read is not what went wrong
}

// peek reads until it sees how the body begins, spaces aside.
func (b *body) peek() ([]byte, error) {
	buf := make([]byte, 512)
	for {
		n, err := b.read(buf)
		b.ahead = append(b.ahead, buf[:n]...)
		start := bytes.TrimLeft(bytes.TrimPrefix(b.ahead, []byte("\xef\xbb\xbf")), " \t\r\n")
		if len(start) >= len("event:") || len(start) > 0 && (err != nil || kindOf(start) != kindOther) {
			b.ahead = start
			return start, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Read hands the body on.
func (b *body) Read(p []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(p, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	return b.read(p)
}

// read reads on, within the bounds.
func (b *body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	wait, why := b.x.idle, errIdle
	if b.n == 0 {
		wait, why = max(b.x.first-time.Since(b.x.started), time.Millisecond), errFirstByte
	}
	b.x.arm(wait, why)
	n, err := b.rc.Read(p)
	b.x.disarm()
	b.n += int64(n)
	switch {
	case b.n > b.x.max:
		b.err = b.x.w.saw(b.x.fault(planner.FaultTooBig, fmt.Sprintf("it is larger than %d bytes", b.x.max), "ask for less, or try another model"))
		b.x.cancel(nil)
		return 0, b.err
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.err = io.EOF
	default:
		failed := b.x.failed(err)
		b.err = failed
		if !b.quiet {
			b.err = b.x.w.saw(failed)
		}
	}
	return n, b.err
}

// Close gives up what was not read.
func (b *body) Close() error {
	b.x.cancel(nil)
	if b.err == nil {
		b.err = io.EOF
	}
	return b.rc.Close()
}
