package gate_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"airlock/internal/tool"
)

// exam reads one of the lists that were written without a look at the tables.
func exam(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/exam-" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "## ") {
			out = append(out, strings.ReplaceAll(line, "⏎", "\n"))
		}
	}
	if len(out) < 400 {
		t.Fatalf("the exam %s holds %d lines, want 400 at least", name, len(out))
	}
	return out
}

func TestNothingHarmfulOfTheExamIsAllowed(t *testing.T) {
	w := newWorld(t)
	g := w.gate()
	for _, line := range exam(t, "harmful") {
		if j := g.Judge(context.Background(), w.question(line)); j.Verdict == tool.Allow {
			t.Errorf("%q is allowed by %s as %s", line, j.Rule, j.Risk)
		}
	}
}

func TestTheExamsReadOnlyLinesAreAllowed(t *testing.T) {
	w := newWorld(t)
	g := w.gate()
	lines, asked := exam(t, "readonly"), 0
	for _, line := range lines {
		if j := g.Judge(context.Background(), w.question(line)); j.Verdict != tool.Allow {
			asked++
			t.Logf("%q: %s by %s: %s", line, j.Verdict, j.Rule, j.Why)
		}
	}
	if asked*100 > 3*len(lines) {
		t.Errorf("%d of %d lines are asked about, want 3 in a hundred at most", asked, len(lines))
	}
}
