// Label-hybrid suggests labels for an issue. It reads the command line, and stdin for what
// is not there. So it can be used by hand as well:
//
//	label-hybrid --repo a/b --issue 7 --title "It crashes" </dev/null
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

var signs = []struct {
	label string
	words []string
}{
	{"bug", []string{"crash", "crashes", "error", "fails", "broken"}},
	{"documentation", []string{"docs", "readme", "typo"}},
	{"performance", []string{"slow", "memory", "timeout"}},
	{"question", []string{"how", "why", "what"}},
}

func suggest(title string) []string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return r < 'a' || r > 'z' })
	var labels []string
	for _, s := range signs {
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(s.words, w) }) {
			labels = append(labels, s.label)
		}
	}
	if labels == nil {
		return []string{"triage"}
	}
	return labels
}

type params struct {
	Repo   string `json:"repo_name"`
	Issue  int    `json:"issue_number"`
	Title  string `json:"title"`
	DryRun bool   `json:"dry_run"`
}

type answer struct {
	Status string  `json:"status"`
	Error  string  `json:"error,omitempty"`
	Result *result `json:"result,omitempty"`
}

type result struct {
	Repo   string   `json:"repo"`
	Issue  int      `json:"issue"`
	Labels []string `json:"labels"`
	DryRun bool     `json:"dry_run"`
}

// parameters are those of stdin, with the options over them.
func parameters(args []string, in io.Reader) (*params, error) {
	p := params{DryRun: true} // unless one of them says otherwise
	// Stdin may be empty, when a person starts the program.
	if err := json.NewDecoder(in).Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the parameters: %w", err)
	}
	set := flag.NewFlagSet("label-hybrid", flag.ContinueOnError)
	// Each option begins with what stdin says, and so changes it only where it is given.
	set.StringVar(&p.Repo, "repo", p.Repo, "`OWNER/NAME` of the repository")
	set.IntVar(&p.Issue, "issue", p.Issue, "`NUMBER` of the issue")
	set.StringVar(&p.Title, "title", p.Title, "its title")
	set.BoolVar(&p.DryRun, "dry-run", p.DryRun, "change nothing")
	return &p, set.Parse(args)
}

func run(args []string, in io.Reader, out io.Writer) error {
	p, err := parameters(args, in)
	if err != nil {
		return err
	}
	if p.Repo == "" || p.Issue == 0 {
		return json.NewEncoder(out).Encode(answer{Status: "error", Error: "repo_name or issue_number is missing"})
	}
	fmt.Fprintf(os.Stderr, "looking at issue %d\n", p.Issue)
	return json.NewEncoder(out).Encode(answer{Status: "success", Result: &result{
		Repo: p.Repo, Issue: p.Issue, Labels: suggest(p.Title), DryRun: p.DryRun,
	}})
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err) // stderr is shown as the error
		os.Exit(2)
	}
}
