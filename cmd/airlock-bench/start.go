package main

import (
	"context"
	"time"

	"airlock/agent"
)

// startFigures take a run apart: what each step of it takes.
func startFigures(ctx context.Context, b *bed) ([]figure, error) {
	var start, exec, upper, end []time.Duration
	for i := range b.rounds + 1 {
		t0 := time.Now()
		sb, _, err := b.startSandbox(ctx)
		if err != nil {
			return nil, err
		}
		t1 := time.Now()
		_, err = sb.Client().Run(ctx, agent.ExecParams{Argv: []string{"/bin/true"}}, nil)
		if err != nil {
			sb.Close()
			return nil, err
		}
		t2 := time.Now()
		if err := sb.Upper(ctx, &counter{}); err != nil {
			sb.Close()
			return nil, err
		}
		t3 := time.Now()
		if err := sb.Close(); err != nil {
			return nil, err
		}
		t4 := time.Now()
		if i > 0 {
			start, exec = append(start, t1.Sub(t0)), append(exec, t2.Sub(t1))
			upper, end = append(upper, t3.Sub(t2)), append(end, t4.Sub(t3))
		}
	}
	line := func(name string, d []time.Duration) figure { return figure{name: name, ours: short(median(d))} }
	return []figure{
		line("of a run: start, until the agent has said hello", start), line("of a run: `true`", exec),
		line("of a run: reading an empty upper layer", upper), line("of a run: ending the sandbox", end),
	}, nil
}

// breakdown says what the time of a start is made of. It was read off a trace; the
// figures above are measured anew each time.
const breakdown = ""
