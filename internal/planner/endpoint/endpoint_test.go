package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const theKey = "k-12345-very-secret"

// ask posts to a handler and reads the answer; its error is what a Watched makes of it.
func ask(t *testing.T, opts *endpoint.Options, handler http.HandlerFunc) (string, *planner.Error) {
	t.Helper()
	server := serve(t, handler)
	return askURL(t, t.Context(), opts, server.URL+"/v1/chat?key="+theKey)
}

// serve serves handler, which has the request's body read: only then a server sees that a
// client has gone.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func askURL(t *testing.T, ctx context.Context, opts *endpoint.Options, url string) (string, *planner.Error) {
	t.Helper()
	client := endpoint.Client(opts)
	t.Cleanup(client.CloseIdleConnections)
	ctx, w := endpoint.Watch(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"response_format":{"type":"json_schema"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+theKey)
	res, err := client.Do(req)
	if err != nil {
		return "", w.Error(url, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), w.Error(url, err)
}

func TestAnswersThatAreNone(t *testing.T) {
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if contentType != "" {
				w.Header().Set("Content-Type", contentType)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		fault   planner.Fault
		again   bool
		text    string // part of Error()
	}{
		{
			"a redirect is not followed, and named without its query",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://evil.example/login?token=abcdef", http.StatusFound)
			},
			planner.FaultGarbled, false, "redirects to https://evil.example/login; redirects are not followed",
		},
		{
			"a login page with 200",
			answer(200, "text/html", "<!DOCTYPE html><html><head><title>Sign in\x1b[2J</title></head></html>"),
			planner.FaultGarbled, false, "a web page came in place of an answer",
		},
		{
			"a page that says that it is JSON", answer(200, "application/json", " \n<html>"),
			planner.FaultGarbled, false, "a web page",
		},
		{
			"an error object where a stream was expected",
			answer(200, "text/event-stream", `{"error":{"message":"Overloaded","type":"overloaded_error"}}`),
			planner.FaultBusy, true, "HTTP 529): Overloaded",
		},
		{
			"an error with a good status names its own", answer(200, "application/json", `{"error":{"message":"no","code":502}}`),
			planner.FaultServer, true, "HTTP 502): no",
		},
		{"an empty body", answer(200, "text/event-stream", ""), planner.FaultGarbled, false, "the answer is empty"},
		{"a body of spaces", answer(200, "application/json", " \r\n\t"), planner.FaultGarbled, false, "the answer is empty"},
		{"no content", answer(204, "", ""), planner.FaultGarbled, false, "the answer is empty"},
		{"JSON that ends in its middle", answer(200, "application/json", `{"choices":[{"mess`), planner.FaultCut, true, "ends in its middle"},
		{"what only begins as JSON", answer(200, "application/json", `{"a":1} and more`), planner.FaultGarbled, false, "no JSON"},
		{"a text", answer(200, "text/plain", `Ollama is running`), planner.FaultGarbled, false, "Ollama is running"},
		{
			"an unreadable gzip", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = io.WriteString(w, "this is not gzip")
			}, planner.FaultCut, true, "",
		},
		{"a key that is wrong", answer(401, "application/json", `{"error":{"message":"Incorrect API key provided: `+theKey+`."}}`), planner.FaultKey, false, "provided: [redacted:key].; check the key"},
		{"no right", answer(403, "", ""), planner.FaultKey, false, "what it has a right to"},
		{"an unknown model", answer(404, "application/json", `{"error":{"message":"model \"x\" not found, try pulling it first"}}`), planner.FaultNotFound, false, "check model and base_url"},
		{"too many requests", answer(429, "application/json", `{"error":{"message":"Rate limit reached"}}`), planner.FaultBusy, true, "Rate limit reached"},
		{"no quota", answer(429, "application/json", `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`), planner.FaultBusy, false, "check the plan"},
		{"overloaded", answer(529, "application/json", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), planner.FaultBusy, true, "Overloaded"},
		{"a model that is being loaded", answer(503, "application/json", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), planner.FaultBusy, true, "Loading model"},
		{"a bad gateway's page", answer(502, "text/html", `<html><title>502 Bad Gateway</title>`), planner.FaultServer, true, `a web page came ("502 Bad Gateway")`},
		{"a teapot", answer(418, "text/plain", "no coffee"), planner.FaultRejected, false, "no coffee"},
		{"a body too large", answer(413, "", ""), planner.FaultTooLong, false, "larger window"},
		{
			"escape sequences in a message", answer(400, "application/json", `{"error":{"message":"a\u001b]0;x\u0007b\u202ec\u200bd\nsecond line"}}`),
			planner.FaultRejected, false, "a\uFFFD]0;x\uFFFDb\uFFFDc\uFFFDd second line",
		},
		{
			"a key that an excerpt would cut", answer(200, "text/plain", strings.Repeat("x", 195)+theKey),
			planner.FaultGarbled, false, "xxx[reda",
		},
		{
			"a key in what is no JSON", answer(200, "application/json", "{"+strings.Repeat("x", 170)+theKey),
			planner.FaultGarbled, false, "xxx[redacted:key]",
		},
		{
			"a key at the end of what is read of a page", answer(500, "text/plain", strings.Repeat(" ", 64<<10-8)+theKey),
			planner.FaultServer, true, "",
		},
		{
			"a key that is echoed in pieces that would come together", answer(400, "application/json", `{"error":{"message":"k-12345\u200b-very-secret k-12345-very-secret"}}`),
			planner.FaultRejected, false, "k-12345\uFFFD-very-secret [redacted:key]",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ask(t, nil, test.handler)
			if err == nil {
				t.Fatal("there is no error")
			}
			if err.Fault != test.fault || err.Again != test.again {
				t.Errorf("fault %q, again %v; want %q, %v (%v)", err.Fault, err.Again, test.fault, test.again, err)
			}
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %q does not have %q", err, test.text)
			}
			if all := fmt.Sprintf("%v %+v %s", err, err, errors.Unwrap(err)); strings.Contains(all, theKey[:6]) && !strings.Contains(test.name, "in pieces") || strings.Contains(all, theKey) || strings.ContainsAny(all, "\x1b\n") {
				t.Errorf("error %q is not safe to show", all)
			}
			if strings.Contains(err.Endpoint, "?") || err.Endpoint == "" {
				t.Errorf("endpoint is %q", err.Endpoint)
			}
		})
	}
}

