package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/executor"
	"airlock/internal/sandbox"
	"airlock/internal/tool"
)

// runFlags are the flags of airlock run.
type runFlags struct {
	decisionFlags
	placeFlags
	json, tty, noTTY bool
	timeout          time.Duration
	heard            *heard // what the command writes is kept here too; nil: it is not
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
	f.placeFlags.add(fl)
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
	if err := p.admitRun(ctx, f, req); err != nil {
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
	return p.endSettled(rep.code, settled)
}

// admitRun asks the gate about a command that somebody typed. In a sandbox nothing but a
// policy's rule speaks against it: where there is no policy, nothing needs to be judged.
func (p *Program) admitRun(ctx context.Context, f *runFlags, req *executor.Request) error {
	if p.Gate.OnlyBuiltin(req.WorkDir) {
		return nil
	}
	q := lineQuestion(tool.InSandbox, req.WorkDir, shellLine(req.Argv), req.Env)
	j, err := p.Gate.Admit(ctx, q)
	refused, ok := errors.AsType[*tool.RefusedError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return fail(exitFailed, err)
	}
	if log, err := p.record(); err != nil {
		return err
	} else if err := log.Record(ctx, rowRefused, sandbox.NewID(), &refusedRow{req.Argv, req.WorkDir, j.Verdict, j.Risk, j.Rule, j.Why}); err != nil {
		return fail(exitFailed, err)
	}
	if f.json {
		rep := &runReport{out: &executor.Outcome{}, code: exitRefused, failure: refused, capture: &captured{}}
		if err := p.printJSON(rep.object()); err != nil {
			return err
		}
	}
	return fail(exitRefused, refused)
}

// shellLine is a command as it would be typed into a shell.
func shellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
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
	recorded := p.trail(ctx, req)
	out, err := p.Runner.Run(ctx, req)
	s.restore()
	rep := &runReport{out: out, asking: s.interactive && !f.json, quiet: f.json, screen: s.screen, capture: s.captured}
	if f.heard != nil { // in a session, whose questions have the same letters
		rep.decide = p.decideInSession
	}
	if err == nil {
		rep.code = exitOf(out)
		rep.noteUnrecorded(recorded.end(ctx, rep, nil))
		return rep, nil
	}
	rep.out, rep.code = &executor.Outcome{}, exitFailed
	rep.failure = err
	if code := signals.code(); code != 0 && (errors.Is(err, context.Canceled) || errors.Is(err, executor.ErrSignaled)) {
		rep.code, rep.failure = code, fmt.Errorf("ended by %s", signals.name())
		err = nil // who sent it knows
	}
	err = errors.Join(err, recorded.end(ctx, rep, rep.failure))
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
	switch {
	case f.timeout < 0:
		return nil, usage("--timeout %s: it is negative", f.timeout)
	case f.tty && f.noTTY:
		return nil, usage("--tty and --no-tty exclude one another")
	case argv[0] == "":
		return nil, usage("the command is empty")
	}
	place, err := p.place(&f.placeFlags)
	if err != nil {
		return nil, err
	}
	return &executor.Request{
		Argv: argv, WorkDir: place.WorkDir, Env: place.Env, Timeout: f.timeout, Limits: place.Limits,
		Hide: place.Hide, Show: place.Show, ReadOnly: place.ReadOnly,
	}, nil
}
