package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// A listing is how a command shows what there is: as JSON, as names alone, or as a table.
type listing[T any] struct {
	none   string              // what is said where there is nothing
	name   func(one *T) string // what --quiet says of one; "" leaves it out
	titles []string            // of the table
	row    func(one *T, now time.Time) []string
}

// of makes cmd list what read gives. quiet is the help of --quiet.
func (l *listing[T]) of(p *Program, cmd *cobra.Command, quiet string, read func(ctx context.Context) ([]T, error)) {
	short := cmd.Flags().BoolP("quiet", "q", false, quiet)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := read(cmd.Context())
		if err != nil {
			return p.ends(cmd.Context(), *asJSON, err)
		}
		return l.show(p, list, *asJSON, *short)
	}
}

func (l *listing[T]) show(p *Program, list []T, asJSON, quiet bool) error {
	switch {
	case asJSON && list == nil:
		return p.printJSON([]T{}) // [], not null
	case asJSON:
		return p.printJSON(list)
	case quiet:
		return l.showNames(p, list)
	case len(list) == 0:
		return p.writeLine(l.none)
	}
	now := time.Now()
	t := &table{titles: l.titles}
	for i := range list {
		t.add(l.row(&list[i], now)...)
	}
	return p.show(t)
}

func (l *listing[T]) showNames(p *Program, list []T) error {
	for i := range list {
		if name := l.name(&list[i]); name != "" {
			if err := p.writeLine(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachIn makes a command do something, in what open gives, with everything that was named, as
// eachID does.
func eachIn[S any](p *Program, open func() (S, error), asJSON *bool, do func(ctx context.Context, in S, name string) (any, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		in, err := open()
		if err != nil {
			return p.ends(cmd.Context(), *asJSON, err)
		}
		return p.eachID(cmd.Context(), args, *asJSON, func(ctx context.Context, name string) (any, error) { return do(ctx, in, name) })
	}
}

// completeFrom completes words for each of what read gives while somebody waits for it.
func completeFrom[T any](cmd *cobra.Command, read func(ctx context.Context) ([]T, error), words func(one *T) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	list, err := read(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range list {
		out = append(out, words(&list[i])...)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
