package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// RunLasting runs the suite of sandboxes that last. Options' New makes a sandbox.Keeping.
func RunLasting(t *testing.T, opts *Options) {
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"a sandbox outlives who made it", outlives},
		{"a start that is given up leaves nothing of one that was to last", givenUpLasting},
		{"what was saved goes on, more than once, and so does the original", forked},
		{"a fork that fails takes no other with it", forkFails},
		{"a state is saved while a paused sandbox stays paused", savedPaused},
		{"a paused sandbox does nothing until it is resumed", pausedLasting},
		{"one that is held goes on when nobody holds it", heldLasting},
		{"what it changed is read while it lives", upperLasting},
		{"a keeper that is killed takes all with it", keeperKilled},
		{"a monitor that is killed is told of", monitorKilled},
		{"ending it twice at once leaves nothing", endedTwice},
		{"a time to live ends it and keeps what it changed", lived},
		{"an idle time counts from the last command", idled},
		{"an idle time pauses it where that is wanted", idledPaused},
		{"a disk limit holds and the sandbox goes on", diskLimit},
		{"a limit of open files holds", filesLimit},
		{"status has figures", statusFigures},
		{"an image's files are its root", imageRoot},
		{"a gate runs beside it and reaches it", gated},
		{"a gate that does not become ready fails the start", gateFails},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &bench{T: t, opts: opts, state: t.TempDir(), work: t.TempDir()}
			b.driver = opts.New(t, b.state)
			test.run(b)
			if left := b.opts.Leftovers(t, b.state); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func (b *bench) keeping() sandbox.Keeping { return b.driver.(sandbox.Keeping) }

// keep makes a sandbox, which the test's end ends.
func (b *bench) keep(spec sandbox.LastingSpec) sandbox.Lasting {
	b.Helper()
	if spec.WorkDir == "" {
		spec.WorkDir = b.work
	}
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	l, err := b.keeping().Keep(ctx, &spec)
	if err != nil {
		b.Fatalf("Keep: %v", err)
	}
	return l
}

func (b *bench) end(ls ...sandbox.Lasting) {
	b.Helper()
	for _, l := range ls {
		if err := l.End(context.Background()); err != nil {
			b.Errorf("End: %v", err)
		}
		select {
		case <-l.Done():
		case <-time.After(startLimit):
			b.Error("a sandbox that was ended is not done")
		}
		if err := l.Release(); err != nil {
			b.Errorf("Release: %v", err)
		}
	}
}

// release lets go of one that has ended.
func (b *bench) release(l sandbox.Lasting) {
	b.Helper()
	if err := l.Release(); err != nil {
		b.Errorf("Release: %v", err)
	}
}

