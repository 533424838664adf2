//go:build linux

package guest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/rpc"
)

// spawn starts a command in the background.
func (w *wire) spawn(params object) (name string) {
	w.t.Helper()
	params["detach"] = true
	res := w.exec(params)
	for limit, ok := params["timeout_ms"].(int); ok && res.TimedOut && limit < 30_000; res = w.exec(params) {
		limit *= 4 // a slow machine did not come to start it
		params["timeout_ms"] = limit
	}
	if res.Process == "" || res.ExitCode != 0 || res.NotStarted != "" {
		w.t.Fatalf("exec %v = %+v, want a name", params, res)
	}
	return res.Process
}

func (w *wire) processes() []agent.ProcessInfo {
	w.t.Helper()
	var res agent.ProcessesResult
	w.must(agent.MethodProcesses, agent.Empty{}, &res)
	return res.Processes
}

// process is what the list says of one; nil: it is not there.
func (w *wire) process(name string) *agent.ProcessInfo {
	w.t.Helper()
	for _, p := range w.processes() {
		if p.Process == name {
			return &p
		}
	}
	return nil
}

// over waits until a process has ended, and returns how.
func (w *wire) over(name string) agent.ExecResult {
	w.t.Helper()
	var res agent.ExecResult
	w.must(agent.MethodAttach, object{"process": name}, &res)
	return res
}

func (w *wire) end(params object) {
	w.t.Helper()
	w.must(agent.MethodEnd, params, &agent.Empty{})
}

