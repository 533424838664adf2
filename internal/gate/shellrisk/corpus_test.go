package shellrisk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/gate/shellrisk"
)

// place is where the corpora's lines are taken to run.
var place = &shellrisk.Options{
	WorkDir: "/home/ann/project", Home: "/home/ann",
	Env: map[string]string{"HOME": "/home/ann", "USER": "ann", "PATH": "/usr/local/bin:/usr/bin:/bin"},
}

// corpus reads the lines of a file: in them ⏎ stands for a line's end.
func corpus(t testing.TB, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "## ") {
			lines = append(lines, strings.ReplaceAll(line, "⏎", "\n"))
		}
	}
	return lines
}

func TestCorpora(t *testing.T) {
	for _, c := range []struct {
		file    string
		risk    shellrisk.Risk
		exactly bool
		least   int // as many lines there must be
	}{
		{"readonly.txt", shellrisk.ReadOnly, true, 500},
		{"heldout-readonly.txt", shellrisk.ReadOnly, true, 120},
		{"writes.txt", shellrisk.WritesInside, true, 30},
		{"outside.txt", shellrisk.WritesOutside, false, 20},
		{"network.txt", shellrisk.Network, false, 25},
		{"package.txt", shellrisk.Package, false, 25},
		{"service.txt", shellrisk.Service, false, 25},
		{"unknown.txt", shellrisk.Unknown, false, 80},
		{"privileged.txt", shellrisk.Privileged, false, 30},
		{"destructive.txt", shellrisk.Destructive, true, 400},
		{"evasions.txt", shellrisk.Unknown, false, 250},
	} {
		t.Run(c.file, func(t *testing.T) {
			lines := corpus(t, c.file)
			if len(lines) < c.least {
				t.Errorf("%d lines, want at least %d", len(lines), c.least)
			}
			for _, line := range lines {
				r := shellrisk.Analyze(line, place)
				if c.exactly && r.Risk != c.risk || r.Risk.Less(c.risk) {
					t.Errorf("%-20s %s (%s)", r.Risk, line, r.Why)
				}
			}
		})
	}
}
