package image

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	attempts = 5   // in a row that bring nothing
	restarts = 100 // of one download, however far each came
	maxWait  = 30 * time.Second
)

// A statusError is an answer that may be another one later.
type statusError struct {
	after time.Duration // for which the registry asks; 0: it does not
	err   error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// statusOf is the error of an answer that is none of those wanted.
func statusOf(resp *http.Response, want ...int) error {
	err := transport.CheckError(resp, want...)
	if err == nil {
		return nil
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &statusError{time.Duration(max(after, 0)) * time.Second, err}
}

// A brokenError is what ended an answer before its time, whatever it was.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// A streamError is HTTP/2's: an answer that the other side gave up, or somebody between. net/http has such errors
// under a name of its own, and makes them any struct of golang.org/x/net/http2.StreamError's form.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "the registry gave up" }

// transient tells whether trying again may help.
func transient(err error) bool {
	if terr, ok := errors.AsType[*transport.Error](err); ok {
		switch terr.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if unreached(err) { // it has taken half a minute, and so it would again
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errStalled) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	if _, ok := errors.AsType[*brokenError](err); ok {
		return true
	}
	if _, ok := errors.AsType[streamError](err); ok {
		return true
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.IsTemporary || dns.IsTimeout
	}
	nerr, ok := errors.AsType[net.Error](err)
	return ok && nerr.Timeout()
}

// unreached tells that nobody was there, be it that we were told so or that there was no answer.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, syscall.ECONNREFUSED) || ok && op.Op == "dial" && op.Timeout()
}

// retry does something again while its error is transient.
func (s *Store) retry(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !transient(err) || n == attempts {
			return err
		}
		if err := s.pause(ctx, n, err); err != nil {
			return err
		}
	}
}

// pause waits before attempt n+1, as long as the registry asks if it does.
func (s *Store) pause(ctx context.Context, n int, err error) error {
	wait := s.opts.Backoff << min(n-1, 10)
	if status, ok := errors.AsType[*statusError](err); ok {
		wait = max(wait, status.after)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(min(wait, maxWait)):
		return nil
	}
}
