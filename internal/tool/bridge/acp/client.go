package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/internal/tool"
)

// A client is the client's side of one session. The methods of the protocol are called
// concurrently.
type client struct {
	s        *Session
	log      *slog.Logger
	in       *inbox
	out      *outbox
	turn     turn
	terms    terminals
	requests uint64 // that were made; for one goroutine

	// emptyAbsent is for an agent that takes no error for "there is no such file": it is told
	// that the file is empty.
	emptyAbsent atomic.Bool

	broken chan struct{} // closed when the agent has broken the protocol

	mu      sync.Mutex
	quiet   sync.Cond
	working int   // requests of the agent's that are being handled
	over    bool  // no more are
	why     error // of broken
	noisy   bool
}

func newClient(s *Session, most int) *client {
	c := &client{s: s, log: s.Log, in: newInbox(most), broken: make(chan struct{})}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With(slog.String("tool", s.Tool), slog.String("call", s.Call))
	c.quiet.L = &c.mu
	c.out = newOutbox(c.in.replied)
	c.in.notify, c.in.noise, c.in.broken = c.notify, c.noise, c.fail
	c.turn.tool, c.turn.back = s.Tool, s.Back
	return c
}

// fail says that the agent has broken the protocol.
func (c *client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = err
		close(c.broken)
	}
}

func (c *client) whyBroken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// noise is of a line on stdout that is no message, which is passed over.
func (c *client) noise() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.noisy {
		c.noisy = true
		c.log.Warn("agent printed a line that is no message of the protocol; such lines are passed over")
	}
}

// notify takes a notification. All but session/update mean nothing here.
func (c *client) notify(method string, params json.RawMessage) {
	if method != sdk.ClientMethodSessionUpdate {
		return
	}
	var n sdk.SessionNotification
	if err := json.Unmarshal(params, &n); err != nil {
		return // an update of a kind that the SDK does not know, or none
	}
	c.turn.update(&n, len(params))
}

// errOver answers what is asked when nothing is done any more.
func errOver() *sdk.RequestError {
	return &sdk.RequestError{Code: -32800, Message: "the turn has ended"}
}

// handle does what the agent asks for. ctx ends with the turn.
func (c *client) handle(ctx context.Context, method string, params json.RawMessage) (result any, failed *sdk.RequestError) {
	if !c.enter() {
		return nil, errOver()
	}
	defer c.exit()
	defer func() {
		if p := recover(); p != nil {
			c.log.ErrorContext(ctx, "a request of the agent's could not be handled", slog.String("method", method), slog.Any("panic", p))
			result, failed = nil, sdk.NewInternalError(nil)
		}
	}()
	switch method {
	case sdk.ClientMethodFsReadTextFile:
		return serve(ctx, c, params, (*client).readFile)
	case sdk.ClientMethodFsWriteTextFile:
		return serve(ctx, c, params, (*client).writeFile)
	case sdk.ClientMethodSessionRequestPermission:
		return serve(ctx, c, params, (*client).permit)
	case sdk.ClientMethodTerminalCreate:
		return serve(ctx, c, params, (*client).createTerminal)
	case sdk.ClientMethodTerminalOutput:
		return serve(ctx, c, params, (*client).terminalOutput)
	case sdk.ClientMethodTerminalWaitForExit:
		return serve(ctx, c, params, (*client).waitTerminal)
	case sdk.ClientMethodTerminalKill:
		return serve(ctx, c, params, (*client).killTerminal)
	case sdk.ClientMethodTerminalRelease:
		return serve(ctx, c, params, (*client).releaseTerminal)
	}
	return nil, sdk.NewMethodNotFound(shown(method))
}

// serve decodes a request and answers it with what do returns. Errors of do's are for the
// agent. The SDK's own Validate is left out: it takes an empty file for none.
func serve[P, R any](ctx context.Context, c *client, params json.RawMessage, do func(*client, context.Context, *P) (R, error)) (any, *sdk.RequestError) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, sdk.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	res, err := do(c, ctx, &p)
	if err == nil {
		return res, nil
	}
	if refusal, ok := err.(*sdk.RequestError); ok { //nolint:errorlint // they are made here, and not wrapped
		return nil, refusal
	}
	return nil, &sdk.RequestError{Code: -32603, Message: err.Error()}
}

// known says that a request is of the session that there is.
func (c *client) known(id sdk.SessionId) error {
	if own := c.turn.session(); own == "" || id != own {
		return &sdk.RequestError{Code: -32602, Message: fmt.Sprintf("there is no session %s", shown(string(id)))}
	}
	return nil
}

// admit has the gate let pass what is done in a sandbox on the agent's behalf.
func (c *client) admit(ctx context.Context, where tool.Where, call tool.Call) (done func(tool.Result), err error) {
	if c.s.Back == nil {
		return nil, errAlone
	}
	return c.s.Back.Admit(ctx, where, call)
}

// sandbox is where what the agent asks for is done.
func (c *client) sandbox(ctx context.Context) (*tool.Machine, error) {
	m, err := c.s.Back.Sandbox(ctx)
	if err != nil {
		return nil, err
	}
	if m.Where != tool.InSandbox {
		return nil, errNoSandbox
	}
	return m, nil
}

func (c *client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.working++
	return true
}

func (c *client) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working--
	c.quiet.Broadcast()
}

// finish returns when nothing is done on the agent's behalf any more, nor will be. Their
// context must have ended.
func (c *client) finish() {
	c.mu.Lock()
	c.over = true
	for c.working > 0 {
		c.quiet.Wait()
	}
	c.mu.Unlock()
	c.terms.end()
}
