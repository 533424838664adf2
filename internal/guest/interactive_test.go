//go:build linux

package guest_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/rpc"
)

func TestStream(t *testing.T) {
	for _, raw := range []bool{false, true} {
		t.Run(fmt.Sprintf("raw is %v", raw), func(t *testing.T) {
			w := connect(t, nil)
			if raw {
				w.hello()
			}
			id := w.send(agent.MethodExec, object{"cmd": `printf 'a\377'; echo err >&2; exit 6`, "stream": true}, nil)
			r := w.wait(id)
			if r.printed["stdout"] != "a\xff" || r.printed["stderr"] != "err\n" {
				t.Errorf("printed before the answer: %q", r.printed)
			}
			if res := w.result(id); res.ExitCode != 6 || res.Stdout != "" || res.Stderr != "" {
				t.Errorf("exec = %+v", res)
			}
		})
	}
	t.Run("output comes as it is printed", func(t *testing.T) {
		w := connect(t, nil)
		id := w.send(agent.MethodExec, object{"cmd": "echo first; read x; echo $x", "stream": true, "input": true}, nil)
		w.prints(id, "stdout", "first\n")
		w.must(agent.MethodInput, object{"id": id, "data": []byte("second\n")}, &agent.Empty{})
		if r := w.wait(id); r.printed["stdout"] != "first\nsecond\n" {
			t.Errorf("printed %q", r.printed)
		}
	})
	t.Run("why a command did not start is in its result", func(t *testing.T) {
		w := connect(t, nil)
		if res := w.exec(object{"argv": []string{"nosuch"}, "stream": true}); res.NotStarted != "not_found" || res.Stderr == "" {
			t.Errorf("exec = %+v", res)
		}
	})
}

func TestASlowClientLosesNothing(t *testing.T) {
	w := connect(t, nil)
	w.hello()
	w.pause()
	const size = 8 << 20
	id := w.send(agent.MethodExec, object{"cmd": fmt.Sprintf("head -c %d /dev/zero; echo end", size), "stream": true}, nil)
	w.resume()
	w.until("some output", func() bool { return len(w.output[id]["stdout"]) > 0 })
	w.pause()
	w.resume()
	if r := w.wait(id); len(r.printed["stdout"]) != size+len("end\n") {
		t.Errorf("%d bytes came before the answer, want %d", len(r.printed["stdout"]), size+4)
	}
}

func TestCancelReachesACommandThatFloodsItsClient(t *testing.T) {
	w := connect(t, nil)
	id := w.send(agent.MethodExec, object{"cmd": "exec yes", "stream": true}, nil)
	w.prints(id, "stdout", "y\n")
	w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
	if res := w.result(id); !res.Canceled {
		t.Errorf("exec = %+v", res)
	}
}

