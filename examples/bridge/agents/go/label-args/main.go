// Label-args suggests labels for an issue. It reads its parameters from the command line
// alone.
//
// config.yaml says which parameter is which option. Stdin holds all of them as well, but
// nobody has to read it.
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

type answer struct {
	Status string `json:"status"`
	Result result `json:"result"`
}

type result struct {
	Repo   string   `json:"repo"`
	Issue  int      `json:"issue"`
	Labels []string `json:"labels"`
	DryRun bool     `json:"dry_run"`
}

func run(args []string, out io.Writer) error {
	set := flag.NewFlagSet("label-args", flag.ContinueOnError)
	repo := set.String("repo", "", "`OWNER/NAME` of the repository")
	issue := set.Int("issue", 0, "`NUMBER` of the issue")
	title := set.String("title", "", "its title")
	dryRun := set.Bool("dry-run", false, "change nothing") // false is no option at all
	if err := set.Parse(args); err != nil {
		return err
	}
	if *repo == "" || *issue <= 0 || set.NArg() > 0 {
		return errors.New("want --repo OWNER/NAME --issue NUMBER")
	}
	fmt.Fprintf(os.Stderr, "looking at issue %d\n", *issue)
	return json.NewEncoder(out).Encode(answer{Status: "success", Result: result{
		Repo: *repo, Issue: *issue, Labels: suggest(*title), DryRun: *dryRun,
	}})
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err) // stderr is shown as the error
		os.Exit(2)
	}
}
