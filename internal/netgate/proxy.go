package netgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Bounds of what somebody inside can have of the proxy.
const (
	maxConns      = 256 // at once
	maxRefusing   = 32  // more, that are told so
	greetTimeout  = 30 * time.Second
	refuseTimeout = 5 * time.Second
	keepTimeout   = 2 * time.Minute // of a connection between two requests
	maxHeader     = 64 << 10
)

// A proxy serves what somebody inside opened: HTTP or SOCKS5, whichever its first byte says.
type proxy struct {
	judge   *Judge
	secrets []Held
	dial    dialer
	events  *recorder
	now     func() time.Time

	conns    *handover
	slots    chan struct{}
	refusing chan struct{}
}

func newProxy(o *Options, events *recorder) *proxy {
	p := &proxy{
		judge:    NewJudge(o.Config.Allow, o.Resolver, o.Own),
		secrets:  o.Config.Secrets,
		dial:     o.Dial,
		events:   events,
		now:      time.Now,
		conns:    newHandover(),
		slots:    make(chan struct{}, maxConns),
		refusing: make(chan struct{}, maxRefusing),
	}
	if p.dial == nil {
		p.dial = systemDial
	}
	return p
}

// run serves what serve hands it as HTTP, until ctx ends.
func (p *proxy) run(ctx context.Context) {
	transport := p.transport()
	defer transport.CloseIdleConnections()
	server := &http.Server{
		Handler:           p.handler(ctx, p.forwarder(transport)),
		ReadHeaderTimeout: greetTimeout,
		IdleTimeout:       keepTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Protocols:         new(http.Protocols),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if g, ok := c.(*guestConn); ok && state == http.StateClosed {
				g.finish()
			}
		},
	}
	server.Protocols.SetHTTP1(true)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.Serve(p.conns) // ends when it is closed
}

type connKey struct{}

// serve serves one connection to its end.
func (p *proxy) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		p.sniff(ctx, conn)
	default:
		p.overload(conn)
	}
}

// sniff reads one byte to tell the protocols apart.
func (p *proxy) sniff(ctx context.Context, conn net.Conn) {
	first, err := firstByte(conn, greetTimeout)
	if err != nil {
		return
	}
	switch c := first[0]; {
	case c == socks5:
		g := &guestConn{Conn: conn, first: first}
		_ = g.SetDeadline(p.now().Add(greetTimeout))
		p.serveSOCKS5(ctx, g)
	case c == socks4:
		_ = conn.SetDeadline(p.now().Add(refuseTimeout))
		refuseSOCKS4(conn)
		p.events.record(Event{At: p.now(), Kind: KindSOCKS, Rule: BadRequest, Why: "SOCKS4 is not spoken here, only SOCKS5 and HTTP"})
		drain(conn)
	case c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z':
		g := &guestConn{Conn: conn, first: first, done: make(chan struct{})}
		if p.conns.hand(ctx, g) {
			<-g.done
		}
	default:
		p.events.record(Event{At: p.now(), Rule: BadRequest, Why: "neither HTTP nor SOCKS was spoken to the proxy"})
	}
}

func firstByte(conn net.Conn, within time.Duration) ([]byte, error) {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	first := make([]byte, 1)
	_, err := io.ReadFull(conn, first)
	_ = conn.SetReadDeadline(time.Time{})
	return first, err
}

// overload tells a connection that there are too many, or closes it where even those that are told are too many.
func (p *proxy) overload(conn net.Conn) {
	const why = "too many connections are open at once"
	p.events.record(Event{At: p.now(), Rule: TooMany, Why: why})
	select {
	case p.refusing <- struct{}{}:
		defer func() { <-p.refusing }()
	default:
		return
	}
	first, err := firstByte(conn, refuseTimeout)
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(refuseTimeout))
	if first[0] != socks5 {
		_, _ = conn.Write(plainRefusal(TooMany, why))
	} else if _, _, err := readSOCKS5(&guestConn{Conn: conn, first: first}); err == nil {
		_ = replySOCKS5(conn, replyNotAllowed)
	}
	drain(conn)
}

