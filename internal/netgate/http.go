package netgate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"
)

const (
	answerTimeout   = 10 * time.Minute // until a host's answer begins
	maxAnswerHeader = 256 << 10
)

// handler answers requests of plain HTTP, and makes tunnels of connections. ctx is the tunnels': a request's own ends
// when its client has said its last, which in a tunnel is no reason to end.
func (p *proxy) handler(ctx context.Context, forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			p.handleConnect(ctx, w, r)
		} else {
			p.handleRequest(w, r, forward)
		}
	})
}

func (p *proxy) handleRequest(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	e := Event{At: p.now(), Kind: KindHTTP, Port: 80}
	out := &counted{ResponseWriter: w, control: http.NewResponseController(w)}
	defer p.finish(r, out, &e)
	_ = out.control.EnableFullDuplex() // an answer may begin before the request has ended
	v, refused := p.admit(r, &e)
	switch {
	case refused != nil:
		e.Allowed, e.Rule, e.Why = false, refused.rule, refused.why
		refuse(out, http.StatusForbidden, refused.rule, refused.why)
		return
	case v.Unreachable:
		e.Allowed = true
		refuse(out, http.StatusBadGateway, "", v.Why)
		return
	}
	e.Allowed = true
	r.Body = &countedBody{ReadCloser: r.Body, counts: out}
	ctx := context.WithValue(r.Context(), callKey{}, &call{v, &e})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if far, ok := info.Conn.(*farConn); ok {
			e.Addr = far.addr
		}
	}})
	forward.ServeHTTP(out, r.WithContext(ctx))
}

// finish records a request. A connection that was taken over is done with, too.
func (p *proxy) finish(r *http.Request, out *counted, e *Event) {
	e.Status, e.Sent, e.Received = out.status, out.sent.Load(), out.received.Load()
	e.Duration = p.now().Sub(e.At)
	p.events.record(*e)
	if g, ok := r.Context().Value(connKey{}).(*guestConn); ok && out.taken {
		g.finish()
	}
}

// A call is a request that was judged.
type call struct {
	verdict Verdict
	event   *Event
}

type callKey struct{}

// admit judges a request and puts secrets into it. The address decides whom it goes to; what the Host header says
// is of no interest.
func (p *proxy) admit(r *http.Request, e *Event) (Verdict, *refusal) {
	e.Host = r.URL.Host
	switch {
	case r.URL.Scheme == "https":
		return Verdict{}, &refusal{BadRequest, "the proxy does not speak TLS for others: ask for a tunnel with CONNECT"}
	case r.URL.Scheme != "http" || r.URL.Host == "":
		return Verdict{}, &refusal{BadRequest, "this is a proxy: requests to it begin with http://HOST/, or are CONNECT HOST:PORT"}
	case r.URL.User != nil:
		return Verdict{}, &refusal{BadRequest, "an address with a name and password is not sent on: use a header"}
	}
	e.Host = r.URL.Hostname()
	if text := r.URL.Port(); text != "" {
		port, err := parsePort(text, 1)
		if err != nil {
			return Verdict{}, &refusal{BadRequest, err.Error()}
		}
		e.Port = port
	}
	v := p.judge.Judge(r.Context(), e.Host, e.Port)
	e.Rule, e.Why = v.Rule, v.Why
	if !v.Allowed && !v.Unreachable {
		return v, &refusal{v.Rule, v.Why}
	}
	names, refused := inject(p.secrets, r, v.Host)
	if refused != nil {
		return v, refused
	}
	e.Secrets = names
	r.URL.Host = hostPort(v.Host, e.Port)
	r.Host = r.URL.Host
	return v, nil
}

