package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// counter adds what it reads to what it has, and prints it.
const counter = `import sys
n = 40
print(n, flush=True)
for line in sys.stdin:
    n += int(line)
    print(n, flush=True)
`

// count feeds a counter and waits for what it says.
func (b *bench) feed(l sandbox.Lasting, process, line, want string) {
	b.Helper()
	c := b.client(l)
	defer c.Close()
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	in, feed := io.Pipe()
	seen := &until{want: want, met: make(chan struct{})}
	p, err := c.Attach(ctx, agent.AttachParams{Process: process, Input: true}, &agent.Streams{Stdin: in, Stdout: seen})
	if err != nil {
		b.Fatalf("Attach: %v", err)
	}
	if _, err := io.WriteString(feed, line+"\n"); err != nil {
		b.Fatal(err)
	}
	select {
	case <-seen.met:
	case <-p.Done():
		_, err := p.Wait()
		b.Errorf("the process ended: %v; it said %q", err, seen.text())
	case <-ctx.Done():
		b.Errorf("the process said %q, want %q", seen.text(), want)
	}
	p.Cancel()
	feed.Close()
}

// until is closed when want was written.
type until struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	met  chan struct{}
	once sync.Once
}

func (u *until) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.buf.Write(p)
	if strings.Contains(u.buf.String(), u.want) {
		u.once.Do(func() { close(u.met) })
	}
	return len(p), nil
}

func (u *until) text() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.buf.String()
}

func forked(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	c := b.client(l)
	params := b.params(l, "")
	params.Cmd, params.Argv, params.Detach, params.Input = "", []string{"python3", "-c", counter}, true, true
	info, err := c.Spawn(b.Context(), params)
	if err != nil {
		b.Fatalf("Spawn: %v", err)
	}
	b.feed(l, info.Process, "1", "41\n")
	b.in(l, "echo written > kept; mkdir -p deep/er; echo x > deep/er/file")

	// One command is in the middle of its work on a connection that the copies do not have.
	waiting := b.client(l)
	live := &until{want: "never", met: make(chan struct{})}
	p, err := waiting.Start(b.Context(), b.params(l, "read x; echo got $x"), &agent.Streams{Stdin: blocked(b), Stdout: live})
	if err != nil {
		b.Fatal(err)
	}

	within(startLimit, func() bool { // Start returns when it was asked for
		list, err := c.Processes(b.Context())
		return err != nil || len(list) == 2
	})

	dir := b.TempDir()
	if err := l.Checkpoint(b.Context(), dir); err != nil {
		b.Fatalf("Checkpoint: %v", err)
	}
	b.feed(l, info.Process, "2", "43\n")
	var copies []sandbox.Lasting
	for range 2 {
		f, err := b.keeping().Restore(b.Context(), &sandbox.LastingSpec{Spec: sandbox.Spec{WorkDir: b.work}}, dir)
		if err != nil {
			b.Fatalf("Restore: %v", err)
		}
		copies = append(copies, f)
	}
	defer b.end(copies...)
	for i, f := range copies {
		b.prints(f, "cat kept deep/er/file", "written\nx")
		b.feed(f, info.Process, fmt.Sprint(10+i), fmt.Sprint(51+i)+"\n")
		if !f.Started().Equal(l.Started()) {
			b.Errorf("a copy's Started is %v, its parent's %v", f.Started(), l.Started())
		}
		list, err := b.client(f).Processes(b.Context())
		if err != nil || len(list) < 2 || !list[1].Running || !list[1].Detached {
			b.Errorf("processes of a copy: %+v, %v; want what somebody waited for as one in the background", list, err)
		}
	}
	b.feed(l, info.Process, "3", "46\n")
	select {
	case <-p.Done():
		b.Error("a command of the original ended with the checkpoint")
	default:
	}
	p.Cancel()
	if _, err := p.Wait(); err != nil {
		b.Errorf("the original's command: %v", err)
	}
}

// blocked is an input that says nothing until the test ends.
func blocked(b *bench) io.Reader {
	r, w := io.Pipe()
	b.Cleanup(func() { w.Close() })
	return r
}

func savedPaused(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	b.in(l, "echo x > kept")
	if err := l.Pause(b.Context()); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := l.Checkpoint(b.Context(), dir); err != nil {
		b.Fatalf("Checkpoint: %v", err)
	}
	if s, err := l.Status(b.Context()); err != nil || s.State != sandbox.Paused {
		b.Errorf("Status = %+v, %v, want paused", s, err)
	}
	if _, err := l.Client(b.Context()); !errors.Is(err, sandbox.ErrPaused) {
		b.Errorf("Client of a paused one: %v", err)
	}
	f, err := b.keeping().Restore(b.Context(), &sandbox.LastingSpec{Spec: sandbox.Spec{WorkDir: b.work}}, dir)
	if err != nil {
		b.Fatalf("Restore: %v", err)
	}
	defer b.end(f)
	b.prints(f, "cat kept", "x")
	if err := l.Resume(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.prints(l, "cat kept", "x")
}

// forkFails makes three forks, of which the first, whose folder the others go on from, cannot be.
func forkFails(b *bench) {
	d, ok := b.driver.(interface {
		Fork(ctx context.Context, parent sandbox.Lasting, specs []*sandbox.LastingSpec) ([]sandbox.Lasting, error)
	})
	if !ok {
		b.Skip("this driver cannot")
	}
	l := b.keep(sandbox.LastingSpec{})
	defer b.end(l)
	b.in(l, "echo x > kept")
	spec := func() *sandbox.LastingSpec { return &sandbox.LastingSpec{Spec: sandbox.Spec{WorkDir: b.work}} }
	bad := spec()
	bad.Gate = []string{"/bin/sh", "-c", "echo not here >&2; exit 1"}
	forks, err := d.Fork(b.Context(), l, []*sandbox.LastingSpec{bad, spec(), spec()})
	if err == nil || !strings.Contains(err.Error(), "not here") {
		b.Errorf("Fork = %v, want why the first failed", err)
	}
	if len(forks) != 3 || forks[0] != nil || forks[1] == nil || forks[2] == nil {
		b.Fatalf("forks = %v, want the second and the third", forks)
	}
	defer b.end(forks[1:]...)
	for _, f := range forks[1:] {
		b.prints(f, "cat kept", "x")
	}
	b.prints(l, "cat kept", "x")
}
