package netgate_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"airlock/internal/netgate"
)

// secure is a TLS server for the names that its certificate has: example.com.
func secure(t testing.TB) (at string, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.Listener.Addr().String(), roots
}

// echo is a server that sends back what it gets, and says its last when it got the last.
func echo(t testing.TB) string {
	t.Helper()
	l := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// tunnel asks for one with CONNECT.
func (w *world) tunnel(to string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn := w.inside()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	r := bufio.NewReader(conn)
	if res, body := answer(w.t, r, http.MethodConnect); res.StatusCode != http.StatusOK {
		w.t.Fatalf("CONNECT %s: %s %s", to, res.Status, body)
	}
	return conn, r
}

func TestTLSThroughATunnelIsNotOpened(t *testing.T) {
	w := setup(t, "example.com")
	at, roots := secure(t)
	w.host("example.com", "203.0.113.1", 443, at)
	for _, scheme := range []string{"http", "socks5", "socks5h"} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", scheme, h2), func(t *testing.T) {
				transport := &http.Transport{
					Proxy:             http.ProxyURL(&url.URL{Scheme: scheme, Host: w.proxy}),
					TLSClientConfig:   &tls.Config{RootCAs: roots},
					ForceAttemptHTTP2: h2,
				}
				res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://example.com/x")
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				transport.CloseIdleConnections()
				if string(body) != "hello from example.com/x" || (res.ProtoMajor == 2) != h2 {
					t.Errorf("answer = %q by %s", body, res.Proto)
				}
				kind := netgate.KindConnect
				if scheme != "http" {
					kind = netgate.KindSOCKS
				}
				e := w.next()
				if !e.Allowed || e.Kind != kind || e.Sent == 0 || e.Received == 0 || e.Duration <= 0 || e.Addr.String() != "203.0.113.1:443" || e.Rule != "example.com" {
					t.Errorf("recorded %+v", e)
				}
			})
		}
	}
}

