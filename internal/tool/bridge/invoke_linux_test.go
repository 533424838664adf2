package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
)

// spy writes down what an agent is given.
var spy = sh(`cat >stdin; for a; do echo "$a"; done >argv; env >env; pwd >cwd; ps -o pgid= -p $$ >pgrp; echo $$ >pid; echo '{"ok":true}'`)

func TestWhatAnAgentGets(t *testing.T) {
	w := newWorld(t, `
  label_github_issue: {path: agents/spy}
  own: {path: agents/spy, args: {who: --who, flags: -f, o: --o}, env: {GITHUB_TOKEN: null, WANTED: mine, ABSENT: null, PYTHONPATH: /lib/py}, command: /bin/sh}
`, map[string]string{"agents/spy": spy})

	t.Run("of a known tool", func(t *testing.T) {
		if res, got := w.call("label_github_issue", `{"repo_name":"a/b", "issue_number":7, "x":"<é>", "z": 12345678901234567890}`); !res.OK {
			t.Fatal(got)
		}
		if got, want := w.read("stdin"), `{"dry_run":true,"issue_number":7,"repo_name":"a/b","x":"é","z":12345678901234567890}`+"\n"; got != want {
			t.Errorf("stdin = %q, want %q", got, want)
		}
		if got, want := w.read("argv"), "--issue\n7\n--repo\na/b\n--dry-run\n"; got != want {
			t.Errorf("argv = %q, want %q", got, want)
		}
		if got := strings.TrimSpace(w.read("cwd")); got != w.dir {
			t.Errorf("cwd = %q, want %q", got, w.dir)
		}
		if pid, pgrp := strings.TrimSpace(w.read("pid")), strings.TrimSpace(w.read("pgrp")); pid != pgrp {
			t.Errorf("pid = %s, process group = %s", pid, pgrp)
		}
		env := "\n" + w.read("env")
		wantIn(t, "env", env, "\nPYTHONPATH="+w.dir+"\n", "\nHOME=/home/of/test\n", "\nLC_ALL=C\n", "\nLANG=C.UTF-8\n", "\nPATH=",
			"\nTMPDIR=/tmp\n", "\nGITHUB_TOKEN=ghp_", "\nAIRLOCK_TOOL=label_github_issue\n", "\nAIRLOCK_CALL=", "\nAIRLOCK_ATTEMPT=1\n")
		for _, not := range []string{"SECRET", "WANTED", "LC_TIME", "GEMINI"} {
			if strings.Contains(env, "\n"+not) {
				t.Errorf("env has %s", not)
			}
		}
		if log := w.log.String(); strings.Contains(log, "ghp_0123") || !strings.Contains(log, "was sanitized") {
			t.Errorf("log = %s", log)
		}
	})

	t.Run("of an entry of one's own", func(t *testing.T) {
		if res, got := w.call("own", `{"who":"$(touch x); -rf","flags":["-x","y"],"o":"--evil"}`); !res.OK {
			t.Fatal(got)
		}
		if got, want := w.read("argv"), "--who\ntouch x -rf\n-f=-x\n-f\ny\n--o=--evil\n"; got != want {
			t.Errorf("argv = %q, want %q", got, want)
		}
		env := "\n" + w.read("env")
		wantIn(t, "env", env, "\nGITHUB_TOKEN=ghp_", "\nWANTED=mine\n", "\nPYTHONPATH=/lib/py\n")
		if strings.Contains(env, "ABSENT") {
			t.Error("env has what there is not")
		}
	})
}

func TestInASandboxTheMachinesOwnVariablesAreGiven(t *testing.T) {
	w := newWorld(t, "  it: {path: spy, sandbox: airlock, env: [GITHUB_TOKEN, WANTED]}\n", map[string]string{"spy": spy})
	w.m.Where = tool.InSandbox
	if res, got := w.call("it", `{}`); !res.OK {
		t.Fatal(got)
	}
	env := "\n" + w.read("env")
	wantIn(t, "env", env, "\nHOME=/home/of/machine\n", "\nLC_TIME=C\n", "\nGITHUB_TOKEN=ghp_", "\nWANTED=this one\n")
	for _, not := range []string{"SECRET", "LC_ALL", "LANG="} {
		if strings.Contains(env, "\n"+not) {
			t.Errorf("env has %s", not)
		}
	}
}

