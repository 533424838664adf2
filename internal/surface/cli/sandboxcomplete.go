package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/sandbox/manager"
)

// completeSandbox completes the ID of one sandbox, and nothing after it.
func (p *Program) completeSandbox(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.sandboxWords(cmd, nil), cobra.ShellCompDirectiveNoFileComp
}

// completeSandboxes completes IDs that are not named yet.
func (p *Program) completeSandboxes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.sandboxWords(cmd, args), cobra.ShellCompDirectiveNoFileComp
}

// completeSandboxThenFiles completes an ID, and files here after it.
func (p *Program) completeSandboxThenFiles(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return p.sandboxWords(cmd, nil), cobra.ShellCompDirectiveNoFileComp
}

// sandboxWords are the IDs of the sandboxes that live, but for some.
func (p *Program) sandboxWords(cmd *cobra.Command, but []string) []string {
	living := func(ctx context.Context) ([]manager.Info, error) { return p.listBoxes(ctx, false, nil) }
	words, _ := completeFrom(cmd, living, func(i *manager.Info) []string {
		if beginsWithAny(i.ID, but) {
			return nil
		}
		return []string{i.ID + "\t" + describeBox(i)}
	})
	return words
}

func beginsWithAny(id string, begun []string) bool {
	for _, b := range begun {
		if b != "" && strings.HasPrefix(id, b) {
			return true
		}
	}
	return false
}

// describeBox is a sandbox in a few words.
func describeBox(i *manager.Info) string {
	words := []string{i.State, since(i.Created, time.Now())}
	if len(i.Labels) > 0 {
		words = append(words, labelsText(i.Labels))
	}
	return cut(strings.Join(append(words, baseText(i)), ", "), 100)
}

// completeProcesses completes an ID and then a command in that sandbox.
func (p *Program) completeProcesses(running bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return p.completeSandbox(cmd, args, begun)
		}
		read := func(ctx context.Context) ([]agent.ProcessInfo, error) {
			box, err := p.openBox(ctx, args[0])
			if err != nil {
				return nil, err
			}
			defer func() { _ = box.Release() }() // it goes on whatever that says
			return p.processesOf(ctx, box)
		}
		return completeFrom(cmd, read, func(i *agent.ProcessInfo) []string {
			if !i.Running && running || !isPlain(i.Process) {
				return nil
			}
			return []string{i.Process + "\t" + describeProcess(i)}
		})
	}
}

// isPlain reports whether a name means nothing else to a shell, which may put it on the command line as it is. The
// guest says what its commands are called.
func isPlain(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func describeProcess(i *agent.ProcessInfo) string {
	return cut(processState(i)+", "+firstOf(printable(i.Label), processCommand(i)), 80)
}

// completeFlags completes the values of the flags of commands that make sandboxes.
func (p *Program) completeFlags(cmd *cobra.Command) {
	for name, words := range map[string][]string{
		"pull": {"missing", "always", "never"}, "ttl-then": {"end", "pause"}, "idle-then": {"end", "pause"},
		"net": {"none\tno network", "host\tall that this machine reaches", "allow=\tHOST[:PORT],…"},
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for name, complete := range map[string]cobra.CompletionFunc{"image": p.completeImages, "template": p.completeTemplates} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete)
		}
	}
	if cmd.Flags().Lookup("workdir") != nil {
		_ = cmd.MarkFlagDirname("workdir")
	}
}
