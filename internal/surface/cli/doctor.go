package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox"
)

func (p *Program) doctorCmd() *cobra.Command {
	var asJSON, fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works on this machine, and how to mend what does not",
		Long: `Say what works on this machine, and how to mend what does not. It tries a sandbox out, and
removes what sandboxes left behind that were killed. --fix removes besides what nobody owns
any more: folders, control groups and processes of keepers that are gone, records of
sandboxes that no longer run, snapshots that were never whole, and what is left of pulls.
The exit code is 1 where something fails.`,
		Args: takes(0, 0, "airlock doctor takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := p.Driver.Check(cmd.Context())
			findings = append(findings, p.checkLeftovers(cmd))
			if fix {
				findings = append(findings, p.repair(cmd.Context())...)
			}
			findings = append(findings, p.checkBoxes(cmd.Context()), p.checkRun(cmd), p.checkModel(cmd.Context()))
			if asJSON {
				return p.doctorJSON(findings)
			}
			return p.doctorText(findings)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&fix, "fix", false, "remove what nobody owns any more")
	return cmd
}

// checkLeftovers removes what ended sandboxes left behind.
func (p *Program) checkLeftovers(cmd *cobra.Command) sandbox.Finding {
	f := sandbox.Finding{Name: "leftovers", OK: true, Text: "nothing was left behind by earlier sandboxes"}
	removed, err := p.Driver.Sweep(cmd.Context())
	switch {
	case err != nil:
		f.OK, f.Text = false, err.Error()
		f.Mend = "remove it by hand, as the user who ran the sandbox"
	case len(removed) > 0:
		f.Text = "removed what " + plural(len(removed), "earlier sandbox") + " had left behind"
	}
	return f
}

// checkRun starts a sandbox for real.
func (p *Program) checkRun(cmd *cobra.Command) sandbox.Finding {
	took, err := p.Runner.Try(cmd.Context())
	if err == nil {
		return sandbox.Finding{Name: "sandbox", OK: true, Text: fmt.Sprintf("one was started, ran a command and ended, in %d ms", took.Milliseconds())}
	}
	f := sandbox.Finding{Name: "sandbox", Text: err.Error()}
	if u, ok := errors.AsType[*sandbox.Unavailable](err); ok {
		f.Text, f.Mend = u.Reason, u.Mend
	}
	return f
}

// checkModel says which model airlock ai would ask, and asks it nothing. It is a note where
// there is none: everything else works without.
func (p *Program) checkModel(ctx context.Context) sandbox.Finding {
	chosen, err := p.Model(ctx, &ModelOptions{Show: func(string, string, []byte) {}})
	if err != nil {
		return sandbox.Finding{Name: "model", OK: true, Warn: true, Text: printable(err.Error())}
	}
	info := chosen.Model.Info()
	return sandbox.Finding{Name: "model", OK: true, Text: printable(fmt.Sprintf("airlock ai asks %s %s at %s (%s); it was not tried", info.Provider, info.Model, info.Endpoint, chosen.Why))}
}

var errUnwell = errors.New("something is missing; see above")

func (p *Program) doctorText(findings []sandbox.Finding) error {
	ok := true
	for _, f := range findings {
		mark := "ok  "
		switch {
		case !f.OK:
			mark, ok = "FAIL", false
		case f.Warn:
			mark = "note"
		}
		fmt.Fprintf(p.Stdout, "%s  %-16s %s\n", mark, f.Name, f.Text)
		if f.Mend != "" {
			fmt.Fprintf(p.Stdout, "      %-16s → %s\n", "", f.Mend)
		}
	}
	if !ok {
		return fail(exitGeneral, errUnwell)
	}
	return nil
}

func (p *Program) doctorJSON(findings []sandbox.Finding) error {
	type line struct {
		Name string `json:"name"`
		OK   bool   `json:"ok"`
		Warn bool   `json:"warn,omitempty"`
		Text string `json:"text"`
		Mend string `json:"mend,omitempty"`
	}
	out := struct {
		OK       bool   `json:"ok"`
		Findings []line `json:"findings"`
	}{OK: true}
	for _, f := range findings {
		out.Findings = append(out.Findings, line(f))
		out.OK = out.OK && f.OK
	}
	enc := json.NewEncoder(p.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fail(exitFailed, err)
	}
	if !out.OK {
		return fail(exitGeneral, nil)
	}
	return nil
}
