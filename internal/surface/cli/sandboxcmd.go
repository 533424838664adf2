package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/near"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

func (p *Program) sandboxCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sandbox",
		Aliases: []string{"sb"},
		Short:   "Make and use sandboxes that stay until they are removed",
		Long: `Make and use sandboxes that stay until they are removed. They outlive the command that
made them; none of these commands needs a daemon. Wherever an ID is asked for, its beginning
does.

Errors of airlock's own have the exit code 125. --json prints one JSON value, an error's
too: {"error": "…"}.`,
		Example: `  ID=$(airlock sandbox create --ttl 1h)
  airlock sandbox exec $ID -- make test
  airlock changes $ID
  airlock sandbox rm $ID --commit`,
		Args: noSuchSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.sandboxCreateCmd(), p.sandboxListCmd(), p.sandboxInspectCmd(), p.sandboxExecCmd(), p.sandboxCodeCmd(), p.sandboxShellCmd(),
		p.sandboxPsCmd(), p.sandboxAttachCmd(), p.sandboxLogsCmd(), p.sandboxKillCmd(), p.sandboxPauseCmd(), p.sandboxResumeCmd(), p.sandboxSnapshotCmd(), p.sandboxSnapshotsCmd(),
		p.sandboxRestoreCmd(), p.sandboxForkCmd(), p.sandboxStatsCmd(), p.sandboxForwardCmd(), p.sandboxCpCmd(), p.sandboxRmCmd(), p.sandboxPruneCmd())
	return p.family(cmd)
}

// family makes the errors in what was typed ones of airlock's own, with the code 125, as an
// object where one was asked for.
func (p *Program) family(cmd *cobra.Command) *cobra.Command {
	for _, c := range cmd.Commands() {
		p.family(c)
	}
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		asJSON, _ := cmd.Flags().GetBool("json") // false where there is no such flag
		return p.ends(cmd.Context(), asJSON, check(cmd, args))
	}
	return cmd
}

// noSuchSubcommand refuses what is no command of a family's, with the one that was meant.
func noSuchSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	text := fmt.Sprintf("%s is not one of the commands that %s --help lists", printable(args[0]), cmd.CommandPath())
	if name := near.Name(args[0], names); name != "" {
		text += fmt.Sprintf("; %s %s is", cmd.CommandPath(), name)
	}
	return fail(exitFailed, errors.New(text))
}

// ofSandboxes reports whether cmd is of a family whose own errors all have the code 125.
func ofSandboxes(cmd *cobra.Command) bool {
	for ; cmd.HasParent(); cmd = cmd.Parent() {
		if cmd.Parent() == cmd.Root() {
			return cmd.Name() == "sandbox" || cmd.Name() == "image" || cmd.Name() == "template"
		}
	}
	return false
}

// failure is what --json prints where there is nothing else to print.
type failure struct {
	ID    string `json:"id,omitempty"`
	Error string `json:"error"`
}

// ends is how a command of these families ends with err: with a code of its own, and an
// object where one was asked for.
func (p *Program) ends(ctx context.Context, asJSON bool, err error) error {
	if err == nil {
		return nil
	}
	err = p.explainBox(ctx, err)
	code, ok := errors.AsType[*codeError](err)
	if ok && code.err == nil {
		return err
	}
	if asJSON {
		if told := p.printJSON(&failure{Error: err.Error()}); told != nil {
			return told
		}
	}
	if ok && code.code > exitFailed {
		return err
	}
	return fail(exitFailed, err)
}

// explainBox adds to an error what to do about it.
func (p *Program) explainBox(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, sandbox.ErrPaused):
		return fmt.Errorf("%w; airlock sandbox resume lets it go on", err)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	}
	if told, ok := errors.AsType[*agent.RPCError](err); ok {
		return errors.New(told.Message) // the guest's words, without the protocol's
	}
	missing, ok := errors.AsType[*manager.NotFound](err)
	if !ok || missing.What != "sandbox" {
		return err
	}
	if id := p.nearestID(ctx, missing.Name); id != "" {
		return fmt.Errorf("%w; the nearest is %s", err, id)
	}
	return err
}

// nearestID is the ID that somebody may have meant; "" where none is like it.
func (p *Program) nearestID(ctx context.Context, typed string) string {
	m, err := p.Sandboxes()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completionTime)
	defer cancel()
	list, err := m.List(ctx, nil)
	if err != nil {
		return ""
	}
	begins := map[string]string{}
	var names []string
	for i := range list {
		begin := list[i].ID[:min(len(typed), len(list[i].ID))] // what was typed is compared with as much
		begins[begin] = list[i].ID
		names = append(names, begin)
	}
	if name := near.Name(typed, names); name != "" {
		return begins[name]
	}
	return ""
}

// completionTime bounds what is looked up while somebody waits for something else.
const completionTime = 2 * time.Second

// boxes gives the manager of sandboxes.
func (p *Program) boxes() (*manager.Manager, error) {
	m, err := p.Sandboxes()
	if err != nil {
		return nil, fail(exitFailed, explainStore(err))
	}
	return m, nil
}

// openBox opens the sandbox that was named.
func (p *Program) openBox(ctx context.Context, id string) (*manager.Box, error) {
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	return m.Open(ctx, id)
}

// eachID does something with everything that was named, one after the other. One that fails
// leaves the others their turn; its error is said with its name.
func (p *Program) eachID(ctx context.Context, args []string, asJSON bool, do func(ctx context.Context, id string) (any, error)) error {
	return p.eachOf(ctx, args, asJSON, 1, do)
}

// eachOf is eachID with several at once.
func (p *Program) eachOf(ctx context.Context, args []string, asJSON bool, atOnce int, do func(ctx context.Context, id string) (any, error)) error {
	done := make([]any, len(args))
	var failed atomic.Bool
	var running sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for i, arg := range args {
		turn <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-turn }()
			v, err := do(ctx, arg)
			if err != nil {
				failed.Store(true)
				v = p.failedOne(ctx, arg, err)
			}
			done[i] = v
		})
	}
	running.Wait()
	if asJSON {
		all := slices.DeleteFunc(done, func(v any) bool { return v == nil })
		if err := p.printJSON(all); err != nil {
			return err
		}
	}
	switch {
	case failed.Load():
		return fail(exitFailed, nil)
	case ctx.Err() != nil && !asJSON:
		return ctx.Err()
	case ctx.Err() != nil:
		return fail(exitFailed, nil)
	}
	return nil
}

// failedOne says what went wrong with one of several.
func (p *Program) failedOne(ctx context.Context, arg string, err error) *failure {
	err = p.explainBox(ctx, err)
	text := err.Error()
	if code, ok := errors.AsType[*codeError](err); ok && code.err == nil {
		text = "it failed; see above"
	}
	if strings.Contains(text, strconv.Quote(arg)) { // an image's error names it
		p.say("%s", text)
	} else {
		p.say("%s: %s", printable(arg), text)
	}
	return &failure{ID: arg, Error: text}
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print one JSON value")
}

// gone says why a sandbox has ended that was open.
func (p *Program) gone(ctx context.Context, box *manager.Box) *manager.Gone {
	e := &manager.Gone{ID: box.Info.ID, Reason: manager.Reason(box.Err())}
	m, err := p.Sandboxes()
	if err != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completionTime)
	defer cancel()
	if info, err := m.Inspect(ctx, box.Info.ID); err == nil && !info.Alive() && info.Reason != "" {
		e.Reason, e.Text = info.Reason, info.Error // which knows an idle one from one whose time was over
	}
	return e
}
