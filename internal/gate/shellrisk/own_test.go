package shellrisk_test

import (
	"testing"

	"airlock/internal/gate/shellrisk"
)

func TestProgramsOfTheWorkingFolderAreNotTheSystems(t *testing.T) {
	folders := map[string][]string{"/p": {"ls", "README"}, "/p/.venv/bin": {"pip", "python3"}, "/p/sub": {"x"}, "/home/ann/bin": {"ls"}}
	names := func(dir string) ([]string, bool) { return folders[dir], dir != "/p/hidden" }
	for _, tt := range []struct {
		name, path, line string
		reads            bool
	}{
		{"the system's folders", "/usr/bin:/bin", "ls", true},
		{"a folder of the person's own", "/home/ann/bin:/usr/bin", "ls", true},
		{"an environment's program", "/p/.venv/bin:/usr/bin", "pip list", false},
		{"an environment that has no such program", "/p/.venv/bin:/usr/bin", "ls", true},
		{"a program that is named with its folder", "/p/.venv/bin:/usr/bin", "/usr/bin/pip list", true},
		{"a program that another one runs", "/p/.venv/bin:/usr/bin", "timeout 5 pip list", false},
		{"a folder that goes with the shell", ".:/usr/bin", "ls", false},
		{"an empty element, which is the same", "/usr/bin:", "ls", false},
		{"a folder that goes with the shell elsewhere", ".:/usr/bin", "cd sub && ls", true},
		{"a folder that goes with the shell to where it is not known", ".:/usr/bin", `cd "$x" && ls`, false},
		{"a folder by a longer way", "/p/sub/../.venv/bin:/usr/bin", "pip list", false},
		{"a folder that cannot be listed", "/p/hidden:/usr/bin", "ls", false},
	} {
		got := shellrisk.Analyze(tt.line, &shellrisk.Options{WorkDir: "/p", Home: "/home/ann", Names: names, Env: map[string]string{"PATH": tt.path}})
		if (got.Risk == shellrisk.ReadOnly) != tt.reads {
			t.Errorf("%s: %s is %s (%s)", tt.name, tt.line, got.Risk, got.Why)
		}
	}
	if got := shellrisk.Analyze("ls", &shellrisk.Options{WorkDir: "/p", Names: names}); got.Risk != shellrisk.ReadOnly {
		t.Errorf("ls without a PATH is %s (%s)", got.Risk, got.Why)
	}
}
