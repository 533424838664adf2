package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A peer is another way to run one command in a sandbox of its own.
type peer struct {
	name string
	run  func() error
	lack string // why it is not measured; "": it is
}

// findPeers gives the engine by itself, and the runtimes that are installed and work here.
func (l *lastBed) findPeers(ctx context.Context) []peer {
	bundle, err := l.bundle("true", l.rootfs, "/bin/true")
	if err != nil {
		return []peer{{name: "`runsc run`", lack: err.Error()}}
	}
	n := 0
	id := func() string { n++; return fmt.Sprintf("bench%06d", n) }
	oci := func(program string, flags ...string) func() error {
		flags = append(flags, "--root", filepath.Join(l.dir, program), "run", "--bundle", bundle)
		return func() error { return command(ctx, program, program, nil, slices.Concat(flags, []string{id()})...) }
	}
	peers := []peer{
		{name: "`runsc run`", run: func() error { return l.runsc(ctx, "run", "--bundle", bundle, id()) }},
		{name: "`crun run`", run: oci("crun")},
		{name: "`crun run` without control groups", run: oci("crun", "--cgroup-manager=disabled")},
		{name: "`runc run`", run: oci("runc")},
		{name: "`bwrap`", run: func() error {
			return command(ctx, "bwrap", "bwrap", nil, "--bind", l.rootfs, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "/bin/true")
		}},
	}
	for i, program := range []string{"", "crun", "crun", "runc", "bwrap"} {
		if program == "" {
			continue
		}
		path, err := exec.LookPath(program)
		if err != nil {
			peers[i].lack = "not installed"
			continue
		}
		works := peers[i].run
		if err := works(); err != nil {
			peers[i].run = func() error { return l.seclusion.run(works) }
			if !l.secluded() || peers[i].run() != nil {
				peers[i].lack = fmt.Sprintf("%s does not work here: %s", path, oneLine(err))
			}
		}
	}
	return peers
}

// secluded reports whether there is a seclusion to run things in.
func (l *lastBed) secluded() bool {
	if l.seclusion == nil {
		s, err := seclude()
		if err != nil {
			return false
		}
		l.seclusion = s
	}
	return true
}

// oneLine is the end of what an error says, fit for a table.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return strings.ReplaceAll(lines[len(lines)-1], "|", "/")
}

// A side is one of several that are measured in turn. What is before and after is not counted.
type side struct {
	before, run, after func() error
}

// turns runs each side in turn and gives each one's times. The first round warms up.
func turns(ctx context.Context, rounds int, sides []side) ([][]time.Duration, error) {
	times := make([][]time.Duration, len(sides))
	for i := range rounds + 1 {
		for k, s := range sides {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if s.before != nil {
				if err := s.before(); err != nil {
					return nil, err
				}
			}
			start := time.Now()
			err := s.run()
			took := time.Since(start)
			if err != nil {
				return nil, fmt.Errorf("side %d: %w", k+1, err)
			}
			if s.after != nil {
				if err := s.after(); err != nil {
					return nil, err
				}
			}
			if i > 0 {
				times[k] = append(times[k], took)
			}
		}
	}
	return times, nil
}

// beside measures ours and each peer that works here, and makes a line for each; bars are by the
// peers' names, without one a line is for information.
func (l *lastBed) beside(ctx context.Context, name string, ours side, bars map[string]float64) ([]figure, [][]time.Duration, error) {
	sides := []side{ours}
	for _, p := range l.peers {
		if p.lack == "" {
			sides = append(sides, side{before: ours.before, run: p.run})
		}
	}
	times, err := turns(ctx, l.rounds, sides)
	if err != nil {
		return nil, nil, err
	}
	var figures []figure
	k := 0
	for i, p := range l.peers {
		line := name
		if i > 0 {
			line = "… the same"
		}
		if p.lack != "" {
			figures = append(figures, figure{name: line, ours: short(median(times[0])), peer: p.name + ": " + p.lack})
			continue
		}
		k++
		f := compare(line, p.name, times[0], times[k], bars[p.name])
		if bars[p.name] == 0 {
			f.bar = ""
		}
		figures = append(figures, f)
	}
	return figures, times, nil
}
