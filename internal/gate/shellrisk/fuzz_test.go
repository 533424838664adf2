package shellrisk_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"airlock/internal/gate/shellrisk"
)

// everyLine is every line of every corpus.
func everyLine(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".txt" {
			lines = append(lines, corpus(t, e.Name())...)
		}
	}
	return lines
}

func parses(line string) bool {
	_, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	return err == nil
}

// FuzzAnalyze: whatever a line holds, it is judged the same twice, soon and without
// panicking, nothing that it says holds a character that does not show, and what comes
// before a deletion does not hide it.
func FuzzAnalyze(f *testing.F) {
	for _, line := range everyLine(f) {
		f.Add(line)
	}
	f.Add("a \\\r")
	f.Add("function rm { ls; }")
	f.Add("r\\\nm() { ls; }")
	f.Fuzz(func(t *testing.T, line string) {
		began := time.Now()
		r := shellrisk.Analyze(line, place)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("Analyze took %v", took)
		}
		if again := shellrisk.Analyze(line, place); !reflect.DeepEqual(r, again) {
			t.Errorf("Analyze: %+v, and then %+v", r, again)
		}
		for _, p := range r.Parts {
			if strings.ContainsFunc(p.Text+p.Why, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0x202e || c == 0x200b }) {
				t.Errorf("Text = %q, Why = %q", p.Text, p.Why)
			}
			if r.Risk.Less(p.Risk) {
				t.Errorf("Risk = %s, and a part's is %s", r.Risk, p.Risk)
			}
		}
		if len(line) > 4096 || !parses(line) {
			return
		}
		if strings.ContainsRune(line, 0) { // no shell can be given it: it is unknown, whatever stands beside it
			if r.Risk.Less(shellrisk.Unknown) {
				t.Errorf("Risk = %s of %q, which holds a NUL", r.Risk, line)
			}
			return
		}
		for _, more := range []string{line + "\nrm -rf /", "rm -rf /\n" + line} {
			if !parses(more) || defines(line) {
				continue // a here-document without an end takes it in; a function may have its name
			}
			if got := shellrisk.Analyze(more, place); got.Risk != shellrisk.Destructive && !endless(line) && !limited(got) {
				t.Errorf("Risk = %s of %q", got.Risk, more)
			}
		}
	})
}

// defines reports whether a line could make a function called rm, in either way to write one.
func defines(line string) bool {
	line = strings.ReplaceAll(line, "\\\n", "") // a name may go on in the next line
	return strings.Contains(line, "rm") && (strings.Contains(line, "(") || strings.Contains(line, "function"))
}

// endless reports whether a line could end in a here-document, a continued line or a comment.
func endless(line string) bool {
	return strings.Contains(line, "<<") || strings.HasSuffix(line, `\`)
}

func limited(r shellrisk.Report) bool {
	for _, p := range r.Parts {
		if strings.HasPrefix(p.Why, "it is too long") {
			return true
		}
	}
	return false
}

// FuzzAnalyzeArgv: arguments are not read as a shell would.
func FuzzAnalyzeArgv(f *testing.F) {
	for _, line := range everyLine(f) {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, joined string) {
		argv := strings.Split(joined, "\x00")
		r := shellrisk.AnalyzeArgv(argv, place)
		if again := shellrisk.AnalyzeArgv(argv, place); !reflect.DeepEqual(r, again) {
			t.Errorf("AnalyzeArgv: %+v, and then %+v", r, again)
		}
		if len(r.Parts) == 0 && len(joined) > 0 {
			t.Errorf("AnalyzeArgv(%q) found nothing", argv)
		}
	})
}
