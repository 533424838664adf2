package cli

import (
	"context"
	"fmt"

	"airlock/internal/changes"
)

// settle decides on a run's changes, if there are any, carries that out and says what
// became of them. Its errors are a commit's: the changes are kept then.
func (p *Program) settle(ctx context.Context, store *changes.Store, rep *runReport, wish decision) error {
	set := rep.out.Set
	if set == nil || len(set.Changes) == 0 {
		return nil
	}
	seen := circumstances{wish: wish, code: rep.code, asking: rep.asking, work: set.Work, outside: set.Outside}
	choice := seen.decide()
	if choice != discard || set.Work+set.Outside > 0 {
		p.tellChanges(rep, choice)
	}
	asked := choice == undecided
	switch {
	case asked && rep.decide != nil:
		choice = rep.decide(ctx, func() error { return p.showDiff(ctx, store, set, p.Stderr) })
	case asked:
		choice = p.askAbout(ctx, store, set)
	}
	row := &decisionRow{By: decidedBy(wish, asked)}
	switch choice {
	case commit:
		return p.commitRun(ctx, store, rep, row)
	case discard:
		return p.discardRun(ctx, store, rep, row)
	default:
		if err := p.noteKept(ctx, set.ID, row); err != nil {
			rep.failure = err
			return err
		}
		if rep.quiet {
			return nil
		}
		path := ""
		if set.Work == 0 {
			path = " PATH"
		}
		p.say("kept as %s (airlock commit %s%s lets it out, airlock discard %s throws it away)", set.ID, set.ID, path, set.ID)
		return nil
	}
}

// endSettled ends a command whose changes were settled, with its own code where that is not 0.
func (p *Program) endSettled(code int, settled error) error {
	switch {
	case code != 0:
		if settled != nil {
			p.complain(explainSet(settled))
		}
		return fail(code, nil)
	case settled != nil:
		return fail(commitCode(settled), explainSet(settled))
	}
	return nil
}

// tellChanges lists what was changed. What is only beside the work takes one line.
// Standard error may be closed; what is decided does not depend on it.
func (p *Program) tellChanges(rep *runReport, choice decision) {
	set := rep.out.Set
	rep.screen.tidy(p.Stderr)
	switch {
	case rep.quiet:
	case set.Work > 0:
		if choice == undecided {
			fmt.Fprintf(p.Stderr, "\nChanged in %s:\n", printable(string(set.WorkDir)))
		}
		_ = changes.List(p.Stderr, set, &changes.ListOptions{Color: p.color(p.Stderr)})
		if choice == undecided {
			fmt.Fprintln(p.Stderr)
		}
		if choice == undecided && rep.showDiff != nil {
			rep.showDiff()
		}
	case set.Outside > 0:
		p.say("nothing changed in the working folder, but %s elsewhere (airlock changes --all %s lists them)", plural(set.Outside, "change"), set.ID)
	}
}

// askAbout asks what is to become of changes that have been listed.
func (p *Program) askAbout(ctx context.Context, store *changes.Store, set *changes.Set) decision {
	ctx, stop := interruptible(ctx)
	defer stop()
	in, done := answers(ctx, p.Stdin)
	defer done()
	return ask(in, p.Stderr, func() error { return p.showDiff(ctx, store, set, p.Stderr) })
}

func (p *Program) commitRun(ctx context.Context, store *changes.Store, rep *runReport, row *decisionRow) error {
	id := rep.out.Set.ID
	named, err := p.named(ctx, store, id, nil, !rep.asking, rep.guard)
	if err != nil {
		return err
	}
	var done *changes.CommitReport
	err = p.recorded(ctx, rowCommit, id, row, func() (*decisionResult, error) {
		var err error
		done, err = store.Commit(ctx, id, &changes.CommitOptions{Refuse: p.refuse(ctx, store, named, rep.guard)})
		return commitResult(done), err
	})
	if err != nil && done != nil && len(done.Committed) > 0 { // it was done, but not recorded
		rep.failure, rep.state = err, done.State
		return err
	}
	if err != nil {
		rep.failure = err
		p.say("nothing was committed; the changes are kept as %s", id)
		return err
	}
	rep.state = done.State
	if !rep.quiet {
		p.tellCommit(done, false)
		return nil
	}
	p.tellLeft(done)
	return nil
}

func (p *Program) discardRun(ctx context.Context, store *changes.Store, rep *runReport, row *decisionRow) error {
	set := rep.out.Set
	err := p.recorded(ctx, rowDiscard, set.ID, row, func() (*decisionResult, error) {
		if err := store.Remove(set.ID); err != nil {
			return nil, fmt.Errorf("discard %s: %w", set.ID, err)
		}
		return &decisionResult{State: changes.Discarded}, nil
	})
	if err != nil {
		return err
	}
	rep.state = changes.Discarded
	if set.Work+set.Outside > 0 && !rep.quiet {
		p.say("discarded")
	}
	return nil
}