func newAgent(t testing.TB) *guest.Agent {
	t.Helper()
	a, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestACommandInTheBackgroundGoesOnWithoutItsConnection(t *testing.T) {
	a := newAgent(t)
	first := attach(t, a)
	name := first.spawn(object{"cmd": "echo one; read x; echo got $x; echo bad >&2; exit 3", "input": true, "label": "reader"})
	first.close()
	w := attach(t, a)
	p := w.process(name)
	if p == nil || !p.Running || !p.Detached || !p.Input || p.Label != "reader" || p.PID == 0 || p.Cmd == "" || p.Started.IsZero() || p.Result != nil {
		t.Fatalf("process = %+v", p)
	}
	id := w.send(agent.MethodAttach, object{"process": name, "input": true}, nil)
	other := attach(t, a)
	otherID := other.send(agent.MethodAttach, object{"process": name}, nil)
	w.prints(id, "stdout", "one\n")
	other.prints(otherID, "stdout", "one\n")
	if r := other.call(agent.MethodInput, object{"id": otherID, "data": []byte("x\n")}); r.Error == nil || r.Error.Code != rpc.CodeInvalidParams {
		t.Errorf("input of one that did not ask for it: %v", r.Error)
	}
	w.must(agent.MethodInput, object{"id": id, "data": []byte("this\n")}, &agent.Empty{})
	for _, got := range []reply{w.wait(id), other.wait(otherID)} {
		var res agent.ExecResult
		into(t, "attach", got, &res)
		if res.ExitCode != 3 || res.Process != name || res.Stdout != "" || got.printed["stdout"] != "one\ngot this\n" || got.printed["stderr"] != "bad\n" {
			t.Errorf("attach = %+v, printed %q", res, got.printed)
		}
	}
	p = w.process(name)
	if p == nil || p.Running || p.Input || p.Ended == nil || p.Result == nil || p.Result.ExitCode != 3 || p.First != 0 || p.Output != 17 {
		t.Errorf("afterwards: %+v", p)
	}
	w.end(object{"process": name})
	if w.process(name) == nil {
		t.Error("end without forget forgot it")
	}
	w.end(object{"process": name, "forget": true})
	if p := w.process(name); p != nil {
		t.Errorf("it is still remembered: %+v", p)
	}
}

func TestTheListHoldsWhatIsInFlight(t *testing.T) {
	a := newAgent(t)
	w := attach(t, a)
	id := w.send(agent.MethodExec, object{"argv": []string{"sh", "-c", "echo here; read x"}, "stream": true, "input": true}, nil)
	w.prints(id, "stdout", "here")
	other := attach(t, a)
	var list []agent.ProcessInfo
	eventually(t, "it to be known as started, which what it prints may overtake", func() bool {
		list = other.processes()
		return len(list) != 1 || list[0].PID != 0
	})
	if len(list) != 1 || list[0].Detached || !list[0].Running || !list[0].Input || len(list[0].Argv) != 3 {
		t.Fatalf("processes = %+v", list)
	}
	if r := other.call(agent.MethodAttach, object{"process": list[0].Process}); r.Error == nil || !strings.Contains(r.Error.Message, "not in the background") {
		t.Errorf("attach to it: %v", r.Error)
	}
	other.end(object{"process": list[0].Process})
	if res := w.result(id); !res.Canceled || res.Signal != "SIGTERM" {
		t.Errorf("the request that waited for it: %+v", res)
	}
	if list := other.processes(); len(list) != 0 {
		t.Errorf("processes afterwards = %+v", list)
	}
}

func TestWhatWasNotStartedIsNotListed(t *testing.T) {
	w := connect(t, nil)
	if res := w.exec(object{"argv": []string{"no-such-program"}, "detach": true}); res.NotStarted != "not_found" || res.Process != "" {
		t.Errorf("exec = %+v", res)
	}
	if list := w.processes(); len(list) != 0 {
		t.Errorf("processes = %+v", list)
	}
}

func TestHowABackgroundCommandEndedIsRemembered(t *testing.T) {
	w := connect(t, nil)
	for _, tt := range []struct {
		name   string
		params object
		end    object // nil: by itself
		want   agent.ExecResult
	}{
		{"its own exit", object{"cmd": "exit 7"}, nil, agent.ExecResult{ExitCode: 7}},
		{"a signal, as of the kernel that is out of memory", object{"cmd": "kill -KILL $$"}, nil, agent.ExecResult{ExitCode: -1, Signal: "SIGKILL"}},
		{"its time is over", object{"cmd": "sleep 1000", "timeout_ms": 30}, nil, agent.ExecResult{ExitCode: -1, Signal: "SIGTERM", TimedOut: true}},
		{"it was ended", object{"argv": []string{"sleep", "1000"}}, object{}, agent.ExecResult{ExitCode: -1, Signal: "SIGTERM", Canceled: true}},
		{"it was ended at once", object{"argv": []string{"sleep", "1000"}}, object{"grace_ms": -1}, agent.ExecResult{ExitCode: -1, Signal: "SIGKILL", Canceled: true}},
		{"it does not heed SIGTERM", object{"cmd": "trap '' TERM; echo ready; while :; do sleep 1; done"}, object{"grace_ms": 50}, agent.ExecResult{ExitCode: -1, Signal: "SIGKILL", Canceled: true}},
		{"it tidies up", object{"cmd": "trap 'sleep 0.6; exit 5' TERM; echo ready; while :; do sleep 0.01; done"}, object{"grace_ms": 60_000}, agent.ExecResult{ExitCode: 5, Canceled: true}},
		{"on a terminal", object{"cmd": "echo ready; read x", "tty": object{"rows": 3, "cols": 40}}, object{}, agent.ExecResult{ExitCode: -1, Signal: "SIGHUP", Canceled: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := w.spawn(tt.params)
			if tt.end != nil {
				if cmd, ok := tt.params["cmd"].(string); ok && strings.Contains(cmd, "ready") {
					eventually(t, "the command to be ready", func() bool { return w.process(name).Output > 0 })
				}
				tt.end["process"] = name
				w.end(tt.end)
			}
			got := w.over(name)
			p := w.process(name)
			if p == nil || p.Running || p.Result == nil {
				t.Fatalf("process = %+v", p)
			}
			got.DurationMS, got.Process, p.Result.DurationMS = 0, "", 0
			if got != tt.want || *p.Result != tt.want {
				t.Errorf("attach = %+v, the list says %+v, want %+v", got, *p.Result, tt.want)
			}
		})
	}
}

func TestTheListSaysHowLongAgoTheLastCommandEnded(t *testing.T) {
	w := connect(t, nil)
	ago := func() *int64 {
		var res agent.ProcessesResult
		w.must(agent.MethodProcesses, agent.Empty{}, &res)
		return res.EndedMS
	}
	began := time.Now()
	running := w.spawn(object{"cmd": "read x", "input": true})
	if got := ago(); got != nil {
		t.Errorf("before any has ended: %d ms", *got)
	}
	w.over(w.spawn(object{"cmd": "true"}))
	eventually(t, "the first to have ended a while ago", func() bool { got := ago(); return got != nil && *got >= 50 })
	if got, most := ago(), time.Since(began).Milliseconds(); *got > most {
		t.Errorf("it ended %d ms ago, and began %d ms ago", *got, most)
	}
	between := time.Now()
	w.end(object{"process": running})
	if got, most := ago(), time.Since(between).Milliseconds(); got == nil {
		t.Error("it is not said how long ago the second ended")
	} else if *got > most {
		t.Errorf("the second ended %d ms ago, and %d ms ago it ran", *got, most)
	}
}

func TestAShorterGraceCounts(t *testing.T) {
	w := connect(t, nil)
	name := w.spawn(object{"cmd": "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done"})
	eventually(t, "the command to be ready", func() bool { return w.process(name).Output > 0 })
	long := w.send(agent.MethodEnd, object{"process": name, "grace_ms": 3_600_000}, nil)
	eventually(t, "the command to be asked", func() bool { return w.process(name).Output > 6 })
	w.end(object{"process": name, "grace_ms": -1})
	if r := w.wait(long); r.Error != nil {
		t.Error(r.Error)
	}
}

func TestEndFindsWhatABackgroundCommandLeft(t *testing.T) {
	agents(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		name := w.spawn(object{"cwd": dir, "cmd": "setsid sh -c 'echo $$ > pid; touch there; exec sleep 300' & sleep 300 & echo $! > pid2; until test -e there; do sleep 0.01; done; echo ready; wait"})
		eventually(t, "the command to be ready", func() bool { return w.process(name).Output > 0 })
		w.end(object{"process": name})
		noneAlive(t, dir)
	})
}

