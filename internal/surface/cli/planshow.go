package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/action"
	"airlock/internal/event"
	"airlock/internal/executor"
	"airlock/internal/tool"
)

func (p *Program) planShowCmd() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "show FILE|-",
		Short: "Show a plan's steps, what each would touch, and what the gate says of it",
		Long: `Show what a plan would do, without running any of it: the steps with their commands,
what each would touch as far as its command line tells, and the gate's verdict with its
rule, for a run in a sandbox and for one on the host (--direct). Steps that cannot do
their work in a sandbox are named.`,
		Args: takes(1, 1, fmt.Sprintf(planUsage, "show")),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := p.readPlan(args[0])
			if err != nil {
				return err
			}
			place, err := p.place(&placeFlags{dir: dir})
			if err != nil {
				return err
			}
			plans, err := p.plans()
			if err != nil {
				return err
			}
			m := &tool.Machine{WorkDir: place.WorkDir, Env: place.Env, Where: tool.OnHost}
			host := plans.Caller.Review(cmd.Context(), plan, m)
			m.Where = tool.InSandbox
			inside := plans.Caller.Review(cmd.Context(), plan, m)
			if asJSON {
				return p.showPlanJSON(plan, inside, host)
			}
			p.showPlan(p.Stdout, plan, inside, host)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVarP(&dir, "workdir", "w", "", "as if run in this folder (default: the current one)")
	return cmd
}

// stepView is a step as airlock plan show --json tells it.
type stepView struct {
	ID           string         `json:"id"`
	Description  string         `json:"description"`
	Command      string         `json:"shell_command"`
	WorkDir      string         `json:"working_directory"`
	Placeholders []string       `json:"placeholders,omitempty"`
	Risk         tool.Risk      `json:"risk"`
	Touches      []string       `json:"touches"`
	Needs        []tool.Need    `json:"needs"`
	Sandbox      tool.Judgement `json:"sandbox"`
	Host         tool.Judgement `json:"host"`
}

func (p *Program) showPlanJSON(plan *action.Plan, inside, host []executor.Review) error {
	out := struct {
		Kind    action.Kind `json:"kind"`
		Summary string      `json:"summary"`
		Steps   []stepView  `json:"steps"`
	}{plan.Kind, plan.Summary, []stepView{}}
	for i, r := range host {
		j := r.Judgement
		out.Steps = append(out.Steps, stepView{
			r.Step.ID, r.Step.Description, r.Step.ShellCommand, r.WorkDir, r.Placeholders,
			j.Risk, append([]string{}, j.Touches...), append([]tool.Need{}, j.Needs...), inside[i].Judgement, j,
		})
	}
	return p.printJSON(out)
}

// showPlan shows a plan for a person.
func (p *Program) showPlan(w io.Writer, plan *action.Plan, inside, host []executor.Review) {
	if plan.Summary != "" {
		fmt.Fprintf(w, "%s\n\n", printableLines(plan.Summary))
	}
	for i, r := range host {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%d. %s  %s\n", i+1, printable(r.Step.ID), printable(r.Step.Description))
		p.showStep(w, &r, inside[i].Judgement)
	}
}

// showStep shows one step's command and what is known of it.
func (p *Program) showStep(w io.Writer, r *executor.Review, inside tool.Judgement) {
	j := r.Judgement
	fmt.Fprintf(w, "   $ %s\n", indented(r.Step.ShellCommand))
	if r.Step.WorkingDirectory != "" {
		fmt.Fprintf(w, "   in       %s\n", printable(r.WorkDir))
	}
	fmt.Fprintf(w, "   risk     %s: %s\n", j.Risk, printable(j.Why))
	if len(j.Touches) > 0 {
		fmt.Fprintf(w, "   touches  %s\n", printable(strings.Join(j.Touches, ", ")))
	}
	fmt.Fprintf(w, "   verdict  %s in a sandbox (%s), %s on the host (%s)\n", inside.Verdict, printable(inside.Rule), j.Verdict, printable(j.Rule))
	if needs := j.Needs; len(needs) > 0 {
		fmt.Fprintf(w, "   needs    the host's %s, which a sandbox does not have: --direct\n", joinNeeds(needs))
	}
	if len(r.Placeholders) > 0 {
		fmt.Fprintf(w, "   asks for %s\n", printable(strings.Join(r.Placeholders, ", ")))
	}
}

func joinNeeds(needs []tool.Need) string {
	words := make([]string, len(needs))
	for i, n := range needs {
		words[i] = string(n)
	}
	return strings.Join(words, " and ")
}

