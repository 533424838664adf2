package cli_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/event"
	"airlock/internal/surface/cli"
)

// reader is a file of events whose reader takes each after a while.
type reader struct {
	after func(n int) time.Duration
	n     int
	end   chan struct{}
}

func (r *reader) Write(p []byte) (int, error) {
	r.n++
	select {
	case <-time.After(r.after(r.n)):
		return len(p), nil
	case <-r.end:
		return 0, io.ErrClosedPipe
	}
}

func TestTheEndOfARunWaitsForReadersOfItsEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(n int) time.Duration
		took  time.Duration
		want  string // in the error; "" is none
	}{
		{"one that is quick", func(int) time.Duration { return 0 }, 0, ""},
		{"one that is slow", func(int) time.Duration { return 9 * time.Second }, 45 * time.Second, ""},
		{"not one that has stopped reading", func(n int) time.Duration {
			if n < 3 {
				return time.Second
			}
			return time.Hour
		}, 12 * time.Second, "taken none for 10s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := event.NewBus(nil)
				r := &reader{after: tt.after, end: make(chan struct{})}
				end := cli.WriteEvents(t.Context(), r, bus.Subscribe(0))
				for range 5 {
					bus.Publish(event.PlanComplete{})
				}
				start := time.Now()
				if err := bus.Close(); err != nil {
					t.Fatal(err)
				}
				err := end()
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("end: err = %v, want %q", err, tt.want)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				close(r.end)
			})
		})
	}
}
