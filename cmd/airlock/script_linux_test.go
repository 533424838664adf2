package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"airlock/internal/planner/modeltest"
)

// TestScripts plays testdata/*.txtar: each is what somebody types, and what they see. A
// script starts in $WORK/w and has a home folder and a state folder of its own.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := root()
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(parent, "scripts-") //nolint:usetesting // not in /tmp: see root
	if err := errors.Join(err, os.Chmod(work, 0o755)); err != nil {
		t.Fatal(err)
	}
	m := &models{t: t, by: map[string]*modeltest.Script{}}
	testscript.Run(t, testscript.Params{
		Dir:         "testdata",
		WorkdirRoot: work,
		Setup: func(env *testscript.Env) error {
			env.Defer(takeSlot())
			env.Cd = filepath.Join(env.WorkDir, "w")
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("AIRLOCK_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			env.Setenv("TZ", "UTC")
			env.Defer(endSandboxes(env.Vars, dir))
			return errors.Join(os.MkdirAll(env.Cd, 0o755), os.MkdirAll(home, 0o755))
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": code, "var": variable, "until": untilIt, "setid": setID, "json": jsonIs, "clean": clean, "many": many,
			"model": m.start, "requests": m.requests, "registry": realRegistry,
		},
	})
}

// TestScriptsAsOrdinaryUser plays the scripts as nobody when it is root that tests.
func TestScriptsAsOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sandboxes")
	}
	if os.Geteuid() != 0 {
		t.Skip("TestScripts has run as an ordinary user")
	}
	if underRace {
		t.Skip("it runs without the race detector")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	// The test's binary and its scripts may lie in folders that are root's alone.
	home := folder(t)
	exe := filepath.Join(home, "test")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(home, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestScripts$", "-test.timeout=10m")
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "TMPDIR=" + home,
		"AIRLOCK_TEST_PROGRAMS=" + dir, "AIRLOCK_TEST_ROOT=" + home,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the scripts as nobody: %v\n%s", err, out)
	}
}

// code runs a program and checks its exit code: code N PROGRAM [ARG…].
func code(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil {
		ts.Fatalf("usage: code N PROGRAM [ARG…]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code = %d, want %d", got, want)
	}
}

// endSandboxes ends the sandboxes that last of a script that failed.
func endSandboxes(env []string, dir string) func() {
	return func() {
		for _, v := range env {
			if home, ok := strings.CutPrefix(v, "AIRLOCK_HOME="); ok {
				if _, err := os.Stat(filepath.Join(home, "sandboxes.db")); err != nil {
					return
				}
			}
		}
		cmd := exec.Command(filepath.Join(dir, "airlock"), "sandbox", "rm", "--all", "--discard")
		cmd.Env = env
		_ = cmd.Run() // what is left behind is the script's to find
	}
}

// variable sets a variable to what was printed: var NAME, or var NAME MEMBER of the JSON value.
func variable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: var NAME [MEMBER]")
	}
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			ts.Fatalf("not one JSON value: %v\n%s", err, text)
		}
		for key := range strings.SplitSeq(args[1], ".") {
			v = member(v, key)
		}
		text = fmt.Sprint(v)
	}
	ts.Setenv(args[0], text)
}

// untilIt runs a program until it succeeds and prints what the pattern matches: until PATTERN PROGRAM [ARG…].
func untilIt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM [ARG…]")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err := ts.Exec(args[1], args[2:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%q did not come", args[0])
}

var keptAs = regexp.MustCompile(`kept as ([a-z2-7]{16})`)

// setID sets a variable to the ID of the change set that was kept last: setid NAME.
func setID(ts *testscript.TestScript, _ bool, args []string) {
	m := keptAs.FindStringSubmatch(ts.ReadFile("stderr"))
	if m == nil {
		ts.Fatalf("nothing was kept")
	}
	ts.Setenv(args[0], m[1])
}

// jsonIs compares a member of the JSON object on stdout: json a.0.b VALUE. The length
// of a list is a.len, its members' names are a.keys, and no member is "none".
func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json MEMBER VALUE")
	}
	var v any
	out := ts.ReadFile("stdout")
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		ts.Fatalf("not one JSON value: %v\n%s", err, out)
	}
	for key := range strings.SplitSeq(args[0], ".") {
		v = member(v, key)
	}
	got := fmt.Sprint(v)
	if f, ok := v.(float64); ok {
		got = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q (not: %t)", args[0], got, args[1], neg)
	}
}

func member(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		switch {
		case key == "keys":
			keys := []string{}
			for k := range v {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			return strings.Join(keys, " ")
		case v[key] != nil:
			return v[key]
		}
	case []any:
		if key == "len" {
			return len(v)
		}
		if i, err := strconv.Atoi(key); err == nil && i < len(v) {
			return v[i]
		}
	}
	return "none"
}

// clean checks that no sandbox, and no process of one, is left.
func clean(ts *testscript.TestScript, _ bool, _ []string) {
	if left := leftovers(ts.Getenv("AIRLOCK_HOME")); len(left) > 0 {
		ts.Fatalf("left behind: %q", left)
	}
}

// leftovers are folders and processes of sandboxes; what ends may take a moment.
func leftovers(state string) []string {
	var left []string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		left, _ = filepath.Glob(filepath.Join(state, "run", "*"))
		procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range procs {
			if args, _ := os.ReadFile(p); strings.Contains(string(args), state+"/run") {
				left = append(left, strings.ReplaceAll(string(args), "\x00", " "))
			}
		}
		if len(left) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return left
}

// many makes N files in a folder: many DIR N.
func many(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	for i := range n {
		ts.Check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d", i)), []byte("old\n"), 0o644))
	}
}
