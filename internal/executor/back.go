package executor

import (
	"context"
	"errors"
	"fmt"

	"airlock/internal/event"
	"airlock/internal/tool"
)

// maxNested is how deep tools may call each other.
const maxNested = 8

// A back is how a tool that a call runs reaches back.
type back struct {
	made  *made
	m     *tool.Machine // the one that it was given
	group string
	name  string // the tool's
	depth int
}

// who is the tool as the record names one that calls.
func (b *back) who() string { return "tool:" + b.name }

// Call is tool.Back's.
func (b *back) Call(ctx context.Context, call tool.Call) tool.Result {
	if b.depth+1 >= maxNested {
		return tool.Fail(tool.PermissionDenied, fmt.Sprintf("%s: tools call each other %d deep, and no deeper", call.Tool, maxNested))
	}
	elsewhere, where, err := b.place(call)
	if err != nil {
		return tool.Fail(tool.PermissionDenied, err.Error())
	}
	q := &tool.Question{Call: call, Where: where, WorkDir: b.m.WorkDir, Env: b.m.Env, Group: b.group, Who: b.who()}
	res, _, err := b.made.caller.CallOn(ctx, q, func(ctx context.Context) (*tool.Machine, func(), error) {
		on := b.m
		if elsewhere != nil {
			var err error
			if on, err = elsewhere(ctx); err != nil {
				return nil, nil, err
			}
		}
		own := *on
		own.Stdin, own.TTY, own.Signals, own.Resizes, own.Stdout, own.Stderr = nil, nil, nil, nil, nil, nil
		own.MaxTime = b.m.MaxTime
		own.Back = &back{made: b.made, m: &own, group: b.group, name: call.Tool, depth: b.depth + 1}
		return &own, func() {}, nil
	})
	if _, refused := errors.AsType[*tool.RefusedError](err); err != nil && !refused {
		return tool.Fail(tool.IOError, err.Error())
	}
	return res
}

// place says where a call of the tool's is made: where the tool runs. What is set up to
// run in a sandbox does so even where the tool runs on the host; then a machine for it
// is returned as well, to be made when the gate has let the call pass.
func (b *back) place(call tool.Call) (func(context.Context) (*tool.Machine, error), tool.Where, error) {
	t, action, err := b.made.caller.Tools.Resolve(call)
	if err != nil {
		return nil, b.m.Where, nil // the caller says what is wrong with it
	}
	switch {
	case b.m.Where == tool.InSandbox && action.Place == tool.HostOnly:
		return nil, tool.OnHost, fmt.Errorf("%s is about the host, and %s runs in a sandbox, from which nothing is called on the host", call.Tool, b.name)
	case b.m.Where == tool.OnHost && t.Info().Kind == tool.Bridge && action.Place == tool.AnyPlace:
		return b.made.sandbox, tool.InSandbox, nil
	}
	return nil, b.m.Where, nil
}

// Admit is tool.Back's.
func (b *back) Admit(ctx context.Context, where tool.Where, call tool.Call) (func(tool.Result), error) {
	if b.m.Where == tool.InSandbox {
		where = tool.InSandbox // it can do nothing elsewhere
	}
	q := &tool.Question{Call: call, Where: where, WorkDir: b.m.WorkDir, Env: b.m.Env, Group: b.group, Who: b.who()}
	done, err := b.made.caller.Admit(ctx, q)
	if err != nil {
		return nil, err
	}
	return func(res tool.Result) {
		if err := done(res); err != nil {
			b.made.fail(err)
		}
	}, nil
}

// Sandbox is tool.Back's.
func (b *back) Sandbox(ctx context.Context) (*tool.Machine, error) {
	if b.m.Where == tool.InSandbox {
		return b.m, nil
	}
	return b.made.sandbox(ctx)
}

// Ask is tool.Back's.
func (b *back) Ask(ctx context.Context, p *tool.Prompt) (string, error) {
	if b.made.req.Asker == nil {
		return "", tool.ErrNobody
	}
	asked := *p
	asked.Tool = b.name
	return b.made.req.Asker.Ask(ctx, &asked)
}

// Publish is tool.Back's.
func (b *back) Publish(e event.Event) {
	if b.made.req.Events != nil {
		b.made.req.Events.Publish(e)
	}
}
