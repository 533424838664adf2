package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"airlock/internal/action"
	"airlock/internal/event"
	"airlock/internal/tool"
)

// planRun is one run of a plan.
type planRun struct {
	*PlanRunner
	req     *PlanRequest
	machine *tool.Machine
	session *Session // nil on the host
	id      string
	journal *Journal
	steps   []action.Step // what is left of the plan, with what a remedy put in its place
	start   time.Time
	last    pending // the result of the step before
}

// begin records the plan, and says that it begins.
func (p *planRun) begin(ctx context.Context) error {
	p.start = time.Now()
	if p.req.Resume != nil && p.session == nil {
		p.id, p.journal = p.req.Resume.ID, p.req.Resume
	}
	plan := p.req.Plan
	row := struct {
		Plan    *action.Plan `json:"plan"`
		Where   string       `json:"where"`
		WorkDir string       `json:"working_directory"`
		Who     string       `json:"who,omitempty"`
		Resumed bool         `json:"resumed,omitempty"`
	}{plan, p.machine.Where.String(), p.machine.WorkDir, p.req.Who, p.req.Resume != nil}
	if err := p.Caller.Record.Record(ctx, "plan_start", p.id, row); err != nil {
		return notRecorded(err)
	}
	if p.journal == nil {
		journal, err := p.Journals.Create(p.id, p.req)
		if err != nil {
			return err
		}
		p.journal = journal
		if p.req.Resume != nil {
			// What the interrupted sandbox held is gone, and nothing of it had come out: all of
			// the plan is run again, under a new ID.
			if err := p.req.Resume.Remove(); err != nil {
				return err
			}
		}
	}
	p.req.Events.Publish(event.PlanStart{
		PlanID: p.id, Kind: string(plan.Kind), Summary: plan.Summary, Steps: len(plan.Steps), Where: p.machine.Where.String(),
	})
	return nil
}

// finish records the plan's end, and says it.
func (p *planRun) finish(ctx context.Context, out *PlanOutcome, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	row := struct {
		Success    bool   `json:"success"`
		Steps      int    `json:"steps_executed"`
		DurationMS int64  `json:"duration_ms"`
		Error      string `json:"error,omitempty"`
	}{Success: failed == nil && out.Success, Steps: p.executed(out), DurationMS: time.Since(p.start).Milliseconds()}
	if failed != nil {
		row.Error = failed.Error()
	}
	p.req.Events.Publish(event.PlanComplete{Success: row.Success, StepsExecuted: row.Steps, TotalDurationMS: row.DurationMS})
	err := errors.Join(p.Caller.Record.Record(ctx, "plan_end", p.id, row), p.last.check(ctx))
	if err != nil {
		err = notRecorded(err)
	}
	return errors.Join(err, p.journal.end(p.session == nil && !row.Success))
}

// executed counts the steps that were run.
func (p *planRun) executed(out *PlanOutcome) int {
	n := 0
	for i := range out.Steps {
		if s := out.Steps[i].Status; s != StepRefused && s != StepSkipped {
			n++
		}
	}
	return n
}

// all runs the steps, in order, until one ends the plan.
func (p *planRun) all(ctx context.Context) (*PlanOutcome, error) {
	out := &PlanOutcome{ID: p.id, Success: true, Steps: []StepResult{}}
	for i := 0; i < len(p.steps); i++ {
		res, err := p.step(ctx, i)
		if res != nil {
			out.Steps = append(out.Steps, *res)
		}
		if err != nil {
			return out, err
		}
		if p.session != nil && res.Status != StepOK {
			if out.Ended = p.ended(res); out.Ended != nil {
				res.Status = StepFailed
			}
		}
		if res.Status != StepOK && res.Status != StepSkipped {
			out.Success = false
			for _, s := range p.steps[i+1:] {
				out.NotRun = append(out.NotRun, s.ID)
			}
			break
		}
	}
	out.Duration = time.Since(p.start)
	return out, nil
}

// ended is why the sandbox has ended, if that is why the step failed.
func (p *planRun) ended(res *StepResult) error {
	killed := res.ExitCode == 128+9 && p.req.Limits.Memory > 0
	lost := res.ExitCode == exitLost
	if !killed && !lost {
		return nil
	}
	lag := memoryLag
	if lost {
		lag = endLag
	}
	return endWithin(p.session.sb, lag)
}

