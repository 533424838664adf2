package sandboxtest

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// A misbehaviour is a command that takes what it can get.
type misbehaviour struct {
	name string
	line string
	// fatal: it may end its own sandbox.
	fatal bool
	// stays: it is left running while the neighbour is looked at.
	stays bool
}

var misbehaviours = []misbehaviour{
	{"a fork bomb", "f() { f | f & }; f 2>/dev/null; sleep 100", true, true},
	{"a hog of processors", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait", false, true},
	{"a hog of memory", `exec python3 -c 'x = []
while True: x.append(bytearray(8 << 20))'`, true, true},
	{"a filler of the disk", "cat /dev/zero > full; sleep 100", false, true},
	{"a flood of output", "exec yes", false, true},
	{"100,000 files", `python3 -c '
for i in range(100000):
    open("f%d" % i, "w").close()' && echo made`, false, false},
	{"an endless folder", `python3 -c '
import os
try:
    while True:
        os.mkdir("d"); os.chdir("d")
except OSError: pass'; sleep 100`, true, true},
}

// neighbourTime is how long a command of a sandbox may take beside one that misbehaves. Alone it takes some milliseconds;
// the machines of tests are slow and shared, and stand still for some seconds now and then: most commands must keep
// to it, and all of them to neighbourMost.
const (
	neighbourTime = 5 * time.Second
	neighbourMost = 30 * time.Second
)

// misbehaveLimit bounds what misbehaves: to make 100,000 files takes some minutes where others want the machine, too.
const misbehaveLimit = 5 * time.Minute

// RunMisbehaving runs, in sandboxes with limits, what would bring down a machine without them, and looks at
// their neighbour and at the host meanwhile.
func RunMisbehaving(t *testing.T, opts *Options) {
	b := &bench{T: t, opts: opts, state: t.TempDir(), work: t.TempDir()}
	b.driver = opts.New(t, b.state)
	neighbour := b.keep(sandbox.LastingSpec{})
	for _, m := range misbehaviours {
		t.Run(m.name, func(t *testing.T) {
			own := *b
			own.T = t
			own.misbehave(&m, neighbour)
		})
	}
	b.end(neighbour)
	if left := b.opts.Leftovers(t, b.state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func (b *bench) misbehave(m *misbehaviour, neighbour sandbox.Lasting) {
	free := available(b)
	l := b.keep(sandbox.LastingSpec{Spec: sandbox.Spec{Limits: sandbox.Limits{
		Memory: 768 << 20, CPUs: 1, Procs: 100, Disk: 256 << 20, Files: 256,
	}}})
	defer b.end(l)
	params := b.params(l, m.line)
	params.MaxProcs = 100
	ctx, cancel := context.WithTimeout(b.Context(), misbehaveLimit)
	defer cancel()
	c := b.client(l)
	var out counting
	p, err := c.Start(ctx, params, &agent.Streams{Stdout: &out, Stderr: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	slow := 0
	for range 20 {
		began := time.Now()
		b.prints(neighbour, "echo fine", "fine")
		took := time.Since(began)
		if took > neighbourTime {
			slow++
		}
		if took > neighbourMost || slow > 5 {
			b.Errorf("a neighbour's command took %v", took)
		}
		// Others use this machine, too.
		if rest := available(b); free-rest > max(3<<30, free/2) {
			b.Errorf("the host has %d MiB less to spare than before", (free-rest)>>20)
		}
	}
	if m.stays {
		if !b.answers(m, l, "beside it") {
			return
		}
		cancel()
	}
	res, err := p.Wait()
	select {
	case <-l.Done():
	case <-time.After(100 * time.Millisecond):
		if !m.stays && (err != nil || res.ExitCode != 0) {
			b.Errorf("it ended with %+v, %v", res, err)
		}
	}
	if !b.answers(m, l, "afterwards") {
		return
	}
	for _, pid := range pids(b, l)[:1] {
		if used := residentMemory(pid); used > 200<<20 {
			b.Errorf("its keeper has grown to %d MiB", used>>20)
		}
	}
}

// ownTime is how long a command may take in the sandbox that something misbehaves in. With a fork bomb it is some seconds.
const ownTime = 2 * time.Minute

// answers reports whether the sandbox of m is there, and if so demands that it runs a command.
func (b *bench) answers(m *misbehaviour, l sandbox.Lasting, when string) bool {
	ctx, cancel := context.WithTimeout(b.Context(), ownTime)
	defer cancel()
	client, err := l.Client(ctx)
	if err == nil {
		defer client.Close()
		_, err = client.Run(ctx, b.params(l, "true"), nil)
	}
	if err == nil {
		return true
	}
	select {
	case <-l.Done():
		if !m.fatal || !errors.Is(l.Err(), sandbox.ErrOutOfMemory) {
			b.Errorf("its sandbox ended: %v", l.Err())
		}
	case <-time.After(30 * time.Second):
		b.Errorf("its own sandbox does not answer %s: %v", when, err)
	}
	return false
}

type counting struct{ n int64 }

func (c *counting) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// available is what the host has to spare, in bytes.
func available(b *bench) int64 { return kilobytes(b, "/proc/meminfo", "MemAvailable:") }

func residentMemory(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	return inKilobytes(string(data), "VmRSS:")
}

func kilobytes(b *bench, file, name string) int64 {
	b.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	return inKilobytes(string(data), name)
}

func inKilobytes(text, name string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
