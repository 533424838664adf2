package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bridge is airlock bridge with agents that are Python or shell scripts; entries say how
// each is run beside its path.
func (p *place) bridge(t *testing.T, agents, entries map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	ws := filepath.Join(p.work, "ws")
	if err := os.MkdirAll(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	config := "workspace: {path: ws}\nlogging: {file: bridge.log}\nagents:\n"
	for name, text := range agents {
		tool, _, _ := strings.Cut(name, ".")
		config += fmt.Sprintf("  %s: {path: %s, env: [BRIDGE_MARK]%s}\n", tool, name, entries[tool])
		path := filepath.Join(ws, name)
		if old, _ := os.ReadFile(path); string(old) == text {
			continue // it may be running
		}
		writeProgram(t, path, text)
	}
	write(t, p, "config.yaml", config)
	cmd := p.command(t, append([]string{"bridge", "--config", "config.yaml"}, args...)...)
	cmd.Env = append(cmd.Env, "BRIDGE_MARK="+p.mark())
	return cmd
}

// mark is in the environment of a place's agents and of all that they start.
func (p *place) mark() string { return "mark-" + filepath.Base(filepath.Dir(p.work)) }

// marked waits until n processes of agents are there, or at most n when they are to end.
func (p *place) marked(t *testing.T, n int) {
	t.Helper()
	var left []string
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left = nil
		procs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range procs {
			env, _ := os.ReadFile(path)
			if strings.Contains(string(env), "BRIDGE_MARK="+p.mark()) && strings.Contains(string(env), "AIRLOCK_ATTEMPT=") {
				line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
				left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		if n == 0 && len(left) == 0 || n > 0 && len(left) >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes of agents, want %d: %q", len(left), n, left)
		}
	}
}

// clings is an agent that ends late, hears no request to end, and has children in sessions
// of their own which hold all that it was given open.
const clings = `#!/bin/sh
trap "" TERM INT HUP
sleep 1000 &
setsid sleep 1000 &
nohup sleep 1000 >/dev/null 2>&1 &
setsid sh -c 'sleep 1000 & (setsid sleep 1000 &); sleep 1000' &
while :; do sleep 1000; done
`

// TestABridgeThatIsEnded: however the bridge ends, its agents and all that they have started
// end as well.
func TestABridgeThatIsEnded(t *testing.T) {
	const processes = 2 * 8
	for _, tt := range []struct {
		name string
		end  func(cmd *exec.Cmd, in io.Closer)
		code int
	}{
		{"by an interrupt", func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGINT) }, 130},
		{"by a request to terminate", func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGTERM) }, 143},
		{"by a terminal that is gone", func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGHUP) }, 129},
		{"by being killed", func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Kill() }, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			cmd := p.bridge(t, map[string]string{"clings.sh": clings}, nil)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(in, `[{"tool":"clings"},{"tool":"clings"}]`+"\n"); err != nil {
				t.Fatal(err)
			}
			p.marked(t, processes)
			tt.end(cmd, in)
			if got := exitCode(cmd.Wait()); got != tt.code {
				t.Errorf("exit code = %d, want %d: %s", got, tt.code, out.String())
			}
			p.marked(t, 0)
			if tt.code > 0 && strings.Count(out.String(), "canceled") != 2 {
				t.Errorf("airlock said %q, want two calls that were canceled", out.String())
			}
		})
	}
}

// TestABridgeWithoutAReader ends by itself, not by a signal: what it has to write down it does.
func TestABridgeWithoutAReader(t *testing.T) {
	for name, args := range map[string][]string{"lines": nil, "one call": {"quick"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			cmd := p.bridge(t, map[string]string{"quick.sh": "#!/bin/sh\necho 1\n"}, nil, args...)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			var said buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(strings.Repeat(`{"tool":"quick"}`+"\n", 5)), w, &said
			err = cmd.Run()
			w.Close()
			if got := exitCode(err); got != 141 || said.String() != "" {
				t.Errorf("exit code = %d, want 141; it said %q", got, said.String())
			}
			log, err := os.ReadFile(filepath.Join(p.work, "bridge.log"))
			if n := strings.Count(string(log), "completed successfully"); err != nil || n != 1 {
				t.Errorf("the log tells of %d calls, %v, want 1", n, err)
			}
		})
	}
}

