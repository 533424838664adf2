package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
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
	t.before()
	m, err := t.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	q := &tool.Question{Call: call, Where: tool.OnHost, WorkDir: m.WorkDir, Env: m.Env, Who: "ai"}
	res, _, err := t.plans.Caller.Call(ctx, m, q)
	if refused, ok := err.(*tool.RefusedError); ok { //nolint:errorlint // only a refusal itself is an answer
		return tool.Fail(tool.PermissionDenied, refused.Error()), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	res.Stdout, res.Stderr = t.clean(call, res.Stdout), t.redactor.Text(res.Stderr)
	return res, nil
}

func (t *aiTools) offers(call tool.Call) bool {
	for _, info := range t.infos {
		if call.Tool == info.Name && call.Action == info.Actions[0].Name {
			return true
		}
	}
	return false
}

// clean takes secrets out of what a call gives: of a file, by what its name says it holds, and
// by that of the file it leads to.
func (t *aiTools) clean(call tool.Call, text string) string {
	var args struct {
		Path string `json:"path"`
	}
	if call.Tool != "fs.read_file" || json.Unmarshal(call.Args, &args) != nil {
		return t.redactor.Text(text)
	}
	text = t.redactor.File(args.Path, text)
	path := args.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.place.WorkDir, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) != filepath.Base(args.Path) {
		text = t.redactor.File(real, text)
	}
	return text
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
