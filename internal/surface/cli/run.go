package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/hostview"
	"airlock/internal/sandbox"
)

// runFlags are the flags of airlock run.
type runFlags struct {
	decisionFlags
	json, tty, noTTY   bool
	timeout            time.Duration
	memory             string
	cpus               float64
	procs              int64
	env, envFiles      []string
	dir                string
	hide, show, readOn []string
}

func (p *Program) runCmd() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG…]",
		Short: "Run a command in a fresh sandbox over your files, then decide on its changes",
		Long: `Run a command in a fresh sandbox laid over this machine's files, stream its output, and
show what it changed. On a terminal you are then asked: commit, diff, keep or discard.
Otherwise --commit (when the exit code is 0), --keep or --discard (the default) decide.

The sandbox has no network. Keys, tokens, histories and other people's files are hidden
from it, and it is given a listed part of the environment (--show, --hide, -e). Changes
outside the working folder, and those of caches and temporary files, are counted apart
and committed only when they are named: airlock commit ID PATH.

The exit code is the command's; 124 it timed out, 125 airlock failed, 126 it cannot be
executed, 127 there is no such command, 137 it ran out of memory.`,
		Example: `  airlock run -- python3 -c 'print(2 + 2)'
  airlock run --commit -- make fmt
  airlock run --timeout 5m --memory 2g --pids 200 -- npm test`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("there is no command to run; write airlock run -- CMD [ARG…]")
			}
			return p.run(cmd.Context(), f, args)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false) // what follows the command is the command's
	fl.BoolVar(&f.commit, "commit", false, "commit the changes in the working folder when the exit code is 0 (else keep them)")
	fl.BoolVar(&f.keep, "keep", false, "keep the changes for airlock commit, diff or discard")
	fl.BoolVar(&f.discard, "discard", false, "throw the changes away (the default without a terminal)")
	fl.BoolVar(&f.json, "json", false, "print one JSON object at the end instead of the command's output")
	fl.BoolVarP(&f.tty, "tty", "t", false, "run the command on a terminal (the default where stdin and stdout are one)")
	fl.BoolVar(&f.noTTY, "no-tty", false, "never run the command on a terminal")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the command after this long, as in 90s or 5m")
	fl.StringVarP(&f.memory, "memory", "m", "", "limit the sandbox's memory, as in 512m or 2g")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit processor time, as in 0.5 or 2")
	fl.Int64Var(&f.procs, "pids", 0, "limit how many processes and threads the command may have at once")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "give the command a variable: NAME=VALUE, or NAME for its value here")
	fl.StringArrayVar(&f.envFiles, "env-file", nil, "give the command the variables in a file, NAME=VALUE a line")
	fl.StringVarP(&f.dir, "workdir", "w", "", "run in this folder, whose changes are the work (default: the current one)")
	fl.StringArrayVar(&f.hide, "hide", nil, "hide a path from the sandbox")
	fl.StringArrayVar(&f.show, "show", nil, "show a path that is hidden by default")
	fl.StringArrayVar(&f.readOn, "ro", nil, "make a path read-only in the sandbox")
	return cmd
}

