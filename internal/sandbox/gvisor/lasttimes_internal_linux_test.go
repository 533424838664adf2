package gvisor

import (
	"testing"
	"time"

	"airlock/agent"
)

func TestIdleTimeGoesByTheTimeThatPassedAndNotByTheClock(t *testing.T) {
	ended := func(ago time.Duration) agent.ProcessInfo {
		at := time.Now().Add(-ago).Round(0) // by the clock alone, as it comes from the guest
		return agent.ProcessInfo{Ended: &at}
	}
	const year = 365 * 24 * time.Hour
	for _, tt := range []struct {
		name    string
		list    agent.ProcessesResult
		running int
		want    time.Duration // since it was last busy; its last call was a minute ago
	}{
		{"without commands the last call counts", agent.ProcessesResult{}, 0, time.Minute},
		{"a command that ended after it counts", agent.ProcessesResult{Processes: []agent.ProcessInfo{ended(5 * time.Second)}, EndedMS: new(int64(5000))}, 0, 5 * time.Second},
		{"one that ended before it does not", agent.ProcessesResult{Processes: []agent.ProcessInfo{ended(time.Hour)}, EndedMS: new(int64(3600_000))}, 0, time.Minute},
		{"the clock was set a year ahead since", agent.ProcessesResult{Processes: []agent.ProcessInfo{ended(year)}, EndedMS: new(int64(5000))}, 0, 5 * time.Second},
		{"the clock was set back since", agent.ProcessesResult{Processes: []agent.ProcessInfo{ended(-year)}, EndedMS: new(int64(5000))}, 0, 5 * time.Second},
		{"an agent that says no more is taken at its word", agent.ProcessesResult{Processes: []agent.ProcessInfo{ended(time.Hour), ended(5 * time.Second)}}, 0, 5 * time.Second},
		{"but not where that is in the future", agent.ProcessesResult{Processes: []agent.ProcessInfo{ended(-time.Hour)}}, 0, time.Minute},
		{"of what runs it is told", agent.ProcessesResult{Processes: []agent.ProcessInfo{{Running: true}, ended(year)}, EndedMS: new(int64(5000))}, 1, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running, ago := tellsOf(&tt.list)
			got := time.Since(quietSince(time.Now().Add(-time.Minute), ago)) + time.Second/2
			// A machine that stands still for a while makes it longer; the next that it might be is 55 seconds away.
			if running != tt.running || got < tt.want || got > tt.want+50*time.Second {
				t.Errorf("%d commands run, and it is quiet for %v; want %d, %v", running, got, tt.running, tt.want)
			}
		})
	}
}