// tellReview says before anything runs what a person must know of the plan, and asks
// whether to go on where steps cannot do their work in a sandbox.
func (p *Program) tellReview(ctx context.Context, req *executor.PlanRequest, asking bool, screen *planScreen) (bool, error) {
	m := &tool.Machine{WorkDir: req.WorkDir, Env: req.Env, Where: tool.OnHost}
	plans, err := p.plans()
	if err != nil {
		return false, err
	}
	reviews := plans.Caller.Review(ctx, req.Plan, m)
	if !screen.quiet && req.Plan.Summary != "" {
		fmt.Fprintln(p.Stderr, indented(req.Plan.Summary)) // a line of its own could be taken for airlock's
	}
	if req.Direct {
		return true, nil
	}
	var named int
	for i := range reviews {
		r := &reviews[i]
		needs := r.Judgement.Needs
		if len(needs) == 0 {
			continue
		}
		named++
		p.say("step %s (%s) needs the host's %s: it cannot do its work in a sandbox", printable(r.Step.ID), cut(printable(r.Step.ShellCommand), 60), joinNeeds(needs))
	}
	if named == 0 || !asking {
		return true, nil
	}
	answer, err := p.choose(ctx, "[s]andbox: try all the same  [l]eave these steps out  [h]ost: run the plan directly  [q] stop ? ", map[string]string{
		"s": "sandbox", "sandbox": "sandbox", "l": "leave", "leave": "leave", "h": "host", "host": "host", "q": "stop", "stop": "stop",
	}, "s runs everything in the sandbox, l runs the other steps there, h runs on the host and asks for each step, q runs nothing.")
	if err != nil {
		return false, fail(exitGeneral, err)
	}
	switch answer {
	case "leave":
		plan := *req.Plan
		plan.Steps = nil
		for i := range reviews {
			if len(reviews[i].Judgement.Needs) == 0 {
				plan.Steps = append(plan.Steps, reviews[i].Step)
			}
		}
		req.Plan = &plan
		if len(plan.Steps) == 0 {
			p.say("no step is left to run")
		}
		return len(plan.Steps) > 0, nil
	case "host":
		req.Direct = true
	case "stop":
		return false, fail(exitGeneral, nil)
	}
	return true, nil
}

// planScreen shows a person what a plan does while it runs. It is a Sink that writes at
// once.
type planScreen struct {
	p              *Program
	asking, quiet  bool
	eventsOnStdout bool
	signals        *signals
	current        *screen
	steps          int
}

// outputs are where the steps' output goes.
func (s *planScreen) outputs() (stdout, stderr io.Writer) {
	s.current = &screen{}
	stdout = s.p.Stdout
	if s.eventsOnStdout {
		stdout = s.p.Stderr
	}
	return &planOutput{s, stdout}, &planOutput{s, s.p.Stderr}
}

// planOutput follows what is written to a terminal.
type planOutput struct {
	s *planScreen
	w io.Writer
}

func (o *planOutput) Write(b []byte) (int, error) {
	if !isTerminal(o.w) {
		return o.w.Write(b)
	}
	return o.s.current.writer(o.w).Write(b)
}

// settle makes the terminal fit to be read again after what a step wrote.
func (s *planScreen) settle() {
	if s.quiet || !isTerminal(s.p.Stderr) {
		return
	}
	s.current.tidy(s.p.Stderr)
	*s.current = screen{}
}

// last is the screen as the last step left it.
func (s *planScreen) last() *screen {
	if !isTerminal(s.p.Stderr) {
		return nil
	}
	return s.current
}

// ending reports whether the program was told to end while the plan ran.
func (s *planScreen) ending() bool { return s.signals != nil && s.signals.ending() }

// forgetSignals drops what was typed at a question.
func (s *planScreen) forgetSignals() {
	if s.signals == nil {
		return
	}
	for {
		select {
		case <-s.signals.forward:
		default:
			return
		}
	}
}

// Publish shows an event.
func (s *planScreen) Publish(e event.Event) {
	if s.quiet {
		return
	}
	switch e := e.(type) {
	case event.PlanStart:
		s.steps = e.Steps
	case event.StepStart:
		s.settle()
		fmt.Fprintf(s.p.Stderr, "%s %s\n  $ %s\n", s.p.bold(fmt.Sprintf("[%d/%d]", e.Index, max(s.steps, e.Index))), printable(e.Description), indented(e.Command))
	case event.StepComplete:
		if e.Status != string(executor.StepOK) && !s.asking {
			return // what is said at the end says it
		}
		if e.DurationMS >= time.Second.Milliseconds() {
			s.settle()
			fmt.Fprintf(s.p.Stderr, "  %s after %s\n", e.Status, (time.Duration(e.DurationMS) * time.Millisecond).Round(100*time.Millisecond))
		}
	}
}

// bold emphasises text on a terminal.
func (p *Program) bold(s string) string {
	if !p.color(p.Stderr) {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// indented shows a command of several lines below its first.
func indented(command string) string {
	lines := strings.Split(command, "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n    ")
}

// printableLines shows a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n")
}
