package bridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// programs is a folder with airlock and what belongs beside it, built as `make build` does it.
func programs(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("AIRLOCK_TEST_PROGRAMS"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	for _, name := range []string{"airlock", "airlock-engine", "airlock-agent"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "airlock/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

func TestWithAirlock(t *testing.T) {
	if testing.Short() {
		t.Skip("builds airlock and starts sandboxes")
	}
	dir := programs(t)
	t.Run("README.md's commands print what it says", func(t *testing.T) { readme(t, dir) })
	t.Run("every agent answers through the bridge", func(t *testing.T) { batch(t, dir) })
}

// A step is a command of README.md and what it prints there.
type step struct {
	line          int
	command, want string
}

// steps are those of the console blocks: a command begins with "$ ", goes on with "> ".
func steps(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []step
	inside, n := false, 0
	for line := range strings.Lines(string(text)) {
		n++
		command, isCommand := strings.CutPrefix(line, "$ ")
		more, isMore := strings.CutPrefix(line, "> ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.HasPrefix(line, "```console")
		case !inside:
		case isCommand:
			all = append(all, step{line: n, command: command})
		case isMore:
			all[len(all)-1].command += more
		default:
			all[len(all)-1].want += line
		}
	}
	return all
}

func readme(t *testing.T, dir string) {
	t.Helper()
	for _, program := range []string{"python3", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s, which README.md uses", program)
		}
	}
	file, env := install(t), environment(t, dir)
	all := steps(t)
	if len(all) < 10 {
		t.Fatalf("README.md has %d commands", len(all))
	}
	for _, s := range all {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", s.command)
		cmd.Dir, cmd.Env = file.Workspace, env
		out, err := cmd.CombinedOutput()
		pattern := strings.ReplaceAll(regexp.QuoteMeta(s.want), "…", ".*")
		if !regexp.MustCompile("^" + pattern + "$").Match(out) {
			t.Fatalf("line %d: %s(%v) printed\n%s\nwant\n%s", s.line, s.command, err, out, s.want)
		}
	}
}

// batch has all agents that suggest labels do it at once.
func batch(t *testing.T, dir string) {
	t.Helper()
	file := install(t)
	var calls, want []any
	for i, name := range labelers() {
		agentOf(t, file, name)
		calls = append(calls, map[string]any{"tool": name, "params": map[string]any{
			"repo_name": "me/it", "issue_number": i + 1, "title": "--why (it) is \"slow\"\n", "dry_run": true,
		}})
		want = append(want, map[string]any{"status": "success", "result": map[string]any{
			"repo": "me/it", "issue": float64(i + 1), "labels": []any{"performance", "question"}, "dry_run": true,
		}})
	}
	line, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "airlock"), "bridge", "--config", "config.yaml")
	cmd.Dir, cmd.Env, cmd.Stdin = file.Workspace, environment(t, dir), bytes.NewReader(line)
	answer, stderr, code := run(t, cmd)
	if diff := cmp.Diff(any(want), answer); diff != "" || code != 0 {
		t.Errorf("exit code %d, %s\n%s", code, stderr, diff)
	}
}

// environment is that of a person who has never used airlock.
func environment(t *testing.T, dir string) []string {
	t.Helper()
	home := t.TempDir()
	// Where go finds no such file, it leaves a process behind that goes on writing below home, which goes with the test.
	telemetry := filepath.Join(home, ".config", "go", "telemetry")
	if err := errors.Join(os.MkdirAll(telemetry, 0o700), os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "AIRLOCK_HOME="+filepath.Join(home, "state"),
		"PATH="+dir+":"+os.Getenv("PATH"),
		"GOCACHE="+goCache(t), "GOFLAGS=-buildvcs=false", "BRIDGE_LOG_FILE=", "BRIDGE_LOG_LEVEL=", "ADK_WORKSPACE=")
}

// goCache is where the toolchain keeps what it built, which the test's home has not.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(fmt.Errorf("go env GOCACHE: %w", err))
	}
	return strings.TrimSpace(string(out))
}
