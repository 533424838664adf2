package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	defaultStall = time.Minute
	defaultBody  = 1 << 20 // of answers that nobody set a limit for: errors, tokens
)

var (
	errStalled = errors.New("the registry went silent")
	errPlain   = errors.New("it is not asked without TLS; if that is meant, `airlock image pull --insecure` does")
)

func newTransport(stall time.Duration) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = stall
	t.MaxIdleConnsPerHost = parallel
	return t
}

type limitKey struct{}

// withLimit bounds the bodies of what is asked for with ctx.
func withLimit(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, limitKey{}, n)
}

// A guard is what every request passes last, those that the authentication makes and redirections too. It lets none
// go out without TLS but to the loopback, when the registry is there itself, and lets no answer be endless.
type guard struct {
	next     http.RoundTripper
	insecure bool
	local    bool // the registry is on the loopback
	stall    time.Duration
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.insecure && (!g.local || !isLoopback(req.URL.Host)) {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, errPlain)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	limit, ok := ctx.Value(limitKey{}).(int64)
	if !ok || resp.StatusCode >= 300 {
		limit = defaultBody
	}
	resp.Body = &body{
		from: resp.Body, left: limit, stall: g.stall, cancel: cancel,
		watch: time.AfterFunc(g.stall, func() { cancel(errStalled) }),
		cause: func() error { return context.Cause(ctx) },
	}
	return resp, nil
}

// A body is one of bounded length that does not stall.
type body struct {
	from   io.ReadCloser
	left   int64
	stall  time.Duration
	watch  *time.Timer
	cancel context.CancelCauseFunc
	cause  func() error
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	b.watch.Reset(b.stall)
	n, err := b.from.Read(p)
	b.watch.Stop()
	b.left -= int64(n)
	if err != nil && err != io.EOF && errors.Is(b.cause(), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *body) Close() error {
	b.watch.Stop()
	err := b.from.Close()
	b.cancel(nil)
	return err
}

// isLoopback tells whether host, with a port or not, is this machine by its very name.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
