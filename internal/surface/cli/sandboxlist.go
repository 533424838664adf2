package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox/manager"
)

func (p *Program) sandboxListCmd() *cobra.Command {
	var all, quiet bool
	var labels []string
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "List the sandboxes that live",
		Long:    "List the sandboxes that live; --all lists those that ended within a day, too, and why.",
		Example: `  airlock sandbox list --label team=web
  airlock sandbox rm $(airlock sandbox list --quiet)`,
		Args:              takes(0, 0, "airlock sandbox list takes no arguments; airlock sandbox inspect ID shows one"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	fl.BoolVarP(&all, "all", "a", false, "those that ended lately, too")
	fl.BoolVarP(&quiet, "quiet", "q", false, "IDs alone, one a line")
	fl.StringArrayVarP(&labels, "label", "l", nil, "only those that are marked KEY=VALUE; may be repeated")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if quiet && *asJSON {
			return p.ends(cmd.Context(), true, usage("--quiet and --json exclude one another"))
		}
		list, err := p.listBoxes(cmd.Context(), all, labels)
		if err != nil {
			return p.ends(cmd.Context(), *asJSON, err)
		}
		return boxListing().show(p, list, *asJSON, quiet)
	}
	return cmd
}

func (p *Program) listBoxes(ctx context.Context, all bool, labels []string) ([]manager.Info, error) {
	want, err := manager.ParseLabels(labels)
	if err != nil {
		return nil, err
	}
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	return m.List(ctx, &manager.Filter{All: all, Labels: want})
}

// noSandboxes is what is said where there are none.
const noSandboxes = "No sandboxes. airlock sandbox create makes one."

func boxListing() *listing[manager.Info] {
	return &listing[manager.Info]{
		none:   noSandboxes,
		name:   func(i *manager.Info) string { return i.ID },
		titles: []string{"ID", "STATE", " AGE", " MEMORY", " COMMANDS", "OVER", "LABELS"},
		row: func(i *manager.Info, now time.Time) []string {
			memory, commands := "-", "-"
			if st := i.Status; st != nil {
				memory, commands = bytesText(st.Memory), countText(int64(st.Commands))
			}
			return []string{i.ID, stateText(i), since(i.Created, now), memory, commands, baseText(i), labelsText(i.Labels)}
		},
	}
}

// stateText is a sandbox's state, and why it has ended.
func stateText(i *manager.Info) string {
	switch {
	case i.State == manager.Destroyed && i.Reason != "":
		return printable(i.Reason)
	case i.State == manager.Ready && i.Error != "":
		return "no answer"
	}
	return printable(i.State)
}

// baseText says what a sandbox is laid over.
func baseText(i *manager.Info) string {
	if i.Image != "" {
		return printable(i.Image)
	}
	return printable(i.WorkDir)
}

func (p *Program) sandboxInspectCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect ID…",
		Short:             "Show everything known of sandboxes",
		Args:              takes(1, anyNumber, "say which: airlock sandbox inspect ID…; airlock sandbox list shows those there are"),
		ValidArgsFunction: p.completeSandboxes,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = eachIn(p, p.boxes, asJSON, func(ctx context.Context, m *manager.Manager, id string) (any, error) {
		info, err := m.Inspect(ctx, id)
		if err == nil && !*asJSON {
			err = p.showBox(info)
		}
		return info, err
	})
	return cmd
}

// A fact is a line of what is known; one without a text is left out.
type fact struct{ name, text string }

// showBox writes what is known of a sandbox, a fact a line.
func (p *Program) showBox(i *manager.Info) error {
	facts := []fact{
		{"state", strings.TrimSpace(i.State + " " + i.Reason)},
		{"error", i.Error},
		{"busy", i.Busy},
		{"labels", labelsText(i.Labels)},
		{"image", strings.TrimSpace(i.Image + " " + i.Digest)},
		{"template", i.Template},
		{"from", i.From},
		{"working folder", i.WorkDir},
		{"user", i.User},
		{"created", timeText(i.Created)},
	}
	if i.Ended != nil {
		facts = append(facts, fact{"ended", timeText(*i.Ended)})
	}
	facts = append(facts, fact{"limits", limitsText(&i.Limits)}, fact{"times", timesText(&i.Times)}, fact{"network", netText(i)})
	for _, list := range []struct {
		name  string
		words []string
	}{{"hide", i.Hide}, {"show", i.Show}, {"read-only", i.ReadOnly}, {"note", i.Notes}} {
		for _, w := range list.words {
			facts = append(facts, fact{list.name, w})
		}
	}
	if st := i.Status; st != nil {
		facts = append(facts,
			fact{"memory", bytesText(st.Memory)}, fact{"processor time", st.CPU.Round(time.Millisecond).String()},
			fact{"processes", countText(st.Processes)}, fact{"disk", bytesText(st.Disk)},
			fact{"commands", countText(int64(st.Commands)) + ", and " + plural(st.Calls, "connection")}, fact{"idle for", idleText(st.Idle)})
	}
	var b strings.Builder
	b.WriteString(i.ID + "\n")
	for _, f := range facts {
		if f.text != "" {
			fmt.Fprintf(&b, "  %-15s %s\n", f.name, printable(f.text))
		}
	}
	return p.write(b.String())
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime) + " (" + since(t, time.Now()) + " ago)"
}

func idleText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return span(d)
}

// limitsText is limits as create is told them.
func limitsText(l *manager.Limits) string {
	var words []string
	add := func(set bool, name, text string) {
		if set {
			words = append(words, name+" "+text)
		}
	}
	add(l.Memory > 0, "memory", bytesText(l.Memory))
	add(l.CPUs > 0, "cpus", fmt.Sprintf("%g", l.CPUs))
	add(l.Procs > 0, "procs", countText(l.Procs))
	add(l.Disk > 0, "disk", bytesText(l.Disk))
	add(l.Files > 0, "files", countText(l.Files))
	add(l.Output > 0, "output", bytesText(l.Output))
	add(l.Timeout > 0, "timeout", l.Timeout.String())
	return strings.Join(words, ", ")
}

func timesText(t *manager.Times) string {
	var words []string
	for _, one := range []struct {
		name, then string
		d          time.Duration
	}{{"ttl", t.TTLThen, t.TTL}, {"idle", t.IdleThen, t.Idle}} {
		if one.d > 0 {
			words = append(words, fmt.Sprintf("%s %s, then %s", one.name, one.d, firstOf(one.then, "end")))
		}
	}
	return strings.Join(words, "; ")
}

func netText(i *manager.Info) string {
	words := []string{firstOf(i.Net.Mode, manager.NetNone)}
	if len(i.Net.Allow) > 0 {
		words = append(words, strings.Join(i.Net.Allow, ","))
	}
	for _, port := range i.Ports {
		words = append(words, fmt.Sprintf("127.0.0.1:%d → %d", port.Host, port.Guest))
	}
	for _, s := range i.Net.Secrets {
		name, _, _ := strings.Cut(s, "=")
		words = append(words, "secret "+name)
	}
	return strings.Join(words, " ")
}
