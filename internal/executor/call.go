package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"airlock/internal/sandbox"
	"airlock/internal/tool"
)

// A Recorder keeps what was done. Record returns when the row cannot be lost any more
// with this process. It is safe for concurrent use.
type Recorder interface {
	// Record adds a row. id groups what belongs together: a plan's, a run's, a change set's.
	Record(ctx context.Context, kind, id string, data any) error

	// Queue adds a row that is written along with the next one that is waited for. wait, of
	// which one call is allowed, is the rest of Record.
	Queue(kind, id string, data any) (wait func(context.Context) error, err error)
}

// pending is a row that was queued, and whose fate is not known yet.
type pending struct{ wait func(context.Context) error }

// check waits for the row, if there is one.
func (p *pending) check(ctx context.Context) error {
	if p == nil || p.wait == nil {
		return nil
	}
	wait := p.wait
	p.wait = nil
	return wait(ctx)
}

// A Caller makes calls: each is checked, judged, recorded, made where it is to be made, and
// its result recorded. It is the one way to a tool, whoever asks.
type Caller struct {
	Tools  *tool.Registry
	Guard  tool.Guard
	Record Recorder
}

// callRow and the other rows are what the record keeps of a call.
type callRow struct {
	Call    string          `json:"call"` // the call's own ID
	Step    string          `json:"step,omitempty"`
	Who     string          `json:"who,omitempty"`
	Where   string          `json:"where"`
	WorkDir string          `json:"working_directory"`
	Tool    string          `json:"tool"`
	Action  string          `json:"action"`
	Args    json.RawMessage `json:"args,omitempty"`
}

type verdictRow struct {
	Call    string       `json:"call"`
	Step    string       `json:"step,omitempty"`
	Verdict tool.Verdict `json:"verdict"`
	Risk    tool.Risk    `json:"risk"`
	Rule    string       `json:"rule"`
	Why     string       `json:"why"`
	Refused bool         `json:"refused,omitempty"`
}

type approvalRow struct {
	Call string `json:"call"`
	Step string `json:"step,omitempty"`
	tool.Approval
}

type resultRow struct {
	Call       string         `json:"call"`
	Step       string         `json:"step,omitempty"`
	OK         bool           `json:"ok"`
	Code       tool.ErrorCode `json:"error_code,omitempty"`
	ExitCode   any            `json:"exit_code,omitempty"`
	DurationMS int64          `json:"duration_ms"`
	Stdout     string         `json:"stdout,omitempty"`
	Stderr     string         `json:"stderr,omitempty"`
	Error      string         `json:"error,omitempty"`
}

// Call makes the call of q on m. Its result is never without a meaning: what the tools do
// not know, find malformed or fail at is in it, and a refusal is PERMISSION_DENIED. The
// error says that the call was refused (*tool.RefusedError), that ctx has ended, or that
// the record could not be kept, without which nothing is done.
func (c *Caller) Call(ctx context.Context, m *tool.Machine, q *tool.Question) (tool.Result, tool.Judgement, error) {
	return c.CallOn(ctx, q, func(context.Context) (*tool.Machine, func(), error) { return m, func() {}, nil })
}

// An Open makes the machine that a call is made on, and says how to be done with it.
type Open func(ctx context.Context) (m *tool.Machine, done func(), err error)

// CallOn is Call on a machine that is made only once the gate has let the call pass.
func (c *Caller) CallOn(ctx context.Context, q *tool.Question, open Open) (tool.Result, tool.Judgement, error) {
	return c.callOn(ctx, q, open, nil)
}

// callOn is CallOn. The result of a call before may be pending, and where last is not nil
// so may be this one's in the end: each transaction waits for the disk.
func (c *Caller) callOn(ctx context.Context, q *tool.Question, open Open, last *pending) (tool.Result, tool.Judgement, error) {
	e, res, j, err := c.enter(ctx, q, last)
	switch {
	case res != nil:
		return e.finish(ctx, *res, j, err)
	case err != nil:
		return tool.Result{}, j, err
	}
	m, done, err := open(ctx)
	if err != nil {
		return e.finish(ctx, tool.Fail(tool.IOError, err.Error()), j, err)
	}
	defer done()
	return e.finish(ctx, c.Tools.Invoke(ctx, m, q.Call), j, nil)
}

// Admit lets a call pass that somebody else makes than its tool, or does not: it is checked,
// judged, asked about and recorded as by Call. done, which is not nil where there is no
// error, records what came of it. The error is a *tool.RefusedError where the answer is
// no, and says what is wrong with a call that nobody knows.
func (c *Caller) Admit(ctx context.Context, q *tool.Question) (done func(tool.Result) error, err error) {
	e, res, j, err := c.enter(ctx, q, nil)
	if res != nil {
		_, _, failed := e.finish(ctx, *res, j, err)
		if err == nil {
			err = errors.New(res.Stderr)
		}
		return nil, errors.Join(err, unlike(failed, err))
	}
	if err != nil {
		return nil, err
	}
	return func(res tool.Result) error {
		_, _, err := e.finish(ctx, res, j, nil)
		return err
	}, nil
}

