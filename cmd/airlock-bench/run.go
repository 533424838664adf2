package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// runFigures puts airlock run beside the engine's own quick way to run a command.
func runFigures(ctx context.Context, b *bed) ([]figure, error) {
	home := filepath.Join(b.dir, "home")
	ours := func() error {
		return command(ctx, b.airlock, "airlock", []string{"AIRLOCK_HOME=" + home}, "run", "--discard", "--", "true")
	}
	engine := b.engineArgs("do", "true")
	peer := func() error { return command(ctx, b.engine, "runsc", nil, engine...) }
	x, y, err := pairs(ctx, b.rounds, ours, peer)
	if err != nil {
		return nil, err
	}
	f := compare("`airlock run --discard -- true`", "`runsc do true`", x, y, 1.25)
	return []figure{f}, nil
}

// engineArgs are the engine's own arguments, with the settings a sandbox of ours has.
func (b *bed) engineArgs(args ...string) []string {
	flags := []string{"--root", filepath.Join(b.dir, "runsc"), "--network=none", "--host-settings=ignore"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--rootless")
	}
	return append(flags, args...)
}

// inSandbox gives the arguments of the engine's exec into a sandbox of ours.
func (b *bed) inSandbox(state, id string, args ...string) []string {
	root := filepath.Join(state, "run", id, "root")
	return append([]string{"--root", root, "--network=none", "exec", id}, args...)
}

var errExit = fmt.Errorf("a command that should succeed did not")