func TestInput(t *testing.T) {
	w := connect(t, nil)
	t.Run("it may follow its command at once", func(t *testing.T) {
		id := w.send(agent.MethodExec, object{"cmd": "cat", "input": true}, nil)
		in := w.send(agent.MethodInput, object{"id": id, "data": []byte("hello"), "eof": true}, nil)
		if res := w.result(id); res.Stdout != "hello" {
			t.Errorf("exec = %+v", res)
		}
		into(t, "input", w.wait(in), &agent.Empty{})
	})
	t.Run("it follows the stdin of the request", func(t *testing.T) {
		id := w.send(agent.MethodExec, object{"cmd": "cat", "input": true, "stdin": strings.Repeat("a", 200000)}, nil)
		w.must(agent.MethodInput, object{"id": id, "data": []byte("b")}, &agent.Empty{})
		w.must(agent.MethodInput, object{"id": id, "eof": true}, &agent.Empty{})
		if res := w.result(id); res.Stdout != strings.Repeat("a", 200000)+"b" {
			t.Errorf("exec: %d bytes", len(res.Stdout))
		}
	})
	t.Run("it waits for a command that does not read, and cancel ends the wait", func(t *testing.T) {
		dir := t.TempDir()
		id := w.send(agent.MethodExec, object{"cmd": "until test -e go; do sleep 0.01; done; wc -c", "input": true, "cwd": dir}, nil)
		in := w.send(agent.MethodInput, object{"id": id, "data": bytes.Repeat([]byte("x"), 1<<20)}, nil)
		w.must(agent.MethodPing, object{}, &agent.PingResult{})
		w.must(agent.MethodCancel, object{"id": in}, &agent.CancelResult{})
		if r := w.wait(in); r.Error == nil || !strings.Contains(r.Error.Message, "context canceled") {
			t.Errorf("input: err = %v", r.Error)
		}
		w.exec(object{"cmd": "touch go", "cwd": dir})
		w.must(agent.MethodInput, object{"id": id, "data": []byte("123"), "eof": true}, &agent.Empty{})
		if res := w.result(id); strings.TrimSpace(res.Stdout) == "" || res.ExitCode != 0 {
			t.Errorf("exec = %+v", res)
		}
	})
	refused := func(name string, params object, code int, message string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := w.call(agent.MethodInput, params)
			if r.Error == nil || r.Error.Code != code || !strings.Contains(r.Error.Message, message) {
				t.Errorf("input: err = %v, want code %d and %q", r.Error, code, message)
			}
		})
	}
	deaf := w.send(agent.MethodExec, object{"cmd": "exec <&-; echo ready; sleep 300", "input": true, "stream": true}, nil)
	w.prints(deaf, "stdout", "ready")
	refused("a command that closed its stdin", object{"id": deaf, "data": []byte("x")}, rpc.CodeInternal, "broken pipe")
	none := w.send(agent.MethodExec, object{"cmd": "echo ready; sleep 300", "stream": true}, nil)
	w.prints(none, "stdout", "ready")
	refused("a command without input", object{"id": none, "data": []byte("x")}, rpc.CodeInvalidParams, "without input")
	open := w.send(agent.MethodExec, object{"cmd": "cat; echo at end; sleep 300", "stream": true, "input": true}, nil)
	w.must(agent.MethodInput, object{"id": open, "eof": true}, &agent.Empty{})
	refused("input after its end", object{"id": open, "data": []byte("x")}, rpc.CodeInternal, "earlier eof")
	for _, id := range []uint64{deaf, none, open} {
		w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
		w.wait(id)
	}
	refused("a command that has ended", object{"id": open, "data": []byte("x")}, rpc.CodeInternal, "has ended")
	refused("a command that never was", object{"id": 1 << 40}, rpc.CodeInvalidParams, "no such command")
	refused("no id", object{}, rpc.CodeInvalidParams, "id is missing")
	refused("data that is no base64", object{"id": 1, "data": "%"}, rpc.CodeInvalidParams, "base64")
}

func TestRawInput(t *testing.T) {
	w := connect(t, nil)
	w.hello()
	data := bytes.Repeat([]byte{0, 255, '\n'}, 100000)
	id := w.send(agent.MethodExec, object{"cmd": "cat", "input": true, "stream": true}, nil)
	in := w.send(agent.MethodInput, object{"id": id, "eof": true}, data)
	into(t, "input", w.wait(in), &agent.Empty{})
	if r := w.wait(id); r.printed["stdout"] != string(data) {
		t.Errorf("%d bytes came back, want %d", len(r.printed["stdout"]), len(data))
	}
	in = w.send(agent.MethodInput, object{"id": id, "data": []byte("x")}, []byte("y"))
	if r := w.wait(in); r.Error == nil || r.Error.Code != rpc.CodeInvalidParams {
		t.Errorf("data twice: err = %v", r.Error)
	}
}

