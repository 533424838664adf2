package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox/manager"
)

func (p *Program) commitCmd() *cobra.Command {
	var asJSON, force, dry bool
	cmd := &cobra.Command{
		Use:   "commit ID [PATH…]",
		Short: "Let a kept change set out to the host, or some paths of it",
		Long: `Let the changes below the working folder out to the host, or those at and below each
PATH, which may lie outside the working folder.

A path that has changed on the host since the sandbox saw it is a conflict: nothing is
committed then, and every such path is named. What a commit replaces is kept, and
airlock undo puts it back. A commit that was interrupted is finished by doing it again.

A sandbox that lives goes on: what was let out is no change any more, and what it changes
later is the next commit's.`,
		Args:              takes(1, math.MaxInt, "say which change set: airlock commit ID [PATH…]; airlock changes lists them"),
		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			if force && len(args) == 1 {
				return usage("--force is for conflicts that you name: airlock commit --force %s PATH…; airlock commit without it names them", printable(args[0]))
			}
			store, err := p.open()
			if err != nil {
				return err
			}
			paths, err := absolute(args[1:])
			if err != nil {
				return err
			}
			wish := &commitWish{paths: paths, force: force, dry: dry, quiet: asJSON || dry, row: &decisionRow{Paths: paths, Force: force}}
			rep, err := p.commitFresh(cmd.Context(), store, args[0], wish)
			if err != nil {
				return ofSet(err)
			}
			if asJSON {
				return p.printJSON(rep)
			}
			p.tellCommit(rep, dry)
			if len(rep.Committed) == 0 && len(rep.Left) > 0 {
				return fail(exitGeneral, nil)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&force, "force", false, "commit the named paths over conflicts; what is overwritten is kept for undo")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check everything, change nothing")
	return cmd
}

// A commitWish says what to commit of a set.
type commitWish struct {
	paths      []changes.Path // none: all of the work
	force, dry bool
	quiet      bool // nobody is asked
	row        *decisionRow
}

// commitFresh commits a set, read anew where its sandbox lives.
func (p *Program) commitFresh(ctx context.Context, store *changes.Store, arg string, wish *commitWish) (rep *changes.CommitReport, err error) {
	id, info, err := p.which(ctx, store, arg)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return p.commitSet(ctx, store, id, wish)
	}
	err = p.holding(ctx, id, "commit", func(ctx context.Context, _ *manager.Manager, box *manager.Box) error {
		if _, err := p.Runner.Living(ctx, box.Lasting, LivedOf(&box.Info)); err != nil && !errors.Is(err, changes.ErrInterrupted) {
			return err
		}
		rep, err = p.commitSet(ctx, store, id, wish)
		return err
	})
	return rep, err
}

// commitSet commits a set as it was read, past the gate and into the record.
func (p *Program) commitSet(ctx context.Context, store *changes.Store, id string, wish *commitWish) (rep *changes.CommitReport, err error) {
	named, err := p.named(ctx, store, id, wish.paths, wish.quiet, nil)
	if err != nil {
		return nil, err
	}
	do := func() (*decisionResult, error) {
		var err error
		rep, err = store.Commit(ctx, id, &changes.CommitOptions{Paths: wish.paths, Force: wish.force, DryRun: wish.dry, Refuse: p.refuse(ctx, store, named, nil)})
		return commitResult(rep), err
	}
	if wish.dry { // which changes nothing
		_, err = do()
	} else {
		err = p.recorded(ctx, rowCommit, id, wish.row, do)
	}
	return rep, err
}

// commitCode is 1 where a person has to decide, and 125 where airlock failed.
func commitCode(err error) int {
	if _, ok := errors.AsType[*changes.ConflictError](err); ok {
		return exitGeneral
	}
	for _, theirs := range []error{
		changes.ErrNoMatch, changes.ErrRefused, changes.ErrNotUndoable, changes.ErrNotFound, changes.ErrAmbiguous,
		changes.ErrBusy, changes.ErrState, changes.ErrInterrupted, executor.ErrOwnFiles,
	} {
		if errors.Is(err, theirs) {
			return exitGeneral
		}
	}
	return exitFailed
}

// tellCommit says what a commit did, or after a dry run would do.
func (p *Program) tellCommit(rep *changes.CommitReport, dry bool) {
	if len(rep.Committed) == 0 && len(rep.Left) > 0 {
		p.say("nothing was committed: what was asked for is left out")
		p.tellLeft(rep)
		return
	}
	if len(rep.Committed) == 0 && rep.Remaining == 0 {
		p.say("there is nothing left to commit in the working folder (airlock changes --all %s lists what is elsewhere)", rep.ID)
		p.tellLeft(rep)
		return
	}
	text := "committed "
	if dry {
		text = "would commit "
	}
	text += plural(len(rep.Committed), "change")
	if rep.Remaining > 0 {
		text += fmt.Sprintf(", %d left", rep.Remaining)
	}
	if !dry && len(rep.Committed) > 0 {
		text += fmt.Sprintf(" (airlock undo %s takes it back)", rep.ID)
	}
	p.say("%s", text)
	p.tellLeft(rep)
}

// tellLeft says what was not committed, and what else a person must see.
func (p *Program) tellLeft(rep *changes.CommitReport) {
	for _, l := range rep.Left {
		fmt.Fprintf(p.Stderr, "  left out  %s: %s\n", printable(string(l.Path)), printable(l.Reason))
	}
	p.tellNotes(rep.Notes)
}

func (p *Program) tellNotes(notes []changes.Note) {
	for _, n := range notes {
		fmt.Fprintf(p.Stderr, "  note      %s: %s\n", printable(string(n.Path)), printable(n.Text))
	}
}

func (p *Program) discardCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "discard ID…",
		Short: "Throw kept change sets away",
		Long: `Throw the contents of kept change sets away. They cannot be committed afterwards; their
list of changes stays, for airlock changes --all. A sandbox that lives begins anew over the
files as they are, with what ran in it ended.`,
		Args:              takes(1, math.MaxInt, "say which change sets: airlock discard ID…; airlock changes lists them"),
		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := p.open()
			if err != nil {
				return err
			}
			for _, arg := range args {
				if err := p.discardSet(cmd.Context(), store, arg); err != nil {
					return ofSet(err)
				}
			}
			return nil
		},
	}
}

func (p *Program) discardSet(ctx context.Context, store *changes.Store, arg string) error {
	discard := store.Discard
	id, info, err := p.which(ctx, store, arg)
	if err != nil && slices.Contains(damaged(store), arg) {
		id, err, discard = arg, nil, store.Remove
	}
	switch {
	case err != nil:
		return err
	case info != nil:
		if err := p.discardLiving(ctx, store, id); err != nil {
			return err
		}
		p.say("discarded what %s changed; it began anew", id)
		return nil
	}
	err = p.recorded(ctx, rowDiscard, id, &decisionRow{}, func() (*decisionResult, error) {
		return &decisionResult{State: changes.Discarded}, discard(id)
	})
	if err != nil {
		return err
	}
	p.say("discarded %s", id)
	return nil
}

// damaged are the sets that cannot be read any more: they are thrown away as a whole, by
// their whole ID.
func damaged(store *changes.Store) []string {
	ids, err := store.Damaged()
	if err != nil {
		return nil // what is wrong with the one that was named is said anyway
	}
	return ids
}
