package guest

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/fastsys"
)

// A fork bomb that has reached its limit stays there: as one of its processes gives up, another takes its place. Their orphans
// are the agent's to collect, and while thousands wait for a processor the agent has its turn as seldom as each of them. So a command
// whose orphans have come faster than they are collected for a while, and which is at its limit, so that
// starting processes fails for it as it is, may start none at all until nearly all of it has ended, or stifleMost is over:
// what is left then may be no bomb's.

const (
	floodTime   = 3 * time.Second        // of orphans, before their command is stifled
	stiflePause = 500 * time.Millisecond // between looks at one that is
	stifleMost  = 30 * time.Second
)

// flood notes how a collection went, and calls r.drown when orphans have flooded the reaper for floodTime.
func (r *reaper) flood(since time.Time) time.Time {
	r.mu.Lock()
	flooded := r.flooded
	r.mu.Unlock()
	switch {
	case !flooded:
		return time.Time{}
	case since.IsZero():
		return time.Now()
	case time.Since(since) < floodTime || r.drown == nil:
		return since
	}
	go r.drown()
	return time.Now()
}

// stifle keeps the groups that are at their limits from starting processes.
func (c *cgroups) stifle() {
	c.mu.Lock()
	groups := slices.Concat(c.live, c.busy)
	c.mu.Unlock()
	for _, g := range groups {
		if n, err := g.processes(); err != nil || n < g.max-g.max/8 || !g.stifled.CompareAndSwap(false, true) {
			continue
		}
		c.log.Warn("a command at its limit of processes floods the agent with orphans: it may start none until nearly all of its have ended", "limit", g.max)
		g.freeze()
		go g.recover(time.Now().Add(stifleMost))
	}
}

// recover gives a stifled group its limit back when few of its processes are left, its command alone at the least, or at the end.
func (g *cgroup) recover(end time.Time) {
	defer g.stifled.Store(false)
	for {
		time.Sleep(stiflePause)
		n, err := g.processes()
		switch {
		case errors.Is(err, fs.ErrNotExist) || g.killed.Load():
			return
		case err == nil && n <= max(g.max/8, 1), time.Now().After(end):
			_ = g.limit(g.max)
			return
		}
		g.freeze()
	}
}

// processes is how many the group counts.
func (g *cgroup) processes() (int64, error) {
	fd, err := fastsys.Openat(unix.AT_FDCWD, g.dir+"/pids.current", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer fastsys.Close(fd)
	buf := make([]byte, 32)
	n, err := fastsys.Read(fd, buf)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(buf[:n])), 10, 64)
}
