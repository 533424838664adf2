package netgate_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"airlock/internal/netgate"
)

// withSecret is a gate that holds KEY, for example.com alone.
func withSecret(t *testing.T) (w *world, placeholder string) {
	t.Helper()
	held := netgate.Held{Name: "KEY", Hosts: []string{"example.com"}, Placeholder: netgate.NewPlaceholder(), Value: "hunter2"}
	w = setup(t, "example.com,example.org,example.com:8080", func(o *netgate.Options) { o.Config.Secrets = []netgate.Held{held} })
	at := site(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s|%s|%s|%s", r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.URL, body)
	})
	for _, port := range []int{80, 443, 8080} {
		w.host("example.com", "203.0.113.1", port, at)
		w.host("example.org", "203.0.113.2", port, at)
	}
	return w, held.Placeholder
}

func TestSecretsArePutIntoHeaders(t *testing.T) {
	w, placeholder := withSecret(t)
	basic := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, tc := range []struct{ name, say, want string }{
		{"a token", "GET http://example.com/ HTTP/1.1\r\nAuthorization: Bearer PLACE\r\n", "Bearer hunter2||/|"},
		{"at another port", "GET http://example.com:8080/ HTTP/1.1\r\nAuthorization: Bearer PLACE\r\n", "Bearer hunter2||/|"},
		{"twice, in the middle", "GET http://EXAMPLE.com./ HTTP/1.1\r\nX-Key: a PLACE b PLACE\r\n", "|a hunter2 b hunter2|/|"},
		{"in a password", "GET http://example.com/ HTTP/1.1\r\nAuthorization: basic " + basic("me:PLACE") + "\r\n", "basic " + basic("me:hunter2") + "||/|"},
		{"none", "GET http://example.com/ HTTP/1.1\r\nAuthorization: Basic " + basic("me:x") + "\r\n", "Basic " + basic("me:x") + "||/|"},
		{"a body is left as it is", "POST http://example.com/ HTTP/1.1\r\nContent-Length: 47\r\n\r\nPLACE", "||/|PLACE"},
		{"a header is gone that its connection alone is for", "GET http://example.com/ HTTP/1.1\r\nConnection: X-Key\r\nX-Key: PLACE\r\n", "||/|"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			say := strings.Replace(tc.say, " HTTP/1.1\r\n", " HTTP/1.1\r\nHost: x\r\n", 1)
			if !strings.Contains(say, "\r\n\r\n") {
				say += "\r\n"
			}
			if strings.Contains(say, basic("me:PLACE")) {
				say = strings.ReplaceAll(say, basic("me:PLACE"), basic("me:"+placeholder))
			}
			_, body := w.say(strings.ReplaceAll(say, "PLACE", placeholder))
			if want := strings.ReplaceAll(tc.want, "PLACE", placeholder); body != want {
				t.Errorf("the host got %q, want %q", body, want)
			}
			e := w.next()
			if used := strings.Contains(tc.want, "hunter2") || strings.Contains(tc.want, basic("me:hunter2")) || strings.Contains(tc.say, "Connection"); used != (len(e.Secrets) == 1) {
				t.Errorf("recorded %+v", e)
			}
			if text := fmt.Sprintf("%+v", e); strings.Contains(text, "hunter2") || strings.Contains(text, placeholder) {
				t.Errorf("recorded %s", text)
			}
		})
	}
}

