package lines

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/event"
)

func TestPace(t *testing.T) {
	type shown struct {
		at   time.Duration
		done float64
	}
	for _, c := range []struct {
		name string
		said []time.Duration // when: the first says 1, and so on
		end  time.Duration
		want []shown
	}{
		{"one is shown at once", []time.Duration{0}, time.Second, []shown{{0, 1}}},
		{"slow ones are all shown", []time.Duration{0, 60 * time.Millisecond, 200 * time.Millisecond}, time.Second, []shown{{0, 1}, {60 * time.Millisecond, 2}, {200 * time.Millisecond, 3}}},
		{"of fast ones the last", []time.Duration{0, 1 * time.Millisecond, 2 * time.Millisecond}, time.Second, []shown{{0, 1}, {50 * time.Millisecond, 3}}},
		{"the last one, though it ends before", []time.Duration{0, 1 * time.Millisecond, 2 * time.Millisecond}, 3 * time.Millisecond, []shown{{0, 1}, {3 * time.Millisecond, 3}}},
		{"the pace goes on", []time.Duration{0, 10 * time.Millisecond, 60 * time.Millisecond, 70 * time.Millisecond}, time.Second, []shown{{0, 1}, {50 * time.Millisecond, 2}, {100 * time.Millisecond, 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var got []shown
				p := newPacer(func(e event.Event) {
					got = append(got, shown{time.Since(begun), e.(event.Progress).Done})
				})
				done := make(chan struct{})
				var running sync.WaitGroup
				running.Go(func() { p.run(done) })
				for i, at := range c.said {
					time.Sleep(at - time.Since(begun))
					p.say(event.Progress{Done: float64(i + 1)})
				}
				time.Sleep(c.end - time.Since(begun))
				close(done)
				running.Wait()
				if !slices.Equal(got, c.want) {
					t.Errorf("shown = %v, want %v", got, c.want)
				}
			})
		})
	}
}
