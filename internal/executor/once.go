package executor

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/hostview"
	"airlock/internal/tool"
)

// A OneCall is a call that is no part of a plan.
type OneCall struct {
	Tools *tool.Registry // nil: the Caller's
	Call  tool.Call
	Place
	Direct  bool          // on the host
	Timeout time.Duration // 0: none but the tool's own
	Who     string        // the surface that asks, for the record

	Stderr io.Writer // takes what a tool says beside its answer; may be nil
}

// A CallOutcome is what a call came to.
type CallOutcome struct {
	ID        string // of the sandbox and its change set; "" on the host
	Result    tool.Result
	Judgement tool.Judgement
	Refused   *tool.RefusedError // nil: it was not
	Set       *changes.Set       // what was changed; nil on the host
	Ended     error              // the sandbox ended: sandbox.ErrOutOfMemory or ErrEnded. There is no Set then
}

// CallOnce makes one call: in a sandbox of its own, which is made once the gate has let it
// pass, or on the host where the call says so or its action means the host.
func (r *PlanRunner) CallOnce(ctx context.Context, req *OneCall) (*CallOutcome, error) {
	caller := *r.Caller
	if req.Tools != nil {
		caller.Tools = req.Tools
	}
	work, err := filepath.EvalSymlinks(req.WorkDir)
	if err != nil {
		return nil, err
	}
	q := &tool.Question{Call: req.Call, Where: tool.InSandbox, WorkDir: work, Env: req.Env, Who: req.Who}
	_, action, err := caller.Tools.Resolve(req.Call)
	if req.Direct || err == nil && action.Place == tool.HostOnly {
		q.Where = tool.OnHost
	}
	out := &CallOutcome{}
	var end func(res tool.Result) error
	out.Result, out.Judgement, err = caller.CallOn(ctx, q, func(ctx context.Context) (*tool.Machine, func(), error) {
		m, close_, e := r.open(ctx, req, q.Where, out)
		if e != nil {
			return nil, nil, e
		}
		end = close_
		m.Stderr, m.MaxTime = req.Stderr, req.Timeout
		return m, func() {}, nil
	})
	if end != nil {
		err = errors.Join(err, end(out.Result))
	}
	if refused, ok := errors.AsType[*tool.RefusedError](err); ok {
		out.Refused = refused
		return out, nil
	}
	return out, err
}

// open makes where a call is made; end gathers what it changed and ends that.
func (r *PlanRunner) open(ctx context.Context, req *OneCall, where tool.Where, out *CallOutcome) (*tool.Machine, func(tool.Result) error, error) {
	if where == tool.OnHost {
		m, closer, err := r.OpenHost(ctx, &req.Place)
		if err != nil {
			return nil, nil, err
		}
		return m, func(tool.Result) error { return closer.Close() }, nil
	}
	s, err := r.Runner.Open(ctx, &req.Place)
	if err != nil {
		return nil, nil, err
	}
	end := func(res tool.Result) error {
		var err error
		if res.Code() == tool.IOError {
			out.Ended = s.Ended(agent.ErrConnectionLost)
		}
		if out.Ended == nil && ctx.Err() == nil {
			out.ID = s.ID()
			code := 0
			if !res.OK {
				code = 1
			}
			out.Set, err = s.Gather(ctx, changes.Header{Command: []string{"tool:", req.Call.Tool, req.Call.Action}, ExitCode: code})
		}
		return errors.Join(err, s.Close())
	}
	return s.Machine(), end, nil
}

// OpenHost is the host itself as tools see it, for more than one call. What is hidden from
// sandboxes is hidden from tools that read there, too. The closer ends the guest agent.
func (r *PlanRunner) OpenHost(ctx context.Context, place *Place) (*tool.Machine, io.Closer, error) {
	work, err := filepath.EvalSymlinks(place.WorkDir)
	if err != nil {
		return nil, nil, err
	}
	hidden, err := r.Hidden(place)
	if err != nil {
		return nil, nil, err
	}
	client, closer, err := r.Host(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &tool.Machine{
		Client: client, Where: tool.OnHost, WorkDir: work, Env: place.Env, Hidden: hidden,
	}, closer, nil
}

// Hidden reports of a path, resolved, whether it is hidden from what runs at a place.
func (r *PlanRunner) Hidden(place *Place) (func(path string) bool, error) {
	work, err := filepath.EvalSymlinks(place.WorkDir)
	if err != nil {
		return nil, err
	}
	hidden, err := hostview.Hidden(&hostview.Rules{Homes: r.Runner.Homes, State: r.Runner.State, WorkDir: work, Hide: place.Hide, Show: place.Show})
	if err != nil {
		return nil, err
	}
	return func(path string) bool { return below(path, hidden) || hostview.ForeignProc(path) }, nil
}

// below reports whether a path is one of dirs or lies below one.
func below(path string, dirs []string) bool {
	for _, dir := range dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return true
		}
	}
	return false
}
