package acp_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCommandsRunInTheSandbox(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ line, want string }{
		"its output and code":        {"echo out; echo err >&2; exit 3", `{{"exitStatus":{"exitCode":3},"output":"out\nerr\n","truncated":false}}`},
		"a signal":                   {"kill -TERM $$", `"exitStatus":{"signal":"SIGTERM"}`},
		"nothing to read":            {"cat", `"exitStatus":{"exitCode":0},"output":""`},
		"bytes that are no text":     {`printf 'a\377b'`, `"output":"a�b"`},
		"a command that there isn't": {"no-such-command", `"exitStatus":{"exitCode":127}`},
		"a line with a dash":         {"-x", `"exitStatus":{"exitCode":127}`},
		"it begins in the workspace": {"pwd | grep -q " + "'/TestCommands'" + " && echo yes", `"output":"yes\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wantIn(t, "the output", w.text("run "+test.line), test.want)
			asked, done := w.back.what()
			if len(asked) != 1 || !strings.HasPrefix(asked[0], "sandbox cmd.run ") || done != 1 {
				t.Errorf("the gate was asked %q with %d results", asked, done)
			}
		})
	}
}

func TestTheGateIsShownTheLineThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := request(t, "terminal/create", map[string]any{
		"command": "printf", "args": []string{"%s|", "a b", "$HOME", "it's"}, "cwd": "/", "env": []map[string]string{{"name": "FOO", "value": "x;y"}},
	})
	text := w.text(create, `call terminal/wait_for_exit {"sessionId":"s1","terminalId":"term-1"}`, `call terminal/output {"sessionId":"s1","terminalId":"term-1"}`)
	wantIn(t, "the output", text, `"output":"a b|$HOME|it's|"`)
	asked, _ := w.back.what()
	if want := `sandbox cmd.run {"command":"export FOO='x;y'\nprintf '%s|' 'a b' '$HOME' 'it'\\''s'","working_directory":"/"}`; len(asked) != 1 || asked[0] != want {
		t.Errorf("the gate was asked %q, want %q", asked, want)
	}
}

func TestATerminalThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.back.refuse["forbidden"] = true
	for name, test := range map[string]struct {
		params map[string]any
		want   string
	}{
		"no command":             {map[string]any{"command": " "}, "there is no command in it"},
		"a NUL":                  {map[string]any{"command": "a\x00b"}, "there is no command in it"},
		"a relative folder":      {map[string]any{"command": "true", "cwd": "x"}, "is not absolute"},
		"a folder that leads up": {map[string]any{"command": "true", "cwd": "/x/../.."}, "leads upwards"},
		"a variable's name":      {map[string]any{"command": "true", "env": []map[string]string{{"name": "A;id", "value": ""}}}, "is no name of a variable"},
		"a limit below 0":        {map[string]any{"command": "true", "outputByteLimit": -1}, "outputByteLimit is negative"},
		"a variable without one": {map[string]any{"command": "true", "env": []map[string]string{{"name": "", "value": ""}}}, "is no name of a variable"},
		"a digit for a name":     {map[string]any{"command": "true", "env": []map[string]string{{"name": "1A", "value": ""}}}, "is no name of a variable"},
		"what the gate refuses":  {map[string]any{"command": "forbidden"}, "refused by test"},
	} {
		t.Run(name, func(t *testing.T) {
			wantIn(t, "the answer", w.text(request(t, "terminal/create", test.params)), test.want)
		})
	}
}

func TestATerminalsOutputIsItsLastPart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line  string
		limit int
		want  string
	}{
		"all of it":                          {"printf abc", 3, `"output":"abc","truncated":false`},
		"the last of it":                     {"printf abcd", 3, `"output":"bcd","truncated":true`},
		"none of it":                         {"printf abcd", 0, `"output":"","truncated":true`},
		"characters whole":                   {"printf 'aßß'", 3, `"output":"ß","truncated":true`},
		"much of it":                         {"head -c 5000000 /dev/zero | tr '\\0' x; printf end", 6, `"output":"xxxend","truncated":true`},
		"what is no text is no longer of it": {`printf '\377a\377'`, 4, `"output":"a�","truncated":true`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantIn(t, "the output", newWorld(t).text(
				request(t, "terminal/create", map[string]any{"command": test.line, "outputByteLimit": test.limit}),
				`call terminal/wait_for_exit {"sessionId":"s1","terminalId":"term-1"}`, `call terminal/output {"sessionId":"s1","terminalId":"term-1"}`), test.want)
		})
	}
}

func TestNoLimitIsAMegabyte(t *testing.T) {
	t.Parallel()
	text := newWorld(t).text(request(t, "terminal/create", map[string]any{"command": "head -c 5000000 /dev/zero | tr '\\0' x", "outputByteLimit": 1 << 40}),
		`call terminal/wait_for_exit {"sessionId":"s1","terminalId":"term-1"}`, `call terminal/output {"sessionId":"s1","terminalId":"term-1"}`)
	if n := strings.Count(text, "x"); n < 1<<20-100 || n > 1<<20 {
		t.Errorf("%d characters, want a megabyte", n)
	}
}

func TestATerminalIsKilledAndReleased(t *testing.T) {
	t.Parallel()
	text := newWorld(t).text(request(t, "terminal/create", map[string]any{"command": "echo begun; sleep 1000 & sleep 1000"}),
		`call terminal/kill {"sessionId":"s1","terminalId":"term-1"}`, `call terminal/wait_for_exit {"sessionId":"s1","terminalId":"term-1"}`,
		`call terminal/kill {"sessionId":"s1","terminalId":"term-1"}`,
		`call terminal/release {"sessionId":"s1","terminalId":"term-1"}`, `call terminal/output {"sessionId":"s1","terminalId":"term-1"}`)
	wantIn(t, "the text", text, `"signal":"SIG`, `there is no terminal term-1`)
}

func TestTerminalsAreCounted(t *testing.T) {
	t.Parallel()
	var lines []string
	for range 33 {
		lines = append(lines, `leave sleep 1000`)
	}
	w := newWorld(t)
	wantIn(t, "the text", w.text(lines...), "term-32", "there are 32 terminals already: release one")
	if _, done := w.back.what(); done != 32 {
		t.Errorf("%d results, want 32", done)
	}
}

func TestNothingOutlivesTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alive := filepath.Join(t.TempDir(), "alive")
	w.text("leave trap '' TERM HUP INT; (setsid sh -c 'echo $$ > "+alive+"; exec sleep 1000') & wait; sleep 1000", "run until test -s "+alive+"; do sleep 0.01; done")
	pid, err := os.ReadFile(alive)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		cmd, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline")
		if err != nil || !strings.Contains(string(cmd), "1000") { // nothing of it, or another's by now
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s still runs: %q", pid, cmd)
		}
	}
}

func TestACanceledCallEndsTheAgentAndItsCommands(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"one that stops": "until-canceled", "one that does not": "deaf", "one that waits for a command": "run sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.back.seen = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-w.back.seen
				cancel()
			}()
			out, a := w.do(ctx, "say so far", "leave sleep 1000", last)
			if !out.Canceled || out.TimedOut || a.Status != "" || !strings.HasPrefix(string(out.Stdout), "so far") {
				t.Errorf("outcome %+v with the text %q, answer %+v, want canceled and none", out, out.Stdout, a)
			}
			if asked, done := w.back.what(); done != len(asked) {
				t.Errorf("%d calls and %d results", len(asked), done)
			}
		})
	}
}
