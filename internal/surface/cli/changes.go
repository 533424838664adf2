package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/changes"
)

func (p *Program) changesCmd() *cobra.Command {
	var asJSON, asDiff, all bool
	cmd := &cobra.Command{
		Use:   "changes [ID]",
		Short: "Show kept change sets, or what one of them changes",
		Long: `Without ID, list the change sets there are; of their changes, those outside the working
folder are counted behind a +. With an ID, or the beginning of one, list what it changes;
--diff shows it as a unified diff. A sandbox that lives is read anew, and stands still for
that moment.`,
		Args:              takes(0, 1, "airlock changes shows one change set at a time; write airlock changes [ID]"),
		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := p.open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if asDiff {
					return usage("--diff wants the ID of a change set; airlock changes lists them")
				}
				return p.listSets(cmd.Context(), store, asJSON, all)
			}
			set, err := p.freshSet(cmd.Context(), store, args[0])
			if err != nil {
				return ofSet(err)
			}
			switch {
			case asJSON:
				return p.setJSON(set)
			case asDiff:
				return p.showDiff(cmd.Context(), store, set, nil)
			default:
				return p.showSet(set, all)
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&asDiff, "diff", false, "show the changes as a unified diff")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show every change; without ID, discarded and undone sets as well")
	cmd.MarkFlagsMutuallyExclusive("json", "diff")
	return cmd
}

// takes checks the number of arguments; text says what to write.
func takes(least, most int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage("%s", text)
		}
		return nil
	}
}

// open opens the store.
func (p *Program) open() (*changes.Store, error) {
	store, err := p.Store()
	if err != nil {
		return nil, fail(exitFailed, explainStore(err))
	}
	return store, nil
}

// explainSet adds to a store's error what to do about it.
func explainSet(err error) error {
	switch {
	case errors.Is(err, changes.ErrNotFound):
		return fmt.Errorf("%w; airlock changes --all lists what there is", err)
	case errors.Is(err, changes.ErrAmbiguous):
		return fmt.Errorf("%w; give more of its ID", err)
	case errors.Is(err, changes.ErrState):
		return fmt.Errorf("%w; airlock changes --all lists the states, and airlock undo takes a commit back", err)
	case errors.Is(err, changes.ErrBusy):
		return fmt.Errorf("%w; try again when it has finished", err)
	}
	return err
}

// ofSet is an error about a change set as a command ends with it.
func ofSet(err error) error {
	if _, said := errors.AsType[*codeError](err); said {
		return err
	}
	return fail(commitCode(err), explainSet(err))
}

// completeSets completes the IDs of change sets.
func (p *Program) completeSets(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	store, err := p.Store()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := store.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if live, err := p.living(cmd.Context()); err == nil {
		list = withLiving(list, live)
	}
	var out []string
	for _, h := range list {
		out = append(out, fmt.Sprintf("%s\t%s, %s", h.ID, setState(&h), printable(strings.Join(h.Command, " "))))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (p *Program) listSets(ctx context.Context, store *changes.Store, asJSON, all bool) error {
	list, err := store.List()
	if err != nil {
		return fail(exitFailed, err)
	}
	live, err := p.living(ctx)
	if err != nil {
		p.say("which sandboxes live cannot be said: %v", err) // the sets are there all the same
	} else {
		list = withLiving(list, live)
	}
	shown := []changes.Header{}
	for _, h := range list {
		if all || h.Live || h.State == changes.Kept || h.State == changes.Committed {
			shown = append(shown, h)
		}
	}
	if asJSON {
		return p.printJSON(shown)
	}
	if len(shown) == 0 {
		fmt.Fprintln(p.Stdout, "No change sets. airlock run --keep -- CMD makes one.")
		return nil
	}
	fmt.Fprintf(p.Stdout, "%-16s  %-9s  %-16s  %7s  %s\n", "ID", "STATE", "CREATED", "CHANGES", "COMMAND")
	for _, h := range shown {
		count := strconv.Itoa(h.Work)
		if h.Outside > 0 {
			count += "+" + strconv.Itoa(h.Outside)
		}
		if h.Live {
			count = "-" // what was read last may be long out of date; its ID reads it anew
		}
		fmt.Fprintf(p.Stdout, "%-16s  %-9s  %-16s  %7s  %s\n", h.ID, setState(&h), h.Created.Local().Format("2006-01-02 15:04"),
			count, cut(printable(strings.Join(h.Command, " ")), 60))
	}
	return nil
}

// setState is a set's state as a person reads it.
func setState(h *changes.Header) string {
	if h.Live {
		return "live"
	}
	return string(h.State)
}

// printJSON prints v on stdout, one value a line.
func (p *Program) printJSON(v any) error {
	enc := json.NewEncoder(p.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fail(exitFailed, fmt.Errorf("write the answer: %w", err))
	}
	return nil
}

func (p *Program) setJSON(set *changes.Set) error {
	return p.printJSON(struct {
		changes.Header
		Changes []changes.Entry `json:"changes"`
	}{set.Header, changes.Entries(set)})
}

func (p *Program) showSet(set *changes.Set, all bool) error {
	fmt.Fprintf(p.Stdout, "%s  %s  %s  in %s\n  %s\n", set.ID, setState(&set.Header), set.Created.Local().Format(time.DateTime),
		printable(string(set.WorkDir)), printable(strings.Join(set.Command, " ")))
	err := changes.List(p.Stdout, set, &changes.ListOptions{All: all, Color: p.color(p.Stdout)})
	if err != nil {
		return fail(exitFailed, err)
	}
	return nil
}

func (p *Program) showDiff(ctx context.Context, store *changes.Store, set *changes.Set, w io.Writer) error {
	if w == nil {
		w = p.Stdout
	}
	return p.showDiffAs(ctx, store, set, w, w)
}

// showDiffAs writes a diff to w in the form for what it is to be shown on in the end.
func (p *Program) showDiffAs(ctx context.Context, store *changes.Store, set *changes.Set, w, shown io.Writer) error {
	opts := &changes.DiffOptions{Color: p.color(shown), Terminal: isTerminal(shown)}
	if err := changes.Diff(ctx, w, store, set, opts); err != nil {
		return fail(exitFailed, err)
	}
	return nil
}

// explainStore adds what to do about a store that cannot be opened.
func explainStore(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w; set AIRLOCK_HOME to a folder that you can write to", err)
	}
	return err
}

// color reports whether what is written to w may be coloured.
func (p *Program) color(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// absolute makes the paths a person typed absolute, with their folders' links resolved, as
// a change set names them.
func absolute(args []string) ([]changes.Path, error) {
	var out []changes.Path
	for _, a := range args {
		if a == "" {
			return nil, usage("a path is empty")
		}
		abs, err := filepath.Abs(a)
		if err != nil {
			return nil, fail(exitFailed, err)
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(dir, filepath.Base(abs))
		}
		out = append(out, changes.Path(abs))
	}
	return out, nil
}
