package gvisor_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
)

// TestFilesLargerThanMemory: what a command wrote is read out, however little memory it had.
func TestFilesLargerThanMemory(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("fills a control group")
	}
	d := newDriver(t, t.TempDir())
	work := t.TempDir()
	sb, err := d.Start(t.Context(), &sandbox.Spec{WorkDir: work, Limits: sandbox.Limits{Memory: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	const size = 200 << 20
	res, err := sb.Client().Exec(t.Context(), "head -c 209715200 /dev/zero >"+work+"/large")
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("write a large file: %+v, %v", res, err)
	}
	var got counter
	if err := sb.Upper(t.Context(), &got); err != nil {
		t.Errorf("Upper: %v", err)
	}
	if got < size {
		t.Errorf("the upper layer has %d bytes, want more than %d", got, size)
	}
}

// TestALimitOfMemoryHoldsWithSwap: what the machine has of it is not a sandbox's to fill.
func TestALimitOfMemoryHoldsWithSwap(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("makes a control group")
	}
	const limit = 64 << 20
	sb, err := newDriver(t, t.TempDir()).Start(t.Context(), &sandbox.Spec{WorkDir: t.TempDir(), Limits: sandbox.Limits{Memory: limit}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	// The first version of control groups bounds memory with swap, the second swap alone.
	found := false
	for file, want := range map[string]string{
		"/sys/fs/cgroup/memory/airlock-" + sb.ID() + "/memory.memsw.limit_in_bytes": strconv.Itoa(limit),
		"/sys/fs/cgroup/airlock-" + sb.ID() + "/memory.swap.max":                    "0",
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		found = true
		if got := strings.TrimSpace(string(data)); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	if !found {
		t.Skip("this system does not count the swap of a control group")
	}
}

// TestHolesTakeNoMemory: reading out a file takes as much memory as it is long, and a guest
// can make one of any length with one call.
func TestHolesTakeNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a sandbox")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	d := gvisor.New(&gvisor.Options{
		StateDir: t.TempDir(), Engine: func(context.Context) (string, error) { return filepath.Join(dir, "airlock"), nil },
		UpperMemory: 64 << 20,
	})
	work := t.TempDir()
	sb, err := d.Start(t.Context(), &sandbox.Spec{WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if res, err := sb.Client().Exec(t.Context(), "truncate -s 1500M "+work+"/holes"); err != nil || res.ExitCode != 0 {
		t.Fatalf("make a file of holes: %+v, %v", res, err)
	}
	var got counter
	if err := sb.Upper(t.Context(), &got); err == nil || !strings.Contains(err.Error(), "too large to be read out") {
		t.Errorf("Upper: %v, want an error that says what is too large", err)
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)