func TestAnAgentRunsOnlyWhereItsEntrySays(t *testing.T) {
	w := newWorld(t, "  boxed: {path: it, sandbox: airlock}\n  free: {path: it}\n", map[string]string{"it": sh("touch ran; echo '{}'")})
	if _, got := w.call("boxed", `{}`); !strings.HasPrefix(got, `{"status":"error","error":"Refused: boxed runs in a sandbox only`) {
		t.Errorf("on the host: %s", got)
	}
	w.m.Where = tool.InSandbox
	if _, got := w.call("free", `{}`); !strings.HasPrefix(got, `{"status":"error","error":"Refused: free runs on this machine only`) {
		t.Errorf("in a sandbox: %s", got)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "ran")); err == nil {
		t.Error("it ran")
	}
	if got, want := w.metrics.outcomes(), "boxed refused, free refused"; got != want {
		t.Errorf("metrics: %s, want %s", got, want)
	}
}

func TestInfo(t *testing.T) {
	w := newWorld(t, `  host: {path: it, description: Does it}
  boxed: {path: it, sandbox: airlock}
  out: {path: it, sandbox: airlock, network: host}
`, nil)
	type facts struct {
		About, Source string
		Risk          tool.Risk
		Place         tool.Place
		Network       bool
	}
	got := map[string]facts{}
	for _, info := range w.tools.List() {
		if info.Kind != tool.Bridge || info.WorkDir != w.dir || len(info.Actions) != 1 || info.Actions[0].Name != "run" {
			t.Errorf("%+v", info)
		}
		got[info.Name] = facts{info.Description, strings.TrimPrefix(info.Source, w.dir), info.Actions[0].Risk, info.Actions[0].Place, info.HostNetwork}
	}
	want := map[string]facts{
		"host":         {"Does it", "/config.yaml:3", tool.RiskUnknown, tool.HostOnly, false},
		"boxed":        {"Runs the agent boxed.", "/config.yaml:4", tool.RiskWritesInside, tool.AnyPlace, false},
		"out":          {"Runs the agent out.", "/config.yaml:5", tool.RiskNetwork, tool.AnyPlace, true},
		"health_check": {"Says how the calls of the agents went: how many there were, how many failed, how long they took.", "/config.yaml", tool.RiskReadOnly, tool.HostOnly, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPrepareIsWhatTheGateSees(t *testing.T) {
	w := newWorld(t, "  watch_collect: {path: it, defaults: {output_format: html}}\n", nil)
	call := tool.Call{Tool: "watch_collect", Args: json.RawMessage(`{ "note": "a;b" }`)}
	once, bad := w.tools.Prepare(call)
	if bad != nil {
		t.Fatal(bad.Stderr)
	}
	if want := `{"note":"ab","output_format":"html","sources":["github","pypi","npm"]}`; string(once.Args) != want {
		t.Errorf("args = %s, want %s", once.Args, want)
	}
	if again, bad := w.tools.Prepare(once); bad != nil || string(again.Args) != string(once.Args) {
		t.Errorf("again: %s", again.Args)
	}
	if n := strings.Count(w.log.String(), "Parameter note of watch_collect was sanitized"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, w.log)
	}
}

func TestRetries(t *testing.T) {
	count := `n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n >n; echo $AIRLOCK_CALL >>calls; `
	for _, tt := range []struct {
		name, script, entry string
		attempts            string
		outcome             string
	}{
		{"success is not tried again", `echo '{}'`, "retries: 3", "1", "ok"},
		{"an exit code, then success", `test $AIRLOCK_ATTEMPT = 2 || exit 3; echo '{}'`, "retries: 3", "2", "ok"},
		{"no JSON, then success", `test $AIRLOCK_ATTEMPT = 2 || exec echo oops; echo '{}'`, "retries: 3", "2", "ok"},
		{"too slow, then success", `test $AIRLOCK_ATTEMPT = 2 || exec sleep 600; echo '{}'`, "retries: 1, timeout: 1", "2", "ok"},
		{"a signal, then success", `test $AIRLOCK_ATTEMPT = 2 || kill -9 $$; echo '{}'`, "retries: 3", "2", "ok"},
		{"no success at all", `exit 3`, "retries: 1", "2", "exit"},
		{"an agent's own error is its answer", `echo '{"status":"error"}'`, "retries: 3", "1", "error"},
		{"too much is too much again", `exec yes`, "retries: 3, max_output: 100", "1", "too-much"},
		{"none", `exit 3`, "", "1", "exit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, res, got := patient(t, "  it: {path: it, "+tt.entry+"}\n", map[string]string{"it": sh(count + tt.script)}, func(w *world, got string) bool {
				return got == `{}` && strings.TrimSpace(w.read("n")) == "2"
			})
			if res.Meta[bridge.MetaOutcome] != tt.outcome {
				t.Errorf("outcome %v: %s", res.Meta[bridge.MetaOutcome], got)
			}
			if n := strings.TrimSpace(w.read("n")); n != tt.attempts {
				t.Errorf("%s attempts, want %s", n, tt.attempts)
			}
			calls := strings.Fields(w.read("calls"))
			if slices.Sort(calls); len(slices.Compact(calls)) != 1 || calls[0] != res.Meta[bridge.MetaCall] {
				t.Errorf("IDs %q, want one, %v", calls, res.Meta[bridge.MetaCall])
			}
			if want := "it " + tt.outcome; w.metrics.outcomes() != want {
				t.Errorf("metrics: %s, want %s", w.metrics.outcomes(), want)
			}
			if tt.attempts == "2" {
				wantIn(t, "log", w.log.String(), "is tried again in 500ms")
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for name, script := range map[string]string{
		"while it runs":              "echo up >&2; exec sleep 600",
		"while another try is due":   "echo up >&2; exit 1",
		"though it will not have it": "trap '' TERM; echo up >&2; while :; do sleep 1; done",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "  it: {path: it, retries: 20}\n", map[string]string{"it": sh(script)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.m.Stderr = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
			begun := time.Now()
			res, got := w.callIn(ctx, "it", `{}`)
			if got != `{"status":"error","error":"Agent execution was canceled"}` || res.OK {
				t.Errorf("document = %s", got)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			if w.metrics.outcomes() != "it canceled" {
				t.Errorf("metrics: %s", w.metrics.outcomes())
			}
		})
	}
}

func TestTheMachinesTimeIsTheShorterOne(t *testing.T) {
	w := newWorld(t, "  it: {path: it, retries: 20}\n", map[string]string{"it": sh("exec sleep 600")})
	w.m.MaxTime = 300 * time.Millisecond
	res, got := w.call("it", `{}`)
	if !strings.HasPrefix(got, `{"status":"error","error":"Agent execution timed out after 0.3s"`) || res.Code() != tool.Timeout {
		t.Errorf("document = %s", got)
	}
}

func TestStderrIsSeenAsItComes(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh(`printf 'one\n\033[2Jtwo\r\n\nthree' >&2; echo '{}'`)})
	var live strings.Builder
	w.m.Stderr = &live
	if res, got := w.call("it", `{}`); !res.OK || res.Stderr != "" {
		t.Errorf("%q, %s", res.Stderr, got)
	}
	if got, want := live.String(), "one\n\x1b[2Jtwo\r\n\nthree"; got != want {
		t.Errorf("live = %q, want %q", got, want)
	}
	log := w.log.String()
	wantIn(t, "log", log, "level=INFO msg=one logger=it\n", `x1b[2Jtwo logger=it`, "msg=three logger=it\n")
	if strings.Contains(log, "\x1b") || strings.Count(log, "logger=it") != 3 {
		t.Errorf("log = %q", log)
	}
}

func TestStderrWithoutEndIsBounded(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh(`head -c 3000000 /dev/zero | tr '\0' x >&2; echo; echo '{}'`)})
	if res, got := w.call("it", `{}`); !res.OK {
		t.Error(got)
	}
	if log := w.log.String(); len(log) > 2<<20 || strings.Count(log, "level=WARN") != 1 {
		t.Errorf("the log has %d bytes, and %d warnings", len(log), strings.Count(log, "level=WARN"))
	}
}

