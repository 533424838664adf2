package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"airlock/internal/gate"
	"airlock/internal/hostview"
	"airlock/internal/tool"
)

func (p *Program) policyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Explain verdicts, check policies, show what is in effect",
		Long: `A policy says which calls are denied, asked about and allowed. It is read from
/etc/airlock/policy.yaml, from ~/.config/airlock/policy.yaml and, to make things tighter,
from .airlock/policy.yaml of the working folder and the folders above it.`,
		Args: noSuchPart,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.policyTestCmd(), p.policyCheckCmd(), p.policyShowCmd())
	return cmd
}

func noSuchPart(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("%s is not one of %s's commands, which %s --help lists", printable(args[0]), cmd.CommandPath(), cmd.CommandPath())
}

func (p *Program) policyTestCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   `test "CMD" | -`,
		Short: "Explain the verdict on a command line",
		Long: `Explain what the policy says of a command line that would run on the host, here and now.
Nothing is run and nobody is asked. With - the lines come from stdin, one verdict a line.`,
		Example: `  airlock policy test "git push --force"
  airlock policy test --json - < lines`,
		Args: takes(1, 1, `airlock policy test wants one command line; put it in quotes, as in airlock policy test "ls -l"`),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return p.testLines(cmd.Context(), asJSON)
			}
			dir, err := folder(".")
			if err != nil {
				return fail(exitFailed, err)
			}
			j := p.judgeLine(cmd.Context(), dir, args[0])
			if asJSON {
				return p.printJSON(struct {
					Command string `json:"command"`
					tool.Judgement
				}{args[0], j})
			}
			p.explain(args[0], &j)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// judgeLine judges a line as a run on the host in dir would be.
func (p *Program) judgeLine(ctx context.Context, dir, line string) tool.Judgement {
	q := lineQuestion(tool.OnHost, dir, line, p.hostEnv())
	return p.Gate.Judge(ctx, q)
}

// hostEnv is the environment that a command on the host is given.
func (p *Program) hostEnv() map[string]string {
	env, _ := hostview.Environ(p.Environ, nil) // fails for names that a person adds: there are none
	return env
}

// lineQuestion asks about a command line.
func lineQuestion(where tool.Where, dir, line string, env map[string]string) *tool.Question {
	args, _ := json.Marshal(map[string]string{"command": line}) // strings can be marshalled
	return &tool.Question{
		Call:   tool.Call{Tool: "cmd.run", Action: "execute", Args: args},
		Action: &tool.Action{Name: "execute", Risk: tool.RiskUnknown, Command: "command"},
		Where:  where, WorkDir: dir, Env: env, Who: "cli",
	}
}

// explain says for a person what was judged.
func (p *Program) explain(line string, j *tool.Judgement) {
	fmt.Fprintf(p.Stdout, "%-8s %s\n", j.Verdict, printable(line))
	rows := [][2]string{{"risk", string(j.Risk)}, {"rule", j.Rule}, {"why", j.Why}, {"touches", strings.Join(j.Touches, ", ")}}
	var needs []string
	for _, n := range j.Needs {
		needs = append(needs, string(n))
	}
	rows = append(rows, [2]string{"needs", strings.Join(needs, ", ")})
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(p.Stdout, "%-8s %s\n", row[0], row[1])
		}
	}
	if len(j.Parts) < 2 {
		return
	}
	fmt.Fprintln(p.Stdout, "parts")
	for _, part := range j.Parts {
		fmt.Fprintf(p.Stdout, "  %-6s %s\n         %s, by %s: %s\n", part.Verdict, part.Text, part.Risk, part.Rule, part.Why)
	}
}

// maxPolicyLine is how long a line from stdin may be.
const maxPolicyLine = 64 << 10

// testLines judges the lines of stdin: a verdict for each, as it comes.
func (p *Program) testLines(ctx context.Context, asJSON bool) error {
	dir, err := folder(".")
	if err != nil {
		return fail(exitFailed, err)
	}
	in := bufio.NewReaderSize(p.Stdin, maxPolicyLine+2)
	for ctx.Err() == nil {
		line, long, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fail(exitFailed, fmt.Errorf("read the lines: %w", err))
		}
		j := tool.Judgement{
			Risk: tool.RiskUnknown, Rule: "builtin/too-long",
			Why: fmt.Sprintf("the line is longer than %d bytes", maxPolicyLine),
		}
		if !long {
			j = p.judgeLine(ctx, dir, line)
		}
		if err := p.tellLine(line, long, &j, asJSON); err != nil {
			return err
		}
	}
	return fail(exitFailed, ctx.Err())
}

