//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"airlock/agent"
)

// agents are the two kinds: one in a process that does more, and the program, to which
// orphans come.
func agents(t *testing.T, test func(*testing.T, *wire)) {
	t.Run("in another process", func(t *testing.T) { test(t, connect(t, nil)) })
	t.Run("the program", func(t *testing.T) {
		_, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
		test(t, w)
	})
}

// TestEndRest has each command write the pids of what it leaves behind into files.
func TestEndRest(t *testing.T) {
	agents(t, func(t *testing.T, w *wire) {
		for _, tt := range []struct{ name, cmd string }{
			{"nothing is left", "echo said"},
			{"a background child", "sleep 300 & echo $! > pid; echo said"},
			{"many of them", "for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & echo $! > pid$i; done; echo said"},
			{"it keeps the outputs", "(trap '' HUP; sleep 300) 2>&1 & echo $! > pid; echo said"},
			{"another process group", "set -m; sleep 300 & echo $! > pid; echo said"},
			{"another session", "setsid sh -c 'echo $$ > pid; touch there; exec sleep 300' & until test -e there; do sleep 0.01; done; echo said"},
			{"another session, twice forked", "(setsid sh -c 'echo $$ > pid; touch there; exec sleep 300' &); until test -e there; do sleep 0.01; done; echo said"},
			{"a child of another session", "setsid sh -c 'env -i sleep 300 & echo $! > pid; touch there; wait' & until test -e there; do sleep 0.01; done; echo said"},
			{"it ignores SIGTERM", "sh -c 'trap \"\" TERM; echo $$ > pid; touch there; while :; do sleep 0.2; done' & until test -e there; do sleep 0.01; done; echo said"},
			{"it is stopped", "sleep 300 & echo $! > pid; kill -STOP $!; echo said"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				dir := t.TempDir()
				res := w.exec(object{"cmd": tt.cmd, "cwd": dir, "end_rest": true})
				if res.ExitCode != 0 || res.Stdout != "said\n" {
					t.Errorf("exec = %+v", res)
				}
				noneAlive(t, dir)
			})
		}
	})
}

// noneAlive complains of processes whose pids are in dir.
func noneAlive(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pid*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if alive(t, file) {
			t.Errorf("%s runs on", filepath.Base(file))
			data, _ := os.ReadFile(file)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
				_ = exec.Command("kill", "-9", strconv.Itoa(pid)).Run()
			}
		}
	}
}

func TestEndRestAfterATimeOut(t *testing.T) {
	agents(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		res := w.timesOut(dir, 500, object{"cwd": dir, "end_rest": true, "cmd": "setsid sleep 300 & echo $! > pid; sleep 300 & echo $! > pid2; echo said; : > up; sleep 300"})
		if !res.TimedOut || res.Stdout != "said\n" {
			t.Errorf("exec = %+v", res)
		}
		noneAlive(t, dir)
	})
}

func TestEndRestLeavesOthersAlone(t *testing.T) {
	agents(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		other := w.send(agent.MethodExec, object{"cwd": dir, "end_rest": true, "stream": true, "cmd": "setsid sleep 300 & echo $! > other; echo up; sleep 300"}, nil)
		w.prints(other, "stdout", "up")
		w.exec(object{"cwd": dir, "cmd": "(setsid sleep 300 & echo $! > kept); sleep 300 & echo $! > kept2"})
		if res := w.exec(object{"cwd": dir, "end_rest": true, "cmd": "sleep 300 & echo $! > pid"}); res.ExitCode != 0 {
			t.Errorf("exec = %+v", res)
		}
		noneAlive(t, dir)
		for _, name := range []string{"other", "kept", "kept2"} {
			if !alive(t, filepath.Join(dir, name)) {
				t.Errorf("%s was ended", name)
			}
		}
		w.must(agent.MethodCancel, object{"id": other}, &agent.CancelResult{})
		w.result(other)
		if alive(t, filepath.Join(dir, "other")) {
			t.Error("what was left by the other one runs on")
		}
		w.exec(object{"cmd": "kill -9 $(cat kept kept2)", "cwd": dir})
	})
}

func TestWhatIsLeftAddsNothingToTheOutput(t *testing.T) {
	agents(t, func(t *testing.T, w *wire) {
		res := w.exec(object{"end_rest": true, "cwd": t.TempDir(), "cmd": `
			sh -c 'trap "echo I am ended; exit" TERM; touch there; while :; do sleep 0.05; done' &
			until test -e there; do sleep 0.01; done; head -c 30000 /dev/zero | tr '\0' x`})
		if res.Stdout != strings.Repeat("x", 30000) {
			t.Errorf("stdout has %d bytes, and ends with %q", len(res.Stdout), res.Stdout[max(0, len(res.Stdout)-20):])
		}
	})
}

