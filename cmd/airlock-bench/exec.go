package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
)

// startSandbox makes a sandbox over the machine's files, as airlock run does.
func (b *bed) startSandbox(ctx context.Context) (sandbox.Sandbox, string, error) {
	state := filepath.Join(b.dir, "state")
	driver := gvisor.New(&gvisor.Options{
		StateDir: state, Agent: b.agent, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Engine: func(context.Context) (string, error) { return b.engine, nil },
	})
	sb, err := driver.Start(ctx, &sandbox.Spec{WorkDir: "/"})
	return sb, state, err
}

// execFigures puts a command through a connected agent beside the engine's exec of it
// into the same sandbox.
func execFigures(ctx context.Context, b *bed) ([]figure, error) {
	sb, state, err := b.startSandbox(ctx)
	if err != nil {
		return nil, err
	}
	defer sb.Close()
	client := sb.Client()
	ours := func() error {
		res, err := client.Run(ctx, agent.ExecParams{Argv: []string{"/bin/true"}}, nil)
		if err == nil && res.ExitCode != 0 {
			err = errExit
		}
		return err
	}
	peer := func() error {
		return command(ctx, b.engine, "runsc", nil, b.inSandbox(state, sb.ID(), "/bin/true")...)
	}
	x, y, err := pairs(ctx, b.rounds*2, ours, peer)
	if err != nil {
		return nil, err
	}
	return []figure{compare("exec of `true` through a connected agent", "`runsc exec`", x, y, 0.5)}, nil
}

const (
	execsAll   = 1000
	execsFirst = 10
	restTime   = 2 * time.Second // after which the agent has given back what it does not need
)

// agentFigures are the agent's memory after many commands, its size, and its memory at
// rest.
func agentFigures(ctx context.Context, b *bed) ([]figure, error) {
	growth, err := execGrowth(ctx, b)
	if err != nil {
		return nil, err
	}
	size, err := fileSize(b.agent)
	if err != nil {
		return nil, err
	}
	rest, err := restingMemory(ctx, b)
	if err != nil {
		return nil, err
	}
	return []figure{
		growth,
		{name: "size of airlock-agent", ours: mib(size), bar: "≤ 6 MB", met: size <= 6e6},
		{name: "resident memory of airlock-agent at rest", ours: mib(rest), bar: "≤ 12 MB", met: rest <= 12e6},
	}, nil
}

func mib(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }

// execGrowth runs many commands on one connection and looks at the agent's memory.
func execGrowth(ctx context.Context, b *bed) (figure, error) {
	sb, _, err := b.startSandbox(ctx)
	if err != nil {
		return figure{}, err
	}
	defer sb.Close()
	run := func(n int) error {
		for range n {
			if res, err := sb.Client().Run(ctx, agent.ExecParams{Argv: []string{"/bin/true"}}, nil); err != nil || res.ExitCode != 0 {
				return fmt.Errorf("%w: %w", errExit, err)
			}
		}
		return nil
	}
	look := func() (int64, error) {
		time.Sleep(restTime)
		status, err := sb.Client().ReadFile(ctx, "/proc/1/status")
		if err != nil {
			return 0, err
		}
		return residentOf(status)
	}
	if err := run(execsFirst); err != nil {
		return figure{}, err
	}
	first, err := look()
	if err != nil {
		return figure{}, err
	}
	if err := run(execsAll - execsFirst); err != nil {
		return figure{}, err
	}
	last, err := look()
	if err != nil {
		return figure{}, err
	}
	// The heap breathes: a megabyte is not growth, a kilobyte for each exec would be.
	return figure{
		name: "1,000 execs on one connection: resident memory of the agent, at rest", ours: mib(last), peer: "after 10: " + mib(first),
		ratio: fmt.Sprintf("%+.2f MB", float64(last-first)/1e6), bar: "no growth (≤ 1 MB)", met: last-first <= 1e6,
	}, nil
}

// residentOf reads VmRSS out of /proc/PID/status, in bytes.
func residentOf(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in the process's status")
}
