package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/internal/sandbox"
)

// idleTime is after what a sandbox is idle: its processes have given back then what they needed to start.
const idleTime = 10 * time.Second

// idleFigures are the memory of a sandbox in which nothing happens: of all its processes, each page shared out
// among those who have it.
func idleFigures(ctx context.Context, b *bed) ([]figure, error) {
	const name = "memory of an idle sandbox (PSS, all its processes)"
	l, err := newLastBed(ctx, b)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.skipped != "" {
		return []figure{skip(name, l.skipped)}, nil
	}
	engine, err := l.idleEngine(ctx)
	if err != nil {
		return nil, err
	}
	one, err := l.idle(ctx, 1)
	if err != nil {
		return nil, err
	}
	ten, err := l.idle(ctx, 10)
	if err != nil {
		return nil, err
	}
	sum := func(all []shares) (n int64) {
		for _, s := range all {
			n += s.pss
		}
		return n
	}
	ours, theirs := sum(one), sum(engine)
	return []figure{
		{
			name: name, ours: mib(ours), peer: "bare `runsc run`: " + mib(theirs), ratio: fmt.Sprintf("%.2f ×", float64(ours)/float64(theirs)),
			bar: "≤ 45 MB", met: ours <= 45e6, note: "made of " + list(one) + "; the engine's by itself of " + list(engine) + ".",
		},
		{name: "… each of ten", ours: mib(sum(ten) / 10)},
	}, nil
}

// idle makes so many sandboxes and takes the shares of all of them.
func (l *lastBed) idle(ctx context.Context, n int) ([]shares, error) {
	var (
		made []sandbox.Lasting
		pids [][]int
		all  []shares
	)
	defer func() {
		for _, sb := range made {
			_ = endSandbox(context.WithoutCancel(ctx), sb) // measured is measured; close finds what is left
		}
	}()
	for range n {
		sb, err := l.keep(ctx)
		if err != nil {
			return nil, err
		}
		made = append(made, sb)
		if err := fresh(ctx, sb, "/bin/true"); err != nil {
			return nil, err
		}
		st, err := sb.Status(ctx) // before it rests: it would wake for this
		if err != nil {
			return nil, err
		}
		pids = append(pids, st.PIDs)
	}
	if err := pause(ctx, idleTime); err != nil {
		return nil, err
	}
	for _, of := range pids {
		got, err := sharesOf(of)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// idleEngine is the same of a sandbox of the bare engine, in which something sleeps.
func (l *lastBed) idleEngine(ctx context.Context) ([]shares, error) {
	bundle, err := l.bundle("idle", l.rootfs, "/bin/sleep", "3600")
	if err != nil {
		return nil, err
	}
	pid := filepath.Join(l.dir, "idle.pid")
	if err := l.detached(ctx, "run", "--detach", "--pid-file", pid, "--bundle", bundle, "benchidle"); err != nil {
		return nil, err
	}
	defer func() { _ = l.runsc(context.WithoutCancel(ctx), "delete", "--force", "benchidle") }()
	if err := pause(ctx, idleTime); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		return nil, err
	}
	monitor, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	// The file server is found by the sandbox's name, which is on both command lines.
	pids := []int{monitor}
	for pid := range parents() {
		if line := commandLine(pid); len(line) > 0 && strings.Contains(line[0], "gofer") && slices.Contains(line, "benchidle") {
			pids = append(pids, pid)
		}
	}
	return sharesOf(pids)
}

// shares are a process's part of the memory, in bytes.
type shares struct {
	name                   string
	pss, anon, file, shmem int64
}

// sharesOf gives the shares of these processes and of what they started.
func sharesOf(pids []int) ([]shares, error) {
	family := map[int]bool{}
	all := parents()
	for pid := range all {
		if slices.ContainsFunc(pids, func(from int) bool { return descends(all, pid, from) }) {
			family[pid] = true
		}
	}
	if len(family) < len(pids) {
		return nil, fmt.Errorf("of the processes %v not all run", pids)
	}
	var got []shares
	for pid := range family {
		name := "stubs"
		if slices.Contains(pids, pid) {
			name = strings.TrimPrefix(filepath.Base(commandLine(pid)[0]), "airlock-")
		}
		s, err := readShares(pid, name)
		if err != nil {
			continue // it has ended meanwhile
		}
		if i := slices.IndexFunc(got, func(o shares) bool { return o.name == s.name }); i >= 0 {
			got[i].pss, got[i].anon, got[i].file, got[i].shmem = got[i].pss+s.pss, got[i].anon+s.anon, got[i].file+s.file, got[i].shmem+s.shmem
		} else {
			got = append(got, s)
		}
	}
	slices.SortFunc(got, func(a, b shares) int { return int(b.pss - a.pss) })
	return got, nil
}

// readShares reads /proc/PID/smaps_rollup.
func readShares(pid int, name string) (shares, error) {
	s := shares{name: name}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(text)) {
		to := map[string]*int64{"Pss:": &s.pss, "Pss_Anon:": &s.anon, "Pss_File:": &s.file, "Pss_Shmem:": &s.shmem}
		if fields := strings.Fields(line); len(fields) == 3 && to[fields[0]] != nil {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return s, err
			}
			*to[fields[0]] = kb << 10
		}
	}
	return s, nil
}

func commandLine(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(string(text), "\x00")
}

// parents gives the parent of every process.
func parents() map[int]int {
	all := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(fields) > 1 {
			all[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return all
}

// list says what a sandbox's memory is made of.
func list(all []shares) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("%s %s (own %s, of files %s, shared %s)", s.name, mib(s.pss), mib(s.anon), mib(s.file), mib(s.shmem)))
	}
	return strings.Join(parts, ", ")
}
