//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"airlock/agent"
)

func TestUser(t *testing.T) {
	needRoot(t)
	w := connect(t, nil)
	for _, tt := range []struct {
		name   string
		params object
		want   string
	}{
		{"a name", object{"user": "nobody", "cmd": "id -u; id -g; id -G"}, "65534\n65534\n65534\n"},
		{"a uid has its account's group", object{"user": "65534", "cmd": "id -u; id -g"}, "65534\n65534\n"},
		{"a uid without an account is its own group", object{"user": "12345", "cmd": "id -u; id -g; id -G"}, "12345\n12345\n12345\n"},
		{"a uid and a gid", object{"user": "12345:54321", "cmd": "id -u; id -g; id -G"}, "12345\n54321\n54321\n"},
		{"groups replace those of the account", object{"user": "nobody", "groups": []int{7, 8}, "cmd": "id -G"}, "65534 7 8\n"},
		{"groups for the agent's own user", object{"groups": []int{7, 8}, "cmd": "id -u; id -G"}, "0\n0 7 8\n"},
		{"an account brings its own HOME", object{"user": "nobody", "cmd": "echo $USER $LOGNAME $HOME"}, "nobody nobody /nonexistent\n"},
		{"env wins over the account", object{"user": "nobody", "cmd": "echo $HOME", "env": object{"HOME": "/x"}}, "/x\n"},
		{"the user may open his own output again", object{"user": "nobody", "cmd": "echo out > /dev/stdout; cat /dev/stdin", "stdin": "in\n"}, "out\nin\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if res := w.exec(tt.params); res.Stdout != tt.want || res.ExitCode != 0 {
				t.Errorf("exec = %+v, want %q", res, tt.want)
			}
		})
	}
	t.Run("a terminal belongs to the user", func(t *testing.T) {
		id := w.send(agent.MethodExec, object{"user": "nobody", "tty": object{"rows": 1, "cols": 1}, "cmd": "stat -c %U $(tty)"}, nil)
		if r := w.wait(id); r.printed["stdout"] != "nobody\r\n" {
			t.Errorf("printed %q", r.printed)
		}
	})
	t.Run("a folder that the user may not enter", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if res := w.exec(object{"user": "nobody", "cwd": dir, "cmd": "true"}); res.NotStarted == "" || !strings.Contains(res.Stderr, dir) {
			t.Errorf("exec = %+v", res)
		}
	})
}

// needPids finds the hierarchy of control groups that limits processes.
func needPids(t *testing.T) string {
	t.Helper()
	needRoot(t)
	if _, err := os.Stat("/sys/fs/cgroup/pids/tasks"); err == nil {
		return "/sys/fs/cgroup/pids"
	}
	if data, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil && strings.Contains(string(data), "pids") {
		return "/sys/fs/cgroup"
	}
	t.Skip("needs control groups that limit processes")
	return ""
}

func TestMaxProcs(t *testing.T) {
	dir := needPids(t)
	w := connect(t, nil)
	groups := func() (found []string) {
		for _, below := range []string{"", "*/", "*/*/"} {
			some, err := filepath.Glob(filepath.Join(dir, below+fmt.Sprintf("airlock-%d-*", os.Getpid())))
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range some {
				// gVisor keeps a group that prevented a start, and lists what never was.
				data, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
				ghosts := err == nil && len(data) > 0
				for pid := range strings.FieldsSeq(string(data)) {
					if _, err := os.Stat("/proc/" + pid); err == nil {
						ghosts = false
					}
				}
				if !ghosts {
					found = append(found, group)
				}
			}
		}
		return found
	}
	const own = `own=$(grep -E '^[0-9]+:(pids)?:' /proc/self/cgroup | grep airlock- | cut -d: -f3); `
	t.Run("a command within its limit runs", func(t *testing.T) {
		// Version 1 counts the agent's thread until it has left the group: one more at first.
		res := w.exec(object{"cmd": own + "echo $own; max=" + dir + "/$own/pids.max; until grep -qx 5 $max; do sleep 0.01; done; cat $max", "max_procs": 5, "timeout_ms": 60_000})
		if !strings.Contains(res.Stdout, "/airlock-") || !strings.HasSuffix(res.Stdout, "\n5\n") || res.ExitCode != 0 {
			t.Errorf("exec = %+v", res)
		}
	})
	t.Run("one is enough for a command that starts none", func(t *testing.T) {
		if res := w.exec(object{"argv": []string{"/bin/echo", "alone"}, "max_procs": 1}); res.Stdout != "alone\n" {
			t.Errorf("exec = %+v", res)
		}
	})
	t.Run("a fork bomb stays small", func(t *testing.T) {
		var res agent.ExecResult
		for limit := 2000; limit < 60_000 && !strings.Contains(res.Stderr, "fork"); limit *= 4 {
			res = w.exec(object{"cmd": "bomb() { bomb | bomb & }; bomb; sleep 300", "max_procs": 20, "timeout_ms": limit})
		}
		if !strings.Contains(res.Stderr, "fork") {
			t.Errorf("exec = %+v", res)
		}
		if res := w.exec(object{"cmd": "echo still there"}); res.ExitCode != 0 {
			t.Errorf("exec = %+v", res)
		}
	})
	t.Run("who left the session is ended with the group", func(t *testing.T) {
		work := t.TempDir()
		res := w.timesOut(work, 500, object{"cmd": "setsid sh -c 'echo $$ > pid; : > up; sleep 300' & sleep 300", "cwd": work, "max_procs": 20})
		if !res.TimedOut {
			t.Errorf("exec = %+v", res)
		}
		eventually(t, "the child to end", func() bool { return !alive(t, filepath.Join(work, "pid")) })
	})
	t.Run("the agent is not in a command's group", func(t *testing.T) {
		tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if data, err := os.ReadFile(task); err == nil && strings.Contains(string(data), "airlock-") {
				t.Errorf("%s: %s", task, data)
			}
		}
	})
	t.Run("a program that is nowhere leaves no group", func(t *testing.T) {
		if res := w.exec(object{"argv": []string{"/no/such"}, "max_procs": 3}); res.NotStarted != "not_found" {
			t.Errorf("exec = %+v", res)
		}
	})
	eventually(t, "the groups to be removed", func() bool {
		w.exec(object{"cmd": "true", "max_procs": 5}) // every new group removes those that are empty by now
		return len(groups()) == 0
	})
}

