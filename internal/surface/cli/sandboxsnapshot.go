package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox/manager"
)

func (p *Program) sandboxSnapshotCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "snapshot ID",
		Short: "Save a sandbox's memory and files, and print the snapshot's name",
		Long: `Save a sandbox's memory and files, and print the snapshot's name. The sandbox goes on;
airlock sandbox restore makes others that go on from where it was. Where a state cannot be
saved, the reason is said and nothing has happened.`,
		Example: `  airlock sandbox snapshot ID --name loaded
  airlock sandbox restore loaded`,
		Args:              takes(1, 1, "say which sandbox: airlock sandbox snapshot ID [--name NAME]"),
		ValidArgsFunction: p.completeSandbox,
	}
	cmd.Flags().StringVar(&name, "name", "", "what to call it (default: a name that makes room when there are too many)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		snap, err := p.snapshot(ctx, args[0], name)
		switch {
		case err != nil:
			return p.interrupted(ctx, signals, *asJSON, err)
		case *asJSON:
			return p.printJSON(snap)
		}
		return p.writeLine(printable(snap.Name))
	}
	return cmd
}

func (p *Program) snapshot(ctx context.Context, id, name string) (*manager.Snapshot, error) {
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	info, err := m.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.Snapshot(ctx, info.ID, name)
}

func (p *Program) sandboxSnapshotsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "snapshots",
		Short:   "The snapshots there are",
		Long:    "List the snapshots there are; with inspect and rm, show and remove them.",
		Example: "  airlock sandbox snapshots\n  airlock sandbox snapshots rm old older",
		Args:    noSuchSubcommand,
	}
	p.listSnapshots(cmd)
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List them",
		Args:              takes(0, 0, "airlock sandbox snapshots list takes no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.listSnapshots(list)
	cmd.AddCommand(list, p.snapshotInspectCmd(), p.snapshotRmCmd())
	return cmd
}

// listSnapshots makes a command list the snapshots.
func (p *Program) listSnapshots(cmd *cobra.Command) {
	snapshots := listing[manager.Snapshot]{
		none:   "No snapshots. airlock sandbox snapshot ID makes one.",
		name:   func(s *manager.Snapshot) string { return printable(s.Name) },
		titles: []string{"NAME", " AGE", " SIZE", "OF", "OVER"},
		row: func(s *manager.Snapshot, now time.Time) []string {
			return []string{printable(s.Name), since(s.Created, now), bytesText(s.Size), printable(s.Sandbox.ID), baseText(&s.Sandbox)}
		},
	}
	snapshots.of(p, cmd, "names alone, one a line", p.snapshots)
}

func (p *Program) snapshots(ctx context.Context) ([]manager.Snapshot, error) {
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	return m.Snapshots(ctx)
}

func (p *Program) snapshotInspectCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect NAME",
		Short:             "Show what is known of one, as JSON",
		Args:              takes(1, 1, "say which: airlock sandbox snapshots inspect NAME"),
		ValidArgsFunction: p.completeSnapshots(1),
	}
	p.inspects(cmd, func(ctx context.Context, m *manager.Manager, name string) (any, error) {
		return m.InspectSnapshot(ctx, name)
	})
	return cmd
}

// inspects makes a command show what is known of something that has a name.
func (p *Program) inspects(cmd *cobra.Command, inspect func(ctx context.Context, m *manager.Manager, name string) (any, error)) {
	_ = jsonFlag(cmd) // it is JSON with and without it
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := p.boxes()
		if err != nil {
			return p.ends(cmd.Context(), true, err)
		}
		known, err := inspect(cmd.Context(), m, args[0])
		if err != nil {
			return p.ends(cmd.Context(), true, err)
		}
		return p.printJSON(known)
	}
}

func (p *Program) snapshotRmCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "rm NAME…",
		Short:             "Remove snapshots; sandboxes that were made from them go on",
		Args:              takes(1, anyNumber, "say which: airlock sandbox snapshots rm NAME…"),
		ValidArgsFunction: p.completeSnapshots(anyNumber),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = eachIn(p, p.boxes, asJSON, func(ctx context.Context, m *manager.Manager, name string) (any, error) {
		if err := m.RemoveSnapshot(ctx, name); err != nil {
			return nil, err
		}
		return p.removed(name, *asJSON)
	})
	return cmd
}

// removedObject is what is printed of something with a name that is gone.
type removedObject struct {
	Name    string `json:"name"`
	Removed bool   `json:"removed"`
}

