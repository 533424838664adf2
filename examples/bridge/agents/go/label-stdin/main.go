// Label-stdin suggests labels for an issue. It reads its parameters from stdin alone.
package main

import (
	"encoding/json"
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

func run(in io.Reader, out io.Writer) error {
	p := params{DryRun: true} // unless stdin says otherwise
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("read the parameters: %w", err)
	}
	if p.Repo == "" || p.Issue == 0 {
		// What an agent says itself is its answer, with exit code 0. Another exit code is for
		// when it could not say anything: it is tried again where retries are set.
		return json.NewEncoder(out).Encode(answer{Status: "error", Error: "repo_name or issue_number is missing"})
	}
	// Stdout is for the answer alone; everything else goes to stderr.
	fmt.Fprintf(os.Stderr, "looking at issue %d\n", p.Issue)
	return json.NewEncoder(out).Encode(answer{Status: "success", Result: &result{
		Repo: p.Repo, Issue: p.Issue, Labels: suggest(p.Title), DryRun: p.DryRun,
	}})
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
