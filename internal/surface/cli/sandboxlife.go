package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox/manager"
)

// stateObject is what pause, resume and rm print of each sandbox.
type stateObject struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Changes string `json:"changes,omitempty"` // what became of them
}

func (p *Program) sandboxPauseCmd() *cobra.Command {
	return p.stateCmd("pause", "Freeze sandboxes: they take no processor time, and keep their memory", manager.Paused,
		func(ctx context.Context, m *manager.Manager, id string) error { return m.Pause(ctx, id) })
}

func (p *Program) sandboxResumeCmd() *cobra.Command {
	return p.stateCmd("resume", "Let paused sandboxes go on", manager.Ready,
		func(ctx context.Context, m *manager.Manager, id string) error { return m.Resume(ctx, id) })
}

// stateCmd is a command that brings sandboxes into a state.
func (p *Program) stateCmd(verb, short, state string, do func(ctx context.Context, m *manager.Manager, id string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:               verb + " ID…",
		Short:             short,
		Long:              short + ". One that is so already stays so.",
		Args:              takes(1, anyNumber, "say which: airlock sandbox "+verb+" ID…; airlock sandbox list shows those there are"),
		ValidArgsFunction: p.completeSandboxes,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = eachIn(p, p.boxes, asJSON, func(ctx context.Context, m *manager.Manager, arg string) (any, error) {
		info, err := m.Find(ctx, arg)
		if err != nil {
			return nil, err
		}
		if err := do(ctx, m, info.ID); err != nil {
			return nil, err
		}
		if !*asJSON {
			_, err = fmt.Fprintln(p.Stdout, info.ID)
		}
		return &stateObject{ID: info.ID, State: state}, err
	})
	return cmd
}

func (p *Program) sandboxPruneCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove what nobody uses: images, records of ended sandboxes, leftovers",
		Long: `Remove what nobody uses: the records of sandboxes that have ended, what commands that were
ended left behind, and images that no sandbox, snapshot or template has. Sandboxes that
live, snapshots and templates stay.`,
		Args:              takes(0, 0, "airlock sandbox prune takes no arguments; airlock sandbox rm ID removes a sandbox"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		removed, freed, err := p.prune(cmd.Context())
		if *asJSON {
			o := &pruneObject{Removed: removed, Bytes: freed}
			if err != nil {
				o.Error = err.Error()
			}
			if told := p.printJSON(o); told != nil {
				return told
			}
		} else if told := p.tellRemoved(removed, freed); told != nil {
			return told
		}
		if err != nil {
			return fail(exitFailed, err)
		}
		return nil
	}
	return cmd
}

type pruneObject struct {
	Removed []string `json:"removed"` // sentences for the person
	Bytes   int64    `json:"bytes"`   // of images
	Error   string   `json:"error,omitempty"`
}

// prune removes what nobody uses, as far as it comes.
func (p *Program) prune(ctx context.Context) (removed []string, freed int64, err error) {
	m, err := p.boxes()
	if err != nil {
		return []string{}, 0, err
	}
	done, err := m.Prune(ctx)
	removed = append([]string{}, done...)
	store, imagesErr := p.images()
	if imagesErr != nil {
		return removed, 0, errors.Join(err, imagesErr)
	}
	pruned, imagesErr := store.Prune(ctx)
	if pruned != nil {
		removed = append(removed, prunedTexts(pruned)...)
		freed = pruned.Bytes
	}
	return removed, freed, errors.Join(err, imagesErr)
}

// tellRemoved says what was removed.
func (p *Program) tellRemoved(removed []string, freed int64) error {
	text := "Nothing to remove.\n"
	if len(removed) > 0 {
		text = ""
	}
	for _, r := range removed {
		text += "removed " + printable(r) + "\n"
	}
	if freed > 0 {
		text += bytesText(freed) + " freed\n"
	}
	return p.write(text)
}
