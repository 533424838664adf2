package netgate_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"airlock/internal/netgate"
)

// site is a server that tells what it was asked.
func site(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello from %s%s", r.Host, r.URL.Path)
}

func TestPlainRequestsGoWhereTheyMay(t *testing.T) {
	w := setup(t, "example.com,*.example.org:8080")
	at := site(t, hello)
	w.host("example.com", "203.0.113.1", 80, at)
	w.host("a.example.org", "203.0.113.2", 8080, at)
	for _, tc := range []struct{ name, url, body string }{
		{"a name", "http://example.com/x", "hello from example.com/x"},
		{"in other letters, with a dot", "http://EXAMPLE.com./x", "hello from example.com/x"},
		{"a name below one", "http://a.example.org:8080/", "hello from a.example.org:8080/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := w.client().Get(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if string(body) != tc.body {
				t.Errorf("answer = %q, want %q", body, tc.body)
			}
			if e := w.next(); !e.Allowed || e.Kind != netgate.KindHTTP || e.Status != 200 || e.Received != int64(len(tc.body)) || !e.Addr.IsValid() {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestWhatIsNotNamedIsRefusedByName(t *testing.T) {
	w := setup(t, "example.com,inner.example.com,db.example.com:5432")
	w.host("example.com", "203.0.113.1", 80, site(t, hello))
	w.host("inner.example.com", "10.0.0.7", 80, site(t, hello))
	for _, tc := range []struct{ name, say, rule string }{
		{"another host", "GET http://example.net/ HTTP/1.1\r\nHost: example.net\r\n\r\n", netgate.NotAllowed},
		{"another host behind the Host header of one that is let out", "GET http://example.net/ HTTP/1.1\r\nHost: example.com\r\n\r\n", netgate.NotAllowed},
		{"a name below", "GET http://www.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.NotAllowed},
		{"another port", "GET http://db.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.PortNotAllowed},
		{"a name that leads inwards", "GET http://inner.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.PrivateAddress},
		{"where clouds keep credentials", "GET http://169.254.169.254/latest HTTP/1.1\r\nHost: x\r\n\r\n", netgate.PrivateAddress},
		{"the proxy itself", "CONNECT 127.0.0.1:3128 HTTP/1.1\r\nHost: x\r\n\r\n", netgate.PrivateAddress},
		{"the machine", "CONNECT localhost:22 HTTP/1.1\r\nHost: x\r\n\r\n", netgate.PrivateAddress},
		{"a tunnel elsewhere", "CONNECT example.net:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", netgate.NotAllowed},
		{"a tunnel without a port", "CONNECT example.com HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"a tunnel to a path", "CONNECT /example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"a tunnel with a body", "CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", netgate.BadRequest},
		{"a request as if to a server", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", netgate.BadRequest},
		{"TLS by the proxy", "GET https://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"another protocol", "GET ftp://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"a name and password", "GET http://a:b@example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"a port that is none", "GET http://example.com:99999/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"an address in octal", "GET http://0177.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
		{"an address as one number", "CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n", netgate.BadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, body := w.say(tc.say)
			if res.StatusCode != http.StatusForbidden || res.Header.Get("X-Airlock-Rule") != tc.rule || !strings.HasPrefix(body, "airlock: ") {
				t.Errorf("answer = %d %q %q, want 403 by %s", res.StatusCode, res.Header.Get("X-Airlock-Rule"), body, tc.rule)
			}
			if e := w.next(); e.Allowed || e.Rule != tc.rule || e.Why == "" {
				t.Errorf("recorded %+v, want %s", e, tc.rule)
			}
			if got := w.connections(); len(got) != 0 {
				t.Errorf("connected to %v", got)
			}
		})
	}
}

func TestRequestsThatAreTwoAreNone(t *testing.T) {
	w := setup(t, "example.com")
	var asked []string
	w.host("example.com", "203.0.113.1", 80, site(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.Host+" "+string(body))
	}))
	for _, tc := range []struct{ name, say string }{
		{"two lengths", "POST http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
		{"two hosts", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"},
		{"no host", "GET http://example.com/ HTTP/1.1\r\n\r\n"},
		{"another coding", "POST http://example.com/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"a folded header", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\nA: b\r\n c: d\x00\r\n\r\n"},
		{"a space before the colon", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc"},
		{"too many headers", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 100<<10) + "\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if res, body := w.say(tc.say); res.StatusCode < 400 {
				t.Errorf("answer = %d %q, want an error", res.StatusCode, body)
			}
		})
	}
	if len(asked) > 0 {
		t.Errorf("the host was asked %q", asked)
	}
}

func TestBothLengthsAreOneToTheHost(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q %v %q", body, r.TransferEncoding, r.Header.Get("Content-Length"))
	}))
	_, body := w.say("POST http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET http://example.com/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
	if want := `"abc" [chunked] ""`; body != want {
		t.Errorf("the host got %s, want %s", body, want)
	}
}

func TestRequestsOneAfterTheOtherAreJudgedEach(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, hello))
	conn := w.inside()
	fmt.Fprint(conn, "GET http://example.com/1 HTTP/1.1\r\nHost: x\r\n\r\nGET http://example.net/2 HTTP/1.1\r\nHost: example.com\r\n\r\nGET http://example.com/3 HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(conn)
	for i, want := range []int{200, 403, 200} {
		if res, body := answer(t, r, http.MethodGet); res.StatusCode != want {
			t.Errorf("answer %d = %d %q, want %d", i+1, res.StatusCode, body, want)
		}
	}
}

func TestHostsThatCannotBeReached(t *testing.T) {
	w := setup(t, "example.com,gone.example.com,nobody.example.com")
	w.host("gone.example.com", "203.0.113.9", 81, "")
	for _, tc := range []struct{ name, say, want string }{
		{"no such name", "GET http://nobody.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", "airlock: there is no host nobody.example.com\n"},
		{"no such machine", "GET http://gone.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", "airlock: gone.example.com (203.0.113.9:80) cannot be reached\n"},
		{"no such machine, a tunnel", "CONNECT gone.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", "airlock: gone.example.com (203.0.113.9:443) cannot be reached\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, body := w.say(tc.say)
			if res.StatusCode != http.StatusBadGateway || body != tc.want || res.Header.Get("X-Airlock-Rule") != "" {
				t.Errorf("answer = %d %q, want 502 %q", res.StatusCode, body, tc.want)
			}
			if e := w.next(); !e.Allowed || e.Why == "" {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}
