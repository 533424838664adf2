// Package rpc speaks newline-delimited JSON-RPC 2.0 over a byte stream: frames,
// envelopes, concurrent requests, and the calling side. It knows no method.
package rpc

import (
	"context"
	"encoding/json"
	"fmt"
)

// Codes of JSON-RPC 2.0.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	// CodeBusy is this server's own: more requests in flight than it keeps.
	CodeBusy = -32000
)

// An Error is the error member of a response. A Handler that returns one chooses the
// code; any other error it returns is sent as CodeInternal with the error's text.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf makes an Error.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// A Request is one call as it came off the wire. Its memory is the Handler's to keep.
type Request struct {
	ID     uint64
	Method string
	Params json.RawMessage // nil when the request had none
	Raw    []byte          // the frame's raw payload; nil when it had none

	// Sent, where the Handler sets it, is called once when the answer has been written
	// or given up. Until then the answer is memory that the Handler may want to count.
	Sent func()

	stream *Stream // what the Handler returned, where it was one
}

// A Reply is a Handler's result with a raw payload behind it.
type Reply struct {
	Result any
	Raw    []byte
}

// A Handler performs requests. Handle is called concurrently for the requests of one
// connection, each with a context that ends when the client goes away or Peer.Cancel
// names the request. A result is marshalled to JSON; a Reply adds a raw payload.
type Handler interface {
	Handle(ctx context.Context, peer Peer, req *Request) (any, error)
}

// A Peer is the other end of the connection that a request came from. It is safe for
// concurrent use.
type Peer interface {
	// Notify sends a notification, with a raw payload when raw is not nil. It blocks
	// while the other end takes nothing, and fails once the connection is gone.
	Notify(ctx context.Context, method string, params any, raw []byte) error

	// Cancel ends the context of the request in flight with this id, and reports
	// whether there was one.
	Cancel(id uint64) bool

	// AllowRaw lets frames in both directions carry raw payloads from now on.
	AllowRaw()
	// RawAllowed reports whether AllowRaw was called.
	RawAllowed() bool

	// Session is a value for the connection's life, which the Handler may set once.
	Session() any
	SetSession(v any)
}
