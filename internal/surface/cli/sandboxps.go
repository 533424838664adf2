package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/sandbox"
)

func (p *Program) sandboxPsCmd() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:               "ps ID",
		Short:             "List the commands of a sandbox that run or ended lately",
		Args:              takes(1, 1, "say in which sandbox: airlock sandbox ps ID"),
		ValidArgsFunction: p.completeSandbox,
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "names of those that run alone, one a line")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		box, err := p.openBox(ctx, args[0])
		if err != nil {
			return p.ends(ctx, *asJSON, err)
		}
		defer func() { _ = box.Release() }() // it goes on whatever that says
		list, err := p.processesOf(ctx, box)
		if err != nil {
			return p.ends(ctx, *asJSON, err)
		}
		return processListing().show(p, list, *asJSON, quiet)
	}
	return cmd
}

// processesOf asks a sandbox for its commands.
func (p *Program) processesOf(ctx context.Context, box sandbox.Lasting) ([]agent.ProcessInfo, error) {
	client, err := p.guestOf(ctx, box)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Processes(ctx)
}

func processListing() *listing[agent.ProcessInfo] {
	return &listing[agent.ProcessInfo]{
		none: "No commands. airlock sandbox exec runs one.",
		name: func(i *agent.ProcessInfo) string {
			if !i.Running {
				return ""
			}
			return printable(i.Process)
		},
		titles: []string{"PROCESS", "STATE", " PID", " AGE", " OUTPUT", "LABEL", "COMMAND"},
		row: func(i *agent.ProcessInfo, now time.Time) []string {
			age := since(i.Started, now)
			if i.Ended != nil {
				age = span(i.Ended.Sub(i.Started))
			}
			return []string{printable(i.Process), processState(i), strconv.Itoa(i.PID), age, bytesText(i.Output), printable(i.Label), processCommand(i)}
		},
	}
}

// processState says how a command is: running or attached, or how it ended.
func processState(i *agent.ProcessInfo) string {
	switch res := i.Result; {
	case i.Running && !i.Detached:
		return "foreground"
	case i.Running:
		return "running"
	case res == nil:
		return "ended"
	case res.TimedOut:
		return "timed out"
	case res.NotStarted != "":
		return "not started"
	case res.Signal != "":
		return printable(res.Signal)
	default:
		return "exit " + strconv.Itoa(res.ExitCode)
	}
}

// processCommand is a command on one line.
func processCommand(i *agent.ProcessInfo) string {
	switch {
	case len(i.Argv) > 0:
		words := make([]string, len(i.Argv))
		for n, a := range i.Argv {
			words[n] = quoted(a)
		}
		return strings.Join(words, " ")
	case i.Lang != "":
		return printable(i.Lang + ": " + i.Cmd)
	}
	return printable(i.Cmd)
}
