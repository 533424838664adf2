package netgate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// names leads every name to two addresses.
type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")}, nil
}

// A bench is a proxy on a clock of the test's own, without a machine around it.
type bench struct {
	t      *testing.T
	p      *proxy
	ctx    context.Context //nolint:containedctx // of the test
	work   sync.WaitGroup
	events []Event
}

// on runs a test on a bench whose hosts are served by host.
func on(t *testing.T, host func(net.Conn), dial dialer, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &bench{t: t, ctx: ctx}
		if dial == nil {
			dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
				near, far := net.Pipe()
				b.work.Go(func() {
					defer far.Close()
					host(far)
				})
				return near, nil
			}
		}
		b.p = newProxy(&Options{
			Config:   Config{Allow: Rules{{Host: "example.com", Port: AnyPort}}},
			Resolver: names{}, Dial: dial,
			Own: func() ([]netip.Addr, error) { return nil, nil },
		}, newRecorder(func(e Event) { b.events = append(b.events, e) }, time.Now))
		b.work.Go(func() { b.p.run(ctx) })
		test(b)
		cancel()
		b.work.Wait()
	})
}

// open is somebody inside who connects.
func (b *bench) open(say string) net.Conn {
	near, far := net.Pipe()
	b.work.Go(func() { b.p.serve(b.ctx, far) })
	b.work.Go(func() { _, _ = io.WriteString(near, say) })
	return near
}

// ends waits until the connection is closed, and tells how long that took and what came before.
func (b *bench) ends(conn net.Conn) (string, time.Duration) {
	start := time.Now()
	got, _ := io.ReadAll(conn)
	took := time.Since(start)
	_ = conn.Close()
	synctest.Wait()
	return string(got), took
}

func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestWhoSaysNothingIsNotWaitedForLong(t *testing.T) {
	hello := "\x16\x03\x01\x02\x00\x01\x00"
	const request = "CONNECT example.com:1 HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, tc := range []struct {
		name, say   string
		least, most time.Duration
	}{
		{"nothing", "", greetTimeout, greetTimeout},
		{"half a request", "GET http://exam", greetTimeout, greetTimeout + time.Second},
		{"a request without its end", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n", greetTimeout, greetTimeout + time.Second},
		{"half of SOCKS5", "\x05\x01\x00\x05\x01", greetTimeout, greetTimeout + 2*time.Second},
		{"a request and no other", "GET http://example.net/ HTTP/1.1\r\nHost: x\r\n\r\n", keepTimeout, keepTimeout + time.Second},
		{"half a hello in a tunnel", request + hello, helloTimeout, helloTimeout + time.Second},
		{"nothing in a tunnel", request, idleTimeout, 2 * idleTimeout},
		{"half a body", "POST http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", idleTimeout, 2*idleTimeout + keepTimeout + time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			on(t, silent, nil, func(b *bench) {
				got, took := b.ends(b.open(tc.say))
				if took < tc.least || took > tc.most {
					t.Errorf("closed after %v, want %v to %v; answered %q", took, tc.least, tc.most, got)
				}
			})
		})
	}
}

func TestATunnelWhoseHostIsDone(t *testing.T) {
	bye := func(conn net.Conn) { _, _ = io.WriteString(conn, "bye") }
	on(t, bye, nil, func(b *bench) {
		got, took := b.ends(b.open("CONNECT example.com:1 HTTP/1.1\r\nHost: x\r\n\r\n")) // a pipe has no half to close
		if !strings.HasSuffix(got, "bye") || took > 2*lingerAfter {
			t.Errorf("got %q, closed after %v", got, took)
		}
	})
}

func TestATunnelInWhichSomethingMovesStays(t *testing.T) {
	const beats = 10
	host := func(conn net.Conn) {
		for range beats {
			time.Sleep(idleTimeout - time.Minute)
			if _, err := io.WriteString(conn, "."); err != nil {
				return
			}
		}
	}
	on(t, host, nil, func(b *bench) {
		got, _ := b.ends(b.open("CONNECT example.com:1 HTTP/1.1\r\nHost: x\r\n\r\n"))
		if !strings.HasSuffix(got, strings.Repeat(".", beats)) {
			t.Errorf("got %q, want %d dots", got, beats)
		}
		if len(b.events) != 1 || b.events[0].Received != beats || b.events[0].Duration < beats*(idleTimeout-time.Minute) {
			t.Errorf("recorded %+v", b.events)
		}
	})
}

func TestHostsThatDoNotAnswer(t *testing.T) {
	hole := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, tc := range []struct {
		name, say, want string
		dial            dialer
		took            time.Duration
	}{
		{"a request to no machine", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", "airlock: example.com (203.0.113.2:80) did not answer in time\n", hole, connectTimeout},
		{"a tunnel to no machine", "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", "airlock: example.com (203.0.113.2:443) did not answer in time\n", hole, connectTimeout},
		{"a host that thinks for too long", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", "airlock: example.com did not answer in time\n", nil, answerTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			on(t, silent, tc.dial, func(b *bench) {
				conn, start := b.open(tc.say), time.Now()
				defer conn.Close()
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if took := time.Since(start); res.StatusCode != http.StatusGatewayTimeout || string(body) != tc.want || took != tc.took {
					t.Errorf("answer = %s %q after %v, want 504 %q after %v", res.Status, body, took, tc.want, tc.took)
				}
			})
		})
	}
}