// unlike is an error that another one does not hold already.
func unlike(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// An entry is a call in the record, whose result is still to come.
type entry struct {
	caller          *Caller
	group, id, step string
	begun, last     *pending
}

// enter records a call, checks it and asks the gate. A result is why it is not made.
func (c *Caller) enter(ctx context.Context, q *tool.Question, last *pending) (*entry, *tool.Result, tool.Judgement, error) {
	id := sandbox.NewID()
	group := q.Group
	if group == "" {
		group = id
	}
	wait, err := c.Record.Queue("call", group, callRow{
		id, q.Step, q.Who, q.Where.String(), q.WorkDir, q.Call.Tool, q.Call.Action, recordable(q.Call.Args),
	})
	if err != nil {
		return nil, nil, tool.Judgement{}, notRecorded(err)
	}
	e := &entry{c, group, id, q.Step, &pending{wait}, last}
	if bad := c.prepare(q); bad != nil {
		return e, bad, tool.Judgement{}, nil
	}
	j, err := c.admit(ctx, group, id, q, e.begun, last)
	if refused, ok := errors.AsType[*tool.RefusedError](err); ok {
		return e, new(tool.Fail(tool.PermissionDenied, refused.Error())), j, err
	}
	return e, nil, j, err
}

// finish records a result, and gives it back with what was wrong before and with that.
func (e *entry) finish(ctx context.Context, res tool.Result, j tool.Judgement, err error) (tool.Result, tool.Judgement, error) {
	if res.Meta == nil {
		res.Meta = tool.Meta{}
	}
	if _, ok := res.Meta[tool.MetaDurationMS]; !ok {
		res.Meta[tool.MetaDurationMS] = int64(0) // it did not get as far as to be made
	}
	return res, j, errors.Join(err, e.caller.recordResult(ctx, e.group, e.id, e.step, &res, e.begun, e.last))
}

// recordable is arguments as a row can hold them: what is no JSON is kept as the text that
// it is, so that what was asked for is in the record all the same.
func recordable(args json.RawMessage) json.RawMessage {
	if len(args) == 0 || json.Valid(args) {
		return args
	}
	text, err := json.Marshal(string(args))
	if err != nil {
		panic(err) // a string always is JSON
	}
	return text
}

// prepare finds what the call means and makes it ready, and a result where it means nothing.
func (c *Caller) prepare(q *tool.Question) *tool.Result {
	call, bad := c.Tools.Prepare(q.Call)
	if bad != nil {
		return bad
	}
	_, action, err := c.Tools.Resolve(call)
	if err != nil {
		return new(tool.Fail(tool.NotFound, err.Error()))
	}
	q.Action, q.Call = action, call
	return nil
}

// Judge says what the gate would say of the call, and asks and records nothing.
func (c *Caller) Judge(ctx context.Context, q *tool.Question) (tool.Judgement, *tool.Result) {
	if bad := c.prepare(q); bad != nil {
		return tool.Judgement{}, bad
	}
	return c.Guard.Judge(ctx, q), nil
}

// admit asks the gate, and records what it and a person said.
func (c *Caller) admit(ctx context.Context, group, id string, q *tool.Question, begun, last *pending) (tool.Judgement, error) {
	asked := q.Asked
	question := *q
	var failed error
	question.Asked = func(a tool.Approval) {
		failed = errors.Join(failed, c.Record.Record(ctx, "approval", group, approvalRow{id, q.Step, a}), begun.check(ctx))
		if asked != nil {
			asked(a)
		}
	}
	j, err := c.Guard.Admit(ctx, &question)
	_, refused := errors.AsType[*tool.RefusedError](err)
	if err != nil && !refused {
		return j, err
	}
	failed = errors.Join(failed, c.Record.Record(ctx, "verdict", group, verdictRow{id, q.Step, j.Verdict, j.Risk, j.Rule, j.Why, refused}),
		begun.check(ctx), last.check(ctx))
	if failed != nil {
		return j, notRecorded(failed)
	}
	return j, err
}

// recordTime bounds how long a result may take to be recorded after its call has ended.
const recordTime = 5 * time.Second

// recordResult records a result, even of a call that was interrupted.
func (c *Caller) recordResult(ctx context.Context, group, id, step string, res *tool.Result, begun, last *pending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	row := resultRow{
		Call: id, Step: step, OK: res.OK, Code: res.Code(), ExitCode: res.Meta[tool.MetaExitCode],
		Stdout: res.Stdout, Stderr: res.Stderr,
	}
	if ms, ok := res.Meta[tool.MetaDurationMS].(int64); ok {
		row.DurationMS = ms
	}
	wait, err := c.Record.Queue("result", group, row)
	if err != nil {
		return notRecorded(err)
	}
	if last != nil && last.wait == nil && begun.wait == nil {
		last.wait = wait
		return nil
	}
	if err := errors.Join(wait(ctx), begun.check(ctx)); err != nil {
		return notRecorded(err)
	}
	return nil
}

func notRecorded(err error) error { return fmt.Errorf("what is not recorded is not done: %w", err) }