// exitLost is the exit code of a step whose fate is not known.
const exitLost = 125

// step runs a step, as often as somebody says, until it is decided.
func (p *planRun) step(ctx context.Context, i int) (*StepResult, error) {
	step := p.steps[i]
	if done := p.journal.done(step.ID); done != nil && p.session == nil {
		return done, nil
	}
	for attempt := 1; ; attempt++ {
		res, err := p.try(ctx, i, step, attempt)
		if err != nil {
			return res, err
		}
		if res.Status == StepOK || p.req.Helper == nil {
			return res, nil
		}
		if p.session != nil && p.ended(res) != nil {
			return res, nil
		}
		if err := p.last.check(ctx); err != nil { // the person may take their time
			return res, notRecorded(err)
		}
		remedy, err := p.req.Helper.Failed(ctx, step, res)
		if err != nil {
			return res, err
		}
		switch remedy.Do {
		case Retry:
		case Edit:
			step.ShellCommand = remedy.Command
		case Skip:
			res.Status = StepSkipped
			return res, p.journal.record(res)
		case Replace:
			p.steps = append(p.steps[:i:i], remedy.Steps...)
			if i == len(p.steps) {
				return res, nil
			}
			step, attempt = p.steps[i], 0
		default:
			return res, nil
		}
	}
}

// try runs a step once.
func (p *planRun) try(ctx context.Context, i int, step action.Step, attempt int) (*StepResult, error) {
	command, err := p.fill(ctx, step)
	if err != nil {
		return nil, err
	}
	q := p.question(step, command)
	j, bad := p.Caller.Judge(ctx, q)
	if bad != nil {
		return nil, fmt.Errorf("step %s: %s", step.ID, bad.Stderr)
	}
	q.Asked = func(a tool.Approval) { p.asked(step.ID, command, j, a) }
	p.req.Events.Publish(event.StepStart{
		StepID: step.ID, Index: i + 1, Description: step.Description, Command: command, WorkDir: q.WorkDir,
		Risk: string(j.Risk), Verdict: j.Verdict.String(), Rule: j.Rule, Attempt: attempt,
	})
	if err := p.journal.started(step.ID, command); err != nil {
		return nil, err
	}
	res, j, err := p.call(ctx, q)
	if _, refused := errors.AsType[*tool.RefusedError](err); err != nil && !refused {
		return nil, err
	}
	result := resultOf(step.ID, command, res, j)
	result.Attempts = attempt
	p.req.Events.Publish(event.StepComplete{
		StepID: step.ID, ExitCode: result.ExitCode, DurationMS: result.DurationMS, Status: string(result.Status),
	})
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	return result, p.journal.record(result)
}

// call makes a step's call with its streams.
func (p *planRun) call(ctx context.Context, q *tool.Question) (tool.Result, tool.Judgement, error) {
	stdout, stderr := event.Split(p.req.Events, q.Step, "stdout"), event.Split(p.req.Events, q.Step, "stderr")
	defer func() {
		_ = stdout.Close() // it cannot fail: what is left is an event
		_ = stderr.Close()
	}()
	last := &p.last
	if p.session == nil {
		last = nil // what was done on the host is recorded before anything else is
	}
	return p.Caller.callOn(ctx, q, func(context.Context) (*tool.Machine, func(), error) {
		m := *p.machine
		m.Stdout, m.Stderr, m.Signals = tee(p.req.Stdout, stdout), tee(p.req.Stderr, stderr), p.req.Signals
		if p.req.Attach == nil {
			return &m, func() {}, nil
		}
		detach, err := p.req.Attach(&m)
		return &m, detach, err
	}, last)
}

// question is what the gate is asked about a step.
func (p *planRun) question(step action.Step, command string) *tool.Question {
	args := map[string]any{"command": command, "working_directory": p.dir(step)}
	if p.req.Timeout > 0 {
		args["timeout_ms"] = p.req.Timeout.Milliseconds()
	}
	q := stepQuestion(step, args, p.machine)
	q.Group, q.Who = p.id, p.req.Who
	return q
}

