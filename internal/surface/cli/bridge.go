package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"airlock/internal/executor"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/setup"
)

// A Bridge is a configuration of agents that was read, with what it is called by.
type Bridge struct {
	File     *setup.File
	Tools    *tool.Registry // its agents beside the tools there are
	Problems []string       // plugins that could not be loaded
	Health   func(ctx context.Context) (bridge.Health, error)

	// Close writes down what is not yet, and says what could not be.
	Close func() error
}

// A BridgeCall makes a call of a tool, whose parameters are one JSON object, and gives its
// answer, a JSON document; ok says that it is no error's.
type BridgeCall func(ctx context.Context, tool string, params json.RawMessage) (document json.RawMessage, ok bool)

// bridgeFlags are those of airlock bridge.
type bridgeFlags struct {
	decisionFlags
	config  string
	jobs    int
	verbose bool
	events  bool
	memory  string
	cpus    float64
	procs   int64
}

func (f *bridgeFlags) add(fl *pflag.FlagSet) {
	fl.IntVarP(&f.jobs, "jobs", "j", 0, "make up to this many of a batch's calls at once (default: performance.max_parallel, or 8)")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show what agents write to stderr")
	fl.BoolVar(&f.events, "events", false, "print progress and partial answers on stdout, a JSON object a line, before the answer")
	fl.BoolVar(&f.commit, "commit", false, "commit what sandboxed agents change in the workspace when the answer is no error (else keep it)")
	fl.BoolVar(&f.keep, "keep", false, "keep what they change for airlock changes, commit or discard (the default without a terminal)")
	fl.BoolVar(&f.discard, "discard", false, "throw it away")
	fl.StringVarP(&f.memory, "memory", "m", "", "limit each sandbox's memory, as in 512m or 2g")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit each sandbox's processor time, as in 0.5 or 2")
	fl.Int64Var(&f.procs, "pids", 0, "limit how many processes and threads an agent in a sandbox may have at once")
}

func (p *Program) bridgeCmd() *cobra.Command {
	f := &bridgeFlags{}
	cmd := &cobra.Command{
		Use:   "bridge --config FILE [flags] [TOOL [JSON|-]]",
		Short: "Run agents and scripts that a config.yaml names as tools",
		Long: `Run an agent that a config.yaml names, and print its answer as one JSON document. JSON is
its parameters; - reads them from standard input. Without TOOL, or with - in its place, each
line of standard input is a call, {"tool": "NAME", "params": {…}}, or a list of calls, and
each answer is one line.

An agent runs where its entry says: on this machine, where naming the file with --config is
your consent, or in a sandbox over the workspace, whose changes become a change set. Rules
of your policy hold either way. docs/bridge.md tells the rest.

The exit code is 0 for an answer, 1 for one that is an error, 2 for bad use.`,
		Example: `  airlock bridge --config config.yaml label_github_issue '{"repo_name": "me/it", "issue_number": 7}'
  airlock bridge --config config.yaml < calls.jsonl
  airlock bridge --config config.yaml diagnose --fix`,
		DisableFlagsInUseLine: true,
		Args:                  takes(0, 2, "give a tool and its parameters as one JSON object: airlock bridge --config FILE TOOL '{…}'"),
		ValidArgsFunction:     p.completeAgents(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer ignoreBrokenPipes()()
			if len(args) == 0 || len(args) == 1 && args[0] == "-" {
				return p.bridgeLines(cmd.Context(), f)
			}
			return p.bridgeOnce(cmd.Context(), f, args)
		},
	}
	cmd.PersistentFlags().StringVarP(&f.config, "config", "c", "", "the configuration: which agents there are (required)")
	f.add(cmd.Flags())
	cmd.AddCommand(p.bridgeCallCmd(f), p.bridgeListCmd(f), p.bridgeHealthCmd(f), p.bridgeDiagnoseCmd(f), p.bridgeTestCmd(f))
	return cmd
}

