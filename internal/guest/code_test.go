//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"airlock/agent"
	"airlock/internal/rpc"
)

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s", program)
	}
}

// code runs exec_code to its end.
func (w *wire) code(params any) agent.ExecResult {
	w.t.Helper()
	var res agent.ExecResult
	w.must(agent.MethodExecCode, params, &res)
	return res
}

func TestExecCode(t *testing.T) {
	w := connect(t, nil)
	for _, tt := range []struct {
		program string
		langs   []string
		code    string
		want    string
	}{
		{"python3", []string{"python", "python3", "Python", "PYTHON3"}, "import sys; print(sys.argv, __name__)", "['-c'] __main__\n"},
		{"node", []string{"node", "javascript", "js", "JavaScript", "JS"}, "console.log(process.argv.length, typeof require)", "1 function\n"},
		{"bash", []string{"bash", "Bash"}, "echo ${BASH_VERSION:+bash} $0", "bash bash\n"},
		{"sh", []string{"sh", "SH"}, "echo $0", "sh\n"},
	} {
		for _, lang := range tt.langs {
			t.Run("lang "+lang, func(t *testing.T) {
				need(t, tt.program)
				if res := w.code(object{"lang": lang, "code": tt.code}); res.Stdout != tt.want || res.ExitCode != 0 || res.Stderr != "" {
					t.Errorf("exec_code = %+v, want %q", res, tt.want)
				}
			})
		}
	}
	t.Run("a language that is not supported is named as it was given", func(t *testing.T) {
		r := w.call(agent.MethodExecCode, object{"lang": "Cobol", "code": ""})
		if got := string(r.Result); got != `{"exit_code":-1,"stdout":"","stderr":"unsupported language: Cobol"}` {
			t.Errorf("exec_code: %s, err = %v", got, r.Error)
		}
	})
	t.Run("a missing interpreter is named", func(t *testing.T) {
		res := w.code(object{"lang": "python", "code": "1", "env": object{"PATH": "/nowhere"}})
		if res.ExitCode != -1 || res.NotStarted != "not_found" || !strings.Contains(res.Stderr, "python3: not found") {
			t.Errorf("exec_code = %+v", res)
		}
	})
	t.Run("the options of exec hold", func(t *testing.T) {
		res := w.code(object{"lang": "sh", "code": "pwd; cat; echo $X$PAGER; exit 3", "cwd": "/usr", "stdin": "in\n", "env": object{"X": "x"}})
		if res.Stdout != "/usr\nin\nxcat\n" || res.ExitCode != 3 {
			t.Errorf("exec_code = %+v", res)
		}
	})
	for name, params := range map[string]object{
		"code is missing":     {"lang": "sh"},
		"lang is missing":     {"code": ""},
		"code has a NUL byte": {"lang": "sh", "code": "a\x00b"},
		"cwd":                 {"lang": "sh", "code": "", "cwd": "relative"},
	} {
		t.Run("refused because "+name, func(t *testing.T) {
			r := w.call(agent.MethodExecCode, params)
			if r.Error == nil || r.Error.Code != rpc.CodeInvalidParams || !strings.Contains(r.Error.Message, name) {
				t.Errorf("exec_code: err = %v, want %q", r.Error, name)
			}
		})
	}
}

// TestLongCodeIsAsShortCode runs the same program short and padded with a comment of 20
// million characters, which no argument can carry.
func TestLongCodeIsAsShortCode(t *testing.T) {
	w := connect(t, nil)
	for _, tt := range []struct{ program, lang, comment, code, want string }{
		{"python3", "python", "#", `
import sys, os
x = 1
def f(): return x            # globals are the module's
print(sys.argv, __name__, f(), "__file__" in globals(), sorted(g for g in globals() if not g.startswith("_")))
print(sys.stdin.read(), os.listdir("."))
print([n for n in os.listdir("/proc/self/fd") if "memfd" in (os.path.exists("/proc/self/fd/"+n) and os.readlink("/proc/self/fd/"+n) or "")])
sys.exit(7)`, "['-c'] __main__ 1 False ['f', 'os', 'sys', 'x']\ninput []\n[]\n"},
		{"node", "js", "//", `
var x = 1; let y = 2;
const fs = require("fs");
console.log(process.argv.length, globalThis.x, y, __filename, typeof module, process.execArgv.length);
console.log(fs.readFileSync(0, "utf8"), fs.readdirSync("."));
import("node:path").then(m => { console.log(typeof m.join); process.exitCode = 7; });`, "1 1 2 [eval] object 2\ninput []\nfunction\n"},
		{"bash", "bash", "#", `
x=1; f() { echo $x; }
echo $0 $# $(f) "${BASH_VERSION:+bash}"
read line; echo "$line" $(ls)
readlink /proc/$$/fd/* | grep -c memfd
exit 7`, "bash 0 1 bash\ninput\n0\n"},
		{"sh", "sh", "#", `
x=1; f() { echo $x; }
echo $0 $# $(f)
read line; echo "$line" $(ls)
ls -l /proc/self/fd | grep -c memfd
exit 7`, "sh 0 1\ninput\n0\n"},
	} {
		for size, name := range map[int]string{0: "short", 20_000_000: "long"} {
			t.Run(tt.lang+" "+name, func(t *testing.T) {
				need(t, tt.program)
				code := tt.code + "\n"
				if size > 0 {
					code = tt.comment + strings.Repeat("x", size) + "\n" + code
				}
				res := w.code(object{"lang": tt.lang, "code": code, "cwd": t.TempDir(), "stdin": "input"})
				if res.Stdout != tt.want || res.ExitCode != 7 || res.Stderr != "" {
					t.Errorf("exec_code = %+v, want %q and 7", res, tt.want)
				}
			})
		}
	}
}

