package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/action"
	"airlock/internal/executor"
)

func (p *Program) planCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Check, show and run plans: steps that an AI or a person wrote down",
		Long: `A plan is an AiAction: a JSON object with a kind, a summary and steps, each a shell
command with a description. No model is needed to check, show or run one.

By default all steps run in one sandbox, and what they changed is shown as one change set
to commit or discard. airlock plan show says beforehand what each step would do.`,
		Args: noSuchPlanCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.planCheckCmd(), p.planShowCmd(), p.planRunCmd(), p.planResumeCmd())
	return cmd
}

func noSuchPlanCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := printable(args[0])
	return usage("%s is not one of airlock plan's commands: check, show, run, resume; to run a plan from a file, write airlock plan run %s", name, name)
}

// plans gives what runs plans and calls.
func (p *Program) plans() (*executor.PlanRunner, error) {
	plans, err := p.Plans()
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	return plans, nil
}

const planUsage = "say which plan: airlock plan %s FILE, or - for standard input"

func (p *Program) planCheckCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE|-",
		Short: "Check a plan against the AiAction schema and its limits",
		Long: `Check that a plan is what the AiAction schema asks for, and within the limits for its
size, its number of steps and its commands. Everything that is wrong is named with its
place in the plan and what was expected there. Nothing runs. The exit code is 2 for an invalid plan.`,
		Args: takes(1, 1, fmt.Sprintf(planUsage, "check")),
		RunE: func(_ *cobra.Command, args []string) error {
			plan, err := p.readPlan(args[0])
			invalid, ok := errors.AsType[*action.InvalidError](err)
			switch {
			case asJSON && (err == nil || ok):
				return p.checkJSON(plan, invalid)
			case err != nil:
				return err
			}
			fmt.Fprintf(p.Stdout, "valid: %s with %s\n", plan.Kind, plural(len(plan.Steps), "step"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: valid, and the problems")
	return cmd
}

func (p *Program) checkJSON(plan *action.Plan, invalid *action.InvalidError) error {
	out := struct {
		Valid    bool             `json:"valid"`
		Kind     action.Kind      `json:"kind,omitempty"`
		Steps    int              `json:"steps"`
		Problems []action.Problem `json:"problems"`
	}{Valid: invalid == nil, Problems: []action.Problem{}}
	if plan != nil {
		out.Kind, out.Steps = plan.Kind, len(plan.Steps)
	}
	if invalid != nil {
		out.Problems = invalid.Problems
	}
	if err := p.printJSON(out); err != nil || invalid == nil {
		return err
	}
	return fail(exitUsage, nil)
}

// readPlan reads a plan from a file or, for -, from standard input. Its errors are usage
// errors: nothing has run.
func (p *Program) readPlan(name string) (*action.Plan, error) {
	in, shown := p.Stdin, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("the plan: %w", err)
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.IsDir() {
			return nil, usage("the plan: %s is a folder; name the file in it", printable(name))
		}
		in, shown = f, printable(name)
	}
	plan, err := action.Read(in)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("%s is not a valid plan: %w", shown, err))
	}
	return plan, nil
}

// planFlags are those of airlock plan run.
type planFlags struct {
	decisionFlags
	placeFlags
	json, direct bool
	answered     bool     // what --json answers was printed
	guide        *aiGuide // of a plan that a model made; nil: nobody can be asked for another
	timeout      time.Duration
	events       string
	values       []string
}

func (f *planFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.commit, "commit", false, "commit the changes in the working folder when every step went well (else keep them)")
	fl.BoolVar(&f.keep, "keep", false, "keep the changes for airlock changes, commit or discard")
	fl.BoolVar(&f.discard, "discard", false, "throw the changes away (the default without a terminal)")
	fl.BoolVar(&f.json, "json", false, "print one JSON object at the end instead of the steps' output")
	fl.DurationVar(&f.timeout, "timeout", 0, "end a step after this long, as in 90s or 5m")
	fl.StringVar(&f.events, "events", "", "write what happens to FILE as JSON lines, or to standard output for -")
	fl.StringArrayVar(&f.values, "set", nil, "give a placeholder its value: NAME=VALUE for <NAME>")
	f.placeFlags.add(fl)
}

