package cli

import (
	"context"
	"fmt"
	"io"
	"sync"

	"airlock/internal/executor"
	"airlock/internal/planner/material"
	"airlock/internal/tool"
)

// offered are the tools that a model may use while it makes a plan. Each only reads.
var offered = []struct{ tool, action string }{
	{"sysinfo", "get"}, {"services", "list"}, {"packages", "list"}, {"fs.read_file", "read"},
}

// aiTools are the tools a model may use: on the host, since that is what it is asked about,
// through the gate, with what is hidden from sandboxes hidden here too. It is a
// planner.Tools.
type aiTools struct {
	plans    *executor.PlanRunner
	place    *executor.Place
	redactor *material.Redactor
	hidden   func(path string) bool
	infos    []*tool.Info
	before   func() // called before each call: the gate may ask on the terminal

	mu      sync.Mutex
	machine *tool.Machine // made for the first call; nil before
	closer  io.Closer
}

func (p *Program) newAITools(f *aiFlags, place *executor.Place, redactor *material.Redactor) (*aiTools, error) {
	plans, err := p.plans()
	if err != nil {
		return nil, err
	}
	hidden, err := plans.Hidden(place)
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	t := &aiTools{plans: plans, place: place, redactor: redactor, hidden: hidden, before: func() {}}
	for _, o := range offered {
		info, err := readOnlyAction(plans.Caller.Tools, o.tool, o.action)
		if err == nil && o.tool == readTool {
			err = withoutEncoding(info)
		}
		if err != nil {
			return nil, fail(exitFailed, err)
		}
		t.infos = append(t.infos, info)
	}
	return t, nil
}

// readOnlyAction is what is known of a tool, with one of its actions alone, which must be one
// that only reads.
func readOnlyAction(reg *tool.Registry, name, action string) (*tool.Info, error) {
	t, ok := reg.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("there is no tool %s", name)
	}
	info := *t.Info()
	for _, a := range info.Actions {
		if a.Name == action && a.Risk == tool.RiskReadOnly {
			info.Actions = []tool.Action{a}
			return &info, nil
		}
	}
	return nil, fmt.Errorf("%s %s is no action that only reads", name, action)
}

// List is what is offered.
func (t *aiTools) List() []*tool.Info { return t.infos }

// Call makes a call of one of them. What the model asked for otherwise is refused.
func (t *aiTools) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	if !t.offers(call) {
		return tool.Fail(tool.PermissionDenied, fmt.Sprintf("%s %s is not offered here", call.Tool, call.Action)), nil
	}
	if bad := t.plans.Caller.Tools.Check(call); bad != nil {
		return t.call(ctx, call) // which says so, and writes it down
	}
	if call.Tool != readTool {
		return t.call(ctx, call)
	}
	read, whole, err := readOf(call)
	if err != nil {
		return tool.Result{}, err
	}
	if read.Encoding == "base64" {
		return tool.Fail(tool.InvalidArgs, readTool+": files are given as text here, without the member encoding"), nil
	}
	res, err := t.call(ctx, whole)
	if err != nil {
		return tool.Result{}, err
	}
	return read.part(res, t.place.WorkDir, t.redactor), nil
}

// call makes a call through the gate, and takes secrets out of what it says.
func (t *aiTools) call(ctx context.Context, call tool.Call) (tool.Result, error) {
	t.before()
	m, err := t.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	q := &tool.Question{Call: call, Where: tool.OnHost, WorkDir: m.WorkDir, Env: m.Env, Who: "ai"}
	res, _, err := t.plans.Caller.Call(ctx, m, q)
	if refused := onlyRefused(err); refused != nil {
		return tool.Fail(tool.PermissionDenied, refused.Error()), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	if call.Tool != readTool || !res.OK {
		res.Stdout = t.redactor.Text(res.Stdout)
	}
	res.Stderr = t.redactor.Text(res.Stderr)
	return res, nil
}

// onlyRefused is the refusal that err is: an answer for the model, who goes on without. It is
// nil where something else went wrong too, such as that the refusal could not be written down.
func onlyRefused(err error) *tool.RefusedError {
	for {
		if refused, ok := err.(*tool.RefusedError); ok { //nolint:errorlint // what it is, not what is somewhere in it
			return refused
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) != 1 {
			return nil
		}
		err = joined.Unwrap()[0]
	}
}

func (t *aiTools) offers(call tool.Call) bool {
	for _, info := range t.infos {
		if call.Tool == info.Name && call.Action == info.Actions[0].Name {
			return true
		}
	}
	return false
}

// open gives the host as tools see it.
func (t *aiTools) open(ctx context.Context) (*tool.Machine, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.machine != nil {
		return t.machine, nil
	}
	m, closer, err := t.plans.OpenHost(context.WithoutCancel(ctx), t.place)
	if err != nil {
		return nil, err
	}
	t.machine, t.closer = m, closer
	return m, nil
}

// close ends the guest agent on the host, if there is one.
func (t *aiTools) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closer != nil {
		t.closer.Close()
		t.machine, t.closer = nil, nil
	}
}