func TestWhatABackgroundCommandLeavesGoesOn(t *testing.T) {
	w := connect(t, nil)
	dir := t.TempDir()
	w.over(w.spawn(object{"cwd": dir, "cmd": "(until test -e go; do sleep 0.01; done; touch gone-on) > /dev/null 2>&1 &"}))
	w.exec(object{"cwd": dir, "cmd": "touch go"})
	eventually(t, "the rest to go on", func() bool { m, _ := filepath.Glob(dir + "/gone-on"); return len(m) == 1 })
}

func TestABackgroundTerminal(t *testing.T) {
	w := connect(t, nil)
	name := w.spawn(object{"cmd": "stty -echo; echo ready; read x; stty size; echo got $x", "tty": object{"rows": 3, "cols": 40}})
	id := w.send(agent.MethodAttach, object{"process": name, "input": true, "tty": object{"rows": 30, "cols": 70}}, nil)
	w.prints(id, "stdout", "ready")
	w.must(agent.MethodResize, object{"id": id, "rows": 31, "cols": 71}, &agent.Empty{})
	w.must(agent.MethodInput, object{"id": id, "data": []byte("typed\n")}, &agent.Empty{})
	r := w.wait(id)
	if out := r.printed["stdout"]; !strings.Contains(out, "31 71\r\ngot typed") {
		t.Errorf("printed %q", out)
	}
}

