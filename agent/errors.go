package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/internal/rpc"
)

// CodeLocal is the code of an RPCError that the client made itself.
const CodeLocal = -1

// Errors that callers branch on, with errors.Is.
var (
	// ErrConnection is an attempt to connect that failed: at the socket or in the
	// handshake. Connect tries again until its time is over, so it comes wrapped in a
	// *TimeoutError or beside a context's error.
	ErrConnection = errors.New("connection failed")

	// ErrConnectionLost is a connection that broke, or that the guest broke: every call
	// under way and every later one fails with it. It wraps the cause.
	ErrConnectionLost = rpc.ErrLost

	// ErrClosed is a call on a Client after Close, or cut short by it.
	ErrClosed = rpc.ErrClosed

	// ErrJSON is a message that could not be written or read as the protocol says: a
	// request that is no JSON or above the frame limit, an answer of another shape.
	ErrJSON = errors.New("malformed message")

	// ErrUnsupported is a feature that the guest did not announce. Nothing was sent.
	ErrUnsupported = errors.New("the guest agent does not support this")

	// ErrResponseTimeout is a call whose own limit (Options.CallTimeout) passed: an
	// *RPCError with CodeLocal.
	ErrResponseTimeout error = &RPCError{Code: CodeLocal, Message: "response timeout"}

	// ErrMissingResult is an answer with neither result nor error: an *RPCError with CodeLocal.
	ErrMissingResult error = &RPCError{Code: CodeLocal, Message: "missing result in response"}
)

// An RPCError is an error response of the guest agent, or with CodeLocal one of the two
// that the client makes of a missing answer.
type RPCError struct {
	Code    int
	Message string
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// A TimeoutError is a guest agent that could not be reached in time.
type TimeoutError struct {
	After time.Duration // Options.ConnectTimeout
	Last  error         // why the last attempt failed; wraps ErrConnection
}

func (e *TimeoutError) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("agent timeout after %v", e.After)
	}
	return fmt.Sprintf("agent timeout after %v: %v", e.After, e.Last)
}

// Unwrap returns the last attempt's error.
func (e *TimeoutError) Unwrap() error { return e.Last }

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// A connectError is ErrConnection with the words of the attempt.
type connectError struct {
	what  string
	cause error
}

func (e *connectError) Error() string   { return e.what + ": " + e.cause.Error() }
func (e *connectError) Unwrap() []error { return []error{ErrConnection, e.cause} }

// callError is the one place where an rpc error becomes one of this package's.
func callError(ctx context.Context, method string, err error) error {
	var answered *rpc.Error
	switch {
	case errors.As(err, &answered):
		err = &RPCError{Code: answered.Code, Message: answered.Message}
	case errors.Is(err, rpc.ErrTimeout):
		err = ErrResponseTimeout
	case errors.Is(err, rpc.ErrNoResult):
		err = ErrMissingResult
	case errors.Is(err, rpc.ErrEncode), errors.Is(err, rpc.ErrMalformed):
		err = fmt.Errorf("%w: %w", ErrJSON, err)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		err = ctx.Err()
	}
	return fmt.Errorf("%s: %w", method, err)
}

// malformed is an answer of another shape than the protocol's.
func malformed(method, what string) error {
	return fmt.Errorf("%s: %w: %s", method, ErrJSON, what)
}
