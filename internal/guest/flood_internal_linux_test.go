package guest

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAReaperThatIsFloodedSaysSoAfterAWhile(t *testing.T) {
	drowned := make(chan bool, 10)
	r := newReaper(true)
	r.drown = func() { drowned <- true }
	r.flooded = true
	if r.flood(time.Time{}).IsZero() {
		t.Error("it does not note since when")
	}
	since := time.Now().Add(time.Hour) // however slow the machine is, that is not long ago
	if r.flood(since) != since {
		t.Error("it does not remember since when")
	}
	select {
	case <-drowned:
		t.Error("it says so at once")
	default:
	}
	begun := time.Now()
	if again := r.flood(begun.Add(-floodTime)); again.Before(begun) {
		t.Error("it would say so again at once")
	}
	select {
	case <-drowned:
	case <-time.After(time.Minute):
		t.Error("it does not say so")
	}
	r.flooded = false
	if !r.flood(since).IsZero() {
		t.Error("it does not forget")
	}
}

func TestACommandAtItsLimitIsStifledUntilItHasShrunk(t *testing.T) {
	c := newCgroups(slog.New(slog.DiscardHandler))
	full, err := c.create(7)
	if err != nil {
		t.Skipf("no control groups that limit processes: %v", err)
	}
	free, err := c.create(8)
	if err != nil {
		t.Fatal(err)
	}
	var sleepers []*exec.Cmd
	end := func() {
		for _, s := range sleepers {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
		sleepers = nil
	}
	defer func() {
		end()
		c.remove(full)
		c.remove(free)
		c.settle()
		for _, g := range []*cgroup{full, free} {
			if _, err := os.Stat(g.dir); err == nil {
				t.Errorf("%s is left", g.dir)
			}
		}
	}()
	join := func(g *cgroup, n int) {
		for range n {
			sleepers = append(sleepers, sleeper(t, g))
		}
	}
	limit := func(g *cgroup) string {
		data, err := os.ReadFile(filepath.Join(g.dir, "pids.max"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	join(full, 7)
	join(free, 6)
	before := limit(free)
	c.stifle()
	if limit(full) != "0" || limit(free) != before {
		t.Errorf("limits = %s and %s, want 0 for the one at its limit and %s", limit(full), limit(free), before)
	}
	time.Sleep(2 * stiflePause)
	if limit(full) != "0" {
		t.Errorf("the limit is back at %s", limit(full))
	}
	// One is left, as the command itself would be.
	for _, s := range sleepers[1:] {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
	sleepers = sleepers[:1]
	for until := time.Now().Add(time.Minute); limit(full) != "7"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the limit is %s, and not 7 again", limit(full))
		}
	}
}

func TestAStifledCommandThatDoesNotShrinkGetsItsLimitBack(t *testing.T) {
	c := newCgroups(slog.New(slog.DiscardHandler))
	g, err := c.create(8)
	if err != nil {
		t.Skipf("no control groups that limit processes: %v", err)
	}
	defer c.settle()
	defer c.remove(g)
	var sleepers []*exec.Cmd
	defer func() {
		for _, s := range sleepers {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
	}()
	for range 3 {
		sleepers = append(sleepers, sleeper(t, g))
	}
	g.freeze()
	g.recover(time.Now())
	if data, err := os.ReadFile(filepath.Join(g.dir, "pids.max")); err != nil || strings.TrimSpace(string(data)) != "8" {
		t.Errorf("its limit is %q, %v", data, err)
	}
}

// sleeper starts a process in a group. It is the caller's to end.
func sleeper(t *testing.T, g *cgroup) *exec.Cmd {
	t.Helper()
	s := exec.Command("sleep", "300")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := put(filepath.Join(g.dir, "cgroup.procs"), int64(s.Process.Pid)); err != nil {
		_ = s.Process.Kill()
		_ = s.Wait()
		t.Fatal(err)
	}
	return s
}
