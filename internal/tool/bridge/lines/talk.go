package lines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"airlock/internal/changes"
	"airlock/internal/event"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/proc"
)

const (
	maxOpen     = 16     // calls and questions of one agent at once
	maxMessages = 10_000 // that are not progress
	maxShown    = 1000   // characters of a message of progress
)

// A mode is how what an agent prints is read.
type mode int

const (
	speaking mode = iota // line by line
	plain                // as output of protocol 1.0: it has said that it speaks that
	answered             // not at all: its result was here
)

// A talk is what goes on between an agent and Airlock while it runs. It is the process's
// stdout, which must never wait: what takes time is done by others.
type talk struct {
	ctx   context.Context //nolint:containedctx // of what the agent asks for: it ends with the talk
	end   context.CancelFunc
	s     *Session
	log   *slog.Logger
	feed  *feed
	pace  *pacer
	calls sync.WaitGroup

	// What follows belongs to the goroutine that writes stdout, and to Do after it.
	split  splitter
	answer []byte // what was no message
	most   int    // bytes of answer
	heard  bool   // at least a byte
	said   int    // messages, but for progress
	spoken bool   // one that was right was among them
	final  json.RawMessage
	bad    error // what is wrong with a result, where none was right
	fault  error // what the agent is ended for

	mu   sync.Mutex
	mode mode
	open map[string]struct{} // by id, as it is written
	over bool                // nothing more is opened
}

func newTalk(ctx context.Context, s *Session, most int64) *talk {
	t := &talk{s: s, log: s.Log, feed: newFeed(), most: int(most), open: map[string]struct{}{}}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.log = t.log.With(slog.String("tool", s.Tool), slog.String("call", s.Call))
	t.ctx, t.end = context.WithCancel(ctx)
	t.pace = newPacer(t.publish)
	return t
}

func (t *talk) publish(e event.Event) {
	if t.s.Back != nil {
		t.s.Back.Publish(e)
	}
}

// Write takes what the agent prints. An error ends the agent.
func (t *talk) Write(data []byte) (int, error) {
	n := len(data)
	t.heard = t.heard || n > 0
	for len(data) > 0 {
		var err error
		if data, err = t.read(data); err != nil {
			return n - len(data), err
		}
	}
	return n, nil
}

// read takes something of data and returns the rest.
func (t *talk) read(data []byte) (rest []byte, err error) {
	switch t.how() {
	case plain:
		return nil, t.keep(data)
	case answered:
		return nil, nil
	}
	t.split.most = max(t.most-len(t.answer), maxMessage)
	line, rest, whole, long := t.split.next(data)
	if long { // so long that it is neither a message nor has room in the answer
		if err := t.keep(line); err != nil {
			return rest, err
		}
		return nil, t.keep(rest)
	}
	if !whole {
		return nil, nil
	}
	return rest, t.line(line)
}

// last takes the line that has no end, once the agent has ended.
func (t *talk) last() error {
	if t.how() != speaking {
		return nil
	}
	t.refuse()
	return t.line(t.split.cut())
}

// line takes one line.
func (t *talk) line(line []byte) error {
	m, wrong := decode(line)
	if m == nil {
		return t.keep(line)
	}
	if m.kind != progress {
		if t.said++; t.said > maxMessages {
			t.fault = fmt.Errorf("it sent more than %d messages", maxMessages)
			return t.fault
		}
	}
	if wrong == nil {
		wrong = t.take(m)
	}
	if wrong == nil || t.fault != nil {
		t.spoken = true
		return t.fault
	}
	if m.kind == result {
		t.bad = fmt.Errorf("its answer is not right: %w", wrong)
	}
	t.log.DebugContext(t.ctx, "agent's message is not right", slog.String("kind", m.kind), slog.String("error", changes.Printable(wrong.Error())))
	t.feed.put(item{line: errorLine(m.id, wrong.Error()), error: true})
	return nil
}