// bridgeCallCmd reaches agents that are named as the other commands are.
func (p *Program) bridgeCallCmd(f *bridgeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "call [flags] TOOL [JSON|-]",
		Short:                 "Call an agent, whatever its name is",
		Long:                  "Call an agent: the same as airlock bridge TOOL, also for one that is named list, health, diagnose, test or call.",
		DisableFlagsInUseLine: true,
		Args:                  takes(1, 2, "say which tool: airlock bridge --config FILE call TOOL ['{…}']"),
		ValidArgsFunction:     p.completeAgents(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer ignoreBrokenPipes()()
			return p.bridgeOnce(cmd.Context(), f, args)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// bridge reads the configuration that was named.
func (p *Program) bridge(f *bridgeFlags) (*Bridge, error) {
	if f.config == "" {
		return nil, usage("say which agents there are: airlock bridge --config config.yaml …")
	}
	b, err := p.Bridge(f.config)
	if err != nil {
		return nil, usage("%w", err)
	}
	for _, problem := range b.Problems {
		p.say("%s", printable(problem))
	}
	return b, nil
}

// closeBridge ends what a bridge holds. What could not be written down is said, and
// changes no answer.
func (p *Program) closeBridge(b *Bridge) {
	if err := b.Close(); err != nil {
		p.say("%s", printable(err.Error()))
	}
}

// completeAgents completes agents' names.
func (p *Program) completeAgents(f *bridgeFlags) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || f.config == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		b, err := p.Bridge(f.config)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = b.Close() }()
		var out []string
		for i := range b.File.Agents {
			a := &b.File.Agents[i]
			out = append(out, a.Name+"\t"+printable(a.Description))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// bridgeOnce makes one call and prints its answer, indented.
func (p *Program) bridgeOnce(ctx context.Context, f *bridgeFlags, args []string) error {
	params, err := p.params(args)
	if err != nil {
		return errors.Join(usage("%w", err), p.printDocument(errorDocument("Invalid JSON parameters: "+err.Error())))
	}
	b, err := p.bridge(f)
	if err != nil {
		return err
	}
	defer p.closeBridge(b)
	call := tool.Call{Tool: args[0], Args: params}
	if _, _, err := b.Tools.Resolve(call); errors.Is(err, tool.ErrNoTool) {
		bad := b.Tools.Check(call)
		return errors.Join(fail(exitUsage, nil), p.printDocument(bridge.Document(*bad)))
	}
	c, err := p.newBridgeCalls(ctx, f, b, p.interactive())
	if err != nil {
		return err
	}
	defer c.stop()
	document, ok := c.call(call)
	return c.answer(document, ok)
}

// params are a call's parameters as they were typed: one JSON object.
func (p *Program) params(args []string) (json.RawMessage, error) {
	if len(args) == 1 {
		return json.RawMessage("{}"), nil
	}
	text := []byte(args[1])
	if args[1] == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(p.Stdin, tool.MaxArgs+1)); err != nil {
			return nil, fmt.Errorf("read the parameters: %w", err)
		}
		if len(text) > tool.MaxArgs {
			return nil, fmt.Errorf("the parameters have more than %d bytes", tool.MaxArgs)
		}
	}
	text = bytes.TrimSpace(text)
	var members map[string]json.RawMessage
	switch err := json.Unmarshal(text, &members); {
	case err != nil && len(text) > 0 && text[0] == '{':
		return nil, err
	case err != nil || members == nil:
		return nil, errors.New(`write one JSON object, as in '{"name": "value"}'`)
	}
	return text, nil
}

// errorDocument is an error as an answer.
func errorDocument(text string) json.RawMessage {
	data, err := json.Marshal(struct {
		Status string `json:"status"`
		Error  string `json:"error"`
	}{"error", strings.ToValidUTF8(text, "�")})
	if err != nil {
		panic(err) // strings always are JSON
	}
	return data
}

// printDocument prints an answer, indented. On a terminal what could control it is
// escaped, which leaves the document what it is.
func (p *Program) printDocument(document json.RawMessage) error {
	var text bytes.Buffer
	if err := json.Indent(&text, document, "", "  "); err != nil {
		return fail(exitFailed, fmt.Errorf("the answer: %w", err))
	}
	out := text.String()
	if isTerminal(p.Stdout) {
		out = harmlessJSON(out)
	}
	switch _, err := fmt.Fprintln(p.Stdout, out); {
	case errors.Is(err, syscall.EPIPE):
		return fail(exitSignalBase+signalPipe, nil)
	case err != nil:
		return fail(exitFailed, fmt.Errorf("write the answer: %w", err))
	}
	return nil
}

// bridgeCalls makes calls of a bridge.
type bridgeCalls struct {
	p       *Program
	b       *Bridge
	f       *bridgeFlags
	ctx     context.Context //nolint:containedctx // it is the command, and ends with it
	place   *executor.Place
	station *executor.Station
	signals *endSignals
	watch   *bridgeWatch
	settle  settling
	person  bool // there is one to ask
}
