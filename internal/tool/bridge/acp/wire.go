package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
)

const (
	maxAsked      = 1024     // requests of the agent's that are open at once
	maxAskedBytes = 32 << 20 // of their parameters
	maxID         = 256      // bytes of a request's id, and of its method
	maxQueue      = 2048     // messages that wait for the SDK
	maxUnsent     = 16 << 20 // bytes that wait for the agent to read them
	maxReserved   = 32 << 20 // bytes of results that are made, and do not wait there yet
)

const cancelRequest = "$/cancel_request" // of the protocol; the SDK has no name for it

// errTooLong is a message that is longer than it may be.
var errTooLong = errors.New("a message is too long")

// A message is any message, in the SDK's own shape: what the one reads as a request the
// other must not read as something else.
type message struct {
	JSONRPC string            `json:"jsonrpc"`
	ID      *json.RawMessage  `json:"id,omitempty"`
	Method  string            `json:"method,omitempty"`
	Params  json.RawMessage   `json:"params,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"`
	Error   *sdk.RequestError `json:"error,omitempty"`
}

// An inbox stands between what the agent prints and the SDK, which has no bounds but that
// of a line. It is the process's stdout and the SDK's input. Requests and the answers that
// are waited for are passed on; notifications are handed to notify, one after the other and before
// anything that follows them is passed on. Nothing that Write does waits for a guest.
type inbox struct {
	most   int // bytes of a message
	notify func(method string, params json.RawMessage)
	noise  func()          // of a line that is no message
	broken func(err error) // of what ends the session; called once

	line []byte // Write's: one that has no end yet
	dead bool   // Write's: the session is over, and nothing is read any more

	mu       sync.Mutex
	wake     sync.Cond
	queue    [][]byte
	asked    int // requests that were passed on and have no answer
	bytes    int // of the parameters of those that are not handled
	awaited  uint64
	then     func() // what is done at its answer, before anything that follows it is read; may be nil
	answered bool   // there was one
	closed   bool
}

func newInbox(most int) *inbox {
	b := &inbox{most: most}
	b.wake.L = &b.mu
	return b
}

// Write takes what the agent prints. It does not fail.
func (b *inbox) Write(data []byte) (int, error) {
	n := len(data)
	for len(data) > 0 && !b.dead {
		part, rest, whole := bytes.Cut(data, []byte("\n"))
		if len(b.line)+len(part) > b.most {
			b.die(errTooLong)
			break
		}
		b.line = append(b.line, part...)
		if data = rest; whole {
			b.take(b.line)
			b.line = b.line[:0]
		}
	}
	return n, nil
}

func (b *inbox) die(err error) {
	b.dead, b.line = true, nil
	b.broken(err)
}

// take is one line.
func (b *inbox) take(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var m message
	err := json.Unmarshal(line, &m)
	switch {
	case err != nil || m.Method == "" && m.ID == nil:
		b.noise()
	case m.Method == "":
		b.answer(line, string(*m.ID))
	case m.ID == nil && m.Method != cancelRequest:
		b.notify(m.Method, m.Params)
	default:
		if err := b.ask(&m); err != nil {
			b.die(err)
		}
	}
}

// answer passes an answer on, if it is the one that is waited for.
func (b *inbox) answer(line []byte, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.awaited == 0 || b.answered || id != strconv.FormatUint(b.awaited, 10) {
		return
	}
	b.answered = true
	if b.then != nil {
		b.then()
	}
	b.putLocked(bytes.Clone(line))
}

// ask passes a request on, or that one is taken back: what was read of it, and nothing
// else that stood in its line.
func (b *inbox) ask(m *message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case m.ID == nil:
		if len(b.queue) < maxQueue && len(m.Params) <= 2*maxID { // one that is lost ends nothing early
			b.putLocked(m.line())
		}
		return nil
	case len(*m.ID) > maxID || len(m.Method) > maxID:
		return fmt.Errorf("a request's id or method has more than %d bytes", maxID)
	case b.asked == maxAsked:
		return fmt.Errorf("it made more than %d requests at once", maxAsked)
	case b.bytes+len(m.Params) > maxAskedBytes:
		return fmt.Errorf("its open requests have more than %d bytes", maxAskedBytes)
	}
	b.asked++
	b.bytes += len(m.Params)
	b.putLocked(m.line())
	return nil
}