func TestTTY(t *testing.T) {
	w := connect(t, nil)
	tty := func(cmd string, more object) uint64 {
		params := object{"cmd": cmd, "tty": object{"rows": 33, "cols": 77}}
		maps.Copy(params, more)
		return w.send(agent.MethodExec, params, nil)
	}
	t.Run("it is the controlling terminal of this size on all three", func(t *testing.T) {
		id := tty("test -t 0 && test -t 1 && test -t 2 && stty size && : < /dev/tty && exit 3", nil)
		r := w.wait(id)
		if r.printed["stdout"] != "33 77\r\n" || r.printed["stderr"] != "" || w.result(id).ExitCode != 3 {
			t.Errorf("printed %q, %s", r.printed, r.Result)
		}
	})
	t.Run("a command that closes it before it ends is not hung up", func(t *testing.T) {
		id := tty("exec <&- >&- 2>&-; sleep 0.2; exit 3", nil)
		w.wait(id)
		if res := w.result(id); res.ExitCode != 3 || res.Signal != "" {
			t.Errorf("exec = %+v, want exit code 3 and no signal", res)
		}
	})
	t.Run("programs may ask, and know the terminal", func(t *testing.T) {
		t.Setenv("TERM", "")
		r := w.wait(tty("echo $GIT_TERMINAL_PROMPT-$TERM", nil))
		if r.printed["stdout"] != "-xterm-256color\r\n" {
			t.Errorf("printed %q", r.printed)
		}
	})
	t.Run("input is typed, and eof is the key for it", func(t *testing.T) {
		id := tty("cat; echo over", nil)
		w.must(agent.MethodInput, object{"id": id, "data": []byte("typed\n"), "eof": true}, &agent.Empty{})
		if r := w.wait(id); r.printed["stdout"] != "typed\r\ntyped\r\nover\r\n" {
			t.Errorf("printed %q", r.printed)
		}
	})
	t.Run("its interrupt key works", func(t *testing.T) {
		// Who starts tests in the background has them ignore it, and with them all that they start. To be told of it undoes that.
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGINT)
		defer signal.Stop(heard)
		id := tty("trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done", nil)
		w.prints(id, "stdout", "ready")
		w.must(agent.MethodInput, object{"id": id, "data": []byte{3}}, &agent.Empty{})
		if r := w.wait(id); !strings.Contains(r.printed["stdout"], "caught") || w.result(id).ExitCode != 4 {
			t.Errorf("printed %q, %s", r.printed, r.Result)
		}
	})
	t.Run("a new size is told", func(t *testing.T) {
		id := tty("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done", nil)
		w.prints(id, "stdout", "ready")
		w.must(agent.MethodResize, object{"id": id, "rows": 10, "cols": 20}, &agent.Empty{})
		if r := w.wait(id); !strings.Contains(r.printed["stdout"], "10 20") {
			t.Errorf("printed %q", r.printed)
		}
	})
	t.Run("cancel hangs up, which an interactive shell heeds", func(t *testing.T) {
		id := tty("exec sh -i", object{"env": object{"PS1": "prompt> "}})
		w.prints(id, "stdout", "prompt> ")
		w.must(agent.MethodInput, object{"id": id, "data": []byte("sleep 300\n")}, &agent.Empty{})
		w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
		if res := w.result(id); !res.Canceled {
			t.Errorf("exec = %+v", res)
		}
	})
	t.Run("all output comes before the answer", func(t *testing.T) {
		id := tty("stty raw; head -c 300000 /dev/zero", nil)
		if r := w.wait(id); len(r.printed["stdout"]) != 300000 {
			t.Errorf("%d bytes came", len(r.printed["stdout"]))
		}
	})
	t.Run("a background child does not hold the answer back", func(t *testing.T) {
		id := tty("trap '' HUP; sleep 300 & echo $!; exit 2", nil)
		r := w.wait(id)
		if w.result(id).ExitCode != 2 {
			t.Errorf("exec: %s", r.Result)
		}
		w.exec(object{"cmd": "kill -9 " + strings.TrimSpace(r.printed["stdout"])})
	})
	t.Run("a command without one is not resized", func(t *testing.T) {
		id := w.send(agent.MethodExec, object{"cmd": "sleep 300"}, nil)
		r := w.call(agent.MethodResize, object{"id": id, "rows": 1, "cols": 1})
		if r.Error == nil || r.Error.Code != rpc.CodeInvalidParams || !strings.Contains(r.Error.Message, "no terminal") {
			t.Errorf("resize: err = %v", r.Error)
		}
		w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
	})
}

