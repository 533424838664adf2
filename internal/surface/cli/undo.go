package cli

import (
	"context"

	"github.com/spf13/cobra"

	"airlock/internal/changes"
	"airlock/internal/sandbox/manager"
)

func (p *Program) undoCmd() *cobra.Command {
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "undo [ID]",
		Short: "Put back what a commit replaced, by default the last one",
		Long: `Put back what the last commit of a change set replaced, and remove what it added. A
path that has changed since is refused by name; --force undoes it all the same and keeps
its present state. The change set is kept afterwards: airlock commit lets it out again.`,
		Args:              takes(0, 1, "airlock undo takes one change set's last commit back; write airlock undo [ID]"),
		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := p.open()
			if err != nil {
				return err
			}
			id := ""
			if len(args) == 1 {
				id = args[0]
			} else if id, err = store.LastCommitted(); err != nil {
				return ofSet(err)
			}
			rep, live, err := p.undo(cmd.Context(), store, id, force)
			if err != nil {
				return ofSet(err)
			}
			if asJSON {
				return p.printJSON(rep)
			}
			if live {
				p.say("undid %s; the sandbox %s goes on with what it has (airlock commit %s lets it out again)",
					plural(len(rep.Undone), "change"), rep.ID, rep.ID)
			} else {
				p.say("undid %s; kept as %s (airlock commit %s lets it out again)",
					plural(len(rep.Undone), "change"), rep.ID, rep.ID)
			}
			p.tellNotes(rep.Notes)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&force, "force", false, "undo paths that have changed since as well; their present state is kept")
	return cmd
}

// undo takes the last commit of a set back, and says whether its sandbox lives.
func (p *Program) undo(ctx context.Context, store *changes.Store, arg string, force bool) (rep *changes.UndoReport, live bool, err error) {
	id, info, err := p.which(ctx, store, arg)
	if err != nil {
		return nil, false, err
	}
	do := func(ctx context.Context) error {
		return p.recorded(ctx, rowUndo, id, &decisionRow{Force: force}, func() (*decisionResult, error) {
			var err error
			rep, err = store.Undo(ctx, id, &changes.UndoOptions{Force: force})
			return undoResult(rep), err
		})
	}
	if info == nil {
		err = do(ctx)
		return rep, false, err
	}
	err = p.holding(ctx, id, "undo", func(ctx context.Context, _ *manager.Manager, _ *manager.Box) error { return do(ctx) })
	return rep, true, err
}
