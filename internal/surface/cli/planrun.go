package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"airlock/internal/action"
	"airlock/internal/changes"
	"airlock/internal/event"
	"airlock/internal/executor"
)

// planReport is what a plan's run is told as.
type planReport struct {
	runReport
	plan    *action.Plan
	outcome *executor.PlanOutcome
}

// planObject is what --json prints.
type planObject struct {
	ID         string                `json:"id"`
	Kind       action.Kind           `json:"kind"`
	Summary    string                `json:"summary,omitempty"`
	Success    bool                  `json:"success"`
	Steps      []executor.StepResult `json:"steps"` // those that were reached
	NotRun     []string              `json:"not_run,omitempty"`
	DurationMS int64                 `json:"duration_ms"`
	Changes    []changes.Entry       `json:"changes"` // of the working folder
	Outside    []changes.Entry       `json:"outside"` // elsewhere, committed only when named
	Noise      int                   `json:"noise"`   // of caches and temporary files, only counted
	State      changes.State         `json:"state"`
	Error      string                `json:"error,omitempty"`
	AI         *aiObject             `json:"ai,omitempty"` // of the model that made the plan
}

func newPlanObject(kind action.Kind, summary string) *planObject {
	return &planObject{
		Kind: kind, Summary: summary, Steps: []executor.StepResult{},
		Changes: []changes.Entry{}, Outside: []changes.Entry{}, State: changes.None,
	}
}

// printPlan prints what --json answers, once.
func (p *Program) printPlan(f *planFlags, o *planObject) error {
	f.answered = true
	if f.guide != nil {
		o.AI = f.guide.object()
	}
	return p.printJSON(o)
}

// planAnswered sees to it that with --json what went wrong is answered in JSON too, where
// nothing was answered yet. plan may be nil.
func (p *Program) planAnswered(f *planFlags, plan *action.Plan, err error) error {
	if err == nil || !f.json || f.answered {
		return err
	}
	o := newPlanObject("", "")
	if plan != nil {
		o.Kind, o.Summary = plan.Kind, plan.Summary
	}
	o.Error = err.Error()
	return errors.Join(p.printPlan(f, o), err)
}

func (r *planReport) planObject() *planObject {
	o := newPlanObject(r.plan.Kind, r.plan.Summary)
	if r.outcome != nil {
		o.ID, o.Success, o.Steps, o.NotRun = r.outcome.ID, r.outcome.Success, r.outcome.Steps, r.outcome.NotRun
		o.DurationMS = r.outcome.Duration.Milliseconds()
		if set := r.outcome.Set; set != nil {
			o.Changes, o.Outside, o.Noise = changes.Entries(set, changes.Work), changes.Entries(set, changes.Outside), set.NoiseCount
			o.State = set.State
		}
		if r.outcome.Ended != nil {
			o.Error = r.outcome.Ended.Error()
		}
	}
	if r.state != "" {
		o.State = r.state
	}
	if r.failure != nil {
		o.Error = r.failure.Error()
	}
	return o
}

// runPlan runs a plan that was read, or goes on with one.
func (p *Program) runPlan(ctx context.Context, f *planFlags, plan *action.Plan, resume *executor.Journal) error {
	return p.planAnswered(f, plan, p.tryPlan(ctx, f, plan, resume))
}

func (p *Program) tryPlan(ctx context.Context, f *planFlags, plan *action.Plan, resume *executor.Journal) error {
	wish, req, err := p.planRequest(f, plan)
	if err != nil {
		return err
	}
	req.Resume = resume
	if len(plan.Steps) == 0 {
		return p.answerOnly(f, plan)
	}
	store, err := p.open()
	if err != nil {
		return err
	}
	defer ignoreBrokenPipes()()
	asking := p.interactive() && !f.json
	screen := &planScreen{p: p, asking: asking, quiet: f.json, eventsOnStdout: f.events == "-"}
	if !f.json {
		req.Stdout, req.Stderr = screen.outputs()
	}
	req.Helper, err = p.planHelper(f, plan, asking, screen)
	if err != nil {
		return err
	}
	if goOn, err := p.tellReview(ctx, req, asking, screen); err != nil || !goOn {
		return err
	}
	sink, closeEvents, err := p.openEvents(ctx, f.events, screen)
	if err != nil {
		return err
	}
	req.Events = sink
	rep, err := p.executePlan(ctx, f, req, screen, asking)
	if err == nil && asking && screen.ending() {
		// Whoever told airlock to end has not seen the changes: they are neither let out nor lost.
		rep.asking = false
		if wish == undecided {
			wish = keep
		}
	}
	if err == nil {
		err = p.settlePlan(ctx, f, store, rep, wish, sink)
	}
	return errors.Join(err, closeEvents())
}