func TestSecretsInParametersAreNotLogged(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh(`echo '{}'`)})
	if res, got := w.call("it", `{"password":"hunter2hunter2","note":"ghp_0123456789abcdefghij0123456789abcdef"}`); !res.OK {
		t.Error(got)
	}
	if log := w.log.String(); strings.Contains(log, "hunter2") || strings.Contains(log, "ghp_0123") || !strings.Contains(log, "Dispatching tool: it with params:") {
		t.Errorf("log = %s", log)
	}
}

func TestVariablesThatAreHandedOnAreNotLogged(t *testing.T) {
	w := newWorld(t, "  it: {path: it, env: {SECRET: null, API_KEY: another one, SHORT_TOKEN: brief, WANTED: null}}\n", map[string]string{
		"it": sh(`echo "S=$SECRET K=$API_KEY T=$SHORT_TOKEN W=$WANTED" >&2; exit 1`),
	})
	if res, got := w.call("it", `{"note":"another one"}`); res.OK {
		t.Error(got)
	}
	log := w.log.String()
	if strings.Contains(log, "another one") || !strings.Contains(log, "K=[redacted:API_KEY]") || !strings.Contains(log, "T=brief W=this one") {
		t.Errorf("log = %s", log)
	}
}

func TestWhatAnAgentLeavesBehindIsEnded(t *testing.T) {
	for name, script := range map[string]string{
		"it ends":     `sleep 300 & echo $! >a; setsid nohup sleep 300 >/dev/null 2>&1 & echo $! >b; echo '{}'`,
		"it is ended": `sleep 300 & echo $! >a; setsid nohup sleep 300 >/dev/null 2>&1 & echo $! >b; exec sleep 300`,
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := patient(t, "  it: {path: it, timeout: 1}\n", map[string]string{"it": sh(script)}, func(w *world, _ string) bool {
				b, err := os.ReadFile(filepath.Join(w.dir, "b"))
				return err == nil && len(b) > 0
			})
			for _, file := range []string{"a", "b"} {
				pid := strings.TrimSpace(w.read(file))
				if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
					t.Errorf("%s runs on", file)
					if n, err := strconv.Atoi(pid); err == nil {
						if p, err := os.FindProcess(n); err == nil {
							_ = p.Kill()
						}
					}
				}
			}
		})
	}
}