func TestTheDefaultUser(t *testing.T) {
	needRoot(t)
	w := connect(t, &options{User: "12345:54321"})
	if res := w.exec(object{"cmd": "id -u; id -g; grep CapEff /proc/self/status"}); !strings.HasPrefix(res.Stdout, "12345\n54321\nCapEff:\t0000000000000000\n") {
		t.Errorf("exec = %+v", res)
	}
	if res := w.exec(object{"cmd": "id -u", "user": "0"}); res.Stdout != "0\n" {
		t.Errorf("exec as another = %+v", res)
	}
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.must(agent.MethodMkdir, object{"path": filepath.Join(dir, "a/b"), "parents": true}, &agent.Success{})
	for name, want := range map[string]uint32{"a": 12345, "a/b": 12345, "a/b/new": 12345, "old": 0} {
		path := filepath.Join(dir, name)
		if !strings.HasSuffix(name, "a") && !strings.HasSuffix(name, "b") {
			w.must(agent.MethodWriteFile, object{"path": path, "content": "x"}, &agent.Success{})
		}
		var st agent.FileInfo
		if w.must(agent.MethodStat, object{"path": path}, &st); st.UID != want {
			t.Errorf("%s belongs to %d, want %d", name, st.UID, want)
		}
	}
}

// TestGroupsGoWithTheAgent: on a host nobody else would ever remove them.
func TestGroupsGoWithTheAgent(t *testing.T) {
	dir := needPids(t)
	path := filepath.Join(t.TempDir(), "agent.sock")
	p := onSocket(t, path)
	w := dial(t, path)
	if res := w.exec(object{"cmd": "setsid sleep 300 >/dev/null 2>&1 & sleep 0", "max_procs": 10}); res.ExitCode != 0 {
		t.Fatalf("exec = %+v", res)
	}
	groups := func() (found []string) {
		for _, below := range []string{"", "*/", "*/*/"} {
			some, err := filepath.Glob(filepath.Join(dir, below+fmt.Sprintf("airlock-%d-*", p.Process.Pid)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, some...)
		}
		return found
	}
	if len(groups()) != 1 {
		t.Fatalf("the groups of a command that left a child are %q, want one", groups())
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.ends(); code != 0 || len(groups()) > 0 {
		t.Errorf("exit code %d, and there are left %q", code, groups())
	}
}

func TestTwoAgentsOfAProcessDoNotMeetInAControlGroup(t *testing.T) {
	needPids(t)
	work := t.TempDir()
	for _, who := range []string{"first", "second"} {
		w := connect(t, nil)
		// What it leaves behind keeps the first agent's group in being.
		res := w.exec(object{"cmd": "sleep 1000 >/dev/null 2>&1 & echo $! > " + who + "; echo " + who, "cwd": work, "max_procs": 10})
		if res.Stdout != who+"\n" || res.ExitCode != 0 {
			t.Errorf("the %s agent's command: %+v", who, res)
		}
		defer func() {
			data, _ := os.ReadFile(filepath.Join(work, who))
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil || pid < 2 {
				t.Fatalf("the pid is %q", data)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			eventually(t, "it to end", func() bool { return !alive(t, filepath.Join(work, who)) })
		}()
	}
}
