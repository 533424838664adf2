package sandbox_test

import (
	"testing"
	"time"

	"airlock/internal/sandbox"
)

func TestSteadyStart(t *testing.T) {
	noted := time.Date(2026, 11, 22, 15, 20, 0, 0, time.UTC)
	started := noted.Add(10 * time.Millisecond)
	for name, c := range map[string]struct {
		now    time.Time
		passed time.Duration
		want   time.Time
	}{
		"the clock ran":              {noted.Add(time.Hour), time.Hour, started},
		"it was trimmed a little":    {noted.Add(time.Hour - 900*time.Millisecond), time.Hour, started},
		"it was set back by an hour": {noted.Add(-50 * time.Minute), 10 * time.Minute, started.Add(-time.Hour)},
		"it was set back to 1970":    {time.Unix(100, 0), time.Minute, started.Add(time.Unix(100, 0).Sub(noted) - time.Minute)},
		"it was set ahead by a year": {noted.AddDate(1, 0, 0), time.Minute, started},
		"the machine slept":          {noted.Add(8 * time.Hour), time.Minute, started},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sandbox.SteadyStart(started, noted, c.now, c.passed); !got.Equal(c.want) {
				t.Errorf("SteadyStart = %v, want %v", got, c.want)
			}
		})
	}
}
