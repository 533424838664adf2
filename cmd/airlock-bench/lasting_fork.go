package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"airlock/internal/sandbox"
)

// heapServer is a Python that holds 50 MB and says so to whoever asks.
const heapServer = `import socket
heap = bytearray(50 << 20)
for i in range(0, len(heap), 4096): heap[i] = 1 + i % 255
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 5000))
s.listen(64)
while True:
    c, _ = s.accept()
    c.sendall(b"%d\n" % sum(1 for i in range(0, len(heap), 4096) if heap[i]))
    c.close()
`

const heapPages = 50 << 20 / 4096

const forkName = "fork of a Python with a 50 MB heap, until the fork answers"

// A python is a heapServer on each side.
type python struct {
	l      *lastBed
	ask    []string // asks the server
	parent sandbox.Lasting
	bundle string
	child  sandbox.Lasting
	n      int
}

// forkFigures have a fork of a running Python answer, beside the engine's own checkpoint and restore.
func forkFigures(ctx context.Context, b *bed) ([]figure, error) {
	l, err := newLastBed(ctx, b)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.skipped != "" {
		return []figure{skip(forkName, l.skipped)}, nil
	}
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		return []figure{skip(forkName, "no python3 here")}, nil
	}
	script := filepath.Join(l.dir, "heap.py")
	if err := os.WriteFile(script, []byte(heapServer), 0o644); err != nil {
		return nil, err
	}
	p := &python{l: l, ask: []string{filepath.Join(l.rootfs, "bin", "busybox"), "nc", "127.0.0.1", "5000"}}
	if p.bundle, err = l.bundle("python", "/", interpreter, script); err != nil {
		return nil, err
	}
	if err := p.startOurs(ctx, interpreter, script); err != nil {
		return nil, err
	}
	if err := p.startEngine(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = p.engine(context.WithoutCancel(ctx), "delete", "--force", "benchpython") }()
	return p.measure(ctx)
}

func (p *python) startOurs(ctx context.Context, interpreter, script string) (err error) {
	if p.parent, err = p.l.keepHost(ctx); err != nil {
		return err
	}
	client, err := p.parent.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	line := fmt.Sprintf("%s %s </dev/null >/dev/null 2>&1 &", interpreter, script)
	if _, err := answer(ctx, client, "/bin/sh", "-c", line); err != nil {
		return err
	}
	return until(ctx, func() error { return p.heard(answer(ctx, client, p.ask...)) })
}

func (p *python) startEngine(ctx context.Context) error {
	if err := p.l.detached(ctx, "run", "--detach", "--bundle", p.bundle, "benchpython"); err != nil {
		return err
	}
	return until(ctx, func() error { return p.askEngine(ctx, "benchpython") })
}

// until tries for some seconds.
func until(ctx context.Context, try func() error) error {
	for end := time.Now().Add(20 * time.Second); ; {
		err := try()
		if err == nil || time.Now().After(end) {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// heard takes the server's answer: how many of its pages are as they were.
func (p *python) heard(text string, err error) error {
	if err == nil && strings.TrimSpace(text) != fmt.Sprint(heapPages) {
		err = fmt.Errorf("the Python says %q, want %d", text, heapPages)
	}
	return err
}

func (p *python) askEngine(ctx context.Context, id string) error {
	cmd := execCommand(ctx, p.l.engine, "runsc", p.l.runscArgs(append([]string{"exec", id}, p.ask...)...))
	out, err := cmd.Output()
	return p.heard(string(out), err)
}

func (p *python) engine(ctx context.Context, args ...string) error { return p.l.runsc(ctx, args...) }

// dir is an empty folder for a checkpoint.
func (p *python) dir() (string, error) {
	p.n++
	dir := filepath.Join(p.l.dir, fmt.Sprintf("checkpoint%d", p.n))
	return dir, os.Mkdir(dir, 0o700)
}

// fork has the driver fork, as `airlock sandbox fork` does.
func (p *python) fork(ctx context.Context) error {
	forks, err := p.l.forker.Fork(ctx, p.parent, []*sandbox.LastingSpec{{Spec: sandbox.Spec{WorkDir: "/"}}})
	if err != nil {
		return err
	}
	p.child = forks[0]
	client, err := p.child.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return p.heard(answer(ctx, client, p.ask...))
}

func (p *python) measure(ctx context.Context) ([]figure, error) {
	ours := side{
		run:   func() error { return p.fork(ctx) },
		after: func() error { return endSandbox(ctx, p.child) },
	}
	id := func() string { return fmt.Sprintf("benchfork%d", p.n) }
	var saving []time.Duration
	bare := side{
		run: func() error {
			dir, err := p.dir()
			if err != nil {
				return err
			}
			start := time.Now()
			if err := p.engine(ctx, "checkpoint", "--leave-running", "--image-path="+dir, "benchpython"); err != nil {
				return err
			}
			saving = append(saving, time.Since(start))
			if err := p.l.detached(ctx, "restore", "--detach", "--bundle", p.bundle, "--image-path="+dir, id()); err != nil {
				return err
			}
			return p.askEngine(ctx, id())
		},
		after: func() error { return p.engine(ctx, "delete", "--force", id()) },
	}
	times, err := turns(ctx, p.l.rounds, []side{ours, bare})
	if err != nil {
		return nil, err
	}
	f := compare(forkName, "`runsc checkpoint`, `restore`, `exec`", times[0], times[1], 1.3)
	f.note = fmt.Sprintf("the Python answers over the sandbox's loopback what is in its heap, asked by the same program on both sides. `runsc checkpoint` takes %s of its time.", short(median(saving)))
	return []figure{f}, nil
}

// detached is a command of the engine whose sandbox outlives it, and must not hold its output.
func (l *lastBed) detached(ctx context.Context, args ...string) error {
	said, err := os.CreateTemp(l.dir, "said-")
	if err != nil {
		return err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	cmd := execCommand(ctx, l.engine, "runsc", l.runscArgs(args...))
	cmd.Stderr = said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("runsc %v: %w\n%.500s", args, err, text)
	}
	return nil
}
