package proc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"airlock/agent"
	"airlock/internal/guest/guesttest"
	"airlock/internal/tool/bridge/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks to a guest agent of its own, in this process.
func client(t testing.TB) *agent.Client {
	t.Helper()
	return guesttest.Client(t)
}

// shell is a run of a shell line, in a folder of its own.
func shell(t testing.TB, line string) *proc.Run {
	t.Helper()
	return &proc.Run{
		Client: client(t), Limit: 2 * time.Minute, MaxOutput: 1 << 20,
		Params: agent.ExecParams{Argv: []string{"/bin/sh", "-c", line}, ExecOptions: agent.ExecOptions{Cwd: t.TempDir()}},
	}
}

// limits are for what has to have begun before its time passes: where it had not, on a machine
// that is busy, the next one is tried.
var limits = []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDo(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name, line, stdin string
		most              int64
		want              proc.Outcome // Stdout's first bytes; Result's exit code, signal and not_started
	}{
		{name: "its streams and its exit code", line: "echo out; echo err >&2; exit 3", want: proc.Outcome{Result: agent.ExecResult{ExitCode: 3}, Stdout: []byte("out\n"), Stderr: "err\n"}},
		{name: "it is given its input", line: "cat", stdin: "in\n", want: proc.Outcome{Stdout: []byte("in\n")}},
		{name: "it never reads a megabyte of input", line: "echo done", stdin: long, want: proc.Outcome{Stdout: []byte("done\n")}},
		{name: "it closes its input at once", line: "exec 0<&-; sleep 0.2; echo done", stdin: long, want: proc.Outcome{Stdout: []byte("done\n")}},
		{name: "it reads some of its input", line: "head -c 3", stdin: long, want: proc.Outcome{Stdout: []byte("xxx")}},
		{name: "a signal", line: "kill -SEGV $$", want: proc.Outcome{Result: agent.ExecResult{ExitCode: -1, Signal: "SIGSEGV"}}},
		{name: "its time passes", line: "echo begun; echo why >&2; exec sleep 600", want: proc.Outcome{TimedOut: true, Stdout: []byte("begun\n"), Stderr: "why\n"}},
		{name: "its time passes, and it ignores that", line: "trap '' TERM; echo begun; while :; do sleep 1; done", want: proc.Outcome{TimedOut: true, Stdout: []byte("begun\n")}},
		{name: "it prints as much as it may", line: "printf abcd", most: 4, want: proc.Outcome{Stdout: []byte("abcd")}},
		{name: "it prints a byte more", line: "printf abcde; exec sleep 600", most: 4, want: proc.Outcome{TooMuch: true, Stdout: []byte("abcd")}},
		{name: "it prints without end", line: "exec yes", most: 4, want: proc.Outcome{TooMuch: true, Stdout: []byte("y\ny\n")}},
		{name: "nothing", line: ":", want: proc.Outcome{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := shell(t, tt.line)
			r.Params.Stdin = tt.stdin
			if tt.most > 0 {
				r.MaxOutput = tt.most
			}
			begun := time.Now()
			var got proc.Outcome
			if tt.want.TimedOut {
				for _, r.Limit = range limits {
					if got = r.Do(t.Context()); len(got.Stdout)+len(got.Stderr) >= len(tt.want.Stdout)+len(tt.want.Stderr) {
						break
					}
				}
			} else {
				got = r.Do(t.Context())
			}
			if took := time.Since(begun); took > 2*time.Minute {
				t.Errorf("Do took %s", took)
			}
			if got.Err != nil || string(got.Stdout) != string(tt.want.Stdout) || got.Stderr != tt.want.Stderr {
				t.Errorf("Do: err %v, stdout %q, stderr %q", got.Err, got.Stdout, got.Stderr)
			}
			if got.TimedOut != tt.want.TimedOut || got.TooMuch != tt.want.TooMuch || got.Canceled {
				t.Errorf("Do: timed out %v, too much %v, canceled %v", got.TimedOut, got.TooMuch, got.Canceled)
			}
			if ended := tt.want.TimedOut || tt.want.TooMuch; !ended && (got.Result.ExitCode != tt.want.Result.ExitCode || got.Result.Signal != tt.want.Result.Signal) {
				t.Errorf("Do: result %+v", got.Result)
			}
		})
	}
}