func TestTheSecondAddressIsTriedWhereTheFirstIsNotThere(t *testing.T) {
	var tried []string
	dial := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		tried = append(tried, addr.String())
		if addr.Addr().String() == "203.0.113.1" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		near, far := net.Pipe()
		_ = far.Close()
		return near, nil
	}
	on(t, nil, dial, func(b *bench) {
		got, took := b.ends(b.open("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n"))
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") || len(tried) != 2 || took > connectTimeout+lingerAfter {
			t.Errorf("answer = %q after %v; tried %v", got, took, tried)
		}
	})
}

func TestOneWhoTakesNothingIsLeft(t *testing.T) {
	flood := func(conn net.Conn) {
		for {
			if _, err := conn.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	on(t, flood, nil, func(b *bench) {
		conn, start := b.open("CONNECT example.com:1 HTTP/1.1\r\nHost: x\r\n\r\n"), time.Now()
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		for len(b.p.slots) > 0 && time.Since(start) < 3*idleTimeout {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if took := time.Since(start); took < idleTimeout || took > 2*idleTimeout {
			t.Errorf("left after %v, want %v", took, idleTimeout)
		}
		_ = conn.Close()
	})
}

func TestTheRecordIsNotFloodedFromInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Event
		r := newRecorder(func(e Event) { got = append(got, e) }, time.Now)
		long := strings.Repeat("x", 1<<20)
		for range 10000 {
			r.record(Event{Host: long})
		}
		if len(got) != recordBurst {
			t.Fatalf("%d of 10000 were recorded at once, want %d", len(got), recordBurst)
		}
		if len(got[0].Host) > maxHost+len("…") {
			t.Errorf("a host of %d bytes was recorded", len(got[0].Host))
		}
		time.Sleep(time.Second)
		for range recordRate + 5 {
			r.record(Event{Host: "later"})
		}
		if len(got) != recordBurst+recordRate || got[recordBurst].Dropped != 10000-recordBurst {
			t.Errorf("%d were recorded, the first of them after %d others; want %d", len(got), got[recordBurst].Dropped, recordBurst+recordRate)
		}
		r.close()
		if last := got[len(got)-1]; last.Dropped != 5 {
			t.Errorf("at last, recorded %+v", last)
		}
	})
}

func TestAGateThatCannotReachItsSandboxGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		in := &inside{connect: func(context.Context) (net.Conn, error) { return nil, errors.New("no keeper") }}
		d := &doors{inside: in, serve: nil, log: discard(), gone: cancel}
		start := time.Now()
		d.keep(ctx)
		if cause := context.Cause(ctx); !errors.Is(cause, ErrGone) {
			t.Errorf("gave up with %v, want %v", cause, ErrGone)
		}
		if took := time.Since(start); took < goneAfter || took > goneAfter+2*mostWait {
			t.Errorf("gave up after %v, want %v", took, goneAfter)
		}
	})
}

func FuzzSOCKS5(f *testing.F) {
	for _, s := range []string{"\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x00\x50", "\x05\x01\x02\x01\x01a\x01b\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50", "\x05\xff", "\x05\x01\x00\x05\x02\x00\x04"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := strings.NewReader(string(data))
		conn := struct {
			io.Reader
			io.Writer
		}{in, io.Discard}
		host, port, err := readSOCKS5(conn)
		if err == nil && (port < 0 || port > 65535 || len(host) > 255 || data[0] != 5) {
			t.Errorf("%q is a request for %q %d", data, host, port)
		}
	})
}

func FuzzServerName(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"))
	f.Add([]byte("\x16\x03\x01\x40\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, read, err := serverName(strings.NewReader(string(data)))
		if err == nil && !strings.HasPrefix(string(data), string(read)) {
			t.Errorf("%q was read as %q, for %q", data, read, name)
		}
	})
}

// FuzzProxy says anything to the proxy: whatever it is, nobody is connected to but the one host.
func FuzzProxy(f *testing.F) {
	for _, s := range []string{
		"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT example.com:443 HTTP/1.1\r\n\r\n", "CONNECT evil:443 HTTP/1.0\r\n\r\n",
		"\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x00\x50", "\x05\x01\x00\x05\x01\x00\x03\x0dｅxample.com\x00\x50", "GET http://example.com@evil/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://evil%2eexample.com/ HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dial := func(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
			if !strings.HasPrefix(addr.Addr().String(), "203.0.113.") {
				t.Errorf("%q led to %v", data, addr)
			}
			return nil, errors.New("nobody")
		}
		on(t, nil, dial, func(b *bench) {
			conn := b.open(string(data))
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			synctest.Wait() // what is still to be recorded is
			for _, e := range b.events {
				// However it is spelled: "ｅxample.com" is the same name.
				if name, err := canonicalName(e.Host); e.Allowed && (err != nil || name != "example.com") {
					t.Errorf("%q let out %+v", data, e)
				}
			}
		})
	})
}