func TestEndRestOfAControlGroup(t *testing.T) {
	_, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
	dir := t.TempDir()
	res := w.exec(object{"cwd": dir, "end_rest": true, "max_procs": 20, "cmd": "env -i setsid sleep 300 & echo $! > pid; echo said"})
	if res.NotStarted != "" {
		t.Skipf("no control groups here: %s", res.Stderr)
	}
	if res.Stdout != "said\n" {
		t.Errorf("exec = %+v", res)
	}
	noneAlive(t, dir)
}

func TestTheMarkIsTheGuestsOwn(t *testing.T) {
	w := connect(t, nil)
	show := object{"argv": []string{"/usr/bin/env"}, "clear_env": true, "env": object{agent.EnvExec: "mine"}}
	if res := w.exec(show); res.Stdout != agent.EnvExec+"=mine\n" {
		t.Errorf("without end_rest: %q", res.Stdout)
	}
	show["end_rest"] = true
	first, second := w.exec(show), w.exec(show)
	if !strings.HasPrefix(first.Stdout, agent.EnvExec+"=") || strings.Count(first.Stdout, "\n") != 1 || strings.Contains(first.Stdout, "mine") {
		t.Errorf("with end_rest: %q", first.Stdout)
	}
	if first.Stdout == second.Stdout {
		t.Errorf("two commands have the same mark, %q", first.Stdout)
	}
}

// BenchmarkEndRest is what it costs where nothing is left.
func BenchmarkEndRest(b *testing.B) {
	_, w := onStdio(b, exec.Command(binary(b), "--listen", "stdio"))
	for _, rest := range []bool{false, true} {
		for _, beside := range []bool{false, true} {
			b.Run(fmt.Sprintf("end_rest %v, another command %v", rest, beside), func(b *testing.B) {
				if beside {
					id := w.send(agent.MethodExec, object{"cmd": "sleep 300"}, nil)
					defer w.result(id)
					defer w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
				}
				for b.Loop() {
					w.exec(object{"argv": []string{"/bin/true"}, "end_rest": rest})
				}
			})
		}
	}
}

// What left the session with an empty environment has nothing by which it is known, but
// nobody else's orphans are there.
func TestEndRestWithoutATrace(t *testing.T) {
	const wiped = "setsid env -i PATH=\"$PATH\" sh -c 'echo $$ > pid; exec sleep 300' & until test -s pid; do sleep 0.01; done; echo said"
	t.Run("it is alone", func(t *testing.T) {
		_, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
		dir := t.TempDir()
		if res := w.exec(object{"cmd": wiped, "cwd": dir, "end_rest": true}); res.ExitCode != 0 {
			t.Errorf("exec = %+v", res)
		}
		noneAlive(t, dir)
	})
	t.Run("what another left on purpose is left alone", func(t *testing.T) {
		_, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
		dir := t.TempDir()
		if res := w.exec(object{"cmd": wiped, "cwd": dir}); res.ExitCode != 0 {
			t.Fatalf("exec = %+v", res)
		}
		if res := w.exec(object{"cmd": "echo said", "cwd": dir, "end_rest": true}); res.ExitCode != 0 {
			t.Errorf("exec = %+v", res)
		}
		pid, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err != nil {
			t.Errorf("it was ended: %v", err)
		}
		w.exec(object{"cmd": "kill -9 $(cat pid)", "cwd": dir})
	})
}

// TestEndRestFindsWhatIsJustBeingStarted: while a process puts another program in its own place, nobody can read its
// environment. This one does nothing else.
func TestEndRestFindsWhatIsJustBeingStarted(t *testing.T) {
	agents(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		again := filepath.Join(dir, "again")
		if err := os.WriteFile(again, []byte("#!/bin/sh\ntest -e there || touch there\nexec \"$0\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		other := w.send(agent.MethodExec, object{"stream": true, "cmd": "echo up; sleep 300"}, nil) // so that the mark is looked for
		w.prints(other, "stdout", "up")
		for range 30 {
			w.exec(object{"cwd": dir, "end_rest": true, "cmd": "rm -f there; setsid sh -c 'echo $$ > pid; exec ./again' & until test -e there; do sleep 0.01; done"})
			noneAlive(t, dir)
			if t.Failed() {
				break
			}
		}
		w.must(agent.MethodCancel, object{"id": other}, &agent.CancelResult{})
		w.result(other)
	})
}