// line is a request or notification as the SDK reads it.
func (m *message) line() []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","method":`)
	b.Write(encode(m.Method))
	if m.ID != nil {
		b.WriteString(`,"id":`)
		b.Write(*m.ID)
	}
	if len(m.Params) > 0 {
		b.WriteString(`,"params":`)
		b.Write(m.Params)
	}
	b.WriteString("}")
	return b.Bytes()
}

func (b *inbox) putLocked(line []byte) {
	if b.closed {
		return
	}
	b.queue = append(b.queue, append(line, '\n'))
	b.wake.Broadcast()
}

// handled says that a request with parameters of so many bytes was handled; replied, that
// one has its answer.
func (b *inbox) handled(size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= size
}

func (b *inbox) replied() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked--
}

// await says that a request was made whose answer is waited for; returned, that it is no
// longer, and whether there was one.
func (b *inbox) await(id uint64, then func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.awaited, b.then, b.answered = id, then, false
}

func (b *inbox) returned() (answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	answered = b.answered
	b.awaited, b.answered = 0, false
	b.wake.Broadcast()
	return answered
}

// Read is the SDK's. The end is held back until the last answer has been taken: the SDK
// drops one that comes with it.
func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) == 0 && (!b.closed || b.answered) {
		b.wake.Wait()
	}
	if len(b.queue) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.queue[0])
	if b.queue[0] = b.queue[0][n:]; len(b.queue[0]) == 0 {
		b.queue = b.queue[1:]
	}
	return n, nil
}

// close says that nothing more comes.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake.Broadcast()
}

// An outbox is the SDK's output and the process's stdin. Who writes waits while the agent
// does not read.
type outbox struct {
	replied func() // of each answer to a request of the agent's

	mu       sync.Mutex
	wake     sync.Cond
	data     []byte
	reserved int  // bytes of results that are still to be written
	ended    bool // nothing more is written
	dead     bool // nothing more is read
}

func newOutbox(replied func()) *outbox {
	b := &outbox{replied: replied}
	b.wake.L = &b.mu
	return b
}

// reserve waits until there is room for a large result, which is then to be made and
// returned to the SDK: an agent that asks and does not read is not to fill the memory.
// release gives back what it turned out not to need.
func (b *outbox) reserve(ctx context.Context, size int) error {
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wake.Broadcast()
	})()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.reserved > 0 && b.reserved+size > maxReserved && ctx.Err() == nil {
		b.wake.Wait()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.reserved += size
	return nil
}

func (b *outbox) release(size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= min(b.reserved, size)
	b.wake.Broadcast()
}

// Write takes a whole message.
func (b *outbox) Write(data []byte) (int, error) {
	if isAnswer(data) {
		defer b.replied()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) > maxUnsent && !b.ended && !b.dead {
		b.wake.Wait()
	}
	if b.ended || b.dead {
		return 0, io.ErrClosedPipe
	}
	b.data = append(b.data, data...)
	b.reserved -= min(b.reserved, len(data)) // a message is no shorter than the result in it
	b.wake.Broadcast()
	return len(data), nil
}

// isAnswer reports whether the SDK answers with this message: it has an id and no method.
func isAnswer(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"jsonrpc":"2.0","id":`))
	return ok && !bytes.HasPrefix(bytes.TrimLeft(rest, "0123456789"), []byte(`,"method":`))
}

// Read is the process's.
func (b *outbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && !b.ended && !b.dead {
		b.wake.Wait()
	}
	if len(b.data) == 0 || b.dead {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	if b.data = b.data[n:]; len(b.data) == 0 {
		b.data = nil
	}
	b.wake.Broadcast()
	return n, nil
}

// end ends the agent's input, behind what was written; abort ends it at once.
func (b *outbox) end()   { b.finish(&b.ended) }
func (b *outbox) abort() { b.finish(&b.dead) }

func (b *outbox) finish(how *bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*how = true
	b.wake.Broadcast()
}
