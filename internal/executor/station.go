package executor

import (
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/sandbox"
	"airlock/internal/tool"
)

// A Station makes calls, one after the other or at once. The guest agent on the host is
// started when the first call wants it, and serves them all until Close. A Station is safe
// for concurrent use.
type Station struct {
	plans *PlanRunner
	turn  chan struct{} // of one: held while the agent on the host is looked at or started

	client *agent.Client // by turn
	closer io.Closer

	results lateResults
}

// Station gives one that makes its calls with r. It has to be closed.
func (r *PlanRunner) Station() *Station { return &Station{plans: r, turn: make(chan struct{}, 1)} }

// Close ends the guest agent on the host, with what runs there, and says which results
// could not be recorded. It may be called twice.
func (s *Station) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return errors.Join(s.endLocked(), s.results.flush())
}

func (s *Station) endLocked() error {
	closer := s.closer
	s.client, s.closer = nil, nil
	if closer == nil {
		return nil
	}
	return closer.Close()
}

// host is the guest agent on the host; a new one where the last was lost.
func (s *Station) host(ctx context.Context) (*agent.Client, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.client != nil {
		pinging, cancel := context.WithTimeout(ctx, answerTime)
		err := s.client.Ping(pinging)
		cancel()
		if err == nil {
			return s.client, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		_ = s.endLocked() // it was lost: how it ended says no more
	}
	client, closer, err := s.plans.Host(ctx)
	if err != nil {
		return nil, err
	}
	s.client, s.closer = client, closer
	return client, nil
}

// Call makes one call: in a sandbox of its own, which is made once the gate has let it
// pass, or on the host where the call says so or its action means the host.
func (s *Station) Call(ctx context.Context, req *OneCall) (*CallOutcome, error) {
	caller := *s.plans.Caller
	if req.Tools != nil {
		caller.Tools = req.Tools
	}
	own := *req
	q := &tool.Question{Call: req.Call, Where: tool.InSandbox, Env: req.Env, Who: req.Who, Consent: req.Consent}
	if t, action, err := caller.Tools.Resolve(req.Call); err == nil {
		own.adapt(t.Info())
		if action.Place == tool.HostOnly {
			q.Where = tool.OnHost
		}
		own.Call.Action = action.Name
	}
	if own.ID == "" {
		own.ID = sandbox.NewID()
	}
	q.Group = own.ID // what it calls and what it changes belong to it
	if req.Direct {
		q.Where = tool.OnHost
	}
	work, err := filepath.EvalSymlinks(own.WorkDir)
	if err != nil {
		return nil, err
	}
	own.WorkDir, q.WorkDir = work, work
	c := &made{station: s, caller: &caller, req: &own, out: &CallOutcome{}}
	return c.make(ctx, q)
}

// adapt makes a call's place what its tool wants.
func (req *OneCall) adapt(info *tool.Info) {
	req.HostNetwork = info.HostNetwork
	if info.WorkDir == "" {
		return
	}
	req.WorkDir = info.WorkDir
	env := make(map[string]string, len(req.Env)+1)
	maps.Copy(env, req.Env)
	env["PWD"] = info.WorkDir
	req.Env = env
}

// made is a call that is being made.
type made struct {
	station *Station
	caller  *Caller
	req     *OneCall
	out     *CallOutcome

	mu      sync.Mutex
	session *Session // a sandbox of its own; nil: there is none (yet)
	ended   bool     // no sandbox is made any more
	failed  error    // something that the tool did could not be recorded
}

// fail keeps what went wrong behind the tool's back.
func (c *made) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, err)
}

func (c *made) make(ctx context.Context, q *tool.Question) (*CallOutcome, error) {
	var err error
	opened, late := false, &pending{}
	defer c.station.results.add(late)
	c.out.Result, c.out.Judgement, err = c.caller.callOn(ctx, q, func(ctx context.Context) (*tool.Machine, func(), error) {
		m, e := c.machine(ctx, q)
		if e != nil {
			return nil, nil, e
		}
		opened = true
		m.Stderr, m.MaxTime = c.req.Stderr, c.req.Timeout
		m.Back = &back{made: c, m: m, group: q.Group, name: q.Call.Tool}
		return m, func() {}, nil
	}, late)
	if opened {
		err = errors.Join(err, c.end(ctx))
	}
	if refused, ok := errors.AsType[*tool.RefusedError](err); ok {
		c.out.Refused = refused
		return c.out, nil
	}
	return c.out, err
}

// machine is where the call is made.
func (c *made) machine(ctx context.Context, q *tool.Question) (*tool.Machine, error) {
	if q.Where == tool.InSandbox {
		return c.sandbox(ctx)
	}
	client, err := c.station.host(ctx)
	if err != nil {
		return nil, err
	}
	return c.station.plans.hostMachine(client, &c.req.Place), nil
}

// gatherTime bounds reading what a call changed that was canceled.
const gatherTime = 10 * time.Second

// errOver is a sandbox that is asked for when the call is over.
var errOver = errors.New("the call is over")

// sandbox is the call's sandbox, made when it is first asked for.
func (c *made) sandbox(ctx context.Context) (*tool.Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, errOver
	}
	if c.session == nil {
		session, err := c.station.plans.Runner.Open(ctx, &c.req.Place)
		if err != nil {
			return nil, err
		}
		c.session = session
	}
	return c.session.Machine(), nil
}

// end gathers what the call's sandbox changed, if there is one, and ends that.
func (c *made) end(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	s, err := c.session, c.failed
	if s == nil {
		return err
	}
	if ctx.Err() != nil { // what was changed until then is not lost
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), gatherTime)
		defer cancel()
	}
	if c.out.Result.Code() == tool.IOError {
		c.out.Ended = s.Lost(ctx)
	}
	if c.out.Ended == nil {
		c.out.ID = s.ID()
		code := 0
		if !c.out.Result.OK {
			code = 1
		}
		var failed error
		c.out.Set, failed = s.Gather(ctx, changes.Header{Command: []string{"tool:", c.req.Call.Tool, c.req.Call.Action}, ExitCode: code})
		err = errors.Join(err, failed)
	}
	return errors.Join(err, s.Close())
}
