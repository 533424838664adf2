package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/tool"
)

func (p *Program) toolCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tool",
		Short: "List, describe and call tools",
		Long: `Tools are named operations with a JSON Schema for their arguments: built in, or plugins
(executables with a manifest, in the plugins folder beside the configuration, or in a folder that --plugin names).
Each call passes the gate and is recorded.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage("%s is not one of airlock tool's commands: list, describe, call", printable(args[0]))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var plugins []string
	cmd.PersistentFlags().StringArrayVar(&plugins, "plugin", nil, "look for plugins in this folder as well")
	cmd.AddCommand(p.toolListCmd(&plugins), p.toolDescribeCmd(&plugins), p.toolCallCmd(&plugins))
	return cmd
}

// tools gives the registry, with the plugins of these folders as well, and says which
// plugins could not be loaded.
func (p *Program) tools(dirs []string) (*tool.Registry, error) {
	folders, err := existing(dirs)
	if err != nil {
		return nil, usage("--plugin %w", err)
	}
	reg, problems, err := p.Tools(folders)
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	for _, problem := range problems {
		p.say("%s", printable(problem))
	}
	return reg, nil
}

func (p *Program) toolListCmd(plugins *[]string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tools there are",
		Args:  takes(0, 0, "airlock tool list takes no arguments; airlock tool describe NAME tells more of one tool"),
		RunE: func(_ *cobra.Command, _ []string) error {
			reg, err := p.tools(*plugins)
			if err != nil {
				return err
			}
			if asJSON {
				return p.printJSON(reg.List())
			}
			fmt.Fprintf(p.Stdout, "%-14s  %-8s  %-48s  %s\n", "NAME", "KIND", "ACTIONS", "DESCRIPTION")
			for _, info := range reg.List() {
				fmt.Fprintf(p.Stdout, "%-14s  %-8s  %-48s  %s\n", info.Name, info.Kind, cut(actionNames(info), 48), cut(printable(info.Description), 72))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON list: all that is known of each tool")
	return cmd
}

func actionNames(info *tool.Info) string {
	names := make([]string, len(info.Actions))
	for i := range info.Actions {
		names[i] = info.Actions[i].Name
	}
	return strings.Join(names, ", ")
}

func (p *Program) toolDescribeCmd(plugins *[]string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "describe NAME",
		Short:             "Describe a tool: its actions, their arguments and what the gate knows of them",
		Args:              takes(1, 1, "say which tool: airlock tool describe NAME; airlock tool list lists them"),
		ValidArgsFunction: p.completeTools,
		RunE: func(_ *cobra.Command, args []string) error {
			reg, err := p.tools(*plugins)
			if err != nil {
				return err
			}
			t, ok := reg.Lookup(args[0])
			if !ok {
				_, _, err := reg.Resolve(tool.Call{Tool: args[0]})
				return usage("%w", err)
			}
			if asJSON {
				return p.printJSON(t.Info())
			}
			return p.describe(t.Info())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// describe shows a tool for a person.
func (p *Program) describe(info *tool.Info) error {
	fmt.Fprintf(p.Stdout, "%s  %s\n", info.Name, printable(info.Description))
	if info.Source != "" {
		fmt.Fprintf(p.Stdout, "from %s\n", printable(info.Source))
	}
	for i := range info.Actions {
		a := &info.Actions[i]
		fmt.Fprintf(p.Stdout, "\n%s  %s\n  risk %s", a.Name, printable(a.Description), a.Risk)
		if a.Place == tool.HostOnly {
			fmt.Fprint(p.Stdout, ", on the host")
		}
		if len(a.Needs) > 0 {
			fmt.Fprintf(p.Stdout, ", needs the host's %s", joinNeeds(a.Needs))
		}
		var schema bytes.Buffer
		if err := json.Indent(&schema, a.Schema, "  ", "  "); err != nil {
			return fail(exitFailed, fmt.Errorf("the schema of %s %s: %w", info.Name, a.Name, err))
		}
		fmt.Fprintf(p.Stdout, "\n  arguments %s\n", printableLines(schema.String()))
	}
	return nil
}

// completeTools completes tools' names.
func (p *Program) completeTools(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	reg, _, err := p.Tools(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, info := range reg.List() {
		out = append(out, info.Name+"\t"+printable(info.Description))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// callFlags are those of airlock tool call.
type callFlags struct {
	decisionFlags
	placeFlags
	action  string
	direct  bool
	timeout time.Duration
}

func (p *Program) toolCallCmd(plugins *[]string) *cobra.Command {
	f := &callFlags{}
	cmd := &cobra.Command{
		Use:   "call [flags] NAME [JSON|-]",
		Short: "Call a tool and print its answer as one JSON object",
		Long: `Call a tool. JSON is its arguments, or the whole request with tool, action and args; - reads
it from standard input. The answer is one JSON object: ok, stdout, stderr and meta, with
meta's error_code where it is not ok.

A call is made in a sandbox laid over this machine's files, and what it changes is thrown
away, kept or committed as with airlock run; --direct makes it on the host, where the gate
asks about all but what only reads. Tools that are about the host itself, such as sysinfo,
always work there.

