package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"airlock/internal/sandbox"
)

// coldFigures make a sandbox that lasts, and have it answer: in this process, and as a person does.
func coldFigures(ctx context.Context, b *bed) ([]figure, error) {
	const name = "cold: create, run `true`, answer"
	l, err := newLastBed(ctx, b)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.skipped != "" {
		return []figure{skip(name, l.skipped)}, nil
	}
	var sb sandbox.Lasting
	ours := side{
		run: func() (err error) {
			if sb, err = l.keep(ctx); err != nil {
				return err
			}
			return fresh(ctx, sb, "/bin/true")
		},
		after: func() error { return endSandbox(ctx, sb) },
	}
	figures, _, err := l.beside(ctx, name, ours, map[string]float64{"`runsc run`": 1.2})
	if err != nil {
		return nil, err
	}
	typed, err := l.typed(ctx)
	return append(figures, typed...), err
}

// typed measures the same through the command line: two programs that start.
func (l *lastBed) typed(ctx context.Context) ([]figure, error) {
	home := "AIRLOCK_HOME=" + filepath.Join(l.dir, "home")
	airlock := func(args ...string) (string, error) {
		cmd := execCommand(ctx, l.airlock, "airlock", append([]string{"sandbox"}, args...))
		cmd.Env = append(cmd.Environ(), home)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("airlock sandbox %v: %w: %.300s", args, err, said.String())
		}
		return strings.TrimSpace(string(out)), err
	}
	id := ""
	create := side{
		run:   func() (err error) { id, err = airlock("create"); return err },
		after: func() error { _, err := airlock("rm", "--discard", id); return err },
	}
	exec := side{
		before: func() (err error) { id, err = airlock("create"); return err },
		run:    func() error { _, err := airlock("exec", id, "--", "/bin/true"); return err },
		after:  create.after,
	}
	times, err := turns(ctx, max(l.rounds/3, 3), []side{create, exec})
	if err != nil {
		_, end := airlock("rm", "--all", "--discard")
		return nil, errors.Join(err, end)
	}
	return []figure{
		{name: "`airlock sandbox create`", ours: short(median(times[0]))},
		{name: "`airlock sandbox exec ID -- /bin/true`, the sandbox's first command", ours: short(median(times[1]))},
	}, nil
}
