// Package modeltest holds local servers that speak the real wire formats of model
// endpoints, faults included, and the suite that every provider passes. It is for tests.
package modeltest

import (
	"net/http"
	"sync"
	"time"

	"airlock/internal/planner"
)

// A Turn is what a server answers to one request, in the wire format of its API, streamed
// where the request asks for it.
type Turn struct {
	Text     string
	Thinking string             // what the model thinks before it writes, where the API has that
	Calls    []planner.ToolCall // of tools
	Stop     planner.Stop       // "": StopTools where there are Calls, else StopEnd
	Usage    planner.Usage
	Chunk    int           // bytes of Text or of arguments in one piece of a stream; 0: 16
	Pause    time.Duration // before each piece

	// Faults. Each takes the place of the answer, or of what is left of it.
	Status      int           // a status other than 200, with Body and Header
	Body        string        // where Raw or Status is set: what is sent, byte for byte
	Header      http.Header   // set beside the usual ones
	Raw         bool          // answer 200 with Body
	ContentType string        // in place of the usual one
	CutAfter    int           // > 0: the connection is closed after so many pieces of the stream
	Stall       bool          // nothing more is sent after the first piece, until the client goes
	Silent      bool          // nothing is sent at all, until the client goes
	Flood       int64         // > 0: so many bytes of text, in pieces of 64 KiB
	Wait        time.Duration // before the first byte
}

// A Script is what a server does: turn after turn, a request each, and what it was asked. It is
// safe for concurrent use.
type Script struct {
	Turns []Turn // after the last one, the last one again

	// Ask, where it is not nil, makes the turn from the request instead.
	Ask func(n int, request []byte) Turn

	mu       sync.Mutex
	requests []Seen
}

// Seen is a request as it came.
type Seen struct {
	Method, Path, Query string
	Header              http.Header
	Body                []byte
}

// Requests are those that came, in order.
func (s *Script) Requests() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.requests...)
}

// next notes a request and gives its turn.
func (s *Script) next(seen Seen) Turn {
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, seen)
	s.mu.Unlock()
	switch {
	case s.Ask != nil:
		return s.Ask(n, seen.Body)
	case len(s.Turns) == 0:
		return Turn{Status: http.StatusInternalServerError, Body: `{"error":{"message":"the script has no turns"}}`}
	}
	return s.Turns[min(n, len(s.Turns)-1)]
}
