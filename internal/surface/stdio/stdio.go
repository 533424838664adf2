// Package stdio is the bridge's line protocol: a call or a batch of calls on each line that
// comes in, and one line with the answer for it. It knows lines, their order and their
// bounds; what a call is, who may make it and what it answers are for whoever serves it.
package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// What holds where nobody says.
const (
	defaultJobs = 8
	defaultHeld = 64 << 20
)

// A Server answers lines. Its members do not change while it serves.
type Server struct {
	// Call makes one call and gives its answer, a JSON document; ok says that it is not an
	// error's. params are one JSON object, with no name twice. It is called from several
	// goroutines, and returns soon after ctx is done, leaving nothing running.
	Call func(ctx context.Context, tool string, params json.RawMessage) (document json.RawMessage, ok bool)

	// Jobs is how many calls of a batch run at once; 0: 8.
	Jobs int

	// MaxHeld is how many bytes of answers a batch may come to. Beyond that no further call of
	// it is begun, and says so. 0: 64 MiB.
	MaxHeld int
}

// Serve answers the lines of in until it ends, one after the other, each in one Write. It
// reports whether an answer was an error's. It fails where in cannot be read or out cannot be written, and with
// ctx's error when that is done first; then what runs is ended, and lines that wait are not
// answered. Nothing is left running, but where it has failed a Read of in, or a Write to
// out, that has not returned may still do so: the two are not to be used again.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) (failed bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o := newOutlet(out)
	defer o.close()
	r := newReader()
	go r.read(ctx, in)
	for {
		select {
		case <-ctx.Done():
			return failed, context.Cause(ctx)
		case l, more := <-r.lines:
			switch {
			case ctx.Err() != nil:
				return failed, context.Cause(ctx)
			case !more && r.err != nil:
				return failed, fmt.Errorf("read a line: %w", r.err)
			case !more:
				return failed, nil
			}
			bad, err := s.answer(ctx, &l, r, o)
			failed = failed || bad
			if err != nil {
				return failed, fmt.Errorf("answer line %d: %w", l.number, err)
			}
			r.release(&l)
		}
	}
}

// answer makes a line's calls and writes its answer.
func (s *Server) answer(ctx context.Context, l *line, r *reader, o *outlet) (failed bool, err error) {
	running, done := r.cancels.begin(ctx, l.number)
	defer done()
	var text []byte
	var ok bool
	if l.batch {
		text, ok = s.batch(running, l.calls)
	} else {
		text, ok = s.one(running, &l.calls[0])
	}
	return !ok, o.write(ctx, append(text, '\n'))
}

// one makes one call, and gives its answer on one line without an end.
func (s *Server) one(ctx context.Context, c *call) (text []byte, ok bool) {
	switch {
	case c.wrong != "":
		return failure(c.wrong), false
	case ctx.Err() != nil:
		return failure("Agent execution was canceled"), false
	}
	document, ok := s.Call(ctx, c.tool, c.params)
	text, err := oneLine(document)
	if err != nil {
		return failure(fmt.Sprintf("the answer of %.80q is no JSON document: %v", c.tool, err)), false
	}
	return text, ok
}

// cancels ends the calls of lines that were read before a line that says so.
type cancels struct {
	mu      sync.Mutex
	upTo    int // lines up to this one are canceled
	running int // the line that runs
	stop    context.CancelFunc
}

// begin gives the context of a line's calls, and what ends it.
func (c *cancels) begin(ctx context.Context, number int) (context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.stop = number, stop
	if number <= c.upTo {
		stop()
	}
	return ctx, stop
}

// before cancels the lines before this one that have not been answered.
func (c *cancels) before(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.upTo = number
	if c.stop != nil && c.running <= number {
		c.stop()
	}
}
