//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/leaktest"
)

type options = guest.Options

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "airlock-agent-test-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	leaktest.Main(m, func() {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
	})
}

var buildDir string

func TestTheProgramIsSmallAndStatic(t *testing.T) {
	st, err := os.Stat(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > 6<<20 {
		t.Errorf("it has %d bytes", st.Size())
	}
	f, err := elf.Open(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is not static: %v", p.Type)
		}
	}
}

func TestTheProgramNeedsNoneOfTheHost(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "airlock/cmd/airlock-agent")
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is built; os/user, of archive/tar, then asks no library
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := []string{"agent", "cmd/airlock-agent", "internal/fastsys", "internal/guest", "internal/mux", "internal/rpc", "internal/unpack"}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		own, isOurs := strings.CutPrefix(dep, "airlock/")
		if dep == "net/http" || dep == "runtime/cgo" || strings.HasPrefix(dep, "gvisor.dev/") || isOurs && !slices.Contains(ours, own) {
			t.Errorf("it depends on %s", dep)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, 0, "--listen WHERE", ""},
		{"version", []string{"--version"}, 0, "airlock-agent v1.2.3, protocol ", ""},
		{"a flag that is none", []string{"--nope"}, 2, "", "nope"},
		{"an argument", []string{"run"}, 2, "", `unexpected argument "run"`},
		{"a frame that is too small", []string{"--max-frame", "10"}, 2, "", "max-frame"},
		{"a level that is none", []string{"--log-level", "loud"}, 2, "", "log-level"},
		{"a place that is none", []string{"--listen", "tcp:80"}, 1, "", "want vsock:PORT, unix:PATH, stdio or mux"},
		{"a port that is none", []string{"--listen", "vsock:x"}, 1, "", `"x" is no port`},
		{"a path that is too long", []string{"--listen", "unix:/" + strings.Repeat("x", 200)}, 1, "", "201 bytes"},
		{"a folder that is not there", []string{"--listen", "unix:/no/such/socket"}, 1, "", "listen on unix:/no/such/socket: no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := guest.Main(context.Background(), "v1.2.3", tt.args, strings.NewReader(""), &out, &errs)
			if code != tt.code || !strings.Contains(out.String(), tt.stdout) || !strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("Main = %d, stdout %q, stderr %q", code, &out, &errs)
			}
		})
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	p := onSocket(t, path)
	if st, err := os.Lstat(path); err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode = %v, err = %v", st.Mode(), err)
	}
	first, second := dial(t, path), dial(t, path)
	for _, w := range []*wire{first, second} {
		if res := w.exec(object{"cmd": "echo hi"}); res.Stdout != "hi\n" {
			t.Errorf("exec = %+v", res)
		}
	}
	t.Run("a second agent is refused", func(t *testing.T) {
		out, err := exec.Command(binary(t), "--listen", "unix:"+path).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "somebody listens there already") {
			t.Errorf("%s, err = %v", out, err)
		}
	})
	t.Run("another's file is refused", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(binary(t), "--listen", "unix:"+file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "a file that is no socket is there already") {
			t.Errorf("%s, err = %v", out, err)
		}
		if data, err := os.ReadFile(file); string(data) != "precious" {
			t.Errorf("the file is %q, err = %v", data, err)
		}
	})
	dir := t.TempDir()
	first.exec(object{"cmd": "setsid sleep 300 & echo $! > left", "cwd": dir})
	id := second.send(agent.MethodExec, object{"cmd": "echo $$ > running; echo ready; sleep 300", "cwd": dir, "stream": true}, nil)
	second.prints(id, "stdout", "ready")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket's file is still there")
	}
	for _, name := range []string{"left", "running"} {
		if alive(t, filepath.Join(dir, name)) {
			t.Errorf("the command %s outlived its agent", name)
		}
	}
}

func TestAClientThatOnlyStopsSendingIsAnswered(t *testing.T) {
	const requests = `{"jsonrpc":"2.0","id":1,"method":"exec","params":{"cmd":"sleep 0.3; echo done"}}
{"jsonrpc":"2.0","id":2,"method":"ping"}
`
	t.Run("on stdio", func(t *testing.T) {
		cmd := exec.Command(binary(t), "--listen", "stdio")
		cmd.Stdin = strings.NewReader(requests)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), `"stdout":"done\n"`) || !strings.Contains(string(out), `"pong":true`) {
			t.Errorf("answers = %s, %v", out, err)
		}
	})
	t.Run("on a socket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "agent.sock")
		onSocket(t, path)
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, requests)
		_ = conn.(*net.UnixConn).CloseWrite()
		out, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(out), `"stdout":"done\n"`) {
			t.Errorf("answers = %s, %v", out, err)
		}
	})
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	p := onSocket(t, path)
	_ = p.Process.Kill()
	p.ends()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal("a killed agent left no socket to replace")
	}
	onSocket(t, path)
	if res := dial(t, path).exec(object{"cmd": "echo again"}); res.Stdout != "again\n" {
		t.Errorf("exec = %+v", res)
	}
}

