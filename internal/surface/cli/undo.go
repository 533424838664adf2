package cli

import (
	"github.com/spf13/cobra"

	"airlock/internal/changes"
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
				if id, err = store.Resolve(args[0]); err != nil {
					return fail(commitCode(err), explainSet(err))
				}
			} else if id, err = store.LastCommitted(); err != nil {
				return fail(commitCode(err), explainSet(err))
			}
			var rep *changes.UndoReport
			err = p.recorded(cmd.Context(), rowUndo, id, &decisionRow{Force: force}, func() (*decisionResult, error) {
				var err error
				rep, err = store.Undo(cmd.Context(), id, &changes.UndoOptions{Force: force})
				return undoResult(rep), err
			})
			if err != nil {
				return fail(commitCode(err), explainSet(err))
			}
			if asJSON {
				return p.printJSON(rep)
			}
			p.say("undid %s; kept as %s (airlock commit %s lets it out again)",
				plural(len(rep.Undone), "change"), rep.ID, rep.ID)
			p.tellNotes(rep.Notes)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&force, "force", false, "undo paths that have changed since as well; their present state is kept")
	return cmd
}