func TestAttachBeginsWhereItIsTold(t *testing.T) {
	w := connect(t, nil)
	name := w.spawn(object{"cmd": "printf 0123456789; read x; printf abc >&2", "keep_output": 8, "input": true})
	eventually(t, "the first output", func() bool { return w.process(name).Output == 10 })
	id := w.send(agent.MethodAttach, object{"process": name, "input": true}, nil)
	w.must(agent.MethodInput, object{"id": id, "data": []byte("\n")}, &agent.Empty{})
	w.wait(id)
	for _, tt := range []struct {
		name     string
		from     int64
		out, err string
	}{
		{"the beginning, which is no longer kept", 0, "56789", "abc"},
		{"an offset", 7, "789", "abc"},
		{"in the other stream", 11, "", "bc"},
		{"before the end", -4, "9", "abc"},
		{"long before the end", -1 << 60, "56789", "abc"},
		{"beyond the end", 1 << 60, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.call(agent.MethodAttach, object{"process": name, "from": tt.from})
			if r.Error != nil || r.printed["stdout"] != tt.out || r.printed["stderr"] != tt.err {
				t.Errorf("printed %q, %v", r.printed, r.Error)
			}
		})
	}
}

func TestAnAttachEndsNothing(t *testing.T) {
	a := newAgent(t)
	w := attach(t, a)
	name := w.spawn(object{"cmd": "echo ready; read x", "input": true})
	t.Run("when it is canceled", func(t *testing.T) {
		id := w.send(agent.MethodAttach, object{"process": name, "input": true}, nil)
		w.prints(id, "stdout", "ready")
		w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
		if res := w.result(id); !res.Canceled || res.ExitCode != -1 || res.Process != name {
			t.Errorf("attach = %+v", res)
		}
		if r := w.call(agent.MethodInput, object{"id": id, "data": []byte("x\n")}); r.Error == nil {
			t.Error("input still takes its id")
		}
	})
	t.Run("when its connection goes", func(t *testing.T) {
		other := attach(t, a)
		id := other.send(agent.MethodAttach, object{"process": name, "input": true}, nil)
		other.prints(id, "stdout", "ready")
		other.close()
	})
	t.Run("when it does not wait", func(t *testing.T) {
		r := w.call(agent.MethodAttach, object{"process": name, "no_wait": true})
		var res agent.ExecResult
		into(t, "attach", r, &res)
		if res.ExitCode != -1 || res.Canceled || r.printed["stdout"] != "ready\n" {
			t.Errorf("attach = %+v, printed %q", res, r.printed)
		}
	})
	if p := w.process(name); p == nil || !p.Running || !p.Input {
		t.Errorf("process = %+v", p)
	}
}

func TestASlowAttacherHoldsUpNobody(t *testing.T) {
	a := newAgent(t)
	w, slow := attach(t, a), attach(t, a)
	name := w.spawn(object{"cmd": "echo begin; read x; yes | head -c 50000000; echo; echo end", "input": true, "keep_output": 1 << 20})
	id := slow.send(agent.MethodAttach, object{"process": name}, nil)
	slow.prints(id, "stdout", "begin")
	slow.pause()
	fast := w.send(agent.MethodAttach, object{"process": name, "input": true, "from": -1}, nil)
	w.must(agent.MethodInput, object{"id": fast, "data": []byte("\n")}, &agent.Empty{})
	if res := w.result(fast); res.ExitCode != 0 {
		t.Errorf("attach = %+v", res)
	}
	slow.resume()
	out := slow.wait(id).printed["stdout"]
	if !strings.HasPrefix(out, "begin\n") || !strings.HasSuffix(out, "\nend\n") || len(out) > 4<<20 {
		t.Errorf("the slow one was given %d bytes, %q … %q", len(out), out[:10], out[len(out)-10:])
	}
	if p := w.process(name); p.Output-p.First != 1<<20 || p.Output < 50_000_000 {
		t.Errorf("kept from %d to %d", p.First, p.Output)
	}
}

