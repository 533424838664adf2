package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// pairs runs two sides in turn and gives each side's times.
func pairs(ctx context.Context, rounds int, ours, peer func() error) (a, b []time.Duration, err error) {
	timed := func(f func() error) (time.Duration, error) {
		start := time.Now()
		err := f()
		return time.Since(start), err
	}
	for i := range rounds + 1 {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		x, err := timed(ours)
		if err != nil {
			return nil, nil, err
		}
		y, err := timed(peer)
		if err != nil {
			return nil, nil, fmt.Errorf("the other side: %w", err)
		}
		if i > 0 { // the first warms up
			a, b = append(a, x), append(b, y)
		}
	}
	return a, b, nil
}

func median[T int | int64 | float64 | time.Duration](xs []T) T {
	s := slices.Sorted(slices.Values(xs))
	return s[len(s)/2]
}

// ratioOf is the median of the ratios of the pairs.
func ratioOf(a, b []time.Duration) float64 {
	var rs []float64
	for i := range a {
		rs = append(rs, float64(a[i])/float64(b[i]))
	}
	return median(rs)
}

// compare makes a figure whose bar is a highest ratio of times.
func compare(name, peer string, a, b []time.Duration, bar float64) figure {
	r := ratioOf(a, b)
	return figure{
		name: name, ours: short(median(a)), peer: peer + ": " + short(median(b)),
		ratio: fmt.Sprintf("%.2f ×", r), bar: fmt.Sprintf("≤ %.2f ×", bar), met: r <= bar,
	}
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// command runs a program quietly; name is its argv[0].
func command(ctx context.Context, path, name string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append([]string{name}, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
