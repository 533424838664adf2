package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

const (
	smallFiles = 10_000
	smallSize  = 1 << 10
)

// A bulk is a folder that goes in and out of a sandbox of ours, and of one of the engine's.
type bulk struct {
	l      *lastBed
	ours   sandbox.Lasting
	client *agent.Client
	src    string
	n      int // of copies: each has a folder of its own
}

// bulkFigures copy folders in and out as people do, beside tar through the engine's exec.
func bulkFigures(ctx context.Context, b *bed) ([]figure, error) {
	l, err := newLastBed(ctx, b)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if _, err := exec.LookPath("tar"); err != nil {
		return []figure{skip("bulk copy", "no tar here")}, nil
	}
	k := &bulk{l: l, src: filepath.Join(l.dir, "src")}
	if k.ours, err = l.keepHost(ctx); err != nil {
		return nil, err
	}
	if k.client, err = k.ours.Client(ctx); err != nil {
		return nil, err
	}
	defer k.client.Close()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return nil, err
	}
	bundle, err := l.bundle("bulk", "/", sleep, "3600")
	if err != nil {
		return nil, err
	}
	if err := l.detached(ctx, "run", "--detach", "--bundle", bundle, "benchbulk"); err != nil {
		return nil, err
	}
	defer func() { _ = l.runsc(context.WithoutCancel(ctx), "delete", "--force", "benchbulk") }()
	var figures []figure
	for _, load := range []struct {
		name string
		make func(dir string) error
		unit func(time.Duration) string
	}{
		{"10,000 files of 1 KB", makeSmall, func(d time.Duration) string { return fmt.Sprintf("%.0f files/s", smallFiles/d.Seconds()) }},
		{"a folder with one file of 256 MB", makeBig, func(d time.Duration) string { return fmt.Sprintf("%.0f MB/s", copySize/1e6/d.Seconds()) }},
	} {
		if err := errors.Join(os.RemoveAll(k.src), os.Mkdir(k.src, 0o755)); err != nil {
			return nil, err
		}
		if err := load.make(k.src); err != nil {
			return nil, err
		}
		got, err := k.measure(ctx, load.name, load.unit)
		if err != nil {
			return nil, err
		}
		figures = append(figures, got...)
	}
	return figures, nil
}

func makeSmall(dir string) error {
	content := bytes.Repeat([]byte("0123456789abcde\n"), smallSize/16)
	for i := range smallFiles {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d", i%100))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%05d", i)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func makeBig(dir string) error { return fill(filepath.Join(dir, "big")) }

func (k *bulk) measure(ctx context.Context, name string, unit func(time.Duration) string) ([]figure, error) {
	rounds := max(k.l.rounds/5, 3)
	in, err := turns(ctx, rounds, []side{
		{before: k.next(ctx), run: func() error { _, err := agent.CopyIn(ctx, k.ours.Connect, k.src+"/.", k.inside(), nil); return err }, after: k.clear(ctx)},
		{before: k.next(ctx), run: func() error { return k.tarIn(ctx) }, after: k.clear(ctx)},
	})
	if err != nil {
		return nil, err
	}
	if err := k.fillBoth(ctx); err != nil {
		return nil, err
	}
	out, err := turns(ctx, rounds, []side{
		{before: k.empty, run: func() error {
			_, err := agent.CopyOut(ctx, k.ours.Connect, k.inside()+"/.", k.outside(), nil)
			return err
		}},
		{before: k.empty, run: func() error { return k.tarOut(ctx) }},
	})
	if err != nil {
		return nil, err
	}
	line := func(name string, times [][]time.Duration) figure {
		f := rate(name, times[0], times[1])
		f.ours, f.peer = unit(median(times[0])), "tar through `runsc exec`: "+unit(median(times[1]))
		return f
	}
	figures := []figure{line(name+", into a sandbox", in), line(name+", out of a sandbox", out)}
	return figures, errors.Join(k.clear(ctx)(), os.RemoveAll(k.outside()))
}

func (k *bulk) inside() string  { return fmt.Sprintf("/dev/shm/bulk%d", k.n) }
func (k *bulk) outside() string { return filepath.Join(k.l.dir, "out") }

// next makes the folder of the next copy, in both sandboxes.
func (k *bulk) next(ctx context.Context) func() error {
	return func() error {
		k.n++
		_, err := answer(ctx, k.client, "mkdir", "-p", k.inside())
		return errors.Join(err, k.exec(ctx, "mkdir", "-p", k.inside()).Run())
	}
}

func (k *bulk) clear(ctx context.Context) func() error {
	return func() error {
		_, err := answer(ctx, k.client, "rm", "-rf", k.inside())
		return errors.Join(err, k.exec(ctx, "rm", "-rf", k.inside()).Run())
	}
}

// fillBoth has the same folder in both.
func (k *bulk) fillBoth(ctx context.Context) error {
	if err := k.next(ctx)(); err != nil {
		return err
	}
	_, err := agent.CopyIn(ctx, k.ours.Connect, k.src+"/.", k.inside(), nil)
	return errors.Join(err, k.tarIn(ctx))
}

// empty makes the folder on the host that things are copied out to, without anything in it.
func (k *bulk) empty() error {
	return errors.Join(os.RemoveAll(k.outside()), os.Mkdir(k.outside(), 0o755))
}

// exec is a program in the engine's sandbox.
func (k *bulk) exec(ctx context.Context, argv ...string) *exec.Cmd {
	return execCommand(ctx, k.l.engine, "runsc", k.l.runscArgs(append([]string{"exec", "benchbulk"}, argv...)...))
}

func (k *bulk) tarIn(ctx context.Context) error {
	return piped(exec.CommandContext(ctx, "tar", "-C", k.src, "-c", "."), k.exec(ctx, "tar", "-C", k.inside(), "-x"))
}

func (k *bulk) tarOut(ctx context.Context) error {
	return piped(k.exec(ctx, "tar", "-C", k.inside(), "-c", "."), exec.CommandContext(ctx, "tar", "-C", k.outside(), "-x"))
}

// piped runs two programs with a pipe between them.
func piped(from, to *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	from.Stdout, to.Stdin = w, r
	err = to.Start()
	r.Close()
	if err != nil {
		w.Close()
		return err
	}
	err = from.Run()
	w.Close()
	return errors.Join(err, to.Wait())
}
