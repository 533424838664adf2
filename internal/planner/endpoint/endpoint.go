// Package endpoint is the one HTTP client of all providers. It bounds every wait and every
// body, follows no redirect, and turns whatever an endpoint can do instead of answering into
// a *planner.Error that says what went wrong and what can be done. It knows HTTP and the
// error messages of the APIs, not what they are asked.
package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"airlock/internal/planner"
)

// Options are what a client may be told. Nil is valid.
type Options struct {
	// Show, where it is not nil, is given each request in place of the endpoint: nothing is
	// sent, and the request fails with ErrShown.
	Show func(Shown)

	// Headers are set in each request, in place of what was there. A header without values
	// is taken out.
	Headers http.Header

	Connect   time.Duration // for a connection, TLS included; 0: 10 seconds
	FirstByte time.Duration // from the request to the answer's first byte; 0: 120 seconds
	Idle      time.Duration // between two bytes of an answer; 0: 90 seconds
	MaxBody   int64         // bytes of an answer, as decoded; 0: 4 MiB

	// Transport carries the requests; nil means one of its own.
	Transport http.RoundTripper
}

// Shown is a request as it would be sent. The key is not in it.
type Shown struct {
	Method string
	URL    string // without credentials and query
	Body   []byte
}

// ErrShown says that the request was shown, and not sent.
var ErrShown = errors.New("the request was shown, not sent")

// What Options leave open.
const (
	defaultConnect   = 10 * time.Second
	defaultFirstByte = 120 * time.Second
	defaultIdle      = 90 * time.Second
	defaultMaxBody   = 4 << 20
)

// Client makes a client. Its errors are *planner.Error, which http.Client wraps; a Watched
// has them unwrapped. What it answers has the status 200 or another 2xx, and is either JSON
// without an error object, read as a whole, or an event stream: the Content-Type says which
// of the two it is, whatever the endpoint called it.
//
// The client keeps connections: CloseIdleConnections ends them.
func Client(opts *Options) *http.Client {
	if opts == nil {
		opts = &Options{}
	}
	t := &transport{
		base:      opts.Transport,
		show:      opts.Show,
		headers:   opts.Headers.Clone(),
		connect:   or(opts.Connect, defaultConnect),
		firstByte: or(opts.FirstByte, defaultFirstByte),
		idle:      or(opts.Idle, defaultIdle),
		maxBody:   or(opts.MaxBody, defaultMaxBody),
	}
	if t.base == nil {
		t.base = &http.Transport{
			Proxy:               proxy,
			DialContext:         (&net.Dialer{Timeout: t.connect}).DialContext,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: t.connect,
			ForceAttemptHTTP2:   true,

			MaxResponseHeaderBytes: 256 << 10,

			MaxIdleConns:          4,
			IdleConnTimeout:       30 * time.Second,
			ExpectContinueTimeout: time.Second,
		}
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// or gives v, or what it means where it is zero.
func or[T time.Duration | int64](v, zero T) T {
	if v > 0 {
		return v
	}
	return zero
}

// proxy respects the environment's proxy variables, but never for this machine.
func proxy(req *http.Request) (*url.URL, error) {
	if isLoopback(req.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(req)
}

// isLoopback reports whether host means this machine.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// A transport carries a request and judges what comes back.
type transport struct {
	base    http.RoundTripper
	show    func(Shown)
	headers http.Header

	connect, firstByte, idle time.Duration
	maxBody                  int64
}

// CloseIdleConnections ends the connections that are kept.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request. Its error is a *planner.Error or ErrShown.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	w := watched(req.Context())
	sent := t.prepared(req)
	w.learn(sent)
	if t.show != nil {
		return nil, t.shown(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	x := &exchange{
		w: w, parent: req.Context().Err, cause: func() error { return context.Cause(ctx) }, cancel: cancel,
		url: req.URL, endpoint: bareURL(req.URL),
		first: t.firstByte, idle: t.idle, max: t.maxBody, connect: t.connect,
		started: time.Now(),
	}
	x.arm(t.firstByte, errFirstByte)
	res, err := t.base.RoundTrip(sent.WithContext(ctx))
	x.disarm()
	if err != nil {
		err := x.failed(err)
		cancel(nil)
		return nil, w.saw(err)
	}
	if err := x.judge(res); err != nil {
		_ = res.Body.Close()
		cancel(nil)
		return nil, w.saw(err)
	}
	return res, nil
}

// prepared is the request as it is sent.
func (t *transport) prepared(req *http.Request) *http.Request {
	copied := *req
	req = &copied
	req.Header = req.Header.Clone()
	for name := range req.Header {
		if strings.HasPrefix(name, "X-Stainless-") { // what the SDKs tell of this machine
			delete(req.Header, name)
		}
	}
	req.Header.Del("Accept-Encoding") // net/http asks for what it can decode
	req.Header.Set("User-Agent", "airlock")
	for name, values := range t.headers {
		if len(values) == 0 {
			req.Header.Del(name)
			continue
		}
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req
}

// shown hands a request to Options.Show.
func (t *transport) shown(req *http.Request) error {
	var body []byte
	if req.Body != nil {
		var buf bytes.Buffer
		_, err := io.Copy(&buf, req.Body)
		_ = req.Body.Close()
		if err != nil {
			return fmt.Errorf("showing the request: %w", err)
		}
		body = buf.Bytes()
	}
	t.show(Shown{Method: req.Method, URL: bareURL(req.URL), Body: body})
	return ErrShown
}

// bareURL is a URL without what may be secret in it.
func bareURL(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return bare.String()
}

// An exchange is a request that was sent, until its answer has been read.
type exchange struct {
	w        *Watched
	parent   func() error // the error of the caller's context
	cause    func() error // why this request was given up
	cancel   context.CancelCauseFunc
	url      *url.URL
	endpoint string

	first, idle, connect time.Duration
	max                  int64
	started              time.Time
	timer                *time.Timer
}

// Why an exchange is given up.
var (
	errFirstByte = errors.New("no first byte in time")
	errIdle      = errors.New("no next byte in time")
)

// arm gives the exchange up with why unless disarm is called before d has passed.
func (x *exchange) arm(d time.Duration, why error) {
	x.timer = time.AfterFunc(d, func() { x.cancel(why) })
}

func (x *exchange) disarm() { x.timer.Stop() }

// fault makes an error of this exchange.
func (x *exchange) fault(f planner.Fault, text, mend string) *planner.Error {
	return &planner.Error{Fault: f, Endpoint: x.endpoint, Text: x.w.clean(text), Mend: mend}
}