// drain lets the other side read what it was told: a connection that is closed with something unread may be reset.
func drain(conn net.Conn) {
	_ = closeWrite(conn)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxHeader))
}

// plainRefusal is a whole answer to a request that was not read.
func plainRefusal(rule, why string) []byte {
	body := sentence(rule, why)
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 403 Forbidden\r\nX-Airlock-Rule: " + rule + "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	return b.Bytes()
}

func sentence(rule, why string) string { return "airlock: " + why + " (" + rule + ")\n" }

// serveSOCKS5 makes a tunnel, or says why not.
func (p *proxy) serveSOCKS5(ctx context.Context, conn *guestConn) {
	e := Event{At: p.now(), Kind: KindSOCKS}
	host, port, err := readSOCKS5(conn)
	e.Host, e.Port = host, port
	if err != nil {
		e.Rule, e.Why = BadRequest, err.Error()
		if failed, ok := errors.AsType[*socksError](err); ok {
			_ = replySOCKS5(conn, failed.reply)
		} else if isCut(err) || isTimeout(err) {
			return // nobody asked for anything
		}
		p.events.record(e)
		drain(conn)
		return
	}
	far, v, refused, err := p.open(ctx, &e)
	if refused != nil || err != nil {
		_ = conn.SetDeadline(p.now().Add(refuseTimeout))
		_ = replySOCKS5(conn, socksReply(refused, err))
		p.events.record(e)
		drain(conn)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if err := replySOCKS5(conn, replyDone); err != nil {
		_ = far.Close()
		p.events.record(e)
		return
	}
	p.relay(ctx, conn, far, v, &e)
}

// open judges what e asks for and connects a tunnel to it. It fills in e.
func (p *proxy) open(ctx context.Context, e *Event) (net.Conn, Verdict, *refusal, error) {
	v := p.judge.Judge(ctx, e.Host, e.Port)
	e.Rule, e.Why = v.Rule, v.Why
	if v.Unreachable {
		e.Allowed = true
		return nil, v, nil, &unreachable{why: v.Why}
	}
	if !v.Allowed {
		return nil, v, &refusal{v.Rule, v.Why}, nil
	}
	if refused := needsPlain(p.secrets, v.Host); refused != nil {
		e.Rule, e.Why = refused.rule, refused.why
		return nil, v, refused, nil
	}
	e.Allowed = true
	conn, addr, err := p.dial.connect(ctx, v)
	if err != nil {
		e.Why = err.Error()
		return nil, v, nil, err
	}
	e.Addr = addr
	return conn, v, nil, nil
}

// relay is a tunnel's life.
func (p *proxy) relay(ctx context.Context, near, far net.Conn, v Verdict, e *Event) {
	g := &greeting{Conn: near, check: func(name string) error { return p.checkServerName(v, e.Port, name) }}
	e.Sent, e.Received = tunnel(ctx, g, far, idleTimeout)
	e.Duration = p.now().Sub(e.At)
	if g.refused != nil {
		e.Allowed, e.Rule, e.Why = false, NotAllowed, g.refused.Error()
	}
	p.events.record(*e)
}

// checkServerName holds what a client says to a TLS server against what it said to the proxy. Whoever asked for an
// address may say what they like: the address is let out, whoever lives there.
func (p *proxy) checkServerName(v Verdict, port int, name string) error {
	if _, err := netip.ParseAddr(v.Host); err == nil {
		return nil
	}
	if spelled, err := canonicalName(name); err == nil && (spelled == v.Host || p.judge.AllowsName(spelled, port)) {
		return nil
	}
	return fmt.Errorf("the tunnel was asked for to %s, and then TLS for %s, which is not let out", v.Host, quote(name))
}
