package cli

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox/manager"
	"airlock/internal/surface/cli/live"
)

func (p *Program) sandboxStatsCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "stats [ID…]",
		Short: "Memory, processor, processes, disk and connections of sandboxes",
		Long: `Show what sandboxes use: those that are named, or all that live. -f shows it again and
again on a terminal, with the share of a processor, until Ctrl-C.`,
		ValidArgsFunction: p.completeSandboxes,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "again and again, until Ctrl-C")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if follow && *asJSON {
			return p.ends(cmd.Context(), true, usage("--follow and --json exclude one another: --json is one value"))
		}
		if follow {
			return p.followStats(cmd.Context(), args)
		}
		return p.statsOnce(cmd.Context(), args, *asJSON)
	}
	return cmd
}

func (p *Program) statsOnce(ctx context.Context, args []string, asJSON bool) error {
	m, err := p.boxes()
	if err != nil {
		return p.ends(ctx, asJSON, err)
	}
	list, failed, err := p.stats(ctx, m, args)
	switch {
	case err != nil:
		return p.ends(ctx, asJSON, err)
	case asJSON:
		all := []any{}
		for i := range list {
			all = append(all, &list[i])
		}
		for i := range failed {
			all = append(all, &failed[i])
		}
		err = p.printJSON(all)
	case len(list) == 0 && len(failed) == 0:
		_, err = fmt.Fprintln(p.Stdout, noSandboxes)
	case len(list) > 0:
		err = p.show(statsTable(list, nil, 0))
	}
	if err == nil && len(failed) > 0 {
		return fail(exitFailed, nil)
	}
	return err
}

// stats asks for those that were named, one that fails beside the others.
func (p *Program) stats(ctx context.Context, m *manager.Manager, args []string) ([]manager.Stat, []failure, error) {
	if len(args) == 0 {
		list, err := m.Stats(ctx)
		return list, nil, err
	}
	var ids []string
	var failed []failure
	for _, arg := range args {
		info, err := m.Find(ctx, arg)
		if err != nil {
			err = p.explainBox(ctx, err)
			p.say("%s: %v", printable(arg), err)
			failed = append(failed, failure{ID: printable(arg), Error: err.Error()})
			continue
		}
		ids = append(ids, info.ID)
	}
	if len(ids) == 0 {
		return nil, failed, nil
	}
	list, err := m.Stats(ctx, ids...)
	return list, failed, err
}

// statsTable is how sandboxes are. With what they were a while ago it has their share of a processor.
func statsTable(list []manager.Stat, before map[string]time.Duration, passed time.Duration) *table {
	t := &table{titles: []string{"ID", "STATE", " MEMORY", " CPU", " PROCESSES", " COMMANDS", " DISK", " CONNECTIONS", " IDLE"}}
	for i := range list {
		s := &list[i]
		if s.Status == nil {
			t.add(s.ID, printable(s.State), "-", "-", "-", "-", "-", "-", "-")
			continue
		}
		cpu := s.Status.CPU.Round(10 * time.Millisecond).String()
		if old, ok := before[s.ID]; ok && passed > 0 {
			cpu = fmt.Sprintf("%.1f%%", 100*float64(s.Status.CPU-old)/float64(passed))
		}
		if s.Status.CPU < 0 {
			cpu = "-"
		}
		t.add(s.ID, printable(s.State), bytesText(s.Status.Memory), cpu, countText(s.Status.Processes), countText(int64(s.Status.Commands)),
			bytesText(s.Status.Disk), countText(int64(s.Status.Calls)), firstOf(idleText(s.Status.Idle), "-"))
	}
	return t
}

// statsEvery is the time between two looks.
const statsEvery = time.Second

// followStats shows them again and again, in one place on a terminal and one below the other elsewhere.
func (p *Program) followStats(ctx context.Context, args []string) error {
	ctx, signals := endOnSignal(ctx)
	defer signals.stop()
	m, err := p.boxes()
	if err != nil {
		return p.ends(ctx, false, err)
	}
	ticks := time.NewTicker(statsEvery)
	defer ticks.Stop()
	var now atomic.Pointer[[]string] // what stands on the terminal
	now.Store(&[]string{"…"})
	if isTerminal(p.Stdout) && os.Getenv("TERM") != "dumb" {
		region := live.Start(p.Stdout, columns(p.Stdout), rows(p.Stdout), func(int) []string { return *now.Load() })
		defer region.End()
	}
	before, at := map[string]time.Duration{}, time.Now()
	for {
		list, failed, err := p.stats(ctx, m, args)
		if err == nil && len(failed) > 0 {
			return fail(exitFailed, nil)
		}
		if err != nil {
			return p.interrupted(ctx, signals, false, err)
		}
		t := statsTable(list, before, time.Since(at))
		lines := t.lines(columns(p.Stdout))
		now.Store(&lines)
		if !isTerminal(p.Stdout) {
			if err := p.show(t); err != nil {
				return err
			}
		}
		before, at = map[string]time.Duration{}, time.Now()
		for i := range list {
			if list[i].Status != nil {
				before[list[i].ID] = list[i].Status.CPU
			}
		}
		select {
		case <-ctx.Done():
			return fail(signals.code(), nil)
		case <-ticks.C:
		}
	}
}