// client connects, for the length of the test.
func (b *bench) client(l sandbox.Lasting) *agent.Client {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	c, err := l.Client(ctx)
	if err != nil {
		b.Fatalf("Client: %v", err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// in runs a shell line in a sandbox that lasts.
func (b *bench) in(l sandbox.Lasting, line string) agent.ExecResult {
	b.Helper()
	c := b.client(l)
	defer c.Close()
	res, err := c.Run(b.Context(), b.params(l, line), nil)
	if err != nil {
		b.Fatalf("run %q: %v", line, err)
	}
	return res
}

func (b *bench) params(l sandbox.Lasting, line string) agent.ExecParams {
	p := agent.ExecParams{Cmd: line}
	p.User, p.Cwd = l.Identity(), b.work
	p.Env = map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": b.work}
	return p
}

func (b *bench) prints(l sandbox.Lasting, line, want string) {
	b.Helper()
	res := b.in(l, line)
	if got := strings.TrimSpace(res.Stdout); got != want {
		b.Errorf("%s: printed %q (stderr %q, exit %d), want %q", line, got, res.Stderr, res.ExitCode, want)
	}
}

func outlives(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	b.prints(l, "echo one > kept; id -u", fmt.Sprint(os.Geteuid()))
	id := l.ID()
	if err := l.Release(); err != nil {
		b.Errorf("Release: %v", err)
	}
	other := b.opts.New(b.T, b.state).(sandbox.Keeping)
	ids, err := other.Running(b.Context())
	if err != nil || !slices.Equal(ids, []string{id}) {
		b.Errorf("Running = %q, %v, want %q", ids, err, id)
	}
	again, err := other.Open(b.Context(), id)
	if err != nil {
		b.Fatalf("Open: %v", err)
	}
	defer b.end(again)
	b.prints(again, "cat kept", "one")
	if _, err := os.Stat(filepath.Join(b.work, "kept")); err == nil {
		b.Error("what the sandbox wrote is on the host")
	}
	if _, err := other.Open(b.Context(), sandbox.NewID()); !errors.Is(err, sandbox.ErrNoSandbox) {
		b.Errorf("Open of none: %v, want ErrNoSandbox", err)
	}
	if !again.Started().Equal(l.Started()) {
		b.Errorf("started %v, and opened again %v", l.Started(), again.Started())
	}
}

func givenUpLasting(b *bench) {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(b.Context(), after)
		l, err := b.keeping().Keep(ctx, &sandbox.LastingSpec{Spec: sandbox.Spec{WorkDir: b.work}})
		cancel()
		if err == nil {
			b.end(l)
		}
	}
}

func pausedLasting(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	c := b.client(l)
	for range 2 {
		if err := l.Pause(b.Context()); err != nil {
			b.Fatalf("Pause: %v", err)
		}
	}
	if _, err := l.Connect(b.Context()); !errors.Is(err, sandbox.ErrPaused) {
		b.Errorf("Connect = %v, want ErrPaused", err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx); err == nil {
		b.Error("a paused sandbox answers")
	}
	for range 2 {
		if err := l.Resume(b.Context()); err != nil {
			b.Fatalf("Resume: %v", err)
		}
	}
	b.prints(l, "echo here", "here")
	ctx, cancel = context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		b.Errorf("a connection that was open over a pause: %v", err)
	}
}

func upperLasting(b *bench) {
	b.file("old", "old")
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	ticks := b.params(l, "while :; do echo tick >> ticks; sleep 0.01; done")
	ticks.Detach = true
	if _, err := b.client(l).Spawn(b.Context(), ticks); err != nil {
		b.Fatal(err)
	}
	for i := range 3 {
		b.in(l, fmt.Sprintf("echo %d > new%d; rm -f old", i, i))
		var out bytes.Buffer
		if err := l.Upper(b.Context(), &out); err != nil {
			b.Fatalf("Upper: %v", err)
		}
		names := map[string]byte{}
		for r := tar.NewReader(&out); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			names[filepath.Base(h.Name)] = h.Typeflag
		}
		if names[fmt.Sprintf("new%d", i)] != tar.TypeReg || names["old"] != tar.TypeChar {
			b.Errorf("the upper layer, read for the %d. time, has %v", i+1, names)
		}
	}
	before := b.in(l, "wc -l < ticks").Stdout
	if !within(startLimit, func() bool { return b.in(l, "wc -l < ticks").Stdout != before }) {
		b.Error("what ran does not go on after its changes were read")
	}
	// A reader that goes away does not stop it either.
	if err := l.Upper(b.Context(), failing{}); err == nil {
		b.Error("a tar that could not be written was")
	}
	b.prints(l, "echo on", "on")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func diskLimit(b *bench) {
	l := b.keep(sandbox.LastingSpec{Spec: sandbox.Spec{Limits: sandbox.Limits{Disk: 32 << 20}}})
	defer b.end(l)
	res := b.in(l, "head -c 100000000 /dev/zero > big")
	if res.ExitCode == 0 || !strings.Contains(res.Stderr, "No space left") {
		b.Errorf("writing 100 MB of 32: exit %d, %q", res.ExitCode, res.Stderr)
	}
	b.prints(l, "rm big; echo y > small; cat small", "y")
}

func filesLimit(b *bench) {
	l := b.keep(sandbox.LastingSpec{Spec: sandbox.Spec{Limits: sandbox.Limits{Files: 50}}})
	defer b.end(l)
	b.prints(l, "ulimit -n", "50")
	b.prints(l, `python3 -c '
fs = []
try:
    for i in range(1000): fs.append(open("/dev/null"))
except OSError as e: print(e.strerror)'`, "Too many open files")
}

func statusFigures(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	b.in(l, "head -c 20000000 /dev/zero > big")
	c := b.client(l)
	s, err := l.Status(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if s.State != sandbox.Ready || s.Calls < 1 || s.Idle != 0 || s.Memory <= 0 || s.CPU <= 0 || s.Disk < 20000000 || s.Processes < 0 {
		b.Errorf("Status = %+v", s)
	}
	c.Close()
	idle := within(startLimit, func() bool { // the keeper sees a connection's end a moment later
		if s, err = l.Status(b.Context()); err != nil {
			b.Fatal(err)
		}
		return s.Calls == 0 && s.Idle > 0
	})
	if !idle {
		b.Errorf("Status of an idle one = %+v", s)
	}
}

func imageRoot(b *bench) {
	root := b.TempDir()
	// The folder of a test is for root alone where root made it; an image's is for all.
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "bin", "etc", "home"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		b.Skip("there is no static busybox to make an image of")
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "sh"), busybox, 0o755); err != nil {
		b.Fatal(err)
	}
	var images []sandbox.Lasting
	for range 2 {
		images = append(images, b.keep(sandbox.LastingSpec{Spec: sandbox.Spec{Root: root, WorkDir: "/home"}}))
	}
	defer b.end(images...)
	for i, l := range images {
		c := b.client(l)
		params := agent.ExecParams{Argv: []string{"/bin/sh", "-c", fmt.Sprintf("echo %d > /home/mine; cat /home/mine; ls / | tr '\\n' ' '; id -u; ls /home", i)}}
		params.User = l.Identity()
		res, err := c.Run(b.Context(), params, nil)
		want := fmt.Sprintf("%d\nbin dev etc home proc sys tmp 0\nmine\n", i)
		if err != nil || res.Stdout != want {
			b.Errorf("in an image: %q, %q, %v, want %q", res.Stdout, res.Stderr, err, want)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(root, "home")); len(left) > 0 {
		b.Error("what a sandbox wrote is in its image")
	}
}

func gated(b *bench) {
	seen := filepath.Join(b.TempDir(), "input")
	script := fmt.Sprintf("cat <&3 > %s; echo '{\"ports\":[8080]}'; exec cat > /dev/null", seen)
	l := b.keep(sandbox.LastingSpec{Gate: []string{"/bin/sh", "-c", script}, GateInput: []byte("secret\n")})
	s, err := l.Status(b.Context())
	if err != nil || string(s.Gate) != `{"ports":[8080]}` {
		b.Errorf("Status = %+v, %v", s, err)
	}
	if data, err := os.ReadFile(seen); err != nil || string(data) != "secret\n" {
		b.Errorf("the gate got %q, %v", data, err)
	}
	if in, err := l.GateInput(b.Context()); err != nil || string(in) != "secret\n" {
		b.Errorf("GateInput = %q, %v", in, err)
	}
	b.end(l)
}

func gateFails(b *bench) {
	_, err := b.keeping().Keep(b.Context(), &sandbox.LastingSpec{
		Spec: sandbox.Spec{WorkDir: b.work}, Gate: []string{"/bin/sh", "-c", "echo port 80 is taken >&2; exit 1"},
	})
	if err == nil || !strings.Contains(err.Error(), "port 80 is taken") {
		b.Errorf("Keep = %v, want what the gate said", err)
	}
}

func heldLasting(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	h, ok := l.(sandbox.Holder)
	if !ok {
		b.Skip("this driver cannot")
	}
	release, err := h.Hold(b.Context())
	if err != nil {
		b.Fatalf("Hold: %v", err)
	}
	if _, err := l.Client(b.Context()); !errors.Is(err, sandbox.ErrPaused) {
		b.Errorf("Client of a held one: %v", err)
	}
	if err := release(); err != nil {
		b.Errorf("release: %v", err)
	}
	within(startLimit, func() bool { // the keeper sees the end of the connection a moment later
		s, err := l.Status(b.Context())
		return err != nil || s.State == sandbox.Ready
	})
	b.prints(l, "echo on", "on")
	b.prints(l, "stat -c %a /dev/shm", "1777")
}
