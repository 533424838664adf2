package shellrisk_test

import (
	"testing"

	"airlock/internal/gate/shellrisk"
)

func TestPatternsAreHeldAgainstWhatThereIs(t *testing.T) {
	folders := map[string][]string{"/p": {"a.txt", "b.txt", "sub"}, "/p/sub": {"c"}, "/dash": {"-ofile", "a.txt"}, "/sed": {"s,.a,b,e;"}, "/s": {"S"}}
	names := func(dir string) ([]string, bool) {
		list, ok := folders[dir]
		return list, ok || dir != "/hidden"
	}
	for _, tt := range []struct {
		name, dir, line string
		reads           bool
	}{
		{"a pattern in a folder without dashes", "/p", "sort *.txt", true},
		{"a pattern for all there is", "/p", "sort *", true},
		{"a pattern in a folder that the line goes to", "/p", "cd sub && sort *", true},
		{"a pattern where a name is an option", "/dash", "sort *", false},
		{"a pattern that starts with a dash", "/p", "sort -*", false},
		{"a pattern behind a folder that the line goes to", "/p", "cd /dash && sort *", false},
		{"a pattern in a folder that cannot be listed", "/hidden", "sort *", false},
		{"a pattern where the folder is not known", "/p", `cd "$x" && sort *`, false},
		{"a pattern and a name that the line makes", "/p", "touch -- -ofile; sort *", false},
		{"a pattern and a name that the line makes later", "/p", "while sort *; do touch ./-ofile; done", false},
		{"a pattern with a variable", "/p", "sort *$x", false},
		{"a pattern that is in a variable", "/p", "x='*'; sort $x", false},
		{"a pattern whose second word is written", "/p", "uniq *", false},
		{"a script that is a pattern", "/p", "sed s,.*/,/,", true},
		{"a script that is a pattern with slashes", "/p", "ls | sed s/.*/x/g", true},
		{"a script that is a pattern where there is such a folder", "/s", "sed s/.*/x/g", false},
		{"a script that some name matches", "/sed", "sed s,.*/,/,", false},
		{"a script that may be left out", "/p", "shopt -s nullglob; sed s,.*/,/, 'e rm x'", false},
		{"a script that may be left out later", "/p", "for i in 1 2; do sed s,.*/,/, 'e rm x'; shopt -s nullglob; done", false},
		{"a script that runs a program", "/p", "sed s,.*,rm,e", false},
		{"a script that is all pattern", "/p", "sed *", false},
		{"a pattern elsewhere", "/p", "docker exec web sort *", false},
	} {
		got := shellrisk.Analyze(tt.line, &shellrisk.Options{WorkDir: tt.dir, Names: names})
		if (got.Risk == shellrisk.ReadOnly) != tt.reads {
			t.Errorf("%s: %s in %s is %s (%s)", tt.name, tt.line, tt.dir, got.Risk, got.Why)
		}
	}
	if got := shellrisk.Analyze("sort *.txt", &shellrisk.Options{WorkDir: "/p"}); got.Risk != shellrisk.Unknown {
		t.Errorf("sort *.txt is %s where nothing can be listed, want unknown", got.Risk)
	}
}
