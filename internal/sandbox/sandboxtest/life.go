package sandboxtest

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// hog takes memory and holds it.
const hog = `/usr/bin/python3 -c '
import time
x = bytearray(600 << 20)
time.sleep(30)
print("never limited")'`

func memory(b *bench) {
	sb := b.start(sandbox.Spec{Limits: sandbox.Limits{Memory: 256 << 20}})
	defer b.close(sb)
	b.want(sb, "/usr/bin/python3 -c 'print(len(bytearray(32 << 20)) >> 20)'", "32")
	res, err := b.try(sb, agent.ExecParams{Cmd: hog})
	if err == nil {
		b.Fatalf("a command took 600 MiB of 256: %+v", res)
	}
	select {
	case <-sb.Done():
	case <-time.After(startLimit):
		b.Fatal("the sandbox did not end")
	}
	if !errors.Is(sb.Err(), sandbox.ErrOutOfMemory) {
		b.Errorf("Err = %v, want ErrOutOfMemory", sb.Err())
	}
}

func processes(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	params := agent.ExecParams{Cmd: "for i in $(seq 60); do sleep 20 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l"}
	params.MaxProcs = 25
	res, err := b.try(sb, params)
	if err != nil {
		b.Fatalf("run beyond the process limit: %v", err)
	}
	if n, _ := strconv.Atoi(strings.TrimSpace(res.Stdout)); n > 35 {
		b.Errorf("%d processes ran, where 25 may", n)
	}
	b.want(sb, "echo still here", "still here")
	bomb := agent.ExecParams{Cmd: "f() { f | f & }; f; sleep 2"}
	bomb.MaxProcs, bomb.TimeoutMS = 50, 10_000
	if _, err := b.try(sb, bomb); err != nil {
		b.Errorf("a fork bomb: %v", err)
	}
	b.want(sb, "echo still here", "still here")
}

func processors(b *bench) {
	sb := b.start(sandbox.Spec{Limits: sandbox.Limits{CPUs: 1}})
	defer b.close(sb)
	// Two busy loops for a second of wall time get about one second of one processor.
	start := hostCPU(b)
	b.sh(sb, "timeout 2 sh -c 'while :; do :; done' & timeout 2 sh -c 'while :; do :; done' & wait")
	used := hostCPU(b) - start
	b.Logf("two seconds on one processor took %v of processor time", used)
	if used > 3500*time.Millisecond {
		b.Errorf("two seconds on one processor took %v of processor time", used)
	}
}

// hostCPU is the processor time of the test and all children it has waited for: of the
// engine's processes only when they have ended, so their own clocks are read, too.
func hostCPU(b *bench) time.Duration {
	b.Helper()
	var total time.Duration
	entries, err := os.ReadDir("/proc")
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil || !strings.Contains(string(data), "(runsc-sandbox)") && !strings.Contains(string(data), "(exe)") {
			continue
		}
		if i := strings.LastIndexByte(string(data), ')'); i > 0 {
			if f := strings.Fields(string(data)[i+1:]); len(f) > 13 {
				user, _ := strconv.Atoi(f[11])
				sys, _ := strconv.Atoi(f[12])
				total += time.Duration(user+sys) * 10 * time.Millisecond
			}
		}
	}
	return total
}

func closeTwice(b *bench) {
	sb := b.start(sandbox.Spec{Limits: sandbox.Limits{Memory: 512 << 20}})
	b.sh(sb, "setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' >/dev/null 2>&1 &")
	b.close(sb)
	b.close(sb)
	select {
	case <-sb.Done():
	default:
		b.Error("Done is not closed after Close")
	}
	if err := sb.Err(); err != nil {
		b.Errorf("Err after Close = %v, want nil", err)
	}
	if _, err := sb.Client().Exec(b.Context(), "true"); err == nil {
		b.Error("a closed sandbox ran a command")
	}
}

func givenUp(b *bench) {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(b.Context(), after)
		sb, err := b.driver.Start(ctx, &sandbox.Spec{WorkDir: b.work})
		cancel()
		if err == nil {
			b.close(sb) // it was quicker
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("Start given up after %v: err = %v, want DeadlineExceeded", after, err)
		}
	}
}

func endsItself(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	// PID 1 cannot be ended by an ordinary user's commands; the agent's own can.
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	_, err := sb.Client().Exec(ctx, "kill -9 1; sleep 60")
	if err == nil {
		b.Fatal("a command outlived the sandbox")
	}
	select {
	case <-sb.Done():
	case <-time.After(startLimit):
		b.Fatal("the sandbox did not end")
	}
	if !errors.Is(sb.Err(), sandbox.ErrEnded) {
		b.Errorf("Err = %v, want ErrEnded", sb.Err())
	}
	if err := sb.Upper(ctx, discardAll{}); !errors.Is(err, sandbox.ErrEnded) {
		b.Errorf("Upper of an ended sandbox: %v, want ErrEnded", err)
	}
}

type discardAll struct{}

func (discardAll) Write(p []byte) (int, error) { return len(p), nil }