The exit code is 0 for an answer that is ok, 1 for one that is not, 2 where the arguments
are not what the tool takes, 125 when airlock failed and 126 when the gate refused.`,
		Example: `  airlock tool call fs.read_file '{"path": "README.md", "max_bytes": 1024}'
  airlock tool call --commit fs.write_file '{"path": "note.txt", "content": "hello\n", "backup": true}'
  airlock tool call --action search pkg.manage '{"query": "nginx"}'`,
		DisableFlagsInUseLine: true,
		Args:                  takes(1, 2, "say which tool: airlock tool call NAME [JSON|-]; airlock tool list lists them"),
		ValidArgsFunction:     p.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			reg, err := p.tools(*plugins)
			if err != nil {
				return err
			}
			return p.callTool(cmd.Context(), f, reg, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.action, "action", "", "the tool's action, where it has several")
	fl.BoolVar(&f.direct, "direct", false, "make the call on the host, through the gate")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the call after this long, as in 90s or 5m")
	fl.BoolVar(&f.commit, "commit", false, "commit the changes in the working folder when the answer is ok (else keep them)")
	fl.BoolVar(&f.keep, "keep", false, "keep the changes for airlock changes, commit or discard")
	fl.BoolVar(&f.discard, "discard", false, "throw the changes away (the default without a terminal)")
	f.placeFlags.add(fl)
	return cmd
}

// callTool makes the call and settles what it changed.
func (p *Program) callTool(ctx context.Context, f *callFlags, reg *tool.Registry, args []string) error {
	wish, err := f.wish()
	switch {
	case err != nil:
		return err
	case f.timeout < 0:
		return usage("--timeout %s: it is negative", f.timeout)
	case f.direct && wish != undecided:
		return usage("--direct changes the host itself: there is nothing to commit, keep or discard afterwards")
	}
	call, bad, err := p.readCall(f, args)
	if err != nil {
		return err
	}
	if bad != nil {
		return p.answer(*bad, nil)
	}
	place, err := p.place(&f.placeFlags)
	if err != nil {
		return err
	}
	store, err := p.open()
	if err != nil {
		return err
	}
	ctx, signals := withSignals(ctx)
	defer signals.stop()
	place.Signals = signals.forward
	plans, err := p.plans()
	if err != nil {
		return err
	}
	watch := p.newBridgeWatch(&bridgeFlags{})
	req := &executor.OneCall{
		Tools: reg, Call: call, Place: *place, Direct: f.direct, Timeout: f.timeout, Who: "cli", Stderr: p.Stderr, Events: watch,
	}
	if p.interactive() {
		req.Asker = p.Terminal
	}
	out, err := plans.CallOnce(ctx, req)
	watch.clear()
	if err != nil {
		if code := signals.code(); code != 0 && errors.Is(err, context.Canceled) {
			return fail(code, nil)
		}
		return fail(exitFailed, err)
	}
	return p.settleCall(ctx, store, wish, out)
}

// settleCall decides on what a call changed, and prints its answer.
func (p *Program) settleCall(ctx context.Context, store *changes.Store, wish decision, out *executor.CallOutcome) error {
	rep := &runReport{out: &executor.Outcome{ID: out.ID, Set: out.Set}, asking: p.interactive() && !isTerminal(p.Stdout)}
	rep.asking = p.interactive()
	if !out.Result.OK {
		rep.code = exitGeneral
	}
	settled := p.settle(ctx, store, rep, wish)
	if out.Ended != nil {
		p.say("%v; its changes are lost", out.Ended)
	}
	if settled != nil {
		p.complain(explainSet(settled))
	}
	return errors.Join(p.answer(out.Result, out.Refused), settledCode(settled))
}

func settledCode(err error) error {
	if err == nil {
		return nil
	}
	return fail(commitCode(err), nil)
}

// answer prints a result, and gives the exit code that it makes.
func (p *Program) answer(res tool.Result, refused *tool.RefusedError) error {
	if err := p.printJSON(res); err != nil {
		return err
	}
	switch code := res.Code(); {
	case res.OK:
		return nil
	case refused != nil:
		return fail(exitRefused, nil)
	case code == tool.InvalidArgs, code == tool.ParseError:
		return fail(exitUsage, nil)
	}
	return fail(exitGeneral, nil)
}

// readCall makes the call of what was typed: a tool's name and its arguments, or a whole
// request.
func (p *Program) readCall(f *callFlags, args []string) (tool.Call, *tool.Result, error) {
	call := tool.Call{Tool: args[0], Action: f.action, Args: json.RawMessage("{}")}
	if len(args) == 1 {
		return call, nil, nil
	}
	text := []byte(args[1])
	if args[1] == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(p.Stdin, tool.MaxArgs+maxAnswer)); err != nil {
			return call, nil, fail(exitFailed, fmt.Errorf("read the arguments: %w", err))
		}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || !isRequest(members) {
		call.Args = text
		return call, nil, nil
	}
	whole, err := tool.DecodeCall(bytes.NewReader(text))
	if err != nil {
		return call, new(tool.Fail(tool.ParseError, err.Error())), nil
	}
	switch {
	case whole.Tool != call.Tool:
		return call, nil, usage("the request is for the tool %s, and %s was named", printable(whole.Tool), printable(call.Tool))
	case f.action != "" && whole.Action != f.action:
		return call, nil, usage("the request is for the action %s, and --action says %s", printable(whole.Action), printable(f.action))
	}
	return whole, nil, nil
}

// isRequest reports whether an object is a whole request and not the arguments of one.
func isRequest(members map[string]json.RawMessage) bool {
	_, named := members["tool"]
	_, args := members["args"]
	return named && args
}