func TestAnAgentThatNeverReadsItsParameters(t *testing.T) {
	for name, script := range map[string]string{"never": `echo '{}'`, "it closes them": `exec 0<&-; sleep 0.1; echo '{}'`, "some": `head -c 5 >/dev/null; echo '{}'`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "  it: {path: it, params: {a: {raw: true, max_length: 1000000}}}\n", map[string]string{"it": sh(script)})
			if res, got := w.call("it", `{"a":"`+strings.Repeat("x", 900_000)+`"}`); !res.OK {
				t.Error(got)
			}
		})
	}
}

func TestTheMachineIsGone(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh("echo '{}'")})
	w.m.Client.Close()
	res, got := w.call("it", `{}`)
	if !strings.HasPrefix(got, `{"status":"error","error":"Agent execution failed: `) || res.OK {
		t.Errorf("document = %s", got)
	}
}

func TestHealthCheck(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", nil)
	w.metrics.health = bridge.Health{Status: bridge.Degraded, TotalCalls: 3, TotalErrors: 1, ErrorRate: 0.25, Agents: map[string]bridge.AgentHealth{"it": {Calls: 3, SuccessRate: 0.75, AvgDuration: 1.5}}}
	res, got := w.call("health_check", `{}`)
	want := `{"status":"success","health":{"status":"degraded","total_calls":3,"total_errors":1,"error_rate":0.25,"agents":{"it":{"calls":3,"success_rate":0.75,"avg_duration":1.5}}}}`
	if got != want || !res.OK {
		t.Errorf("document = %s\nwant       %s", got, want)
	}
	if res, got := w.call("health_check", `{"x":1}`); res.OK {
		t.Errorf("it takes an argument: %s", got)
	}
	w.metrics.err = errors.New("the store is broken; move it away")
	if res, got := w.call("health_check", `{}`); res.OK || got != `{"status":"error","error":"The metrics cannot be read: the store is broken; move it away"}` {
		t.Errorf("document = %s", got)
	}
	if w.metrics.outcomes() != "" {
		t.Errorf("health_check counts itself: %s", w.metrics.outcomes())
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	w := newWorld(t, "  it: {path: it, args: {n: --n}}\n", map[string]string{"it": sh(`cat`)})
	done := make(chan string, 16)
	for n := range cap(done) {
		go func() {
			args := `{"n":` + strconv.Itoa(n) + `}`
			res := w.tools.Invoke(t.Context(), w.m, tool.Call{Tool: "it", Args: json.RawMessage(args)})
			if got := string(bridge.Document(res)); got != args {
				done <- got
				return
			}
			done <- ""
		}()
	}
	for range cap(done) {
		if wrong := <-done; wrong != "" {
			t.Errorf("answer %s", wrong)
		}
	}
}