// tellLine writes one verdict.
func (p *Program) tellLine(line string, long bool, j *tool.Judgement, asJSON bool) error {
	if long {
		line = strings.ToValidUTF8(line[:200], "") + "…"
	}
	if !asJSON {
		_, err := fmt.Fprintf(p.Stdout, "%-5s  %-14s  %s  (%s: %s)\n", j.Verdict, j.Risk, printable(line), j.Rule, j.Why)
		if err != nil {
			return fail(exitFailed, fmt.Errorf("write the answer: %w", err))
		}
		return nil
	}
	return p.printJSON(struct {
		Command string       `json:"command"`
		Risk    tool.Risk    `json:"risk"`
		Verdict tool.Verdict `json:"verdict"`
		Rule    string       `json:"rule"`
		Why     string       `json:"why"`
	}{line, j.Risk, j.Verdict, j.Rule, j.Why})
}

// nextLine reads a line without its end. Of a line that is too long it gives the
// beginning, and skips the rest. The error is io.EOF at the end.
func nextLine(in *bufio.Reader) (line string, long bool, err error) {
	got, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(got) > maxPolicyLine+2 {
		line, long = string(got), true
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
	} else {
		line = string(got)
	}
	if errors.Is(err, io.EOF) && line != "" { // the last line may lack its end
		err = nil
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	return line, long || len(line) > maxPolicyLine, err
}

func (p *Program) policyCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Load a policy and run its tests",
		Long: `Load FILE and hold its rules against their own tests. Without FILE, do so with every policy
that is in effect here. The exit code is 2 where something is wrong.`,
		Args: takes(0, 1, "airlock policy check takes one file at most"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := p.Gate.Check(args[0]); err != nil {
					return fail(exitUsage, err)
				}
				fmt.Fprintln(p.Stdout, printable(args[0])+": good")
				return nil
			}
			dir, err := folder(".")
			if err != nil {
				return fail(exitFailed, err)
			}
			o := p.Gate.Show(dir)
			for _, l := range o.Layers {
				fmt.Fprintf(p.Stdout, "%-8s %s: %s\n", l.Name, printable(l.File), l.State)
			}
			for _, n := range o.Notes {
				fmt.Fprintln(p.Stdout, "note     "+printable(n))
			}
			if o.Error != "" {
				return fail(exitUsage, errors.New(o.Error))
			}
			return nil
		},
	}
}

func (p *Program) policyShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the policies and rules in effect here",
		Args:  takes(0, 0, "airlock policy show takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			dir, err := folder(".")
			if err != nil {
				return fail(exitFailed, err)
			}
			o := p.Gate.Show(dir)
			if asJSON {
				return p.printJSON(o)
			}
			p.showPolicy(&o)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (p *Program) showPolicy(o *gate.Overview) {
	if o.Error != "" {
		fmt.Fprintf(p.Stdout, "Everything is denied: %s\n\n", printable(o.Error))
	}
	for _, l := range o.Layers {
		fmt.Fprintf(p.Stdout, "%s  %s  (%s)\n", l.Name, printable(l.File), l.State)
		for _, r := range l.Rules {
			where := ""
			if r.Where != "any" {
				where = " in: " + r.Where + ";"
			}
			void := ""
			if r.Void {
				void = "  (no effect: a project may only tighten)"
			}
			fmt.Fprintf(p.Stdout, "  %-5s %s:%s %s%s\n", r.Verdict, r.Name, where, cut(r.What, 100), void)
		}
	}
	fmt.Fprintln(p.Stdout, "defaults on the host, where no rule matches")
	for _, risk := range tool.Risks {
		fmt.Fprintf(p.Stdout, "  %-5s %s\n", o.Defaults[risk], risk)
	}
	for _, n := range o.Notes {
		fmt.Fprintln(p.Stdout, "note: "+printable(n))
	}
}