func TestAGoodAnswerIsHandedOnAsItIs(t *testing.T) {
	stream := "data: {\"a\":1}\n\ndata: [DONE]\n\n"
	for _, test := range []struct{ name, contentType, body, want, wantType string }{
		{"a stream", "text/event-stream", stream, stream, "text/event-stream"},
		{"a stream that is called JSON", "application/json", stream, stream, "text/event-stream"},
		{"a stream that is called nothing", "", ": comment\n\n" + stream, ": comment\n\n" + stream, "text/event-stream"},
		{"JSON", "application/json; charset=utf-8", `{"a":1}`, `{"a":1}`, "application/json"},
		{"JSON that is called a stream", "text/event-stream", "\ufeff\n{\"a\":1,\"error\":null}", "{\"a\":1,\"error\":null}", "application/json"},
		{"JSON that is called a text", "text/plain", `{"a":1}`, `{"a":1}`, "application/json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ask(t, nil, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				_, _ = io.WriteString(w, test.body)
			})
			if err != nil || got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestBoundsOfTime(t *testing.T) {
	short := &endpoint.Options{FirstByte: 60 * time.Millisecond, Idle: 40 * time.Millisecond}
	stalls := &endpoint.Options{FirstByte: time.Minute, Idle: 40 * time.Millisecond} // after what comes first
	t.Run("nothing comes", func(t *testing.T) {
		_, err := ask(t, short, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		if err == nil || err.Fault != planner.FaultTimeout || !strings.Contains(err.Text, "no answer within 60ms") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("only headers come", func(t *testing.T) {
		_, err := ask(t, short, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		if err == nil || err.Fault != planner.FaultTimeout || !strings.Contains(err.Text, "no answer within 60ms") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("a stream stalls", func(t *testing.T) {
		got, err := ask(t, stalls, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		if err == nil || err.Fault != planner.FaultTimeout || !err.Again || !strings.Contains(err.Text, "nothing more came for 40ms") {
			t.Errorf("err = %v after %q", err, got)
		}
	})
	t.Run("an error's body stalls", func(t *testing.T) {
		_, err := ask(t, stalls, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			_, _ = io.WriteString(w, "begin")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		if err == nil || err.Fault != planner.FaultKey {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("the caller's deadline passes", func(t *testing.T) {
		server := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err := askURL(t, ctx, nil, server.URL)
		if err == nil || err.Fault != planner.FaultTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("the caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done()
		})
		_, err := askURL(t, ctx, nil, server.URL)
		if err == nil || err.Fault != planner.FaultCanceled || !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestARequestIsShownAndNotSent(t *testing.T) {
	var shown endpoint.Shown
	_, err := ask(t, &endpoint.Options{Show: func(s endpoint.Shown) { shown = s }}, func(http.ResponseWriter, *http.Request) {
		t.Error("the request was sent")
	})
	if !errors.Is(err, endpoint.ErrShown) {
		t.Errorf("err = %v", err)
	}
	if shown.Method != "POST" || !strings.HasSuffix(shown.URL, "/v1/chat") || string(shown.Body) != `{"response_format":{"type":"json_schema"}}` {
		t.Errorf("shown: %+v", shown)
	}
}
