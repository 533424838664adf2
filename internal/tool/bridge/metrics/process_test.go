package metrics_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"airlock/internal/tool/bridge/metrics"
)

// TestMain is also another bridge, when AIRLOCK_TEST_METRICS names a file.
func TestMain(m *testing.M) {
	if path := os.Getenv("AIRLOCK_TEST_METRICS"); path != "" {
		os.Exit(another(path))
	}
	goleak.VerifyTestMain(m)
}

// another adds AIRLOCK_TEST_CALLS calls, ten at a time, without an end where that is 0, and
// says how many are kept.
func another(path string) int {
	n, _ := strconv.Atoi(os.Getenv("AIRLOCK_TEST_CALLS"))
	ctx := context.Background()
	s := metrics.Open(path, config, 0, nil)
	for i := 0; n == 0 || i < n; i += 10 {
		add(s, calls("a", 10, 0)...)
		if _, err := s.Health(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(i + 10)
	}
	if err := s.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func process(t *testing.T, path string, calls int) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "AIRLOCK_TEST_METRICS="+path, "AIRLOCK_TEST_CALLS="+strconv.Itoa(calls))
	return cmd
}

func TestSeveralProcesses(t *testing.T) {
	const processes, calls = 3, 200
	path := place(t) // each of them tries to make it
	var running sync.WaitGroup
	for range processes {
		cmd := process(t, path, calls)
		running.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a bridge: %v\n%s", err, out)
			}
		})
	}
	running.Wait()
	if h := health(t, open(t, path, nil)); h.TotalCalls != processes*calls {
		t.Errorf("Health = %+v, want %d calls", h, processes*calls)
	}
}

// TestKill: what was kept is still there after a kill, and the file is sound.
func TestKill(t *testing.T) {
	path := place(t)
	var kept int64
	for range 3 {
		cmd := process(t, path, 0)
		out, err := cmd.StdoutPipe()
		must(t, err)
		var failure bytes.Buffer
		cmd.Stderr = &failure
		must(t, cmd.Start())
		last := int64(0)
		for lines := bufio.NewScanner(out); last < 100 && lines.Scan(); {
			last, err = strconv.ParseInt(lines.Text(), 10, 64)
			must(t, err)
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		if last < 100 {
			t.Fatalf("the bridge ended by itself: %s", failure.String())
		}
		kept += last
		must(t, metrics.Check(t.Context(), path))
		s := metrics.Open(path, config, 0, nil)
		if h := health(t, s); h.TotalCalls < kept {
			t.Errorf("%d calls are left, want %d or more", h.TotalCalls, kept)
		} else {
			kept = h.TotalCalls
		}
		must(t, s.Close(t.Context()))
	}
}
