package planner

import (
	"fmt"
	"time"
)

// A Fault is a kind of failure of a model or its endpoint.
type Fault string

// The faults.
const (
	FaultUnreachable Fault = "unreachable"  // no connection: offline, refused, no such host, TLS
	FaultTimeout     Fault = "timeout"      // nothing came for too long
	FaultCut         Fault = "cut"          // the answer ended in its middle
	FaultGarbled     Fault = "garbled"      // what came is not the API's: HTML, not JSON, a redirect
	FaultTooBig      Fault = "too big"      // the answer is larger than any we take
	FaultKey         Fault = "key"          // the key is missing, wrong or has no right to this (401, 403)
	FaultNotFound    Fault = "not found"    // no such model, no such path (404)
	FaultBusy        Fault = "busy"         // too many requests, no quota, overloaded (429, 503, 529)
	FaultTooLong     Fault = "too long"     // the conversation does not fit the model's window
	FaultUnsupported Fault = "unsupported"  // the endpoint has no such feature: Error.Feature
	FaultRejected    Fault = "rejected"     // the endpoint will not take the request (other 4xx)
	FaultServer      Fault = "server error" // the endpoint failed (other 5xx)
	FaultCanceled    Fault = "canceled"     // ctx ended; Err is its error
)

// A Feature is something an endpoint may not have.
type Feature string

// The features whose absence is worth another try without them.
const (
	FeatureSchema Feature = "schema"
	FeatureTools  Feature = "tools"
	FeatureChoice Feature = "tool choice" // Request.MustCall
	FeatureJSON   Feature = "json"
)

// An Error is why a model gave no answer.
type Error struct {
	Fault   Fault
	Feature Feature // of FaultUnsupported

	Endpoint string // the URL, without credentials
	Status   int    // the HTTP status; 0: there was no answer
	Text     string // what the endpoint said, or was found out: short, printable, without secrets

	// Again says that the same request may succeed later, RetryAfter when; 0 where the
	// endpoint does not tell.
	Again      bool
	RetryAfter time.Duration

	Mend string // what the person can do: a sentence without a capital and a full stop; may be empty
	Err  error  // the cause; may be nil
}

// Error says what failed, where, and what can be done.
func (e *Error) Error() string {
	text := fmt.Sprintf("the model at %s: %s", e.Endpoint, e.Fault)
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