// fakeRust puts a rustc into PATH that takes a shell script for Rust.
func fakeRust(t *testing.T) (env object, temp string) {
	t.Helper()
	bin, temp := t.TempDir(), t.TempDir()
	script := `#!/bin/sh
for last; do :; done
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
grep -q 'does not compile' "$last" && { echo "error: no" >&2; exit 42; }
grep -q 'compiles for ever' "$last" && { echo compiling >&2; : > "$UP/up"; sleep 300; }
echo "warning: shell" >&2
{ echo '#!/bin/sh'; cat "$last"; } > "$out"; chmod 755 "$out"
`
	if err := os.WriteFile(filepath.Join(bin, "rustc"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	return object{"PATH": bin + ":" + os.Getenv("PATH"), "UP": bin}, temp
}

func TestExecCodeRust(t *testing.T) {
	env, temp := fakeRust(t)
	w := connect(t, nil)
	for _, tt := range []struct {
		name   string
		params object
		want   agent.ExecResult
	}{
		{"it is compiled and run, and warnings are dropped", object{"code": "pwd; cat; exit 5", "cwd": "/usr", "stdin": "in\n"}, agent.ExecResult{ExitCode: 5, Stdout: "/usr\nin\n"}},
		{"what does not compile is rustc's own failure", object{"code": "does not compile"}, agent.ExecResult{ExitCode: 42, Stderr: "error: no\n"}},
		{"code of any length is compiled", object{"code": "#" + strings.Repeat("x", 1<<20) + "\necho long"}, agent.ExecResult{Stdout: "long\n"}},
		{"the time limit holds for the compiler", object{"code": "compiles for ever", "timeout_ms": 300}, agent.ExecResult{ExitCode: -1, Signal: "SIGTERM", TimedOut: true, Stderr: "compiling\n"}},
		{"the time limit holds for the program", object{"code": "echo runs; : > $UP/up; sleep 300", "timeout_ms": 500}, agent.ExecResult{ExitCode: -1, Signal: "SIGTERM", TimedOut: true, Stdout: "runs\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.params["lang"], tt.params["env"] = "rust", env
			got := w.code(tt.params)
			up := filepath.Join(fmt.Sprint(env["UP"]), "up")
			for limit, _ := tt.params["timeout_ms"].(int); tt.want.TimedOut && limit < 30_000; got = w.code(tt.params) {
				if os.Remove(up) == nil {
					break // it had come so far
				}
				limit *= 4
				tt.params["timeout_ms"] = limit
			}
			if got.DurationMS = 0; got != tt.want {
				t.Errorf("exec_code = %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("it streams, its compiler's errors too", func(t *testing.T) {
		r := w.wait(w.send(agent.MethodExecCode, object{"lang": "rust", "code": "does not compile", "env": env, "stream": true}, nil))
		if r.printed["stderr"] != "error: no\n" {
			t.Errorf("printed %q, %s", r.printed, r.Result)
		}
	})
	t.Run("input waits for the program", func(t *testing.T) {
		id := w.send(agent.MethodExecCode, object{"lang": "rust", "code": "cat", "env": env, "input": true}, nil)
		w.must(agent.MethodInput, object{"id": id, "data": []byte("fed"), "eof": true}, &agent.Empty{})
		if res := w.result(id); res.Stdout != "fed" {
			t.Errorf("exec_code = %+v", res)
		}
	})
	t.Run("cancel ends the compiler", func(t *testing.T) {
		id := w.send(agent.MethodExecCode, object{"lang": "rust", "code": "compiles for ever", "env": env}, nil)
		w.must(agent.MethodPing, object{}, &agent.PingResult{})
		w.must(agent.MethodCancel, object{"id": id}, &agent.CancelResult{})
		if res := w.result(id); !res.Canceled || res.ExitCode != -1 {
			t.Errorf("exec_code = %+v", res)
		}
	})
	if os.Geteuid() == 0 {
		t.Run("another user compiles and runs it", func(t *testing.T) {
			for _, dir := range []string{temp, filepath.Dir(temp), strings.SplitN(fmt.Sprint(env["PATH"]), ":", 2)[0]} {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			res := w.code(object{"lang": "rust", "code": "id -u", "env": env, "user": "12345"})
			if res.Stdout != "12345\n" {
				t.Errorf("exec_code = %+v", res)
			}
		})
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, err = %v", left, err)
	}
}

func TestExecCodeRealRust(t *testing.T) {
	need(t, "rustc")
	if testing.Short() {
		t.Skip("compiling takes a second")
	}
	w := connect(t, nil)
	if res := w.code(object{"lang": "rust", "code": `fn main() { println!("{}", 6 * 7); std::process::exit(3) }`}); res.Stdout != "42\n" || res.ExitCode != 3 {
		t.Errorf("exec_code = %+v", res)
	}
	if res := w.code(object{"lang": "Rust", "code": `fn main() { nonsense }`}); res.ExitCode != 1 || !strings.Contains(res.Stderr, "nonsense") {
		t.Errorf("exec_code = %+v", res)
	}
}
