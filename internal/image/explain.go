package image

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// explain says what a person can do about a registry's refusal.
func (r *remote) explain(err error) error {
	if err == nil {
		return nil
	}
	host := hostOf(r.ref.Context().Registry)
	terr, ok := errors.AsType[*transport.Error](err)
	// Where two ways were tried, the way without TLS was the second: what went wrong with TLS goes before what that says.
	if unreached := explainReach(host, err); unreached != nil {
		return unreached
	}
	if before, _, found := strings.Cut(err.Error(), noToken); found { // what follows may have other keys in it
		return &said{errors.New(before + noToken)}
	}
	err = &said{err}
	if !ok {
		return err
	}
	if led := r.ledTo(err, terr); led != "" {
		return fmt.Errorf("registry %s leads to %s for it, which refuses: %w", host, led, err)
	}
	login := "docker login " + host
	if host == hubName {
		login = "docker login"
	}
	switch terr.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		if r.anonymous {
			return fmt.Errorf("registry %s refuses, and there are no credentials for it; `%s` keeps them where airlock finds them, and a name that does not exist is refused, too: %w", host, login, err)
		}
		return fmt.Errorf("registry %s refuses in spite of the credentials for it; `%s` renews them, and a name that does not exist is refused, too: %w", host, login, err)
	case http.StatusNotFound:
		return fmt.Errorf("registry %s does not have it: %w", host, err)
	case http.StatusTooManyRequests:
		return fmt.Errorf("registry %s has been asked too often; `%s` or wait: %w", host, login, err)
	}
	return err
}

const (
	hubName = "docker.io"
	noToken = "no token in bearer response" // of transport's, which has no type for it
)

// hostOf is a registry as people know it.
func hostOf(r name.Registry) string {
	if r.RegistryStr() == name.DefaultRegistry {
		return hubName
	}
	return r.RegistryStr()
}

// ledTo is the host that gave the answer where a redirection had led there, and not to whom hands out tokens.
func (r *remote) ledTo(err error, terr *transport.Error) string {
	if _, ok := errors.AsType[*statusError](err); !ok || terr.Request == nil || terr.Request.URL.Host == r.ref.Context().RegistryStr() {
		return ""
	}
	return terr.Request.URL.Host
}

// explainReach says why somebody cannot be spoken to; nil: they can.
func explainReach(host string, err error) error {
	said := &said{err}
	if failed := lastOf(err); failed != nil { // the way without TLS had nothing to add
		said.err = failed
		if u, err := url.Parse(failed.URL); err == nil && u.Host != "" && u.Host != name.DefaultRegistry {
			host = u.Host // of tokens, or where a redirection led
		}
	}
	_, bad := errors.AsType[*tls.CertificateVerificationError](err)
	_, stranger := errors.AsType[x509.UnknownAuthorityError](err)
	dns, _ := errors.AsType[*net.DNSError](err)
	switch {
	case stranger && runtime.GOOS == "linux":
		return fmt.Errorf("this machine does not trust the certificate of %s; if you do, set SSL_CERT_FILE to a file with the certificate of its authority: %w", host, said)
	case stranger:
		return fmt.Errorf("this machine does not trust the certificate of %s; if you do, add the certificate of its authority to the system's: %w", host, said)
	case bad:
		return fmt.Errorf("the certificate of %s does not hold; whoever runs it has to renew it: %w", host, said)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not speak TLS; if that is meant, `airlock image pull --insecure` asks it without: %w", host, said)
	case unreached(err):
		return fmt.Errorf("nobody answers at %s: %w", host, said)
	case dns != nil && dns.IsNotFound:
		return fmt.Errorf("%s is no name that the network here knows; is it written right, and is there a network? %w", host, said)
	}
	return nil
}

// lastOf is the request that failed last: one for a token is made within one of ours. Where a registry was asked
// with TLS and without, it is the one with.
func lastOf(err error) (last *url.Error) {
	for {
		failed, ok := errors.AsType[*url.Error](err)
		if !ok {
			return last
		}
		last, err = failed, failed.Err
	}
}

// A said error repeats words of a registry's.
type said struct{ err error }

const maxSaid = 1000 // bytes

// Error is one line of a bounded length, with nothing that a terminal does not show.
func (e *said) Error() string {
	text := strings.ToValidUTF8(e.err.Error(), "")
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return '\uFFFD'
	}, strings.TrimSpace(text))
}

func (e *said) Unwrap() error { return e.err }
