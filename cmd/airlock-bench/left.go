package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A count is what processes hold.
type count struct {
	agents int // processes that agents have left
	own    int // processes of the bridge itself
	open   int // files and pipes that those have open
	files  int // files in TMPDIR
}

func (c count) minus(o count) count {
	return count{c.agents - o.agents, c.own - o.own, c.open - o.open, c.files - o.files}
}

func (c count) none() bool { return c.agents <= 0 && c.own <= 0 && c.open <= 0 && c.files <= 0 }

func (c count) String() string {
	return fmt.Sprintf("%d processes of agents, %d of its own, %d open files and pipes, %d files in TMPDIR", c.agents, c.own, c.open, c.files)
}

// settled counts when what ends has had the time to: until nothing is there that was not
// before, or ten seconds have passed.
func (bb *bridgeBed) settled(ctx context.Context, s *bridgeServer, before *count) (count, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		c, err := bb.count(s)
		switch {
		case err != nil || ctx.Err() != nil:
			return c, err
		case before != nil && c.minus(*before).none(), before == nil && c.agents == 0, time.Now().After(end):
			return c, nil
		}
	}
}

// count counts what the bridge and the agents of this bed have.
func (bb *bridgeBed) count(s *bridgeServer) (count, error) {
	var c count
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return c, err
	}
	parents := map[int]int{}
	for _, dir := range procs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if fields := strings.Fields(rest); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	for pid := range parents {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		switch environ, _ := os.ReadFile(filepath.Join(dir, "environ")); {
		case strings.Contains(string(environ), "AIRLOCK_ATTEMPT=") && strings.Contains(string(environ), markOf(filepath.Dir(bb.work))+"\x00"):
			c.agents++
		case descends(parents, pid, s.cmd.Process.Pid):
			c.own++ // one that has ended and nobody waited for counts as well
			open, _ := os.ReadDir(filepath.Join(dir, "fd"))
			c.open += len(open)
		}
	}
	files, err := os.ReadDir(bb.tmp)
	c.files = len(files)
	return c, err
}

// descends reports whether a process is another, or one of its children's.
func descends(parents map[int]int, pid, from int) bool {
	for ; pid > 1; pid = parents[pid] {
		if pid == from {
			return true
		}
	}
	return false
}