func TestStdio(t *testing.T) {
	extra, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	cmd := exec.Command(binary(t), "--listen", "stdio")
	cmd.ExtraFiles = []*os.File{extra, extra}
	p, w := onStdio(t, cmd)
	if res := w.exec(object{"cmd": "ls /proc/self/fd; ls -l /proc/$PPID/fd/0 /proc/$PPID/fd/1 | sed 's/.*-> //'"}); !strings.HasPrefix(res.Stdout, "0\n1\n2\n3\n/dev/null\n") {
		t.Errorf("descriptors of a command, then 0 and 1 of the agent: %q", res.Stdout) // 3 is ls's own
	}
	dir := t.TempDir()
	w.exec(object{"cmd": "setsid sleep 300 & echo $! > left", "cwd": dir})
	id := w.send(agent.MethodExec, object{"cmd": "echo $$ > running; echo ready; sleep 300", "cwd": dir, "stream": true}, nil)
	w.prints(id, "stdout", "ready")
	w.conn.Close() // both directions: nobody is there any more
	if code := p.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"left", "running"} {
		if alive(t, filepath.Join(dir, name)) {
			t.Errorf("the command %s outlived its agent", name)
		}
	}
}

func TestStdioEndsOnASignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
		w.must(agent.MethodPing, object{}, &agent.PingResult{})
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := p.ends(); code != 0 {
			t.Errorf("%v: exit code %d", sig, code)
		}
	}
}

func TestOrphansAreCollected(t *testing.T) {
	p, w := onStdio(t, exec.Command(binary(t), "--listen", "stdio"))
	for range 20 {
		w.exec(object{"cmd": "(sleep 0.1 &) ; (true &) ; (setsid true &)"})
	}
	eventually(t, "no child of the agent to be left", func() bool {
		out, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.Process.Pid, p.Process.Pid))
		all, _ := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(p.Process.Pid)).Output()
		return len(out) == 0 && len(bytes.TrimSpace(all)) == 0
	})
}

func TestPID1(t *testing.T) {
	needRoot(t)
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("needs a PID namespace: %v", err)
	}
	p, w := onStdio(t, exec.Command("unshare", "-pf", "--mount-proc", "--kill-child", binary(t), "--listen", "stdio"))
	var hello agent.HelloResult
	if w.must(agent.MethodHello, object{"protocol": "1.1"}, &hello); hello.PID != 1 {
		t.Errorf("hello = %+v", hello)
	}
	pid := filepath.Join(t.TempDir(), "pid") // of an orphan, which has no entry once it was collected
	res := w.exec(object{"env": object{"PIDFILE": pid}, "cmd": `(sh -c 'echo $$ > "$PIDFILE"' &)
		until test -s "$PIDFILE" && ! test -e "/proc/$(cat "$PIDFILE")"; do sleep 0.01; done
		stat -c %U /proc/1/environ; id -u; pwd`})
	if res.Stdout != "root\n0\n"+mustGetwd(t)+"\n" {
		t.Errorf("exec = %+v", res)
	}
	w.conn.(pipes).WriteCloser.Close()
	if code := p.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnAgentWithoutRoot(t *testing.T) {
	needRoot(t)
	cmd := exec.Command(binary(t), "--listen", "stdio")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	_, w := onStdio(t, cmd)
	if res := w.exec(object{"cmd": "id -u", "user": "nobody"}); res.Stdout != "65534\n" {
		t.Errorf("its own user: %+v", res)
	}
	for name, params := range map[string]object{
		"only root can start a command as somebody else": {"cmd": "id -u", "user": "root"},
		"groups: only root":     {"cmd": "id -u", "groups": []int{1}},
		"max_procs 5: ":         {"cmd": "id -u", "max_procs": 5},
		"cwd /root: permission": {"cmd": "id -u", "cwd": "/root"},
	} {
		if res := w.exec(params); res.NotStarted != "failed" || !strings.Contains(res.Stderr, name) || res.Stdout != "" {
			t.Errorf("exec %v = %+v, want %q", params, res, name)
		}
	}
	if r := w.call(agent.MethodReadFile, object{"path": "/etc/shadow"}); r.Error == nil || r.Error.Message != "read /etc/shadow: permission denied" {
		t.Errorf("read_file: err = %v", r.Error)
	}
}

func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	p := onSocket(t, path)
	w := dial(t, path)
	w.must(agent.MethodPing, object{}, &agent.PingResult{})
	if n := p.rss(); n > 12<<20 {
		t.Errorf("at rest it holds %d bytes", n)
	}
	t.Logf("at rest: %d KiB", p.rss()>>10)
	run := func(n int, cmd string) {
		for range n {
			if res := w.exec(object{"cmd": cmd}); res.ExitCode != 0 {
				t.Fatalf("exec = %.300v", res)
			}
		}
	}
	run(10, "true")
	few := p.rss()
	run(1000, "true")
	many := p.rss()
	t.Logf("after 10 commands: %d KiB, after 1010: %d KiB", few>>10, many>>10)
	if many > few+6<<20 {
		t.Errorf("a thousand commands took it from %d to %d bytes", few, many)
	}
	run(1, "yes | head -c 400000000")
	t.Logf("after 400 MB of output: %d KiB", p.rss()>>10)
	if n := p.rss(); n > 48<<20 {
		t.Errorf("a flood of output took it to %d bytes", n)
	}
}

func BenchmarkExecTrue(b *testing.B) {
	w := connect(b, nil)
	for b.Loop() {
		w.exec(object{"argv": []string{"/bin/true"}})
	}
}

func BenchmarkPing(b *testing.B) {
	w := connect(b, nil)
	for b.Loop() {
		w.must(agent.MethodPing, object{}, &agent.PingResult{})
	}
}