// run is airlock run.
func (p *Program) run(ctx context.Context, f *runFlags, argv []string) error {
	choice, decided, err := f.decide()
	if err != nil {
		return err
	}
	req, err := p.request(f, argv)
	if err != nil {
		return err
	}
	store, err := p.Store()
	if err != nil {
		return fail(exitFailed, err)
	}
	term, err := p.connect(f, req)
	if err != nil {
		return err
	}
	ctx, signals := withSignals(ctx)
	req.Signals = signals.forward
	req.Notes = func(note string) { fmt.Fprintln(p.Stderr, "airlock:", note) }
	out, err := p.Runner.Run(ctx, req)
	signals.stop()
	term.restore()
	if err != nil {
		if code := signals.code(); code != 0 {
			return fail(code, nil)
		}
		return fail(exitFailed, err)
	}
	asked := !decided && !f.json && term.interactive
	rep := &runReport{out: out, code: exitOf(&out.Result, out.Ended), capture: term.captured}
	p.tellEnd(rep, argv[0], f.timeout)
	if asked && out.Set != nil && out.Set.Work > 0 {
		choice, err = p.askAbout(ctx, store, out.Set)
		if err != nil {
			return fail(exitFailed, err)
		}
	}
	if asked && choice == discard && (out.Set == nil || out.Set.Work == 0) && out.Set != nil && out.Set.Outside > 0 {
		choice = keep // nobody was asked, so nothing is thrown away
	}
	if choice == commit && rep.code != 0 && !asked {
		choice = keep // a command that failed lets nothing out by itself
	}
	settleErr := p.settle(ctx, store, rep, choice, asked || f.json)
	if f.json {
		if err := p.printJSON(rep.object()); err != nil {
			return err
		}
	}
	if settleErr != nil {
		return fail(max(commitCode(settleErr), exitGeneral), explainSet(settleErr))
	}
	if rep.code != 0 {
		return fail(rep.code, nil)
	}
	return nil
}

// request turns what was typed into what is asked of the runner.
func (p *Program) request(f *runFlags, argv []string) (*executor.Request, error) {
	memory, err := parseSize(f.memory)
	if err != nil {
		return nil, usage("--memory %s: %w", f.memory, err)
	}
	switch {
	case f.timeout < 0:
		return nil, usage("--timeout %s: it is negative", f.timeout)
	case f.cpus < 0:
		return nil, usage("--cpus %g: it is negative", f.cpus)
	case f.procs < 0:
		return nil, usage("--pids %d: it is negative", f.procs)
	case f.tty && f.noTTY:
		return nil, usage("--tty and --no-tty exclude one another")
	case argv[0] == "":
		return nil, usage("the command is empty")
	}
	var named []string
	for _, file := range f.envFiles {
		vars, err := hostview.EnvFile(file)
		if err != nil {
			return nil, usage("%w", err)
		}
		named = append(named, vars...)
	}
	env, err := hostview.Environ(p.Environ, append(named, f.env...))
	if err != nil {
		return nil, usage("%w", err)
	}
	dir := f.dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return nil, fail(exitFailed, fmt.Errorf("the working folder: %w", err))
		}
	}
	dir, err = folder(dir)
	if err != nil {
		return nil, usage("%w", err)
	}
	env["PWD"] = dir
	return &executor.Request{
		Argv: argv, WorkDir: dir, Env: env, Timeout: f.timeout,
		Limits: sandbox.Limits{Memory: memory, CPUs: f.cpus, Procs: f.procs},
		Hide:   f.hide, Show: f.show, ReadOnly: f.readOn,
	}, nil
}

// exitOf is the exit code for how a command ended.
func exitOf(res *agent.ExecResult, ended error) int {
	switch {
	case errors.Is(ended, sandbox.ErrOutOfMemory):
		return exitSignalBase + 9
	case ended != nil:
		return exitFailed
	case res.TimedOut:
		return exitTimedOut
	case res.NotStarted == "not_found":
		return exitNotFound
	case res.NotStarted == "not_executable":
		return exitRefused
	case res.NotStarted != "":
		return exitFailed
	case res.Signal != "":
		return exitSignalBase + signalNumber(res.Signal)
	}
	return res.ExitCode
}

// tellEnd says what the command's own output cannot: why it did not run, or was ended.
func (p *Program) tellEnd(rep *runReport, name string, timeout time.Duration) {
	res := &rep.out.Result
	switch {
	case rep.out.Ended != nil:
		fmt.Fprintf(p.Stderr, "airlock: %v; its changes are lost\n", rep.out.Ended)
	case res.TimedOut:
		fmt.Fprintf(p.Stderr, "airlock: timed out after %s\n", timeout)
	case res.NotStarted == "not_found":
		fmt.Fprintf(p.Stderr, "airlock: %s: there is no such command in the sandbox\n", printable(name))
	case res.NotStarted != "":
		fmt.Fprintf(p.Stderr, "airlock: %s cannot be executed: %s\n", printable(name), printable(strings.TrimSpace(res.Stderr)))
	}
}

