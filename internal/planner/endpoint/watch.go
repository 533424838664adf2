package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"airlock/internal/planner"
)

// A Watched is what the transport saw of the requests that were made with a context. It is
// safe for concurrent use.
type Watched struct {
	mu      sync.Mutex
	err     *planner.Error
	secrets []string // what stood in headers that hold keys
	asked   planner.Feature
}

type watchKey struct{}

// Watch gives a context whose requests are watched.
func Watch(ctx context.Context) (context.Context, *Watched) {
	w := &Watched{}
	return context.WithValue(ctx, watchKey{}, w), w
}

// watched is the Watched of a context.
func watched(ctx context.Context) *Watched {
	if w, ok := ctx.Value(watchKey{}).(*Watched); ok {
		return w
	}
	return &Watched{}
}

// Seen is what the transport saw go wrong first, or nil: an SDK may keep it to itself.
func (w *Watched) Seen() *planner.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Error makes a *planner.Error of an SDK's error about a request to url: what the transport
// saw wins over what the SDK says of it. It is nil where err is.
func (w *Watched) Error(url string, err error) *planner.Error {
	if err == nil {
		return nil
	}
	if seen := w.Seen(); seen != nil {
		return at(url, seen)
	}
	if own, ok := errors.AsType[*planner.Error](err); ok {
		return at(url, own)
	}
	e := &planner.Error{Endpoint: bareText(url)}
	switch {
	case errors.Is(err, ErrShown):
		e.Fault, e.Err, e.Text = planner.FaultCanceled, ErrShown, ErrShown.Error()
	case errors.Is(err, context.Canceled):
		e.Fault, e.Err = planner.FaultCanceled, context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		e.Fault, e.Err, e.Text = planner.FaultTimeout, context.DeadlineExceeded, "there was no time left for the answer"
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Fault, e.Again, e.Text = planner.FaultCut, true, w.clean(err.Error())
	default:
		e.Fault, e.Text = planner.FaultGarbled, w.clean(err.Error())
	}
	return e
}

// Reported makes a *planner.Error of what an endpoint reports in the middle of an answer: an
// error object, or an object that has one. Status is that of the answer; the object's own
// wins.
func (w *Watched) Reported(url string, status int, object []byte) *planner.Error {
	s := dig(object)
	if s.status != 0 {
		status = s.status
	}
	e := w.judge(status, s)
	e.Endpoint = bareText(url)
	return e
}

// Fault makes a *planner.Error of what a provider found out about an answer.
func (w *Watched) Fault(url string, fault planner.Fault, text string) *planner.Error {
	return &planner.Error{
		Fault: fault, Endpoint: bareText(url), Text: w.clean(text), Again: fault == planner.FaultCut,
	}
}

// at is an error of a request to url.
func at(url string, e *planner.Error) *planner.Error {
	copied := *e
	copied.Endpoint = bareText(url)
	return &copied
}

// bareText is a URL without what may be secret in it.
func bareText(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an address that is none"
	}
	return bareURL(u)
}

// saw notes an error; the first one counts.
func (w *Watched) saw(err *planner.Error) *planner.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return err
}

// keyHeader reports whether a header holds a key, going by its name.
func keyHeader(name string) bool {
	return anyOf(strings.ToLower(name), []string{"key", "auth", "token", "secret", "password", "cookie"})
}

// learn notes the secrets of a request.
func (w *Watched) learn(req *http.Request) {
	var found []string
	note := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= 4 {
			found = append(found, s)
			if escaped := url.QueryEscape(s); escaped != s {
				found = append(found, escaped)
			}
		}
	}
	for name, values := range req.Header {
		if !keyHeader(name) {
			continue
		}
		for _, value := range values {
			if scheme, rest, ok := strings.Cut(value, " "); ok && len(scheme) <= len("negotiate") {
				note(rest)
				continue
			}
			note(value)
		}
	}
	if password, ok := req.URL.User.Password(); ok {
		note(password)
	}
	for _, name := range []string{"key", "api_key", "api-key"} {
		note(req.URL.Query().Get(name))
	}
	asked := w.wanted(req)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = append(w.secrets, found...)
	w.asked = asked
}

// wanted is the feature for the answer's format that a request needs.
func (w *Watched) wanted(req *http.Request) planner.Feature {
	if req.GetBody == nil {
		return ""
	}
	copied, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer copied.Close()
	body, err := io.ReadAll(copied)
	if err != nil {
		return ""
	}
	return askedFor(string(body))
}

// longest is the length of the longest secret.
func (w *Watched) longest() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.secrets {
		n = max(n, len(s))
	}
	return n
}

// hide takes the secrets out of a text.
func (w *Watched) hide(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.secrets {
		text = strings.ReplaceAll(text, s, "[redacted:key]")
	}
	return text
}
