package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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

The exit code is the command's; 124 it timed out, 125 airlock failed or was not understood,
126 it cannot be executed, 127 there is no such command, 137 it ran out of memory. 1 stands
as well for a commit that was refused, such as for a conflict, after a command that went well.`,
		Example: `  airlock run -- python3 -c 'print(2 + 2)'
  airlock run --commit -- make fmt
  airlock run --timeout 5m --memory 2g --pids 200 -- npm test`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.run(cmd.Context(), f, args)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false) // what follows the command is the command's
	fl.BoolVar(&f.commit, "commit", false, "commit the changes in the working folder when the exit code is 0 (else keep them)")
	fl.BoolVar(&f.keep, "keep", false, "keep the changes for airlock changes, commit or discard")
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

// run is airlock run. What was typed wrongly is an error of airlock's here: every other
// code is the command's.
func (p *Program) run(ctx context.Context, f *runFlags, argv []string) error {
	wish, req, err := p.parseRun(f, argv)
	if err != nil {
		return fail(exitFailed, err)
	}
	store, err := p.open()
	if err != nil {
		return err
	}
	// A reader of our output that goes away ends the command, and not us.
	defer ignoreBrokenPipes()()
	rep, err := p.execute(ctx, f, req)
	if err != nil {
		return err
	}
	p.tellEnd(rep, argv[0], f.timeout)
	settled := rep.unrecorded
	if settled == nil {
		settled = p.settle(ctx, store, rep, wish)
	}
	if f.json {
		if err := p.printJSON(rep.object()); err != nil {
			return err
		}
	}
	switch {
	case rep.code != 0:
		if settled != nil {
			p.complain(explainSet(settled))
		}
		return fail(rep.code, nil)
	case settled != nil:
		return fail(commitCode(settled), explainSet(settled))
	}
	return nil
}

// execute runs the command, connected to the person's terminal or streams meanwhile.
func (p *Program) execute(ctx context.Context, f *runFlags, req *executor.Request) (*runReport, error) {
	s, err := p.connect(f, req)
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	defer s.restore()
	req.Finished = s.restore
	ctx, signals := withSignals(ctx)
	defer signals.stop()
	req.Signals = signals.forward
	req.Notes = func(note string) { p.say("%s", note) }
	recorded := p.trail(req)
	out, err := p.Runner.Run(ctx, req)
	s.restore()
	rep := &runReport{out: out, asking: s.interactive && !f.json, quiet: f.json, screen: s.screen, capture: s.captured}
	if err == nil {
		rep.code = exitOf(out)
		rep.noteUnrecorded(recorded.end(ctx, rep))
		return rep, nil
	}
	rep.out, rep.code = &executor.Outcome{}, exitFailed
	rep.failure = err
	if code := signals.code(); code != 0 && (errors.Is(err, context.Canceled) || errors.Is(err, executor.ErrSignaled)) {
		rep.code, rep.failure = code, fmt.Errorf("ended by %s", signals.name())
		err = nil // who sent it knows
	}
	err = errors.Join(err, recorded.end(ctx, rep))
	if f.json {
		if err := p.printJSON(rep.object()); err != nil {
			return nil, err
		}
	}
	return nil, fail(rep.code, err)
}

// parseRun turns what was typed into what is asked of the runner, and what is to become
// of the changes.
func (p *Program) parseRun(f *runFlags, argv []string) (decision, *executor.Request, error) {
	wish, err := f.wish()
	switch {
	case err != nil:
		return undecided, nil, err
	case len(argv) == 0:
		return undecided, nil, usage("there is no command to run; write airlock run -- CMD [ARG…]")
	}
	req, err := p.request(f, argv)
	return wish, req, err
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
	readOnly, err := existing(f.readOn)
	if err != nil {
		return nil, usage("--ro %w", err)
	}
	return &executor.Request{
		Argv: argv, WorkDir: dir, Env: env, Timeout: f.timeout,
		Limits: sandbox.Limits{Memory: memory, CPUs: f.cpus, Procs: f.procs},
		Hide:   f.hide, Show: f.show, ReadOnly: readOnly,
	}, nil
}