func stepQuestion(step action.Step, args map[string]any, m *tool.Machine) *tool.Question {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // strings and numbers always are JSON
	}
	return &tool.Question{
		Call:  tool.Call{Tool: "cmd.run", Action: "execute", Args: raw},
		Where: m.Where, WorkDir: m.WorkDir, Env: m.Env, Step: step.ID,
		Flags: tool.Flags{NeedsConfirmation: step.NeedsConfirmation, Destructive: step.IsDestructive, RequiresSudo: step.RequiresSudo},
	}
}

// dir is where a step is run.
func (p *planRun) dir(step action.Step) string { return stepDir(p.machine.WorkDir, step) }

func stepDir(work string, step action.Step) string {
	if step.WorkingDirectory == "" {
		return work
	}
	if filepath.IsAbs(step.WorkingDirectory) {
		return filepath.Clean(step.WorkingDirectory)
	}
	return filepath.Join(work, step.WorkingDirectory)
}

// asked tells of an approval and its answer.
func (p *planRun) asked(step, command string, j tool.Judgement, a tool.Approval) {
	if a.Approved != nil {
		p.req.Events.Publish(event.ApprovalResolved{ApprovalID: a.ID, StepID: step, Approved: *a.Approved, By: a.By, Reason: a.Reason})
		return
	}
	p.req.Events.Publish(event.ApprovalRequested{
		ApprovalID: a.ID, StepID: step, Digest: a.Digest, Command: command,
		Risk: string(j.Risk), Rule: j.Rule, Why: j.Why, ExpiresAt: a.Expires.UTC().Format(time.RFC3339),
	})
}

// fill puts a person's values in for a step's placeholders.
func (p *planRun) fill(ctx context.Context, step action.Step) (string, error) {
	names := action.Placeholders(step.ShellCommand)
	if len(names) == 0 {
		return step.ShellCommand, nil
	}
	if p.req.Helper == nil {
		return "", &UnfilledError{step.ID, names}
	}
	values, err := p.req.Helper.Fill(ctx, step, names)
	if err != nil {
		return "", err
	}
	if missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := values[n]; return ok }); len(missing) > 0 {
		return "", &UnfilledError{step.ID, missing}
	}
	return action.Fill(step.ShellCommand, maps.Clone(values)), nil
}

// An UnfilledError is a step with placeholders that nobody gave values for.
type UnfilledError struct {
	Step  string
	Names []string
}

// Error names the step and the placeholders.
func (e *UnfilledError) Error() string {
	return fmt.Sprintf("step %s has placeholders without a value: %q", e.Step, e.Names)
}

// resultOf is what a call's result means for its step.
func resultOf(id, command string, res tool.Result, j tool.Judgement) *StepResult {
	out := &StepResult{
		ID: id, Command: command, Stdout: res.Stdout, Stderr: res.Stderr, DurationMS: number(res.Meta[tool.MetaDurationMS]),
		Risk: j.Risk, Verdict: j.Verdict, Rule: j.Rule, Why: j.Why, Needs: j.Needs, Status: StepOK,
	}
	code, exited := res.Meta[tool.MetaExitCode]
	switch {
	case exited:
		out.ExitCode = int(number(code))
	case res.Code() == tool.PermissionDenied:
		out.ExitCode = exitRefused
	case !res.OK:
		out.ExitCode = exitLost
	}
	switch {
	case res.Code() == tool.PermissionDenied && !exited:
		out.Status = StepRefused
	case res.Code() == tool.Timeout:
		out.Status = StepTimedOut
	case res.Meta["canceled"] == true:
		out.Status = StepCanceled
	case !res.OK || out.ExitCode != 0:
		out.Status = StepFailed
	}
	return out
}

// number reads a number of Meta, whatever made it.
func number(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case float64:
		return int64(n)
	case json.Number:
		i, _ := n.Int64() // one that is no number is none
		return i
	}
	return 0
}

// tee writes to both; person may be nil.
func tee(person io.Writer, events io.Writer) io.Writer {
	if person == nil {
		return events
	}
	return io.MultiWriter(person, events)
}