func (p *Program) removed(name string, asJSON bool) (any, error) {
	if asJSON {
		return &removedObject{name, true}, nil
	}
	_, err := fmt.Fprintln(p.Stdout, printable(name))
	return nil, err
}

func (p *Program) sandboxRestoreCmd() *cobra.Command {
	f := &sandboxFlags{}
	cmd := &cobra.Command{
		Use:   "restore NAME [flags]",
		Short: "Make a sandbox that goes on from a snapshot, and print its ID",
		Long: `Make a sandbox that goes on from a snapshot, its commands included, and print its ID.
Labels, times and limits are the snapshot's unless they are given.`,
		Example:           "  airlock sandbox restore loaded --ttl 1h --label try=2",
		Args:              takes(1, 1, "say from which snapshot: airlock sandbox restore NAME; airlock sandbox snapshots lists them"),
		ValidArgsFunction: p.completeSnapshots(1),
	}
	fl := cmd.Flags()
	f.addUse(fl)
	f.addLater(fl)
	p.completeFlags(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		info, err := p.restore(ctx, cmd, f, args[0])
		return p.made(ctx, signals, *asJSON, info, err)
	}
	return cmd
}

func (p *Program) restore(ctx context.Context, cmd *cobra.Command, f *sandboxFlags, name string) (*manager.Info, error) {
	req, err := f.later(cmd.Flags(), p.Environ)
	if err != nil {
		return nil, err
	}
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	snap, err := m.InspectSnapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	f.inherit(req, &snap.Sandbox)
	box, err := m.Restore(ctx, name, req)
	if err != nil {
		return nil, err
	}
	info := box.Info
	return &info, box.Release()
}

func (p *Program) sandboxForkCmd() *cobra.Command {
	f := &sandboxFlags{}
	var n int
	cmd := &cobra.Command{
		Use:   "fork ID [-n N] [flags]",
		Short: "Make sandboxes that go on from where one is, and print their IDs",
		Long: `Make N sandboxes that go on from where this one is, its running commands and their memory
included, and print their IDs. The sandbox itself goes on. What somebody waits for with exec
goes on in a fork as a command in the background.`,
		Example:           "  airlock sandbox fork ID -n 5",
		Args:              takes(1, 1, "say which sandbox: airlock sandbox fork ID [-n N]"),
		ValidArgsFunction: p.completeSandbox,
	}
	fl := cmd.Flags()
	fl.IntVarP(&n, "number", "n", 1, "how many")
	f.addUse(fl)
	p.completeFlags(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		list, err := p.fork(ctx, cmd, f, args[0], n)
		return p.forked(ctx, signals, *asJSON, list, err)
	}
	return cmd
}

func (p *Program) fork(ctx context.Context, cmd *cobra.Command, f *sandboxFlags, id string, n int) ([]manager.Info, error) {
	if n < 1 {
		return nil, usage("-n %d: at least one", n)
	}
	req, err := f.later(cmd.Flags(), p.Environ)
	if err != nil {
		return nil, err
	}
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	parent, err := m.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	f.inherit(req, parent)
	boxes, err := m.Fork(ctx, parent.ID, n, req)
	out := []manager.Info{}
	for _, box := range boxes {
		if box != nil {
			out = append(out, box.Info)
			_ = box.Release() // it goes on whatever that says
		}
	}
	return out, err
}

// forked says which sandboxes were made, also where others could not be.
func (p *Program) forked(ctx context.Context, signals *endSignals, asJSON bool, list []manager.Info, err error) error {
	if len(list) == 0 && err != nil {
		return p.interrupted(ctx, signals, asJSON, err)
	}
	if asJSON {
		all := []any{}
		for i := range list {
			all = append(all, &list[i])
		}
		if err != nil {
			all = append(all, &failure{Error: err.Error()})
		}
		if told := p.printJSON(all); told != nil {
			return told
		}
	} else {
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		if err := p.writeLine(strings.Join(ids, "\n")); err != nil {
			return err
		}
	}
	if err != nil {
		return fail(exitFailed, err)
	}
	return nil
}

// completeSnapshots completes the names of at most so many snapshots.
func (p *Program) completeSnapshots(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		now := time.Now()
		return completeFrom(cmd, p.snapshots, func(s *manager.Snapshot) []string {
			return []string{printable(s.Name) + "\t" + cut("of "+s.Sandbox.ID+", "+since(s.Created, now)+", "+bytesText(s.Size), 80)}
		})
	}
}
