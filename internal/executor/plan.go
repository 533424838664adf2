package executor

import (
	"context"
	"errors"
	"io"
	"time"

	"airlock/agent"
	"airlock/internal/action"
	"airlock/internal/changes"
	"airlock/internal/event"
	"airlock/internal/sandbox"
	"airlock/internal/tool"
)

// A PlanRunner runs plans: all steps of one in a sandbox, or each on the host. It is safe
// for concurrent use.
type PlanRunner struct {
	Runner *Runner
	Caller *Caller

	// Host connects to a guest agent on the host itself; the closer ends it.
	Host func(ctx context.Context) (*agent.Client, io.Closer, error)

	// Journals keep what is needed to go on after a crash.
	Journals *Journals
}

// A PlanRequest says what plan to run and how.
type PlanRequest struct {
	Plan *action.Plan
	Place
	Direct  bool          // on the host, step by step
	Timeout time.Duration // of each step; 0: none
	Who     string        // the surface that asks, for the record

	// Stdout and Stderr take what the steps write as it comes; may be nil.
	Stdout, Stderr io.Writer

	// Events takes what happens; may be nil.
	Events event.Sink

	// Helper decides where somebody has to; nil: a failed step ends the plan, and one with
	// placeholders fails.
	Helper Helper

	// Notes takes sentences about the sandbox before the first step; may be nil.
	Notes func(string)

	// Attach connects a machine on the host to the person's terminal while a step runs on
	// it, and gives the terminal back. Nil: steps have no input.
	Attach func(m *tool.Machine) (detach func(), err error)

	// Resume goes on with an interrupted plan, whose Plan and Direct it sets; nil: a new one.
	Resume *Journal
}

// A Helper is asked while a plan runs.
type Helper interface {
	// Fill gives values for a step's placeholders.
	Fill(ctx context.Context, step action.Step, names []string) (map[string]string, error)

	// Failed says what to do about a step that failed or was refused.
	Failed(ctx context.Context, step action.Step, result *StepResult) (Remedy, error)
}

// A Remedy is what to do about a step that failed. The zero value ends the plan.
type Remedy struct {
	Do      Do
	Command string        // for Edit: run instead, after passing the gate afresh
	Steps   []action.Step // for Replace: instead of this step and all that follow it
}

// Do is what a Remedy does.
type Do int

// The remedies.
const (
	Stop Do = iota
	Retry
	Edit
	Skip
	Replace
)

// A Status is how a step ended.
type Status string

// The ways a step ends.
const (
	StepOK       Status = "ok"
	StepFailed   Status = "failed"
	StepRefused  Status = "refused"
	StepSkipped  Status = "skipped"
	StepTimedOut Status = "timed out"
	StepCanceled Status = "canceled"
)

// A StepResult is what became of a step.
type StepResult struct {
	ID         string       `json:"id"`
	ExitCode   int          `json:"exit_code"` // 126 where it was refused; -1 where it was skipped unrun
	Stdout     string       `json:"stdout"`
	Stderr     string       `json:"stderr"`
	DurationMS int64        `json:"duration_ms"`
	Risk       tool.Risk    `json:"risk"`
	Verdict    tool.Verdict `json:"verdict"`
	Rule       string       `json:"rule"`
	Why        string       `json:"why,omitempty"`
	Status     Status       `json:"status"`
	Command    string       `json:"command"` // what was run: as planned, filled in or edited
	Attempts   int          `json:"attempts"`
	Needs      []tool.Need  `json:"needs,omitempty"`
}

// A PlanOutcome is what a plan came to.
type PlanOutcome struct {
	ID       string
	Steps    []StepResult // those that were reached, in order
	NotRun   []string     // the IDs of the others
	Success  bool         // every step went well, or was skipped because somebody said so
	Duration time.Duration
	Set      *changes.Set // what was changed; nil after a direct run
	Ended    error        // the sandbox ended: sandbox.ErrOutOfMemory or ErrEnded. There is no Set then
}

// Refused reports whether the plan ended with a step that the gate refused.
func (o *PlanOutcome) Refused() bool {
	return len(o.Steps) > 0 && o.Steps[len(o.Steps)-1].Status == StepRefused
}

// Run runs a plan. When ctx ends, so does what runs; a sandbox's changes are gone then.
func (r *PlanRunner) Run(ctx context.Context, req *PlanRequest) (*PlanOutcome, error) {
	if req.Events == nil {
		req.Events = silence{}
	}
	m, end, s, err := r.machine(ctx, req)
	if err != nil {
		return nil, err
	}
	defer end()
	run := &planRun{PlanRunner: r, req: req, machine: m, session: s, id: sandbox.NewID(), steps: req.Plan.Steps}
	if s != nil {
		run.id = s.ID()
	}
	if err := run.begin(ctx); err != nil {
		return nil, err
	}
	out, err := run.all(ctx)
	if err == nil && s != nil && out.Ended == nil {
		out.Set, err = s.Gather(ctx, changes.Header{Command: req.label(), ExitCode: out.code()})
	}
	if ending := run.finish(ctx, out, err); err == nil || ending != nil && ending.Error() != err.Error() {
		err = errors.Join(err, ending)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// silence is a Sink that nobody listens to.
type silence struct{}

func (silence) Publish(event.Event) {}

// machine makes where the steps are run: a session, or an agent on the host.
func (r *PlanRunner) machine(ctx context.Context, req *PlanRequest) (*tool.Machine, func(), *Session, error) {
	if !req.Direct {
		s, err := r.Runner.Open(ctx, &req.Place)
		if err != nil {
			return nil, nil, nil, err
		}
		if req.Notes != nil {
			for _, note := range s.Notes() {
				req.Notes(note)
			}
		}
		return s.Machine(), func() { _ = s.Close() }, s, nil
	}
	m, closer, err := r.OpenHost(ctx, &req.Place)
	if err != nil {
		return nil, nil, nil, err
	}
	return m, func() { _ = closer.Close() }, nil, nil
}

// label is what a change set of the plan is listed as.
func (req *PlanRequest) label() []string {
	summary := req.Plan.Summary
	if summary == "" && len(req.Plan.Steps) > 0 {
		summary = req.Plan.Steps[0].Description
	}
	return []string{"plan:", summary}
}

// code is the exit code that a plan's change set remembers.
func (o *PlanOutcome) code() int {
	switch {
	case o.Success:
		return 0
	case o.Refused():
		return exitRefused
	}
	return 1
}

// exitRefused is the exit code of a step that the gate did not let pass.
const exitRefused = 126