func TestTLSForAnotherHostThanTheTunnelsIsCut(t *testing.T) {
	w := setup(t, "example.com,*.example.com,192.0.2.1,198.51.100.0/24:8443")
	at, _ := secure(t)
	for _, addr := range []string{"203.0.113.1", "192.0.2.1"} {
		w.host("", addr, 443, at)
	}
	w.host("example.com", "203.0.113.1", 443, at)
	for _, tc := range []struct {
		name, to, server string
		ok               bool
	}{
		{"the same", "example.com:443", "example.com", true},
		{"in capital letters", "example.com:443", "EXAMPLE.COM", true},
		{"another that is let out", "example.com:443", "www.example.com", true},
		{"none", "example.com:443", "", true},
		{"an address", "example.com:443", "192.0.2.1", true}, // clients do not name addresses
		{"another", "example.com:443", "evil.example.net", false},
		{"another below a number", "example.com:443", "example.com.evil.example", false},
		{"any, where an address was asked for", "192.0.2.1:443", "evil.example.net", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, _ := w.tunnel(tc.to)
			client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: tc.server})
			err := client.HandshakeContext(t.Context())
			if (err == nil) != tc.ok {
				t.Errorf("handshake: %v, want %v", err, tc.ok)
			}
			conn.Close()
			e := w.next()
			if e.Allowed != tc.ok || !tc.ok && (e.Rule != netgate.NotAllowed || !strings.Contains(e.Why, tc.server) || e.Received > 0) {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

// trickle writes every byte by itself.
type trickle struct{ net.Conn }

func (c trickle) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestAHelloInPiecesIsReadWhole(t *testing.T) {
	w := setup(t, "example.com")
	at, _ := secure(t)
	w.host("example.com", "203.0.113.1", 443, at)
	for server, ok := range map[string]bool{"example.com": true, "evil.example.net": false} {
		conn, _ := w.tunnel("example.com:443")
		client := tls.Client(trickle{conn}, &tls.Config{InsecureSkipVerify: true, ServerName: server})
		if err := client.HandshakeContext(t.Context()); (err == nil) != ok {
			t.Errorf("handshake for %s: %v, want %v", server, err, ok)
		}
		conn.Close()
		w.next()
	}
}

func TestWhatBeginsAsTLSAndIsNoneGoesNowhere(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 443, echo(t))
	conn, r := w.tunnel("example.com:443")
	if _, err := conn.Write(append([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0}, "evil"...)); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(r); len(got) > 0 {
		t.Errorf("came back: %q", got)
	}
	if e := w.next(); e.Allowed || e.Sent > 0 {
		t.Errorf("recorded %+v", e)
	}
}

func TestNoRecordOfTLSHidesTheHelloBehindIt(t *testing.T) {
	w := setup(t, "example.com")
	w.host("example.com", "203.0.113.1", 443, echo(t))
	for name, first := range map[string]string{
		"a warning, which some servers pass over": "\x15\x03\x01\x00\x02\x01\x5a",
		"a change of cipher":                      "\x14\x03\x03\x00\x01\x01",
		"empty data":                              "\x17\x03\x03\x00\x00",
		"a heartbeat":                             "\x18\x03\x03\x00\x00",
		"a warning's first byte alone":            "\x15",
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := w.tunnel("example.com:443")
			if _, err := io.WriteString(conn, first); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite() // else the rest is waited for, half a minute
			if got, _ := io.ReadAll(r); len(got) > 0 {
				t.Errorf("came back: %q", got)
			}
			if e := w.next(); e.Allowed || e.Sent > 0 {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestOtherProtocolsGoThroughTunnels(t *testing.T) {
	w := setup(t, "example.com:*")
	w.host("example.com", "203.0.113.1", 22, echo(t))
	for _, first := range []string{"SSH-2.0-x\r\n", "\x16", "\x16\x00\x00", "\x00\xff"} {
		conn, r := w.tunnel("example.com:22")
		big := strings.Repeat(first, 100000/len(first))
		go func() {
			_, _ = io.WriteString(conn, big)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(r)
		if err != nil || string(got) != big {
			t.Errorf("%q: %d bytes came back, %v, want %d", first, len(got), err, len(big))
		}
		if e := w.next(); !e.Allowed || e.Sent != int64(len(big)) || e.Received != int64(len(big)) {
			t.Errorf("recorded %+v", e)
		}
	}
}

func TestAServerThatSpeaksFirst(t *testing.T) {
	w := setup(t, "example.com:25")
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "220 hello\r\n")
			_ = conn.Close()
		}
	}()
	w.host("example.com", "203.0.113.1", 25, l.Addr().String())
	conn, r := w.tunnel("example.com:25")
	if line, err := r.ReadString('\n'); err != nil || line != "220 hello\r\n" {
		t.Errorf("came first: %q, %v", line, err)
	}
	conn.Close()
	w.next()
}

func TestBytesBehindTheRequestForATunnelAreItsFirst(t *testing.T) {
	w := setup(t, "example.com:7")
	w.host("example.com", "203.0.113.1", 7, echo(t))
	conn := w.inside()
	fmt.Fprint(conn, "CONNECT example.com:7 HTTP/1.1\r\nHost: x\r\n\r\nearly bird")
	_ = conn.(*net.TCPConn).CloseWrite()
	r := bufio.NewReader(conn)
	answer(t, r, http.MethodConnect)
	if got, err := io.ReadAll(r); string(got) != "early bird" {
		t.Errorf("came back: %q, %v", got, err)
	}
	w.next()
}

func TestSOCKS5(t *testing.T) {
	w := setup(t, "example.com:7,192.0.2.9:7,[2001:db8::9]:7,refuses.example.com:7,gone.example.com:7")
	at := echo(t)
	w.host("example.com", "203.0.113.1", 7, at)
	w.host("", "192.0.2.9", 7, at)
	w.host("", "2001:db8::9", 7, at)
	w.host("refuses.example.com", "203.0.113.2", 7, refusing(t))
	w.host("gone.example.com", "203.0.113.3", 8, "")
	name := func(host string, port byte) []byte {
		return append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), 0, port)
	}
	none, password, both := []byte{5, 1, 0}, []byte{5, 1, 2}, []byte{5, 2, 2, 0}
	for _, tc := range []struct {
		name           string
		greet, request []byte
		reply          byte
	}{
		{"a name", none, name("example.com", 7), 0},
		{"with a password", password, name("example.com", 7), 0},
		{"with or without", both, name("example.com", 7), 0},
		{"IPv4", none, []byte{5, 1, 0, 1, 192, 0, 2, 9, 0, 7}, 0},
		{"IPv6", none, append(append([]byte{5, 1, 0, 4}, net.ParseIP("2001:db8::9")...), 0, 7), 0},
		{"IPv4 as IPv6", none, append(append([]byte{5, 1, 0, 4}, net.ParseIP("192.0.2.9").To16()...), 0, 7), 0},
		{"another name", none, name("example.net", 7), 2},
		{"another port", none, name("example.com", 8), 2},
		{"the machine", none, []byte{5, 1, 0, 1, 127, 0, 0, 1, 0, 7}, 2},
		{"no name", none, name("", 7), 1},
		{"a name with a zero byte", none, name("example.com\x00.x", 7), 1},
		{"nobody listens", none, name("refuses.example.com", 7), 5},
		{"no machine", none, name("gone.example.com", 7), 4},
		{"no such name", none, name("nobody.example.com", 7), 2},
		{"BIND", none, []byte{5, 2, 0, 1, 192, 0, 2, 9, 0, 7}, 7},
		{"UDP", none, []byte{5, 3, 0, 1, 0, 0, 0, 0, 0, 0}, 7},
		{"another kind of address", none, []byte{5, 1, 0, 9, 0, 0, 0, 0, 0, 0}, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := w.inside()
			send := func(b []byte) {
				if _, err := conn.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			take := func(n int) []byte {
				b := make([]byte, n)
				if _, err := io.ReadFull(conn, b); err != nil {
					t.Fatal(err)
				}
				return b
			}
			send(tc.greet)
			if method := take(2); bytes.Equal(tc.greet, password) {
				send([]byte("\x01\x03abc\x00"))
				if got := take(2); method[1] != 2 || got[1] != 0 {
					t.Fatalf("password: method %d, answer %d", method[1], got[1])
				}
			} else if method[1] != 0 {
				t.Fatalf("method = %d, want none", method[1])
			}
			send(tc.request)
			if got := take(10); got[0] != 5 || got[1] != tc.reply {
				t.Fatalf("reply = %d, want %d", got[1], tc.reply)
			}
			if tc.reply == 0 {
				send([]byte("ping"))
				if got := take(4); string(got) != "ping" {
					t.Errorf("came back: %q", got)
				}
			}
			conn.Close()
			if e := w.next(); e.Kind != netgate.KindSOCKS || e.Allowed != (tc.reply == 0 || tc.reply == 4 || tc.reply == 5) {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestOtherVersionsOfSOCKS(t *testing.T) {
	w := setup(t, "example.com:7")
	for _, tc := range []struct{ name, say, want string }{
		{"SOCKS4", "\x04\x01\x00\x07\xc0\x00\x02\x09me\x00", "\x00\x5b\x00\x00\x00\x00\x00\x00"},
		{"SOCKS4a", "\x04\x01\x00\x07\x00\x00\x00\x01\x00example.com\x00", "\x00\x5b\x00\x00\x00\x00\x00\x00"},
		{"only a way that nobody knows", "\x05\x01\x01", "\x05\xff"},
		{"TLS to the proxy", "\x16\x03\x01\x00\x05", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := w.inside()
			if _, err := io.WriteString(conn, tc.say); err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(conn)
			if string(got) != tc.want {
				t.Errorf("answer = %q, want %q", got, tc.want)
			}
			if e := w.next(); e.Allowed || e.Rule != netgate.BadRequest {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestANameThatLeadsElsewhereTheSecondTime(t *testing.T) {
	w := setup(t, "example.com")
	at := echo(t)
	w.host("", "203.0.113.1", 443, at)
	w.host("", "127.0.0.1", 443, at)
	w.flip["example.com"] = [][]string{{"203.0.113.1"}, {"127.0.0.1"}}
	for i := range 6 {
		conn := w.inside()
		fmt.Fprint(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		res, _ := answer(t, bufio.NewReader(conn), http.MethodConnect)
		conn.Close()
		want := http.StatusOK
		if i%2 == 1 {
			want = http.StatusForbidden
		}
		if res.StatusCode != want {
			t.Errorf("tunnel %d: %s, want %d", i, res.Status, want)
		}
		w.next()
	}
	for _, addr := range w.connections() {
		if addr != "203.0.113.1:443" {
			t.Errorf("connected to %s", addr)
		}
	}
	if w.lookups != 6 {
		t.Errorf("the name was asked for %d times in 6 tunnels, want once each", w.lookups)
	}
}