func TestSecretsGoNowhereElse(t *testing.T) {
	w, placeholder := withSecret(t)
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + placeholder))
	for _, tc := range []struct{ name, say, rule string }{
		{"another host", "GET http://example.org/ HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer PLACE\r\n\r\n", netgate.NotAllowed},
		{"another host, in a password", "GET http://example.org/ HTTP/1.1\r\nHost: example.com\r\nAuthorization: Basic " + basic + "\r\n\r\n", netgate.NotAllowed},
		{"another host, in any header", "GET http://example.org/ HTTP/1.1\r\nHost: x\r\nCookie: a=b; c=PLACE\r\n\r\n", netgate.NotAllowed},
		{"in the address", "GET http://example.com/?key=PLACE HTTP/1.1\r\nHost: x\r\n\r\n", netgate.SecretNeedsHeader},
		{"in the address of another host", "GET http://example.org/PLACE HTTP/1.1\r\nHost: x\r\n\r\n", netgate.SecretNeedsHeader},
		{"a tunnel to its host", "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", netgate.SecretNeedsPlainHTTP},
		{"a tunnel to its host at another port", "CONNECT EXAMPLE.com.:80 HTTP/1.1\r\nHost: x\r\n\r\n", netgate.SecretNeedsPlainHTTP},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, body := w.say(strings.ReplaceAll(tc.say, "PLACE", placeholder))
			if res.StatusCode != http.StatusForbidden || res.Header.Get("X-Airlock-Rule") != tc.rule {
				t.Errorf("answer = %d %q %q, want %s", res.StatusCode, res.Header.Get("X-Airlock-Rule"), body, tc.rule)
			}
			if e := w.next(); e.Allowed || e.Rule != tc.rule || strings.Contains(body+fmt.Sprint(e), "hunter2") || strings.Contains(body+e.Why, placeholder) {
				t.Errorf("recorded %+v, answered %q", e, body)
			}
		})
	}
	t.Run("a tunnel elsewhere is none of its business", func(t *testing.T) {
		conn, _ := w.tunnel("example.org:443")
		conn.Close()
		w.next()
	})
	if got := w.connections(); len(got) != 1 || got[0] != "203.0.113.2:443" {
		t.Errorf("connected to %v", got)
	}
}

func TestManyPlaceholdersDoNotBecomeManyMegabytes(t *testing.T) {
	held := netgate.Held{Name: "KEY", Hosts: []string{"example.com"}, Placeholder: netgate.NewPlaceholder(), Value: netgate.Value(strings.Repeat("v", 8<<10))}
	w := setup(t, "example.com", func(o *netgate.Options) { o.Config.Secrets = []netgate.Held{held} })
	w.host("example.com", "203.0.113.1", 80, site(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.Header.Get("X-Key")))
	}))
	for _, tc := range []struct {
		name   string
		header string
		want   string
	}{
		{"a few", "X-Key: " + strings.Repeat(held.Placeholder, 4), "32768"},
		{"many in one header", "X-Key: " + strings.Repeat(held.Placeholder, 1000), ""},
		{"many in many headers", strings.Repeat("X-Key: "+held.Placeholder+"\r\n", 100) + "X-Last: x", ""},
		{"many in a password", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(held.Placeholder, 500))), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, body := w.say("GET http://example.com/ HTTP/1.1\r\nHost: x\r\n" + tc.header + "\r\n\r\n")
			if refused := res.StatusCode == http.StatusForbidden && res.Header.Get("X-Airlock-Rule") == netgate.BadRequest; refused != (tc.want == "") || !refused && body != tc.want {
				t.Errorf("answer = %d %.100q, want %q", res.StatusCode, body, tc.want)
			}
			if e := w.next(); e.Allowed != (tc.want != "") {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestAHostThatAnswersWithNonsenseIsNotRepeated(t *testing.T) {
	w, placeholder := withSecret(t)
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			n, _ := conn.Read(b)
			_, _ = conn.Write(b[strings.Index(string(b[:n]), "Bearer"):n]) // what it was told, as an answer
			_ = conn.Close()
		}
	}()
	w.host("example.com", "203.0.113.1", 80, l.Addr().String())
	res, body := w.say("GET http://example.com/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + placeholder + "\r\n\r\n")
	e := w.next()
	if res.StatusCode != http.StatusBadGateway || strings.Contains(body+fmt.Sprint(e), "hunter2") {
		t.Errorf("answer = %d %q, recorded %+v", res.StatusCode, body, e)
	}
}
