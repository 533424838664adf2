package endpoint_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

func TestBoundsOfSize(t *testing.T) {
	t.Run("a little gzip that becomes a lot", func(t *testing.T) {
		var bomb bytes.Buffer
		z := gzip.NewWriter(&bomb)
		_, _ = io.WriteString(z, `{"a":"`)
		for range 64 {
			_, _ = z.Write(make([]byte, 1<<20))
		}
		_ = z.Close()
		_, err := ask(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Errorf("Accept-Encoding is %q", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		})
		if err == nil || err.Fault != planner.FaultTooBig || err.Again {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("a stream without an end", func(t *testing.T) {
		got, err := ask(t, &endpoint.Options{MaxBody: 1000}, func(w http.ResponseWriter, _ *http.Request) {
			for range 10000 {
				if _, err := io.WriteString(w, "data: {\"a\":\"some text\"}\n\n"); err != nil {
					return
				}
			}
		})
		if err == nil || err.Fault != planner.FaultTooBig || len(got) > 1000 {
			t.Errorf("err = %v after %d bytes", err, len(got))
		}
	})
	t.Run("as much as is allowed", func(t *testing.T) {
		want := `{"a":"` + strings.Repeat("x", 1000-8) + `"}`
		got, err := ask(t, &endpoint.Options{MaxBody: 1000}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, want) })
		if err != nil || got != want {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
}

func TestCutConnections(t *testing.T) {
	t.Run("a stream", func(t *testing.T) {
		got, err := ask(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		if err == nil || err.Fault != planner.FaultCut || !err.Again || got != "data: {}\n\n" {
			t.Errorf("err = %v after %q", err, got)
		}
	})
	t.Run("before a word", func(t *testing.T) {
		_, err := ask(t, nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if err == nil || err.Fault != planner.FaultCut || !err.Again {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("shorter than it said", func(t *testing.T) {
		_, err := ask(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"a":1}`)
		})
		if err == nil || err.Fault != planner.FaultCut {
			t.Errorf("err = %v", err)
		}
	})
}

// raw answers each connection with the same bytes, and ends it.
func raw(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
			// A close with something unread would take the answer from who has not read it yet.
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// refusing is an address that refuses connections, and that nobody else is given meanwhile: the
// near end of a connection, which is bound to it.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}

func TestNoConnection(t *testing.T) {
	refused := refusing(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.Config.ErrorLog = nil
	defer secure.Close()
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10} //nolint:gosec // what has to be refused
	old.StartTLS()
	defer old.Close()
	plain := raw(t, "HTTP/1.1 400 Bad Request\r\n\r\n")
	for _, test := range []struct {
		name, url string
		fault     planner.Fault
		text      string
	}{
		{"a refused connection on this machine", "http://" + refused + "/v1", planner.FaultUnreachable, "refused; is the server running?"},
		{"no such host", "http://no-such-host.invalid/v1", planner.FaultUnreachable, "check the network and base_url"},
		{"an authority that nobody knows", secure.URL, planner.FaultUnreachable, "SSL_CERT_FILE"},
		{"a version of TLS that is too old", old.URL, planner.FaultUnreachable, "TLS"},
		{"https to a server of http", "https://" + plain, planner.FaultUnreachable, "set base_url to http://"},
		{"http to a server of https", "http://" + strings.TrimPrefix(secure.URL, "https://"), planner.FaultRejected, "set base_url to https://"},
		{"something that is not HTTP", "http://" + raw(t, "SSH-2.0-OpenSSH_9.6\r\n"), planner.FaultGarbled, "not HTTP"},
		{"nothing but a closed connection", "http://" + raw(t, ""), planner.FaultCut, "closed"},
		{"an endless header", "http://" + raw(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)), planner.FaultTooBig, "headers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := askURL(t, t.Context(), &endpoint.Options{Connect: time.Minute}, test.url)
			if err == nil || err.Fault != test.fault || !strings.Contains(err.Error(), test.text) {
				t.Errorf("err = %v, want %q with %q", err, test.fault, test.text)
			}
		})
	}
}

func TestAProxyIsNotAskedForThisMachine(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("NO_PROXY", "")
	_, err := ask(t, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	if err != nil {
		t.Error(err)
	}
}

func TestAProxyThatRefuses(t *testing.T) {
	for status, want := range map[string]string{
		"407 Proxy Authentication Required": "the proxy says: Proxy Authentication Required; check HTTPS_PROXY",
		"403 Forbidden":                     "the proxy says: Forbidden",
	} {
		proxy := &url.URL{Scheme: "http", Host: raw(t, "HTTP/1.1 "+status+"\r\n\r\n")}
		_, err := askURL(t, t.Context(), &endpoint.Options{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}, "https://api.example/v1")
		if err == nil || err.Fault != planner.FaultUnreachable || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v", status, err)
		}
	}
	gone := &url.URL{Scheme: "http", Host: refusing(t)}
	_, failed := askURL(t, t.Context(), &endpoint.Options{Transport: &http.Transport{Proxy: http.ProxyURL(gone)}}, "https://api.example/v1")
	if failed == nil || failed.Fault != planner.FaultUnreachable || !strings.Contains(failed.Error(), "the proxy cannot be reached") {
		t.Errorf("a proxy that is not there: err = %v", failed)
	}
}

// A dripper sends a byte each time after a while.
type dripper struct {
	ctx   context.Context //nolint:containedctx // the request's, for as long as its answer is read
	every time.Duration
	left  int
}

func (d *dripper) RoundTrip(req *http.Request) (*http.Response, error) {
	_ = req.Body.Close()
	d.ctx = req.Context()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: d}, nil
}

func (d *dripper) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.every):
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	if d.left == 0 {
		return 0, io.EOF
	}
	d.left--
	p[0] = ':'
	return 1, nil
}

func (d *dripper) Close() error { return nil }

func TestTimesByDefault(t *testing.T) {
	for _, test := range []struct {
		name  string
		every time.Duration
		limit time.Duration // the caller's
		fault planner.Fault
		took  time.Duration
	}{
		{"a byte a minute is as long as the caller wants to wait", time.Minute, 5 * time.Minute, planner.FaultTimeout, 5 * time.Minute},
		{"a byte in 100 seconds is too slow between two", 100 * time.Second, time.Hour, planner.FaultTimeout, 190 * time.Second},
		{"a first byte within two minutes", 121 * time.Second, time.Hour, planner.FaultTimeout, 120 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				start := time.Now()
				_, err := askURL(t, ctx, &endpoint.Options{Transport: &dripper{every: test.every, left: 100}}, "http://model.example/v1")
				if err == nil || err.Fault != test.fault {
					t.Errorf("err = %v, want %q", err, test.fault)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestAWatchedOfAnSDKsError(t *testing.T) {
	_, w := endpoint.Watch(t.Context())
	const url = "https://user:pass@x.example/v1?key=abc#f"
	if w.Error(url, nil) != nil || w.Seen() != nil {
		t.Error("there is an error of nothing")
	}
	for _, test := range []struct {
		err   error
		fault planner.Fault
		is    error
	}{
		{context.Canceled, planner.FaultCanceled, context.Canceled},
		{context.DeadlineExceeded, planner.FaultTimeout, context.DeadlineExceeded},
		{io.ErrUnexpectedEOF, planner.FaultCut, nil},
		{errors.New("bad JSON \x1b[2J"), planner.FaultGarbled, nil},
		{endpoint.ErrShown, planner.FaultCanceled, endpoint.ErrShown},
	} {
		e := w.Error(url, test.err)
		if e.Fault != test.fault || e.Endpoint != "https://x.example/v1" || test.is != nil && !errors.Is(e, test.is) || strings.Contains(e.Error(), "\x1b") {
			t.Errorf("Error(%v) = %v, want %q", test.err, e, test.fault)
		}
	}
}