func TestBackgroundLimits(t *testing.T) {
	t.Run("so many run", func(t *testing.T) {
		w := connect(t, nil)
		for range agent.MaxProcesses {
			w.spawn(object{"argv": []string{"sleep", "300"}})
		}
		if r := w.call(agent.MethodExec, object{"argv": []string{"sleep", "300"}, "detach": true}); r.Error == nil || r.Error.Code != rpc.CodeBusy {
			t.Errorf("one more: %v", r.Error)
		}
		if res := w.exec(object{"cmd": "echo here"}); res.Stdout != "here\n" {
			t.Errorf("they keep others from running: %+v", res)
		}
	})
	t.Run("so many are remembered", func(t *testing.T) {
		w := connect(t, nil)
		first := w.spawn(object{"cmd": ":"})
		running := w.spawn(object{"argv": []string{"sleep", "300"}})
		last := ""
		for range agent.MaxEnded + 3 {
			last = w.spawn(object{"cmd": ":"})
			w.over(last)
		}
		list := w.processes()
		if len(list) != agent.MaxEnded+1 || w.process(first) != nil || w.process(running) == nil || w.process(last) == nil {
			t.Errorf("%d are listed, first %v", len(list), list[0])
		}
	})
	t.Run("long commands are cut", func(t *testing.T) {
		w := connect(t, nil)
		long := strings.Repeat("é", 30_000)
		names := []string{w.spawn(object{"cmd": ": " + long}), w.spawn(object{"argv": []string{"true", "x" + long, long}})}
		for _, name := range names {
			p := w.process(name)
			if n := len(p.Cmd) + len(strings.Join(p.Argv, " ")); n > 5000 || n < 4000 || strings.Contains(fmt.Sprint(p), "\uFFFD") {
				t.Errorf("%d bytes are told", n)
			}
		}
	})
	t.Run("labels and amounts have theirs", func(t *testing.T) {
		for _, params := range []object{{"label": strings.Repeat("x", 65)}, {"keep_output": -1}} {
			params["cmd"], params["detach"] = ":", true
			if r := connect(t, nil).call(agent.MethodExec, params); r.Error == nil || r.Error.Code != rpc.CodeInvalidParams {
				t.Errorf("err = %v", r.Error)
			}
		}
	})
	t.Run("unknown and missing names", func(t *testing.T) {
		w := connect(t, nil)
		for _, method := range []string{agent.MethodAttach, agent.MethodEnd} {
			for _, params := range []object{{}, {"process": "p99"}, {"process": strings.Repeat("p", 10_000)}, {"process": 3}} {
				if r := w.call(method, params); r.Error == nil || r.Error.Code != rpc.CodeInvalidParams || len(r.Error.Message) > 1000 {
					t.Errorf("%s %v: %v", method, params, r.Error)
				}
			}
		}
		name := w.spawn(object{"cmd": "read x", "input": true})
		if r := w.call(agent.MethodAttach, object{"process": name, "tty": object{"rows": 1, "cols": 1}}); r.Error == nil {
			t.Error("a size for a terminal that it has not")
		}
	})
}

func TestClosingTheAgentEndsTheBackground(t *testing.T) {
	a := newAgent(t)
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- a.Serve(t.Context(), far) }()
	w := speak(t, near)
	dir := t.TempDir()
	name := w.spawn(object{"cwd": dir, "cmd": "echo $$ > pid; echo ready; exec sleep 300"})
	eventually(t, "the command to be ready", func() bool { return w.process(name).Output > 0 })
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
	w.close()
	noneAlive(t, dir)
}

func TestCodeRunsInTheBackground(t *testing.T) {
	w := connect(t, nil)
	var res agent.ExecResult
	w.must(agent.MethodExecCode, object{"lang": "sh", "code": "echo code; exit 4", "detach": true}, &res)
	if p := w.process(res.Process); p == nil || p.Lang != "sh" || p.Cmd != "echo code; exit 4" {
		t.Errorf("process = %+v", p)
	}
	if res := w.over(res.Process); res.ExitCode != 4 {
		t.Errorf("attach = %+v", res)
	}
}
