package sandbox

import "errors"

// Why a sandbox ended by itself.
var (
	// ErrOutOfMemory: what ran in the sandbox passed its memory limit.
	ErrOutOfMemory = errors.New("out of memory: the sandbox passed its memory limit")
	// ErrEnded: the sandbox ended while it was in use, and nothing says why.
	ErrEnded = errors.New("the sandbox ended unexpectedly")
)

// Unavailable says why no sandbox can be made on this machine.
type Unavailable struct {
	Reason string // one sentence: what is missing
	Mend   string // one sentence: what to do about it
	Err    error  // the cause, if there is one
}

// Error is both sentences in one line.
func (e *Unavailable) Error() string {
	s := "no sandbox can be made here: " + e.Reason
	if e.Mend != "" {
		s += "; " + e.Mend
	}
	return s
}

// Unwrap gives the cause.
func (e *Unavailable) Unwrap() error { return e.Err }