func TestSignal(t *testing.T) {
	w := connect(t, nil)
	id := w.send(agent.MethodExec, object{"cmd": "trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.05; done", "stream": true}, nil)
	w.prints(id, "stdout", "ready")
	for _, tt := range []struct {
		name   string
		params object
		want   string
	}{
		{"a name that is none", object{"id": id, "signal": "SIGNOPE"}, "SIGNOPE"},
		{"a signal that is not to be sent", object{"id": id, "signal": "SIGSEGV"}, "SIGSEGV"},
		{"no name", object{"id": id}, "signal is missing"},
		{"no id", object{"signal": "SIGINT"}, "id is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.call(agent.MethodSignal, tt.params)
			if r.Error == nil || r.Error.Code != rpc.CodeInvalidParams || !strings.Contains(r.Error.Message, tt.want) {
				t.Errorf("signal: err = %v, want %q", r.Error, tt.want)
			}
		})
	}
	w.must(agent.MethodSignal, object{"id": id, "signal": "SIGUSR1"}, &agent.Empty{})
	if r := w.wait(id); !strings.Contains(r.printed["stdout"], "got it") || w.result(id).ExitCode != 5 {
		t.Errorf("printed %q, %s", r.printed, r.Result)
	}
	if r := w.call(agent.MethodSignal, object{"id": id, "signal": "SIGKILL"}); r.Error == nil || !strings.Contains(r.Error.Message, "has ended") {
		t.Errorf("signal: err = %v", r.Error)
	}
}

func TestHello(t *testing.T) {
	w := connect(t, &options{Version: "1.2.3", MaxFrame: 1 << 20})
	for theirs, want := range map[string]string{"1.0": "1.0", "1.1": "1.1", "1.7": "1.1", "2.0": "1.1", "": "1.1", "new": "1.1", "0.9": "0.9"} {
		var res agent.HelloResult
		w.must(agent.MethodHello, object{"protocol": theirs}, &res)
		if res.Protocol != want {
			t.Errorf("hello %q: protocol %q, want %q", theirs, res.Protocol, want)
		}
		if res.Agent != "airlock-agent" || res.Version != "1.2.3" || res.MaxFrame != 1<<20 || res.PID == 0 || res.OS != "linux" || len(res.Capabilities) != 11 {
			t.Errorf("hello = %+v", res)
		}
	}
	if r := w.call(agent.MethodReadFile, object{"path": "/etc/passwd", "encoding": "raw"}); r.Error == nil || r.Error.Code != rpc.CodeInvalidParams {
		t.Errorf("raw before it was agreed: err = %v", r.Error)
	}
	w.hello()
	if r := w.call(agent.MethodReadFile, object{"path": "/etc/passwd", "encoding": "raw"}); r.Error != nil || len(r.payload) == 0 {
		t.Errorf("raw: %d bytes, err = %v", len(r.payload), r.Error)
	}
}

func TestUnknownMethod(t *testing.T) {
	r := connect(t, nil).call("unknown", object{})
	if r.Error == nil || r.Error.Code != rpc.CodeMethodNotFound || r.Error.Message != "method not found: unknown" {
		t.Errorf("err = %v", r.Error)
	}
}

func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent.sock")
	p := onSocket(t, socket)
	w := dial(t, socket)
	w.pause()
	var ids []uint64
	for range 30 { // which would take three times as much, each
		ids = append(ids, w.send(agent.MethodReadFile, object{"path": path}, nil))
	}
	largest := 0
	for range 50 {
		largest = max(largest, p.rss())
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("with %d answers that nobody reads: %d MiB", len(ids), largest>>20)
	if largest > 500<<20 {
		t.Errorf("the agent took %d MiB", largest>>20)
	}
	w.resume()
	for _, id := range ids {
		r := w.wait(id)
		for range 5 { // a machine that is too slow to read the others within half a minute is told to try again
			if r.Error == nil || r.Error.Code != rpc.CodeBusy {
				break
			}
			r = w.call(agent.MethodReadFile, object{"path": path})
		}
		if r.Error != nil {
			t.Errorf("read_file: err = %v", r.Error)
		}
		w.mu.Lock()
		delete(w.replies, id)
		w.mu.Unlock()
	}
}
