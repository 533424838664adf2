package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"airlock/internal/planner"
)

// failed tells why a request got no answer, or not all of it.
func (x *exchange) failed(err error) *planner.Error {
	if parent := x.parent(); parent != nil {
		e := x.fault(planner.FaultCanceled, "", "")
		if errors.Is(parent, context.DeadlineExceeded) {
			e.Fault, e.Text = planner.FaultTimeout, "there was no time left for the answer"
		}
		e.Err = parent
		return e
	}
	switch cause := x.cause(); {
	case errors.Is(cause, errFirstByte):
		e := x.fault(planner.FaultTimeout, fmt.Sprintf("no answer within %s", x.first), "")
		if isLoopback(x.url.Hostname()) {
			e.Mend = "a large model may take long to load: try again, or a smaller model"
		}
		e.Again = true
		return e
	case errors.Is(cause, errIdle):
		e := x.fault(planner.FaultTimeout, fmt.Sprintf("nothing more came for %s", x.idle), "")
		e.Again = true
		return e
	}
	if e := x.unconnected(err); e != nil {
		return e
	}
	text := err.Error()
	if strings.Contains(text, "server response headers exceeded") {
		return x.fault(planner.FaultTooBig, "its headers are too large", "check that base_url is that of the API")
	}
	if strings.Contains(text, "malformed HTTP") {
		return x.fault(planner.FaultGarbled, "what came is not HTTP", "check base_url: its scheme (https or http) and its port")
	}
	e := x.fault(planner.FaultCut, "the connection was closed before the answer's end", "")
	e.Again, e.Err = true, cause(err)
	return e
}

// cause is what of an error is worth keeping: it has no URL in it.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return nil
}

// unconnected tells why there was no connection; nil where there was one.
func (x *exchange) unconnected(err error) *planner.Error {
	host := x.url.Hostname()
	e := x.fault(planner.FaultUnreachable, "", "check the network and base_url")
	if isLoopback(host) {
		e.Mend = "is the server running?"
	}
	if e.Text, e.Mend = certificate(err, e.Mend); e.Text != "" {
		e.Text = x.w.clean(e.Text)
		return e
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		e.Text, e.Again = x.w.clean("no address found for "+dns.Name), dns.IsTemporary || dns.IsTimeout
		return e
	}
	if status := proxyStatus(err); status != "" {
		e.Text, e.Mend = "the proxy says: "+status, "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
		return e
	}
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "dial" && op.Op != "proxyconnect" && op.Op != "socks connect" {
		if strings.Contains(err.Error(), "TLS handshake timeout") {
			e.Text, e.Again = fmt.Sprintf("no TLS connection within %s", x.connect), true
			return e
		}
		return nil
	}
	e.Err = cause(err)
	e.Again = !isLoopback(host)
	switch {
	case op.Op != "dial" || strings.Contains(err.Error(), "proxyconnect"):
		e.Text, e.Mend = "the proxy cannot be reached", "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Text, e.Again = "the connection is refused", false
	case op.Timeout():
		e.Text = fmt.Sprintf("no connection within %s", x.connect)
	default:
		e.Text = "no connection"
		if errno := e.Err; errno != nil {
			e.Text += ": " + errno.Error()
		}
	}
	return e
}

// proxyStatus is the status with which a proxy refuses a connection: net/http tells its text
// alone.
func proxyStatus(err error) string {
	text := err.Error()
	for code := 400; code < 600; code++ {
		if status := http.StatusText(code); status != "" && status == text {
			return status
		}
	}
	return ""
}

// certificate tells what TLS found wrong; "" where it was not TLS.
func certificate(err error, mend string) (string, string) {
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		if ok && record.RecordHeader[0] != 'H' {
			return "the server does not speak TLS", "check base_url: its scheme and its port"
		}
		return "the server speaks HTTP without TLS", "set base_url to http:// if that is meant"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is from an authority that this machine does not know", "add the authority to the system's certificates, or name it in SSL_CERT_FILE"
	}
	if bad, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is not for " + bad.Host, "check base_url"
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if bad.Reason == x509.Expired {
			return "its certificate has expired, or is not valid yet", "check this machine's clock"
		}
		return "its certificate is not valid", "check base_url"
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate cannot be verified: " + bad.Err.Error(), "check base_url"
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return "it refuses the TLS connection: " + alert.Error(), mend
	}
	if strings.Contains(err.Error(), "protocol version not supported") || strings.Contains(err.Error(), "tls: server selected unsupported protocol") {
		return "it has only versions of TLS that are not safe", "the server needs TLS 1.2 or newer"
	}
	return "", mend
}