func (p *Program) planRunCmd() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] FILE|-",
		Short: "Run a plan's steps in one sandbox, or with --direct on the host",
		Long: `Run a plan's steps in order, each in its working folder, all in one sandbox laid over
this machine's files. At the end its changes are shown as one change set: on a terminal
you are asked what becomes of it, otherwise --commit (when every step went well), --keep or
--discard (the default) decide. Inside the sandbox nothing is asked unless a policy says so.

--direct runs on the host itself: there is no change set and no undo, and each step passes
the gate first, which asks about all but what only reads. Without a terminal to ask on, such
a step is refused. What a step leaves in the background is ended with the plan.

A step that fails ends the plan, unless you say otherwise on the terminal: retry, edit or
skip it. The exit code is 0 when all went well, 1 when a step failed, 2 for an invalid plan,
of which nothing runs, 125 when airlock failed and 126 when a step was refused.`,
		Example: `  airlock plan run plan.json
  airlock plan run --commit --json - <plan.json
  airlock plan run --set PID=4711 --direct plan.json`,
		DisableFlagsInUseLine: true,
		Args:                  takes(1, 1, fmt.Sprintf(planUsage, "run")),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := p.readPlan(args[0])
			if err != nil {
				return p.planAnswered(f, nil, err)
			}
			return p.runPlan(cmd.Context(), f, plan, nil)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.direct, "direct", false, "run on the host, step by step, each through the gate")
	return cmd
}

func (p *Program) planResumeCmd() *cobra.Command {
	f := &planFlags{}
	var list, forget bool
	var interrupted string
	cmd := &cobra.Command{
		Use:   "resume [flags] [ID]",
		Short: "Go on with a plan that a crash interrupted",
		Long: `Go on with a plan whose run did not come to its end: by default the last one. A plan
that ran in a sandbox is run again from its first step, because what it did there is gone
and nothing of it had come out. One that ran on the host (--direct) goes on after its last
finished step; for a step that had begun and not ended, you are asked, or --interrupted
says, whether it is to be run again or taken as done.`,
		Args:              takes(0, 1, "airlock plan resume goes on with one plan; airlock plan resume --list lists them"),
		ValidArgsFunction: p.completePlans,
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return p.listInterrupted(f.json)
			}
			return p.planAnswered(f, nil, p.resumePlan(cmd.Context(), f, args, interrupted, forget))
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&list, "list", "l", false, "list the plans that can go on")
	cmd.Flags().BoolVar(&forget, "forget", false, "forget the plan instead")
	cmd.Flags().StringVar(&interrupted, "interrupted", "", "what becomes of the step that was interrupted on the host: again or done")
	return cmd
}

func (p *Program) listInterrupted(asJSON bool) error {
	plans, err := p.plans()
	if err != nil {
		return err
	}
	journals, err := plans.Journals.Interrupted()
	if err != nil {
		return fail(exitFailed, err)
	}
	if asJSON {
		type row struct {
			ID      string    `json:"id"`
			Created time.Time `json:"created"`
			Summary string    `json:"summary"`
			Where   string    `json:"where"`
			Steps   int       `json:"steps"`
			Done    int       `json:"done"`
		}
		rows := []row{}
		for _, j := range journals {
			rows = append(rows, row{j.ID, j.Created, j.Plan.Summary, whereName(j.Direct), len(j.Plan.Steps), j.Finished()})
		}
		return p.printJSON(rows)
	}
	if len(journals) == 0 {
		fmt.Fprintln(p.Stdout, "No plan was interrupted.")
		return nil
	}
	fmt.Fprintf(p.Stdout, "%-16s  %-16s  %-7s  %-5s  %s\n", "ID", "BEGUN", "WHERE", "STEPS", "SUMMARY")
	for _, j := range journals {
		fmt.Fprintf(p.Stdout, "%-16s  %-16s  %-7s  %-5s  %s\n", j.ID, j.Created.Local().Format("2006-01-02 15:04"), whereName(j.Direct),
			fmt.Sprintf("%d/%d", j.Finished(), len(j.Plan.Steps)), cut(printable(j.Plan.Summary), 60))
	}
	return nil
}

