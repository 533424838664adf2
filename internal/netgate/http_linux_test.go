package netgate_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/internal/netgate"
)

func TestHeadersOfTheWayStayOnIt(t *testing.T) {
	w := setup(t, "example.com")
	got := make(chan http.Header, 1)
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("X-Kept", "yes")
	}))
	res, _ := w.say("GET http://example.com/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nConnection: X-Gone, close\r\nX-Gone: 1\r\nTe: trailers\r\n" +
		"X-Forwarded-For: 192.0.2.1\r\nX-Kept: 1\r\nKeep-Alive: 5\r\n\r\n")
	h := <-got
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Gone", "Keep-Alive", "Via", "User-Agent", "Accept-Encoding"} {
		if h.Get(name) != "" {
			t.Errorf("the host got %s: %s", name, h.Get(name))
		}
	}
	if h.Get("X-Kept") != "1" || h.Get("X-Forwarded-For") != "192.0.2.1" || h.Get("Te") != "trailers" {
		t.Errorf("the host got %v", h)
	}
	if res.Header.Get("Proxy-Authenticate") != "" || res.Header.Get("X-Kept") != "yes" {
		t.Errorf("the answer has %v", res.Header)
	}
}

func TestBodiesComeAsTheyAreWritten(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		r2 := bufio.NewReader(r.Body)
		for {
			line, err := r2.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(w, "got %s", line)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	conn := w.inside()
	fmt.Fprint(conn, "POST http://example.com/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := func(text string) { fmt.Fprintf(conn, "%x\r\n%s\r\n", len(text), text) }
	chunk("one\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for _, want := range []string{"one\n", "two\n", "three\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != "got "+want {
			t.Fatalf("line = %q, %v, want got %s", line, err, want)
		}
		switch want { // each is sent when the one before has come back
		case "one\n":
			chunk("two\n")
		case "two\n":
			chunk("three\n")
		}
	}
	fmt.Fprint(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("rest = %q, %v", rest, err)
	}
	if e := w.next(); e.Sent != 14 || e.Received != 26 {
		t.Errorf("recorded %+v", e)
	}
}

func TestTrailersGoBothWays(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Back")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Back", "there: "+r.Trailer.Get("X-There"))
	}))
	conn := w.inside()
	fmt.Fprint(conn, "POST http://example.com/ HTTP/1.1\r\nHost: x\r\nTrailer: X-There\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-There: 1\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" || res.Trailer.Get("X-Back") != "there: 1" {
		t.Errorf("answer = %q, %v, %v", body, res.Trailer, err)
	}
}

func TestAHostThatSaysContinueFirst(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			http.Error(w, "no", http.StatusExpectationFailed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s", body)
	}))
	post := func(path string) (got string) {
		conn := w.inside()
		defer conn.Close()
		fmt.Fprintf(conn, "POST http://example.com%s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", path)
		r := bufio.NewReader(conn)
		for {
			res, body := answer(t, r, http.MethodPost)
			got += fmt.Sprint(res.StatusCode) + " "
			if res.StatusCode != http.StatusContinue {
				return got + body
			}
			fmt.Fprint(conn, "abc")
		}
	}
	for path, want := range map[string]string{"/": "100 200 abc", "/no": "417 no\n"} {
		for {
			begun := time.Now()
			got := post(path)
			if got == want {
				break
			}
			if took := time.Since(begun); took < time.Second { // for so long a host is waited for, and then the body is sent
				t.Errorf("%s: %q after %v, want %q", path, got, took, want)
				break
			}
		}
	}
}

func TestARequestThatBecomesSomethingElse(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := buf.ReadString('\n')
		fmt.Fprintf(conn, "got %s", line)
	}))
	conn := w.inside()
	fmt.Fprint(conn, "GET http://example.com/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := r.ReadString('\n'); res.StatusCode != http.StatusSwitchingProtocols || line != "got early\n" {
		t.Errorf("answer = %s, then %q, %v", res.Status, line, err)
	}
	conn.Close()
	if e := w.next(); e.Status != http.StatusSwitchingProtocols || e.Sent != 6 {
		t.Errorf("recorded %+v", e)
	}
}

func TestBigBodiesBothWays(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	}))
	data := make([]byte, 8<<20)
	rand.Read(data)
	res, err := w.client().Post("http://example.com/", "application/octet-stream", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v, want %d", len(got), err, len(data))
	}
	if e := w.next(); e.Sent != int64(len(data)) || e.Received != int64(len(data)) {
		t.Errorf("recorded %+v", e)
	}
}

func TestAnAnswerThatIsCutIsCut(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	res, err := w.client().Get("http://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("an answer that was cut was read as a whole: %q", body)
	}
	w.next()
}

func TestAnswersThatNobodyUnderstands(t *testing.T) {
	w := setup(t, "example.com")
	for _, tc := range []struct{ name, say string }{
		{"nothing", ""},
		{"no HTTP", "hello\r\n"},
		{"endless headers", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := listen(t)
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = io.WriteString(conn, tc.say)
					_ = conn.(*net.TCPConn).CloseWrite()
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
			}()
			w.host("example.com", "203.0.113.1", 80, l.Addr().String())
			res, body := w.say("GET http://example.com/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if res.StatusCode != http.StatusBadGateway || !strings.HasPrefix(body, "airlock: example.com ") || strings.Contains(body, "hello") {
				t.Errorf("answer = %s %q", res.Status, body)
			}
			if e := w.next(); !e.Allowed || e.Status != http.StatusBadGateway || e.Why == "" {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestOneConnectionServesManyRequests(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 80, site(t, hello))
	for range 20 {
		if res, _ := w.say("GET http://example.com/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		if e := w.next(); e.Addr.String() != "203.0.113.1:80" || e.Kind != netgate.KindHTTP {
			t.Errorf("recorded %+v", e)
		}
	}
	// One whose writer has not had its turn 50 ms after the answer is not used again.
	if got := w.connections(); len(got) > 10 {
		t.Errorf("20 requests took %d connections to the host", len(got))
	}
}
