package executor

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/event"
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
	Consent string        // tool.Question's

	Asker  tool.Asker // puts the tool's questions to a person; nil: there is nobody
	Events event.Sink // takes what the tool tells; may be nil

	Stderr io.Writer // takes what a tool says beside its answer; may be nil
}

// A CallOutcome is what a call came to.
type CallOutcome struct {
	ID        string // of the sandbox and its change set; "" on the host
	Result    tool.Result
	Judgement tool.Judgement
	Refused   *tool.RefusedError // nil: it was not
	Set       *changes.Set       // what was changed; nil where there was no sandbox
	Ended     error              // the sandbox ended: sandbox.ErrOutOfMemory or ErrEnded. There is no Set then
}

// CallOnce makes one call on a Station of its own.
func (r *PlanRunner) CallOnce(ctx context.Context, req *OneCall) (*CallOutcome, error) {
	s := r.Station()
	out, err := s.Call(ctx, req)
	return out, errors.Join(err, s.Close())
}

// hostMachine is the host as tools see it. What is hidden there is worked out when a tool
// first wants to know: most do not read files. What cannot be worked out hides everything.
func (r *PlanRunner) hostMachine(client *agent.Client, place *Place) *tool.Machine {
	hidden := sync.OnceValue(func() func(string) bool {
		f, err := r.Hidden(place)
		if err != nil {
			return func(string) bool { return true }
		}
		return f
	})
	return &tool.Machine{
		Client: client, Where: tool.OnHost, WorkDir: place.WorkDir, Env: place.Env,
		Hidden: func(path string) bool { return hidden()(path) },
	}
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