func whereName(direct bool) string {
	if direct {
		return "host"
	}
	return "sandbox"
}

// completePlans completes the IDs of interrupted plans.
func (p *Program) completePlans(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	plans, err := p.plans()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := plans.Journals.Interrupted()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, j := range list {
		out = append(out, fmt.Sprintf("%s\t%s, %s", j.ID, whereName(j.Direct), printable(j.Plan.Summary)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// resumePlan goes on with an interrupted plan.
func (p *Program) resumePlan(ctx context.Context, f *planFlags, args []string, interrupted string, forget bool) error {
	j, err := p.openInterrupted(args)
	if err != nil {
		return err
	}
	if forget {
		if err := j.Remove(); err != nil {
			return fail(exitFailed, err)
		}
		p.say("forgot plan %s", j.ID)
		return nil
	}
	if err := p.decideInterrupted(ctx, j, interrupted); err != nil {
		return errors.Join(err, j.Release())
	}
	f.direct, f.dir = j.Direct, j.WorkDir
	if f.timeout == 0 {
		f.timeout = j.Timeout
	}
	return errors.Join(p.runPlan(ctx, f, j.Plan, j), j.Release())
}

func (p *Program) openInterrupted(args []string) (*executor.Journal, error) {
	plans, err := p.plans()
	if err != nil {
		return nil, err
	}
	id := ""
	if len(args) == 1 {
		id = args[0]
	} else {
		all, err := plans.Journals.Interrupted()
		if err != nil {
			return nil, fail(exitFailed, err)
		}
		if len(all) == 0 {
			return nil, fail(exitGeneral, errors.New("no plan was interrupted: there is nothing to go on with"))
		}
		id = all[0].ID
	}
	j, err := plans.Journals.Open(id)
	if err != nil {
		return nil, fail(exitGeneral, fmt.Errorf("%w; airlock plan resume --list lists what there is", err))
	}
	return j, nil
}

// decideInterrupted decides about a step that had begun on the host when the plan was
// interrupted: nobody can know whether it did its work.
func (p *Program) decideInterrupted(ctx context.Context, j *executor.Journal, how string) error {
	switch how {
	case "", "again", "done":
	default:
		return usage("--interrupted %s: write again, or done", printable(how))
	}
	if j.Interrupted == "" || !j.Direct || how == "again" {
		return nil
	}
	if how == "" && p.interactive() {
		fmt.Fprintf(p.Stderr, "Step %s had begun when the plan was interrupted. It may have done its work, all of it or a part.\n", printable(j.Interrupted))
		answer, err := p.choose(ctx, "[a]gain  [d]one: go on after it  [q] stop ? ", map[string]string{
			"a": "again", "again": "again", "d": "done", "done": "done", "q": "stop", "stop": "stop",
		}, "a runs it again, d takes it as done, q leaves everything as it is.")
		if err != nil || answer == "stop" {
			return fail(exitGeneral, err)
		}
		how = answer
	}
	switch how {
	case "done":
		if err := j.SkipInterrupted(); err != nil {
			return fail(exitFailed, err)
		}
	case "":
		return fail(exitGeneral, fmt.Errorf("step %s had begun when the plan was interrupted, and may have done its work: say --interrupted again, or --interrupted done", printable(j.Interrupted)))
	}
	return nil
}

// values reads NAME=VALUE pairs.
func (f *planFlags) valueMap() (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range f.values {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage("--set %s: write NAME=VALUE", printable(pair))
		}
		out[name] = value
	}
	return out, nil
}