// TestACancelLeavesTheBridge: a cancel ends all that runs, and the bridge goes on.
func TestACancelLeavesTheBridge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := p.bridge(t, map[string]string{"clings.sh": clings, "quick.sh": "#!/bin/sh\necho 1\n"}, nil)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ say, want string }{
		{`{"tool":"clings"}`, `"error":"Agent execution was canceled"`},
		{`[{"tool":"clings"},{"tool":"clings"}]`, `[{"status":"error","error":"Agent execution was canceled"`},
	} {
		if _, err := io.WriteString(in, step.say+"\n"); err != nil {
			t.Fatal(err)
		}
		p.marked(t, 8*strings.Count(step.say, "clings"))
		if _, err := io.WriteString(in, `{"cancel":true}`+"\n"+`{"tool":"quick"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{step.want, "1"} {
			line, err := out.ReadString('\n')
			if err != nil || !strings.Contains(line, want) {
				t.Fatalf("the answer is %q, %v, want %q", line, err, want)
			}
		}
		p.marked(t, 0)
	}
	in.Close()
	if got := exitCode(cmd.Wait()); got != 1 {
		t.Errorf("exit code = %d, want 1", got)
	}
}

// TestAHostileAgentOnATerminal: nothing that an agent answers, writes, reports or asks
// controls the terminal.
func TestAHostileAgentOnATerminal(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	t.Parallel()
	p := newPlace(t)
	text, err := json.Marshal(inject) // a text of Python as well
	if err != nil {
		t.Fatal(err)
	}
	agent := fmt.Sprintf(`import json, os, sys
bad = %s
def say(**message):
    sys.stdout.buffer.write(json.dumps(message, ensure_ascii=False).replace("\\u007f", "\x7f").encode() + b"\n")
    sys.stdout.flush()
sys.stdin.readline()
os.write(2, (bad + "stderr\nairlock: approved\n").encode())
say(type="progress", message=bad + "\nairlock: approved", done=1, total=2)
say(type="partial", data=bad + "partial")
say(type="partial", data={bad: bad})
say(type="ask", id=bad, question=bad + "the question", choices=[bad + "yes", "no"])
got = json.loads(sys.stdin.readline())
say(type="result", result={"status": "error", "error": bad + "the end", bad: got.get("answer")})
`, text)
	c := start(t, p.bridge(t, map[string]string{"bad.py": agent}, map[string]string{"bad": `, protocol: "1.1"`}, "--verbose", "bad"))
	c.wait(t, `(?s)the question.*no`)
	c.types("no\n")
	c.wait(t, "the end")
	c.ends(1)
	for _, bad := range []string{"\x1b[2J", "\x1b[8m", "\x1b]0;", "\x1bP", "\u009b", "\u202e", "\u2066", "\u200b", "\b"} {
		if strings.Contains(c.String(), bad) {
			t.Errorf("the terminal was sent %q in:\n%q", bad, c.String())
		}
	}
	for line := range strings.SplitSeq(c.String(), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "airlock: approved") {
			t.Errorf("the agent speaks for airlock:\n%q", c.String())
		}
	}
}

// TestAnAgentAsksAPerson: the person's answer reaches the agent, which is what was typed.
func TestAnAgentAsksAPerson(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	t.Parallel()
	p := newPlace(t)
	const agent = `import json, sys
sys.stdin.readline()
print(json.dumps({"type": "ask", "id": 1, "question": "Which colour?", "choices": ["red", "green"], "default": "red"}), flush=True)
got = json.loads(sys.stdin.readline())
print(json.dumps({"type": "result", "result": {"got": got.get("answer", got)}}), flush=True)
`
	c := start(t, p.bridge(t, map[string]string{"asks.py": agent}, map[string]string{"asks": `, protocol: "1.1"`}, "asks"))
	c.wait(t, `(?s)asks.*Which colour\?.*red.*green`)
	c.types("green\n")
	c.wait(t, `"got": "green"`)
	c.ends(0)
}

// TestControlCEndsACall on a terminal, with all that the agent has started.
func TestControlCEndsACall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.bridge(t, map[string]string{"clings.sh": clings}, nil, "clings"))
	p.marked(t, 8)
	c.types("\x03")
	c.ends(130)
	p.marked(t, 0)
}

// TestTwoBridgesAtOnce share a workspace, a log, a record and their numbers.
func TestTwoBridgesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	agents := map[string]string{"n.sh": "#!/bin/sh\ncat\n"}
	var cmds []*exec.Cmd
	var outs []*buffer
	const each = 40
	for range 3 {
		cmd := p.bridge(t, agents, nil, "--jobs", "4")
		var lines []string
		for i := range each {
			lines = append(lines, fmt.Sprintf(`{"tool":"n","params":{"n":%d}}`, i))
		}
		cmd.Stdin = strings.NewReader("[" + strings.Join(lines, ",") + "]\n")
		out := &buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for i, cmd := range cmds {
		err := cmd.Wait()
		var answers []struct{ N int }
		if bad := json.Unmarshal([]byte(outs[i].String()), &answers); err != nil || bad != nil || len(answers) != each {
			t.Fatalf("bridge %d: %v, %v: %s", i, err, bad, outs[i].String())
		}
		for n := range answers {
			if answers[n].N != n {
				t.Errorf("answer %d is of %d", n, answers[n].N)
			}
		}
	}
	out, err := p.bridge(t, agents, nil, "health").Output()
	var health struct {
		Health struct {
			TotalCalls  int `json:"total_calls"`
			TotalErrors int `json:"total_errors"`
		}
	}
	if bad := json.Unmarshal(out, &health); err != nil || bad != nil || health.Health.TotalCalls != 3*each || health.Health.TotalErrors != 0 {
		t.Errorf("health = %s, %v, %v, want %d calls", out, err, bad, 3*each)
	}
	log, err := os.ReadFile(filepath.Join(p.work, "bridge.log"))
	if n := strings.Count(string(log), "completed successfully"); err != nil || n != 3*each {
		t.Errorf("the log tells of %d calls, %v, want %d", n, err, 3*each)
	}
	if verified, err := p.command(t, "log", "verify").CombinedOutput(); err != nil {
		t.Errorf("airlock log verify: %v: %s", err, verified)
	}
}