// planRequest turns what was typed into what is asked of the runner.
func (p *Program) planRequest(f *planFlags, plan *action.Plan) (decision, *executor.PlanRequest, error) {
	wish, err := f.wish()
	switch {
	case err != nil:
		return undecided, nil, err
	case f.timeout < 0:
		return undecided, nil, usage("--timeout %s: it is negative", f.timeout)
	case f.json && f.events == "-":
		return undecided, nil, usage("--json and --events - would both write to standard output: name a file for the events")
	case f.direct && wish != undecided:
		return undecided, nil, usage("--direct changes the host itself: there is nothing to commit, keep or discard afterwards")
	}
	place, err := p.place(&f.placeFlags)
	if err != nil {
		return undecided, nil, err
	}
	for _, tooMuch := range []struct {
		set  bool
		name string
	}{
		{f.memory != "", "memory"},
		{f.cpus != 0, "cpus"},
		{f.procs != 0, "pids"},
		{len(f.hide) > 0, "hide"},
		{len(f.show) > 0, "show"},
		{len(f.readOnly) > 0, "ro"},
	} {
		if f.direct && tooMuch.set {
			return undecided, nil, usage("--%s is about a sandbox, and --direct has none: leave one of them out", tooMuch.name)
		}
	}
	return wish, &executor.PlanRequest{
		Plan: plan, Place: *place, Direct: f.direct, Timeout: f.timeout, Who: "cli",
		Notes: func(note string) { p.say("%s", note) },
	}, nil
}

// answerOnly shows a plan without steps.
func (p *Program) answerOnly(f *planFlags, plan *action.Plan) error {
	if f.json {
		o := newPlanObject(plan.Kind, plan.Summary)
		o.Success = true
		return p.printPlan(f, o)
	}
	fmt.Fprintln(p.Stdout, printableLines(plan.Summary))
	return nil
}

// planHelper decides while the plan runs: a person where there is one, else what --set
// says. Without a person, placeholders must have their values before anything runs.
func (p *Program) planHelper(f *planFlags, plan *action.Plan, asking bool, screen *planScreen) (executor.Helper, error) {
	values, err := f.valueMap()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, step := range plan.Steps {
		for _, hole := range action.Placeholders(step.ShellCommand) {
			name := bare(hole)
			used[name] = true
			if _, ok := values[name]; !ok && !asking {
				return nil, usage("step %s has the placeholder %s: say --set %s=VALUE", printable(step.ID), printable(hole), quoted(name))
			}
		}
	}
	for name := range values {
		if !used[name] {
			return nil, usage("--set %s: no step has this placeholder", printable(name))
		}
	}
	return &planHelper{p: p, values: values, asking: asking, screen: screen, guide: f.guide}, nil
}

// bare is a placeholder's name without its brackets.
func bare(placeholder string) string { return strings.TrimSpace(strings.Trim(placeholder, "<>{}")) }