func TestAProgramThatCannotBeStarted(t *testing.T) {
	r := shell(t, "")
	r.Params.Argv = []string{"/no/such/program"}
	out := r.Do(t.Context())
	if out.Err != nil || out.Result.NotStarted != "not_found" || !strings.Contains(out.Result.Stderr, "/no/such/program") {
		t.Errorf("Do: %+v", out)
	}
}

func TestWhatItLeavesBehindIsEnded(t *testing.T) {
	const late = "when its time has passed"
	for name, line := range map[string]string{
		"when it ends by itself":     "sleep 300 & echo $! >pid; setsid sleep 300 & echo $! >pid2; echo done",
		late:                         "sleep 300 & echo $! >pid; setsid sleep 300 & echo $! >pid2; echo done; exec sleep 300",
		"when it prints too much":    "sleep 300 & echo $! >pid; setsid sleep 300 & echo $! >pid2; echo done; exec yes",
		"when it holds its own pipe": "(trap '' TERM; echo $$ >pid3; exec sleep 300) & echo $! >pid; setsid sleep 300 & echo $! >pid2; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			r := shell(t, line)
			var out proc.Outcome
			if name == late {
				for _, r.Limit = range limits {
					if out = r.Do(t.Context()); len(out.Stdout) > 0 {
						break
					}
				}
			} else {
				out = r.Do(t.Context())
			}
			if !strings.HasPrefix(string(out.Stdout), "done\n") || out.Err != nil {
				t.Errorf("Do: %+v", out)
			}
			for _, file := range []string{"pid", "pid2"} {
				data, err := os.ReadFile(filepath.Join(r.Params.Cwd, file))
				if err != nil {
					t.Fatal(err)
				}
				pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
				if err != nil {
					t.Fatal(err)
				}
				if running(pid) {
					t.Errorf("%s runs on", file)
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		})
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestCanceled(t *testing.T) {
	for _, tt := range []struct {
		name  string
		line  string
		grace time.Duration
		code  int // -1: it is ended
	}{
		{name: "at once", line: "echo up >&2; exec sleep 600", code: -1},
		{name: "who ignores it", line: "trap '' TERM; echo up >&2; while :; do sleep 1; done", code: -1},
		{name: "who ends in time", line: "echo up >&2; read line; exit 4", grace: 2 * time.Minute, code: 4},
		{name: "who does not", line: "echo up >&2; exec sleep 600", grace: 100 * time.Millisecond, code: -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := shell(t, tt.line)
			r.Grace = tt.grace
			r.Stderr = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
			stdin, theirs := io.Pipe()
			defer theirs.Close()
			defer stdin.Close()
			p, err := r.Start(ctx, stdin, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			<-p.Over()
			if p.Reason() != proc.Canceled {
				t.Errorf("Reason = %q", p.Reason())
			}
			if tt.grace > time.Second {
				if _, err := theirs.Write([]byte("it is over\n")); err != nil {
					t.Fatal(err)
				}
			}
			out := p.Wait()
			if !out.Canceled || out.TimedOut || out.Err != nil || (out.Result.ExitCode == 4) != (tt.code == 4) {
				t.Errorf("Wait: %+v", out)
			}
		})
	}
}

// A slowConn has sent what holds text long before whoever sent it knows.
type slowConn struct {
	net.Conn
	text  string
	known <-chan struct{}
}

func (c *slowConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.Contains(p, []byte(c.text)) {
		<-c.known
	}
	return n, err
}

func TestCanceledBeforeItIsKnownToBeStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := shell(t, "echo up >&2; read line; exit 4")
	conn, err := guesttest.Connector(t, nil)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Client = agent.NewClient(&slowConn{conn, "echo up", ctx.Done()}, nil)
	defer r.Client.Close()
	other, err := r.Client.Start(t.Context(), agent.ExecParams{Argv: []string{"sleep", "600"}}, nil) // who waits for this reads for both
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Cancel()
		_, _ = other.Wait()
	}()
	r.Grace, r.Params.Input = 2*time.Minute, true
	r.Stderr = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	p, err := r.Start(ctx, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Over()
	if err := p.Input(t.Context(), []byte("it is over\n")); err != nil {
		t.Error(err)
	}
	if out := p.Wait(); out.Err != nil || !out.Canceled || out.Result.ExitCode != 4 {
		t.Errorf("Wait: %+v", out)
	}
}

func TestADeadlineIsATimeOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if out := shell(t, "exec sleep 600").Do(ctx); !out.TimedOut || out.Canceled {
		t.Errorf("Do: %+v", out)
	}
}

func TestWhatHasEndedBeforeItBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := shell(t, "touch ran")
	if out := r.Do(ctx); !out.Canceled {
		t.Errorf("Do: %+v", out)
	}
	if _, err := os.Stat(filepath.Join(r.Params.Cwd, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestGraceAfterTheLimit(t *testing.T) {
	r := shell(t, "read line; echo said $line; exit 0")
	r.Limit, r.Grace, r.Params.Input = 100*time.Millisecond, 2*time.Minute, true
	var said strings.Builder
	p, err := r.Start(t.Context(), nil, &said)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Over()
	if p.Reason() != proc.Timeout {
		t.Errorf("Reason = %q", p.Reason())
	}
	if err := p.Input(t.Context(), []byte("end\n")); err != nil {
		t.Fatal(err)
	}
	out := p.Wait()
	if out.TimedOut || out.Canceled || out.Result.ExitCode != 0 || said.String() != "said end\n" {
		t.Errorf("Wait: %+v, said %q", out, &said)
	}
}

func TestStdoutThatFailsEndsIt(t *testing.T) {
	full := errors.New("it is enough")
	p, err := shell(t, "echo one; exec sleep 600").Start(t.Context(), nil, writerFunc(func([]byte) (int, error) { return 0, full }))
	if err != nil {
		t.Fatal(err)
	}
	if out := p.Wait(); !errors.Is(out.Err, full) || out.TooMuch || out.TimedOut || out.Canceled {
		t.Errorf("Wait: %+v", out)
	}
}

func TestEnd(t *testing.T) {
	p, err := shell(t, "exec sleep 600").Start(t.Context(), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p.End()
	if out := p.Wait(); !out.Result.Canceled || out.Err != nil || p.Reason() != proc.NotOver {
		t.Errorf("Wait: %+v, reason %q", out, p.Reason())
	}
}

func TestStderrIsHandedOnAndItsLastPartKept(t *testing.T) {
	r := shell(t, `head -c 300000 /dev/zero | tr '\0' x >&2; printf 'the end\377é' >&2`)
	live := 0
	r.Stderr = writerFunc(func(p []byte) (int, error) { live += len(p); return len(p), nil })
	out := r.Do(t.Context())
	if live != 300000+len("the end")+3 {
		t.Errorf("%d bytes were handed on", live)
	}
	if !strings.HasSuffix(out.Stderr, "xthe end\uFFFDé") || len(out.Stderr) > 64<<10+8 || len(out.Stderr) < 64<<10-8 {
		t.Errorf("Stderr has %d bytes, and ends with %q", len(out.Stderr), out.Stderr[len(out.Stderr)-20:])
	}
}

func TestAWatcherWhoFailsEndsNothing(t *testing.T) {
	r := shell(t, "echo a >&2; echo b >&2; echo done")
	r.Stderr = writerFunc(func([]byte) (int, error) { return 0, errors.New("the terminal is gone") })
	if out := r.Do(t.Context()); out.Err != nil || string(out.Stdout) != "done\n" || out.Stderr != "a\nb\n" {
		t.Errorf("Do: %+v", out)
	}
}

func TestSignalsAreHandedOn(t *testing.T) {
	r := shell(t, `trap 'echo heard; exit 0' USR1; echo up >&2; while :; do sleep 0.05; done`)
	signals := make(chan string, 1)
	r.Signals = signals
	var once sync.Once // the shell may have more to say when the signal comes
	r.Stderr = writerFunc(func(p []byte) (int, error) {
		once.Do(func() { signals <- "SIGUSR1" })
		return len(p), nil
	})
	if out := r.Do(t.Context()); string(out.Stdout) != "heard\n" {
		t.Errorf("Do: %+v", out)
	}
}

func TestAGuestThatIsGone(t *testing.T) {
	r := shell(t, "echo up >&2; exec sleep 600")
	r.Stderr = writerFunc(func(p []byte) (int, error) { go r.Client.Close(); return len(p), nil })
	if out := r.Do(t.Context()); out.Err == nil || out.Canceled || out.TimedOut {
		t.Errorf("Do, as it runs: %+v", out)
	}
	if out := r.Do(t.Context()); out.Err == nil {
		t.Errorf("Do, after that: %+v", out)
	}
}
