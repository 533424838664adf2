package shellrisk_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/internal/gate/shellrisk"
)

// Whatever is repeated, however deep, judging ends soon and says Unknown at least.
func TestLongAndDeepLinesAreBounded(t *testing.T) {
	const many = 30_000
	rep := strings.Repeat
	for name, line := range map[string]string{
		"too long":                     "ls " + rep("x", 1<<20),
		"many commands":                rep("ls;", many),
		"a chain of &&":                "ls" + rep("&&ls", many/2),
		"a chain of ||":                "ls" + rep("||ls", many/2),
		"a long pipe":                  "ls" + rep("|ls", many),
		"open brackets":                rep("(", many),
		"nested subshells":             rep("( ", 300) + "ls" + rep(" )", 300),
		"nested substitutions":         rep("$(", 300) + "ls" + rep(")", 300),
		"nested quotes":                rep(`"$(echo `, 300) + "ls" + rep(`)"`, 300),
		"nested defaults":              "echo " + rep("${x:-", 300) + rep("}", 300) + rep(";ls", many),
		"nested ifs":                   rep("if ", many) + "ls",
		"complete nested ifs":          rep("if ls; then ", 2000) + "ls" + rep("; fi", 2000),
		"nested loops":                 rep("while ls; do ", 2000) + "x=1" + rep("; done", 2000),
		"negations":                    rep("! ", many) + "ls",
		"times":                        rep("time ", many/2) + "ls",
		"wrappers":                     rep("nice ", many/2) + "ls",
		"braces":                       "$x echo " + rep("{a,b}", 200),
		"braces that run":              rep("{a,b}$(echo ", 30) + "x" + rep(")", 30),
		"a sequence":                   "$x echo {1..999999999}",
		"a value that doubles":         "x=aaaaaaaa;" + rep("x=$x$x;", 5000) + "$x",
		"text that evaluates itself":   "x='eval $x; eval $x'; eval $x",
		"functions that call two":      functions(2000),
		"arithmetic":                   "$x echo $((" + rep("-", many) + "1))",
		"parentheses in arithmetic":    "$x echo $((" + rep("(", 390) + "1" + rep(")", 390) + "))",
		"a ternary":                    "$x echo $((" + rep("1?1:", many/2) + "1))",
		"tests":                        "$x [[ " + rep("! ", many) + "x ]]",
		"a hundred thousand variables": rep("a=1 ", many) + "$x",
		"names in a loop":              "i=1; while ls; do " + rep("i=$((i+1)); ", 8000) + "done; $x",
		"here-documents":               rep("cat <<A\n$(ls)\nA\n", 7000) + "$x",
		"options and files":            "sed " + rep("-i.bak 's/a/b/' f ", 1300) + "; $x",
		"many files":                   "rm " + rep("a/b ", many),
		"shells in shells":             shells(40),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			r := shellrisk.Analyze(line, place)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("Analyze took %v", took)
			}
			if r.Risk.Less(shellrisk.Unknown) {
				t.Errorf("Risk = %s (%s)", r.Risk, r.Why)
			}
		})
	}
}

func functions(n int) string {
	var b strings.Builder
	b.WriteString("f0(){ ls; };")
	for i := range n {
		fmt.Fprintf(&b, "f%d(){ f%d; f%d; };", i+1, i, i)
	}
	fmt.Fprintf(&b, "f%d; $x", n)
	return b.String()
}

func shells(n int) string {
	line := "ls"
	for range n {
		line = "eval eval '" + strings.ReplaceAll(line, "'", `'\''`) + "'"
		if len(line) > 100_000 {
			break
		}
	}
	return line
}

func TestAnalyzeIsSafeForConcurrentUse(t *testing.T) {
	lines := everyLine(t)
	want := make([]shellrisk.Risk, len(lines))
	for i, line := range lines {
		want[i] = shellrisk.Analyze(line, place).Risk
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, line := range lines {
				if got := shellrisk.Analyze(line, place).Risk; got != want[i] {
					t.Errorf("Risk = %s, alone %s: %s", got, want[i], line)
				}
			}
		})
	}
	wg.Wait()
}