// take does what a message asks for, or begins to. The error is for the agent.
func (t *talk) take(m *message) error {
	switch m.kind {
	case hello:
		return t.hello(m)
	case progress:
		t.pace.say(event.Progress{Tool: t.s.Tool, Message: shown(m.text), Done: m.done, Total: m.total})
	case partial:
		t.pace.flush() // what was said before it comes before it
		t.publish(event.Partial{Tool: t.s.Tool, Data: m.data})
	case result:
		t.final = m.data
		t.set(answered)
		t.split.cut()
		t.end() // what it asked for is of no use any more
		t.feed.close()
	case call, ask:
		return t.begin(m)
	}
	return nil
}

// shown is a message as a person may see it.
func shown(text string) string {
	n := 0
	for i := range text {
		if n == maxShown {
			text = text[:i] + "…"
			break
		}
		n++
	}
	return changes.Printable(text)
}

func (t *talk) hello(m *message) error {
	switch {
	case t.spoken:
		return errors.New("hello: it comes first, and once")
	case m.protocol == Protocol:
	case m.protocol == Original:
		t.set(plain)
		t.feed.close()
	default:
		t.fault = fmt.Errorf("it speaks protocol %q, and Airlock speaks %s and %s: give it one of these to speak", m.protocol, Protocol, Original)
	}
	return nil
}

// begin has somebody do what a call or a question asks for.
func (t *talk) begin(m *message) error {
	id := string(m.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, twice := t.open[id]
	switch {
	case t.over:
		return fmt.Errorf("%s: the time is over: nothing more is begun", m.kind)
	case t.feed.deaf():
		return fmt.Errorf("%s: stdin is closed: nobody would read the answer", m.kind)
	case twice:
		return fmt.Errorf("%s: what has id %s is not answered yet: give each an id of its own", m.kind, id)
	case len(t.open) >= maxOpen:
		return fmt.Errorf("%s: %d calls and questions are open, and no more may be: read the answers", m.kind, maxOpen)
	}
	t.open[id] = struct{}{}
	t.calls.Go(func() {
		line := t.serve(m)
		// The place is taken until the answer is on its way: an agent that reads none gets no more.
		t.feed.put(item{line: line, gone: func() { t.close(id) }})
	})
	return nil
}

func (t *talk) close(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, id)
}

// serve makes a call, or puts a question, and returns the line that answers it.
func (t *talk) serve(m *message) []byte {
	if m.kind == call {
		if t.s.Back == nil {
			return resultLine(m.id, tool.Fail(tool.PermissionDenied, "there is nobody here who takes calls"), nil)
		}
		res := t.s.Back.Call(t.ctx, tool.Call{Tool: m.tool, Action: m.action, Args: m.args})
		var document json.RawMessage
		if t.s.Document != nil {
			document = t.s.Document(res)
		}
		return resultLine(m.id, res, document)
	}
	if t.s.Back == nil {
		return answerLine(m.id, "", tool.ErrNobody)
	}
	answer, err := t.s.Back.Ask(t.ctx, &tool.Prompt{Tool: t.s.Tool, Question: m.question, Choices: m.choices, Default: m.fallback})
	if err != nil && t.ctx.Err() != nil {
		err = errors.New("the question was canceled")
	}
	return answerLine(m.id, answer, err)
}

// keep adds to the answer.
func (t *talk) keep(data []byte) error {
	if room := t.most - len(t.answer); len(data) > room {
		t.answer = append(t.answer, data[:room]...)
		return proc.ErrTooMuch
	}
	t.answer = append(t.answer, data...)
	return nil
}

// cancel tells the agent that its time is over. It reports whether there is a use in
// waiting for what it does then.
func (t *talk) cancel(why proc.Reason) bool {
	t.refuse()
	t.feed.first(cancelLine(string(why)))
	return t.how() != plain
}

// refuse opens nothing more.
func (t *talk) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *talk) how() mode {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mode
}

func (t *talk) set(m mode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mode = m
}
