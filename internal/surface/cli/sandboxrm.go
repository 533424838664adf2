package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox/manager"
)

// rmParallel is how many sandboxes are ended at once, where nobody is asked about them.
const rmParallel = 4

func (p *Program) sandboxRmCmd() *cobra.Command {
	var f decisionFlags
	var all, asJSON bool
	var labels []string
	cmd := &cobra.Command{
		Use:     "rm [flags] ID…",
		Aliases: []string{"remove"},
		Short:   "End sandboxes, and decide on their changes",
		Long: `End sandboxes, with all that runs in them. What one laid over this machine's files has
changed is let out with --commit, kept with --keep, thrown away with --discard; on a
terminal you are asked where there is something to decide, and otherwise it is thrown away.
A sandbox whose changes were to be let out and could not be is not removed.`,
		Example: `  airlock sandbox rm ID --commit
  airlock sandbox rm --all --label job=17 --discard`,
		ValidArgsFunction: p.completeSandboxes,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && !all:
				return usage("say which: airlock sandbox rm ID…, or --all; airlock sandbox list shows those there are")
			case len(args) > 0 && all:
				return usage("--all is all that live; leave out the IDs")
			case len(labels) > 0 && !all:
				return usage("--label chooses among all: write --all, too")
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.commit, "commit", false, "let the changes in the working folder out first")
	fl.BoolVar(&f.keep, "keep", false, "keep the changes for airlock changes, commit or discard")
	fl.BoolVar(&f.discard, "discard", false, "throw the changes away (the default without a terminal)")
	fl.BoolVarP(&all, "all", "a", false, "all that live")
	fl.StringArrayVarP(&labels, "label", "l", nil, "with --all: only those that are marked KEY=VALUE; may be repeated")
	fl.BoolVar(&asJSON, "json", false, "print one JSON value")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		if err := p.rm(ctx, f, args, all, labels, asJSON); err != nil {
			return p.interrupted(ctx, signals, asJSON, err)
		}
		return nil
	}
	return cmd
}

func (p *Program) rm(ctx context.Context, f decisionFlags, args []string, all bool, labels []string, asJSON bool) error {
	wish, err := f.wish()
	if err != nil {
		return err
	}
	m, err := p.boxes()
	if err != nil {
		return err
	}
	if all {
		list, err := p.listBoxes(ctx, false, labels)
		if err != nil {
			return err
		}
		for i := range list {
			args = append(args, list[i].ID)
		}
	}
	atOnce := rmParallel
	if !asJSON && p.interactive() || wish == commit { // one question, or one commit, after the other
		atOnce = 1
	}
	return p.eachOf(ctx, args, asJSON, atOnce, func(ctx context.Context, arg string) (any, error) {
		info, err := m.Find(ctx, arg)
		if err != nil {
			return nil, err
		}
		if !info.Alive() {
			return nil, &manager.Gone{ID: info.ID, Reason: info.Reason, Text: info.Error}
		}
		became, err := p.endBox(ctx, info.ID, wish, asJSON)
		if err != nil {
			return nil, err
		}
		if !asJSON {
			_, err = fmt.Fprintln(p.Stdout, info.ID)
		}
		return &stateObject{ID: info.ID, State: manager.Destroyed, Changes: string(became)}, err
	})
}