// executePlan runs the plan, with the program's signals for it meanwhile.
func (p *Program) executePlan(ctx context.Context, f *planFlags, req *executor.PlanRequest, screen *planScreen, asking bool) (*planReport, error) {
	ctx, signals := withSignals(ctx)
	defer signals.stop()
	req.Signals = signals.forward
	screen.signals = signals
	if req.Direct && asking {
		req.Attach = p.attach
	}
	plans, err := p.plans()
	if err != nil {
		return nil, err
	}
	out, err := plans.Run(ctx, req)
	rep := &planReport{plan: req.Plan, outcome: out}
	rep.asking, rep.quiet, rep.screen = asking, f.json, screen.last()
	rep.out = &executor.Outcome{}
	if err == nil {
		rep.out.ID, rep.out.Set = out.ID, out.Set
		rep.code = planCode(out)
		// A step that was interrupted ended the plan: not one that was refused at a question.
		if code := signals.code(); code != 0 && rep.code == exitGeneral && out.Steps[len(out.Steps)-1].ExitCode == code {
			rep.code = code
		}
		return rep, nil
	}
	code := exitFailed
	if c := signals.code(); c != 0 && (errors.Is(err, context.Canceled) || errors.Is(err, executor.ErrSignaled)) {
		code, err = c, fmt.Errorf("ended by %s", signals.name())
	}
	if _, ok := errors.AsType[*executor.UnfilledError](err); ok {
		code = exitUsage
	}
	if f.json {
		rep.failure = err
		if err := p.printPlan(f, rep.planObject()); err != nil {
			return nil, err
		}
	}
	return nil, fail(code, err)
}

// planCode is the exit code for what a plan came to.
func planCode(out *executor.PlanOutcome) int {
	switch {
	case out.Success:
		return 0
	case out.Refused():
		return exitRefused
	}
	return exitGeneral
}

// settlePlan shows what the plan changed, decides on it, and says how it all ended.
func (p *Program) settlePlan(ctx context.Context, f *planFlags, store *changes.Store, rep *planReport, wish decision, sink event.Sink) error {
	p.tellPlanEnd(rep)
	if f.guide != nil {
		f.guide.note(rep.plan, rep.outcome)
		rep.decide = f.guide.decide
	}
	rep.showDiff = func() { p.shortDiff(ctx, store, rep) }
	settled := p.settle(ctx, store, &rep.runReport, wish)
	if set := rep.outcome.Set; set != nil {
		sink.Publish(event.Changes{ID: set.ID, Work: set.Work, Outside: set.Outside, Noise: set.NoiseCount, State: string(rep.planObject().State)})
	}
	if f.json {
		if err := p.printPlan(f, rep.planObject()); err != nil {
			return err
		}
	}
	return p.endSettled(rep.code, settled)
}

// shortDiff shows the diff of a change set that is short enough to be read at once.
func (p *Program) shortDiff(ctx context.Context, store *changes.Store, rep *planReport) {
	const most = 100 // lines
	var diff bytes.Buffer
	if p.showDiffAs(ctx, store, rep.outcome.Set, &diff, p.Stderr) != nil || bytes.Count(diff.Bytes(), []byte("\n")) > most {
		return // the question offers it
	}
	_, _ = p.Stderr.Write(diff.Bytes())
	fmt.Fprintln(p.Stderr)
}

// tellPlanEnd sums a run up.
func (p *Program) tellPlanEnd(rep *planReport) {
	out := rep.outcome
	if rep.quiet {
		return
	}
	rep.screen.tidy(p.Stderr)
	if out.Ended != nil {
		p.say("%v; its changes are lost", out.Ended)
	}
	if out.Success {
		if rep.asking {
			p.say("%s went well, in %s", plural(len(out.Steps), "step"), out.Duration.Round(100*time.Millisecond))
		}
		return
	}
	last := out.Steps[len(out.Steps)-1]
	text := fmt.Sprintf("step %s %s", printable(last.ID), how(&last))
	if n := len(out.NotRun); n > 0 {
		text += fmt.Sprintf("; %s not run", plural(n, "step"))
	}
	p.say("%s", text)
	if rep.outcome.Set == nil && out.Ended == nil {
		p.say("airlock plan resume %s goes on from there", out.ID)
	}
}

// how says how a step ended.
func how(res *executor.StepResult) string {
	switch res.Status {
	case executor.StepRefused:
		return "was refused by " + printable(res.Rule) + ": " + printable(res.Why)
	case executor.StepTimedOut:
		return "timed out"
	case executor.StepSkipped:
		return "was skipped"
	case executor.StepOK:
		return "went well"
	}
	return fmt.Sprintf("failed with exit code %d", res.ExitCode)
}
