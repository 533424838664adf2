package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/diagnose"
	"airlock/internal/tool/bridge/setup"
)

// bridgeEntry is an agent as airlock bridge list --json tells of it.
type bridgeEntry struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Kind        setup.Kind      `json:"kind"`
	Protocol    string          `json:"protocol,omitempty"`
	Command     []string        `json:"command"`
	Sandbox     string          `json:"sandbox"`
	Network     string          `json:"network"`
	TimeoutS    float64         `json:"timeout_s"`
	Retries     int             `json:"retries"`
	Env         []string        `json:"env"` // the names that are handed on
	Schema      json.RawMessage `json:"schema"`
	Line        int             `json:"line"`
}

func (p *Program) bridgeListCmd(f *bridgeFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agents that the configuration names",
		Args:  takes(0, 0, "airlock bridge list takes no arguments; airlock tool describe NAME tells more of one tool"),
		RunE: func(*cobra.Command, []string) error {
			b, err := p.bridge(f)
			if err != nil {
				return err
			}
			defer p.closeBridge(b)
			entries := bridgeEntries(b)
			if asJSON {
				return p.printJSON(entries)
			}
			fmt.Fprintf(p.Stdout, "%-24s  %-6s  %-8s  %-7s  %s\n", "NAME", "KIND", "SANDBOX", "TIMEOUT", "DESCRIPTION")
			for _, e := range entries {
				fmt.Fprintf(p.Stdout, "%-24s  %-6s  %-8s  %-7s  %s\n", e.Name, e.Kind, e.Sandbox,
					time.Duration(e.TimeoutS*float64(time.Second)), cut(printable(e.Description), 72))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON list: all that is known of each agent")
	return cmd
}

func bridgeEntries(b *Bridge) []bridgeEntry {
	out := []bridgeEntry{}
	for i := range b.File.Agents {
		a := &b.File.Agents[i]
		e := bridgeEntry{
			Name: a.Name, Description: a.Description, Kind: a.Kind, Protocol: a.Protocol, Command: a.Argv,
			Sandbox: "none", Network: "host", TimeoutS: a.Timeout.Seconds(), Retries: a.Retries, Env: a.Pass, Line: a.Line,
		}
		if e.Env == nil {
			e.Env = []string{}
		}
		if a.Sandbox {
			e.Sandbox = "airlock"
			if !a.HostNetwork {
				e.Network = "none"
			}
		}
		if t, ok := b.Tools.Lookup(a.Name); ok {
			e.Schema = t.Info().Actions[0].Schema
		}
		out = append(out, e)
	}
	return out
}

func (p *Program) bridgeHealthCmd(f *bridgeFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Tell how the agents' calls went",
		Long:  "Tell how the agents' calls went, as the tool health_check does: of every call that was made with this configuration and is not older than performance.metrics_retention_days.",
		Args:  takes(0, 0, "airlock bridge health takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := p.bridge(f)
			if err != nil {
				return err
			}
			defer p.closeBridge(b)
			if !b.File.Metrics.Collect {
				text := "No metrics are kept; set performance.collect_metrics to true in " + printable(b.File.Path)
				return errors.Join(fail(exitGeneral, nil), p.printDocument(errorDocument(text)))
			}
			health, err := b.Health(cmd.Context())
			if err != nil {
				return errors.Join(fail(exitGeneral, nil), p.printDocument(errorDocument(err.Error())))
			}
			text, err := json.Marshal(struct {
				Status string        `json:"status"`
				Health bridge.Health `json:"health"`
			}{"success", health})
			if err != nil {
				return fail(exitFailed, err)
			}
			return p.printDocument(text)
		},
	}
}

func (p *Program) bridgeDiagnoseCmd(f *bridgeFlags) *cobra.Command {
	var fix, verbose, asJSON bool
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Look for what would keep agents from running",
		Long: `Look at the configuration, the workspace, each agent's files and interpreter, and what agents
are given of the environment. No agent is run. --fix mends what can be mended safely.

The exit code is 1 where an error is left.`,
		Args: takes(0, 0, "airlock bridge diagnose takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.config == "" {
				return usage("say which agents there are: airlock bridge --config config.yaml diagnose")
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			findings := p.Diagnose(ctx, f.config, fix)
			var err error
			if asJSON {
				err = diagnose.WriteJSON(p.Stdout, findings)
			} else {
				diagnose.Write(p.Stdout, findings, verbose, p.color(p.Stdout))
			}
			switch {
			case err != nil:
				return fail(exitFailed, err)
			case diagnose.Failed(findings):
				return fail(exitGeneral, nil)
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&fix, "fix", false, "mend what can be mended safely")
	fl.BoolVarP(&verbose, "verbose", "v", false, "show what is well, too")
	fl.BoolVar(&asJSON, "json", false, "print one JSON list")
	return cmd
}

func (p *Program) bridgeTestCmd(f *bridgeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test TOOL [JSON|-]",
		Short: "Run one agent, and tell what becomes of the call step by step",
		Long: `Run one agent as a call of it would, and tell step by step what becomes of it: its files, its
parameters, its run and its answer. It is run for real: give parameters that do no harm. Its stderr is shown.`,
		DisableFlagsInUseLine: true,
		Args:                  takes(1, 2, "say which tool: airlock bridge --config FILE test TOOL ['{…}']"),
		ValidArgsFunction:     p.completeAgents(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := p.params(args)
			if err != nil {
				return usage("%w", err)
			}
			b, err := p.bridge(f)
			if err != nil {
				return err
			}
			defer p.closeBridge(b)
			return p.testAgent(cmd.Context(), f, b, tool.Call{Tool: args[0], Args: params})
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// testAgent makes a call, and tells of each step.
func (p *Program) testAgent(ctx context.Context, f *bridgeFlags, b *Bridge, call tool.Call) error {
	if _, _, err := b.Tools.Resolve(call); err != nil {
		return usage("%w", err)
	}
	tell := func(step, text string) { fmt.Fprintf(p.Stderr, "%-11s %s\n", step, printable(text)) }
	for i := range b.File.Agents {
		a := &b.File.Agents[i]
		if a.Name != call.Tool {
			continue
		}
		tell("entry", fmt.Sprintf("%s:%d", b.File.Path, a.Line))
		tell("command", joinArgs(a.Argv))
		if err := a.Look(b.File.Workspace); err != nil {
			tell("files", err.Error())
			return fail(exitGeneral, nil)
		}
		tell("files", "ok")
	}
	prepared, bad := b.Tools.Prepare(call)
	if bad != nil {
		tell("parameters", "they do not hold")
		return errors.Join(fail(exitGeneral, nil), p.printDocument(bridge.Document(*bad)))
	}
	tell("parameters", string(prepared.Args))
	f.verbose = true
	c, err := p.newBridgeCalls(ctx, f, b, p.interactive())
	if err != nil {
		return err
	}
	defer c.stop()
	started := time.Now()
	document, ok := c.call(call)
	verdict := "an answer"
	if !ok {
		verdict = "an error"
	}
	tell("run", fmt.Sprintf("%s after %.1fs", verdict, time.Since(started).Seconds()))
	return c.answer(document, ok)
}

func joinArgs(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quoted(arg)
	}
	return strings.Join(words, " ")
}