// askAbout shows what was changed and asks what is to become of it.
func (p *Program) askAbout(ctx context.Context, store *changes.Store, set *changes.Set) (decision, error) {
	fmt.Fprintln(p.Stderr)
	if err := changes.List(p.Stderr, set, &changes.ListOptions{Color: p.color(p.Stderr)}); err != nil {
		return keep, err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	return ask(ctx, p.Stdin, p.Stderr, func() error { return p.showDiff(ctx, store, set, p.Stderr) })
}

// settle carries a decision out and says what became of the changes. shown is whether a
// person has seen them, or will in another form.
func (p *Program) settle(ctx context.Context, store *changes.Store, rep *runReport, choice decision, shown bool) error {
	set := rep.out.Set
	if set == nil || len(set.Changes) == 0 {
		return nil
	}
	if !shown {
		if err := changes.List(p.Stderr, set, &changes.ListOptions{Color: p.color(p.Stderr)}); err != nil {
			return err
		}
	}
	switch choice {
	case commit:
		if set.Work == 0 {
			fmt.Fprintf(p.Stderr, "airlock: nothing to commit in the working folder; kept as %s\n", set.ID)
			return nil
		}
		rep2, err := store.Commit(ctx, set.ID, nil)
		if err != nil {
			fmt.Fprintf(p.Stderr, "airlock: not committed; kept as %s\n", set.ID)
			return err
		}
		rep.state = rep2.State
		if rep2.Remaining == 0 {
			rep.state = changes.Committed
		}
		p.tellCommit(rep2, false)
	case keep:
		fmt.Fprintf(p.Stderr, "airlock: kept as %s; airlock changes, commit or discard %s\n", set.ID, set.ID)
	default:
		if err := store.Remove(set.ID); err != nil {
			return err
		}
		rep.state = changes.Discarded
		fmt.Fprintln(p.Stderr, "airlock: discarded")
	}
	return nil
}

// runReport is what a run is told as.
type runReport struct {
	out     *executor.Outcome
	code    int
	state   changes.State // "" while the set's own holds
	capture *captured
}

// runObject is what --json prints.
type runObject struct {
	ID         string          `json:"id"`
	ExitCode   int             `json:"exit_code"`
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	DurationMS int64           `json:"duration_ms"`
	TimedOut   bool            `json:"timed_out"`
	Changes    []changes.Entry `json:"changes"` // of the working folder
	Outside    []changes.Entry `json:"outside"` // elsewhere, committed only when named
	Noise      int             `json:"noise"`   // of caches and temporary files, only counted
	State      changes.State   `json:"state"`
	Error      string          `json:"error,omitempty"` // why the sandbox ended, or the command did not start
}

func (r *runReport) object() *runObject {
	res := &r.out.Result
	o := &runObject{
		ID: r.out.ID, ExitCode: r.code, Stdout: r.capture.stdout.String(), Stderr: r.capture.stderr.String(),
		DurationMS: r.out.Duration.Milliseconds(), TimedOut: res.TimedOut, Changes: []changes.Entry{}, Outside: []changes.Entry{}, State: changes.None,
	}
	if r.out.Set != nil {
		o.Changes = changes.Entries(r.out.Set, changes.Work)
		o.Outside = changes.Entries(r.out.Set, changes.Outside)
		o.Noise = r.out.Set.NoiseCount
		o.State = r.out.Set.State
	}
	if r.state != "" {
		o.State = r.state
	}
	switch {
	case r.out.Ended != nil:
		o.Error = r.out.Ended.Error()
	case res.NotStarted != "":
		o.Error = res.NotStarted
	}
	return o
}

var _ io.Writer = (*capture)(nil)
