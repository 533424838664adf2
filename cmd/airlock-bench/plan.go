package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"airlock/agent"
	"airlock/internal/action"
	"airlock/internal/audit"
	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/gate"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
)

// planSteps is how many steps the measured plan has.
const planSteps = 50

// planFigures puts a plan of `true` beside the same commands through a bare agent: both in
// a sandbox of their own, from its start to its end, what it changed gathered.
func planFigures(ctx context.Context, b *bed) ([]figure, error) {
	runner, done, err := b.planRunner()
	if err != nil {
		return nil, err
	}
	defer done()
	plan := &action.Plan{Kind: action.CommandSequence}
	for i := range planSteps {
		plan.Steps = append(plan.Steps, action.Step{ID: strconv.Itoa(i), Description: "succeed", ShellCommand: "true"})
	}
	place := executor.Place{WorkDir: b.dir, Env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}}
	var steps, bare []time.Duration
	ours := func() error {
		out, err := runner.Run(ctx, &executor.PlanRequest{Plan: plan, Place: place})
		if err == nil && !out.Success {
			err = errExit
		}
		if err == nil {
			steps = append(steps, out.Duration)
			err = removeSet(runner, out.Set)
		}
		return err
	}
	peer := func() error {
		took, err := bareExecs(ctx, runner, &place)
		bare = append(bare, took)
		return err
	}
	x, y, err := pairs(ctx, b.rounds, ours, peer)
	if err != nil {
		return nil, err
	}
	whole := compare(fmt.Sprintf("a plan of %d × `true`, from the sandbox's start to its end", planSteps), "the same execs, bare", x, y, 1.3)
	inner := compare("… its steps alone", "the same execs, bare", steps[1:], bare[1:], 1.3)
	return []figure{whole, inner}, nil
}

// bareExecs runs the plan's commands through the agent alone, and says how long they took
// without the sandbox around them.
func bareExecs(ctx context.Context, runner *executor.PlanRunner, place *executor.Place) (time.Duration, error) {
	s, err := runner.Runner.Open(ctx, place)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	m := s.Machine()
	start := time.Now()
	for range planSteps {
		res, err := m.Client.Run(ctx, agent.ExecParams{
			Argv:        []string{"bash", "-c", "--", "true"},
			ExecOptions: agent.ExecOptions{Cwd: m.WorkDir, Env: m.Env, ClearEnv: true, User: m.User},
		}, nil)
		if err != nil || res.ExitCode != 0 {
			return 0, errors.Join(errExit, err)
		}
	}
	took := time.Since(start)
	set, err := s.Gather(ctx, changes.Header{Command: []string{"bare"}})
	if err != nil {
		return 0, err
	}
	return took, removeSet(runner, set)
}

func removeSet(runner *executor.PlanRunner, set *changes.Set) error {
	store, err := runner.Runner.Store()
	if err != nil || set == nil || set.State == changes.None {
		return err
	}
	return store.Remove(set.ID)
}

// planRunner is the whole chain of a plan, as the program has it, over a folder of the
// bench's own.
func (b *bed) planRunner() (*executor.PlanRunner, func(), error) {
	state := filepath.Join(b.dir, "plans")
	store, err := changes.OpenStore(filepath.Join(state, "changes"))
	if err != nil {
		return nil, nil, err
	}
	log, err := audit.Open(filepath.Join(state, "record.db"), nil)
	if err != nil {
		return nil, nil, err
	}
	guard, err := gate.New(&gate.Options{Homes: []string{b.dir}, State: []string{state}})
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	reg, err := tool.NewRegistry(builtin.Tools()...)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	driver := gvisor.New(&gvisor.Options{
		StateDir: state, Agent: b.agent,
		Engine: func(context.Context) (string, error) { return b.engine, nil },
	})
	runner := &executor.Runner{
		Driver: driver, Store: func() (*changes.Store, error) { return store, nil },
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
	return &executor.PlanRunner{
		Runner: runner, Caller: &executor.Caller{Tools: reg, Guard: guard, Record: log},
		Journals: &executor.Journals{Dir: filepath.Join(state, "journals")},
		Host: func(context.Context) (*agent.Client, io.Closer, error) {
			return nil, nil, &sandbox.Unavailable{}
		},
	}, func() { _ = log.Close() }, nil
}