// hostPort is how plain HTTP writes a host: without its own port.
func hostPort(host string, port int) string {
	if port == 80 {
		return strings.TrimSuffix(net.JoinHostPort(host, ""), ":")
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// refuse answers a request itself.
func refuse(w http.ResponseWriter, status int, rule, why string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	text := "airlock: " + why + "\n"
	if rule != "" {
		h.Set("X-Airlock-Rule", rule)
		text = sentence(rule, why)
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// transport connects to what was judged, and to nothing else: it cannot ask for a name.
func (p *proxy) transport() *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, ok := ctx.Value(callKey{}).(*call)
			if !ok || !c.verdict.Allowed {
				return nil, errors.New("nobody judged this")
			}
			conn, addr, err := p.dial.connect(ctx, c.verdict)
			if err != nil {
				return nil, err
			}
			return &farConn{Conn: conn, addr: addr}, nil
		},
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        keepTimeout / 2,
		ResponseHeaderTimeout:  answerTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxAnswerHeader,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// forwarder sends requests on, and answers back, as they come.
func (p *proxy) forwarder(t *http.Transport) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Host, r.Out.Host = r.In.URL.Host, r.In.URL.Host
			r.Out.Trailer = r.In.Trailer // filled in when the body has been read
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = values
				}
			}
		},
		Transport:     t,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ErrorHandler:  failed,
	}
}

// failed answers for a host that did not. What it said instead of an answer is not repeated: that may be a secret.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	c, ok := r.Context().Value(callKey{}).(*call)
	if !ok {
		refuse(w, http.StatusBadGateway, "", "the request could not be sent on")
		return
	}
	status, why := http.StatusBadGateway, c.verdict.Host+" gave no answer that can be understood"
	host, unreached := errors.AsType[*unreachable](err)
	switch {
	case unreached:
		why = host.why
		if host.timeout {
			status = http.StatusGatewayTimeout
		}
	case isTimeout(err):
		status, why = http.StatusGatewayTimeout, c.verdict.Host+" did not answer in time"
	case r.Context().Err() != nil:
		why = "the request was given up"
	case isCut(err):
		why = c.verdict.Host + " ended the connection without an answer"
	}
	c.event.Why = why
	refuse(w, status, "", why)
}

// handleConnect makes a tunnel of the connection.
func (p *proxy) handleConnect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	e := Event{At: p.now(), Kind: KindConnect, Host: r.RequestURI}
	host, text, err := net.SplitHostPort(r.RequestURI)
	port := 0
	if err == nil {
		port, err = parsePort(text, 1)
	}
	if err != nil || r.ContentLength != 0 {
		e.Rule, e.Why = BadRequest, "a tunnel is asked for with CONNECT HOST:PORT, without a body"
		p.answerConnect(w, &e, http.StatusForbidden, e.Rule)
		return
	}
	e.Host, e.Port = host, port
	far, v, refused, err := p.open(ctx, &e)
	switch {
	case refused != nil:
		p.answerConnect(w, &e, http.StatusForbidden, refused.rule)
		return
	case err != nil:
		status := http.StatusBadGateway
		if host, ok := errors.AsType[*unreachable](err); ok && host.timeout {
			status = http.StatusGatewayTimeout
		}
		p.answerConnect(w, &e, status, "")
		return
	}
	near, err := takeOver(w, r)
	if err != nil {
		_ = far.Close()
		p.events.record(e)
		return
	}
	defer near.finish()
	p.relay(ctx, near, far, v, &e)
}

// answerConnect says why there is no tunnel. The connection is of no use then.
func (p *proxy) answerConnect(w http.ResponseWriter, e *Event, status int, rule string) {
	p.events.record(*e)
	w.Header().Set("Connection", "close")
	refuse(w, status, rule, e.Why)
}

// takeOver takes a connection from the server and says that the tunnel is there.
func takeOver(w http.ResponseWriter, r *http.Request) (*guestConn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	g, ok := r.Context().Value(connKey{}).(*guestConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("this connection is nobody's")
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	g.first = append(append([]byte(nil), early...), g.first...)
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = conn.Close()
		g.finish()
		return nil, err
	}
	return g, nil
}
