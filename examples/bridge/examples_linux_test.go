// Package bridge_test tries the examples: each agent alone, with what it is given by a bridge,
// and README.md's commands as they stand there.
package bridge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/setup"
)

// install copies the examples to a folder of the test's own, with the agents that are built.
func install(t *testing.T) *setup.File {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.yaml", "agents", "notes"} {
		var err error
		if name == "config.yaml" {
			var text []byte
			if text, err = os.ReadFile(name); err == nil {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
			}
		} else {
			err = os.CopyFS(filepath.Join(dir, name), os.DirFS(name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "bin")+"/", "./agents/go/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agents in Go: %v\n%s", err, out)
	}
	file, err := setup.Load(filepath.Join(dir, "config.yaml"), func(name string) string {
		if name == "PATH" {
			return os.Getenv("PATH")
		}
		return ""
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// need skips where a program that an agent is written for is missing.
func need(t *testing.T, agent string) {
	t.Helper()
	programs := map[string][]string{
		"python": {"python3"}, "tidy": {"python3"}, "survey_python": {"python3"},
		"node": {"node"}, "survey_node": {"node"},
		"shell_stdin": {"jq"}, "shell_hybrid": {"jq"},
	}
	for prefix, all := range programs {
		for _, program := range all {
			if _, err := exec.LookPath(program); err != nil && strings.HasPrefix(agent, prefix) {
				t.Skipf("there is no %s, which %s needs", program, agent)
			}
		}
	}
}

func agentOf(t *testing.T, file *setup.File, name string) *setup.Agent {
	t.Helper()
	i := slices.IndexFunc(file.Agents, func(a setup.Agent) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("config.yaml has no agent %s", name)
	}
	need(t, name)
	return &file.Agents[i]
}

// command is how a bridge starts an agent for a call: with options and stdin, as the
// configuration says.
func command(t *testing.T, file *setup.File, name, args string) *exec.Cmd {
	t.Helper()
	a := agentOf(t, file, name)
	if err := a.Look(file.Workspace); err != nil {
		t.Fatal(err)
	}
	rules, err := params.New(a, &file.Security)
	if err != nil {
		t.Fatal(err)
	}
	prepared, cut, err := rules.Prepare(json.RawMessage(args))
	if err != nil || len(cut) > 0 {
		t.Fatalf("prepare %s: %v, taken out of %q", args, err, cut)
	}
	options, err := rules.Options(prepared)
	if err != nil {
		t.Fatal(err)
	}
	argv := append(slices.Clone(a.Argv), options...)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = file.Workspace
	cmd.Stdin = strings.NewReader(string(prepared) + "\n")
	return cmd
}

// run gives what an agent printed, as any value, and its exit code.
func run(t *testing.T, cmd *exec.Cmd) (answer any, stderr string, code int) {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatalf("%s printed %q: %v", cmd, out.String(), err)
		}
	}
	return answer, complaint.String(), cmd.ProcessState.ExitCode()
}

// labelers are the agents that are written once for each way to take parameters.
func labelers() []string {
	var names []string
	for _, language := range []string{"python", "node", "shell", "go"} {
		for _, way := range []string{"stdin", "args", "hybrid"} {
			names = append(names, language+"_"+way)
		}
	}
	return names
}

func TestEachWayInEachLanguageGivesTheSameAnswer(t *testing.T) {
	file := install(t)
	for _, tt := range []struct{ name, args, labels, dry string }{
		{"a title that says what it is", `"dry_run": true, "title": "It crashes when the README is missing"`, `["bug", "documentation"]`, "true"},
		{"no title, and not dry", `"dry_run": false`, `["triage"]`, "false"},
		{"a title like an option, with all that is hard to quote", `"dry_run": true, "title": "--issue=9 \"slowly\" \\ '$(touch x)' \n* Ü文 typo"`, `["documentation"]`, "true"},
	} {
		args := `{"repo_name": "me/it.x", "issue_number": 7, ` + tt.args + `}`
		want := `{"status": "success", "result": {"repo": "me/it.x", "issue": 7, "labels": ` + tt.labels + `, "dry_run": ` + tt.dry + `}}`
		for _, name := range labelers() {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				answer, stderr, code := run(t, command(t, file, name, args))
				if code != 0 {
					t.Fatalf("exit code %d: %s", code, stderr)
				}
				if diff := cmp.Diff(parsed(t, want), answer); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
	if _, err := os.Lstat(filepath.Join(file.Workspace, "x")); err == nil {
		t.Error("a title was run as a command")
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	file := install(t)
	for _, name := range labelers() {
		if name == "python_stdin" {
			continue // its schema does
		}
		t.Run(name, func(t *testing.T) {
			answer, stderr, code := run(t, command(t, file, name, `{"issue_number": 1}`))
			said, _ := answer.(map[string]any)
			switch {
			case strings.HasSuffix(name, "_args"):
				if code == 0 || !strings.Contains(stderr, "--repo") || strings.Contains(stderr, "Traceback") || len(lines(stderr)) > 6 {
					t.Errorf("exit code %d, stderr %q, want another than 0 and a word on --repo", code, stderr)
				}
			case code != 0 || said["status"] != "error" || !strings.Contains(said["error"].(string), "repo_name"):
				t.Errorf("exit code %d, answer %v, stderr %q, want an answer that names repo_name", code, answer, stderr)
			}
		})
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func TestHybridAgentsNeedNoBridge(t *testing.T) {
	file := install(t)
	for _, language := range []string{"python", "node", "shell", "go"} {
		name := language + "_hybrid"
		t.Run(name, func(t *testing.T) {
			argv := agentOf(t, file, name).Argv
			argv = append(slices.Clone(argv), "--repo", "a/b", "--issue", "3", "--title", "It fails")
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			answer, stderr, code := run(t, cmd)
			want := parsed(t, `{"status": "success", "result": {"repo": "a/b", "issue": 3, "labels": ["bug"], "dry_run": true}}`)
			if diff := cmp.Diff(want, answer); diff != "" || code != 0 {
				t.Errorf("exit code %d, %s\n%s", code, stderr, diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestTidyMendsLines(t *testing.T) {
	file := install(t)
	answer, stderr, code := run(t, command(t, file, "tidy", `{}`))
	if diff := cmp.Diff(parsed(t, `{"status": "success", "result": {"notes/plan.md": 2}}`), answer); diff != "" || code != 0 {
		t.Errorf("exit code %d, %s\n%s", code, stderr, diff)
	}
	text, err := os.ReadFile(filepath.Join(file.Workspace, "notes", "plan.md"))
	if want := "# Plan\n\n- measure\n- mend\n- measure again\n"; err != nil || string(text) != want {
		t.Errorf("the file is %q, %v, want %q", text, err, want)
	}
	answer, _, _ = run(t, command(t, file, "tidy", `{"folder": "nothing"}`))
	if diff := cmp.Diff(parsed(t, `{"status": "error", "error": "nothing: there is no such folder"}`), answer); diff != "" {
		t.Error(diff)
	}
}

// A talk is a run of an agent of protocol 1.1, with the test as the other side.
type talk struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func begin(t *testing.T, file *setup.File, name string) *talk {
	t.Helper()
	cmd := command(t, file, name, `{"files": ["a"]}`)
	cmd.Stdin, cmd.Stderr = nil, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &talk{t, in, bufio.NewScanner(out), cmd}
}

func (k *talk) say(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, text+"\n"); err != nil {
		k.t.Fatal(err)
	}
}

// hear gives the next message, which must be of a kind.
func (k *talk) hear(want string) {
	k.t.Helper()
	if !k.out.Scan() {
		k.t.Fatalf("the agent ended, want %s", want)
	}
	if diff := cmp.Diff(parsed(k.t, want), parsed(k.t, k.out.Text())); diff != "" {
		k.t.Fatal(diff)
	}
}

// over waits for the agent's end, which must come by itself while stdin is open.
func (k *talk) over() {
	k.t.Helper()
	if k.out.Scan() {
		k.t.Errorf("after its answer the agent said %s", k.out.Text())
	}
	if err := k.cmd.Wait(); err != nil {
		k.t.Error(err)
	}
}

const firstLine = `{"files": ["a", "b"], "_airlock": {"protocol": "1.1", "tool": "x", "call": "c", "attempt": 1, "timeout_ms": 60000,` +
	` "features": ["progress", "partial", "call", "ask", "cancel"]}}`

func TestSurvey(t *testing.T) {
	file := install(t)
	progress := func(path string, done string) string {
		return `{"type": "progress", "message": "reading ` + path + `", "done": ` + done + `, "total": 2}`
	}
	call := func(id, path string) string {
		return `{"type": "call", "id": ` + id + `, "tool": "fs.read_file", "action": "read", "args": {"path": "` + path + `"}}`
	}
	question := `{"type": "ask", "id": 3, "question": "How shall the survey be put?", "choices": ["list", "sum"], "default": "list"}`
	for _, tt := range []struct{ name, answer, result string }{
		{"a person answers", `"answer": "sum"`, `{"lines": 1, "words": 3}`},
		{"nobody is there", `"error": "there is nobody to ask"`, `[{"file": "a", "lines": 1, "words": 3}, {"file": "b", "error": "no"}]`},
	} {
		for _, name := range []string{"survey_python", "survey_node"} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				k := begin(t, file, name)
				k.say(firstLine)
				k.hear(progress("a", "0"))
				k.hear(call("1", "a"))
				k.say(`{"type": "result", "id": 1, "ok": true, "stdout": "one two three\n", "stderr": "", "meta": {}}`)
				k.hear(`{"type": "partial", "data": {"file": "a", "lines": 1, "words": 3}}`)
				k.hear(progress("b", "1"))
				k.hear(call("2", "b"))
				k.say(`{"type": "error", "id": 2, "error": "no"}`)
				k.hear(`{"type": "partial", "data": {"file": "b", "error": "no"}}`)
				k.hear(question)
				k.say(`{"type": "answer", "id": 3, ` + tt.answer + `}`)
				k.hear(`{"type": "result", "result": {"status": "success", "result": ` + tt.result + `}}`)
				k.over()
			})
		}
	}
	for _, name := range []string{"survey_python", "survey_node"} {
		t.Run("canceled while it waits/"+name, func(t *testing.T) {
			k := begin(t, file, name)
			k.say(firstLine)
			k.hear(progress("a", "0"))
			k.hear(call("1", "a"))
			k.say(`{"type": "cancel", "reason": "timeout"}`)
			k.hear(`{"type": "result", "result": {"status": "error", "error": "ended early: timeout", "result": []}}`)
			k.over()
		})
		t.Run("stdin ends/"+name, func(t *testing.T) {
			k := begin(t, file, name)
			k.say(firstLine)
			k.hear(progress("a", "0"))
			k.hear(call("1", "a"))
			k.in.Close()
			k.hear(`{"type": "result", "result": {"status": "error", "error": "ended early: stdin was closed", "result": []}}`)
			k.over()
		})
		t.Run("as an agent of 1.0/"+name, func(t *testing.T) {
			answer, _, _ := run(t, command(t, file, name, `{"files": ["a"]}`))
			if diff := cmp.Diff(parsed(t, `{"status": "error", "error": "want protocol: \"1.1\" in config.yaml"}`), answer); diff != "" {
				t.Error(diff)
			}
		})
	}
}
