package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"airlock/internal/changes"
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
airlock undo puts it back. A commit that was interrupted is finished by doing it again.`,
		Args:              takes(1, math.MaxInt, "say which change set: airlock commit ID [PATH…]; airlock changes lists them"),
		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := p.open()
			if err != nil {
				return err
			}
			paths, err := absolute(args[1:])
			if err != nil {
				return err
			}
			id, err := store.Resolve(args[0])
			if err != nil {
				return fail(commitCode(err), explainSet(err))
			}
			named, err := p.named(cmd.Context(), store, id, paths, asJSON || dry, nil)
			if err != nil {
				return fail(commitCode(err), explainSet(err))
			}
			var rep *changes.CommitReport
			do := func() (*decisionResult, error) {
				var err error
				rep, err = store.Commit(cmd.Context(), id, &changes.CommitOptions{Paths: paths, Force: force, DryRun: dry, Refuse: p.refuse(cmd.Context(), store, named, nil)})
				return commitResult(rep), err
			}
			if dry { // which changes nothing
				_, err = do()
			} else {
				err = p.recorded(cmd.Context(), rowCommit, id, &decisionRow{Paths: paths, Force: force}, do)
			}
			if err != nil {
				return fail(commitCode(err), explainSet(err))
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

// commitCode is 1 where a person has to decide, and 125 where airlock failed.
func commitCode(err error) int {
	if _, ok := errors.AsType[*changes.ConflictError](err); ok {
		return exitGeneral
	}
	for _, theirs := range []error{
		changes.ErrNoMatch, changes.ErrRefused, changes.ErrNotUndoable, changes.ErrNotFound, changes.ErrAmbiguous,
		changes.ErrBusy, changes.ErrState, changes.ErrInterrupted,
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
list of changes stays, for airlock changes --all.`,
		Args:              takes(1, math.MaxInt, "say which change sets: airlock discard ID…; airlock changes lists them"),
		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := p.open()
			if err != nil {
				return err
			}
			for _, arg := range args {
				discard := store.Discard
				id, err := store.Resolve(arg)
				if err != nil && slices.Contains(damaged(store), arg) {
					id, err, discard = arg, nil, store.Remove
				}
				if err == nil {
					err = p.recorded(cmd.Context(), rowDiscard, id, &decisionRow{}, func() (*decisionResult, error) {
						return &decisionResult{State: changes.Discarded}, discard(id)
					})
				}
				if err != nil {
					return fail(commitCode(err), explainSet(err))
				}
				p.say("discarded %s", id)
			}
			return nil
		},
	}
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
