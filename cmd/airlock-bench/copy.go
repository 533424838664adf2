package main

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const copySize = 256 << 20

// copyFigures move a big file in and out through the agent, and the same bytes as a tar
// through the engine's exec.
func copyFigures(ctx context.Context, b *bed) ([]figure, error) {
	sb, state, err := b.startSandbox(ctx)
	if err != nil {
		return nil, err
	}
	defer sb.Close()
	file := filepath.Join(b.dir, "big")
	if err := fill(file); err != nil {
		return nil, err
	}
	defer os.Remove(file)
	const inside = "/dev/shm/big"
	in := func() error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = sb.Client().WriteFileFrom(ctx, inside, f, 0o644)
		return err
	}
	out := func() error {
		n := &counter{}
		if _, err := sb.Client().ReadFileTo(ctx, inside, n); err != nil {
			return err
		}
		return n.check(copySize)
	}
	exec := func(args ...string) *exec.Cmd {
		cmd := execCommand(ctx, b.engine, "runsc", b.inSandbox(state, sb.ID(), args...))
		return cmd
	}
	rounds := max(b.rounds/5, 3)
	x, y, err := pairs(ctx, rounds, in, func() error { return tarIn(exec("tar", "-C", "/dev/shm", "-x"), file) })
	if err != nil {
		return nil, err
	}
	figures := []figure{rate("256 MB into a sandbox", x, y)}
	x, y, err = pairs(ctx, rounds, out, func() error { return tarOut(exec("tar", "-C", "/dev/shm", "-c", "big")) })
	if err != nil {
		return nil, err
	}
	return append(figures, rate("256 MB out of a sandbox", x, y)), nil
}

// rate makes a figure whose bar is a lowest ratio of rates.
func rate(name string, a, b []time.Duration) figure {
	const bar = 0.5
	r := ratioOf(b, a) // the rates' ratio is the times' the other way round
	mbs := func(d time.Duration) string { return fmt.Sprintf("%.0f MB/s", copySize/1e6/d.Seconds()) }
	return figure{
		name: name, ours: mbs(median(a)), peer: "tar through `runsc exec`: " + mbs(median(b)),
		ratio: fmt.Sprintf("%.2f ×", r), bar: fmt.Sprintf("≥ %.2f of its rate", bar), met: r >= bar,
	}
}

func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(f, rand.Reader, copySize)
	return err
}

func execCommand(ctx context.Context, path, name string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append([]string{name}, args...)
	return cmd
}

// tarIn writes file as a tar to a command's input.
func tarIn(cmd *exec.Cmd, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := tar.NewWriter(in)
	err = w.WriteHeader(&tar.Header{Name: "big", Mode: 0o644, Size: copySize})
	if err == nil {
		_, err = io.Copy(w, f)
	}
	if err == nil {
		err = w.Close()
	}
	in.Close()
	if waitErr := cmd.Wait(); err == nil {
		err = waitErr
	}
	return err
}

// tarOut reads a tar with one file from a command's output.
func tarOut(cmd *exec.Cmd) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := tar.NewReader(out)
	n := &counter{}
	if _, err = r.Next(); err == nil {
		_, err = io.Copy(n, r)
	}
	_, _ = io.Copy(io.Discard, out) // lets the command end; Wait says how it did
	if waitErr := cmd.Wait(); err == nil {
		err = waitErr
	}
	if err == nil {
		err = n.check(copySize)
	}
	return err
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

func (c *counter) check(want int64) error {
	if c.n != want {
		return fmt.Errorf("%d bytes came, want %d", c.n, want)
	}
	return nil
}
