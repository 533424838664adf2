package cli_test

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/surface/cli"
)

func TestSignalsEscalate(t *testing.T) {
	type step struct {
		after time.Duration
		sig   syscall.Signal
	}
	for _, tt := range []struct {
		name    string
		steps   []step
		rest    time.Duration // until it is looked at
		forward []string
		ended   bool
		code    int
	}{
		{"no signal", nil, time.Hour, nil, false, 0},
		{"an interrupt is forwarded, and no more than that", []step{{0, syscall.SIGINT}}, time.Hour, []string{"SIGINT"}, false, 130},
		{"a second one kills", []step{{0, syscall.SIGINT}, {1, syscall.SIGINT}}, time.Second, []string{"SIGINT", "SIGKILL"}, false, 130},
		{"a third one ends the sandbox", []step{{0, syscall.SIGINT}, {1, syscall.SIGINT}, {1, syscall.SIGINT}}, time.Second, []string{"SIGINT", "SIGKILL"}, true, 130},
		{"what a kill does not end, the sandbox's end does", []step{{0, syscall.SIGINT}, {1, syscall.SIGINT}}, 11 * time.Second, []string{"SIGINT", "SIGKILL"}, true, 130},
		{"a request to terminate is forwarded", []step{{0, syscall.SIGTERM}}, 9 * time.Second, []string{"SIGTERM"}, false, 143},
		{"after a while it is insisted upon", []step{{0, syscall.SIGTERM}}, 11 * time.Second, []string{"SIGTERM", "SIGKILL"}, false, 143},
		{"and after another while the sandbox ends", []step{{0, syscall.SIGTERM}}, 21 * time.Second, []string{"SIGTERM", "SIGKILL"}, true, 143},
		{"a terminal that goes away asks to terminate", []step{{0, syscall.SIGHUP}}, 11 * time.Second, []string{"SIGHUP", "SIGKILL"}, false, 129},
		{"the last one is the code", []step{{0, syscall.SIGINT}, {1, syscall.SIGTERM}}, time.Second, []string{"SIGINT", "SIGKILL"}, false, 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := make(chan os.Signal, 4)
				ctx, forwarded, code, stop := cli.TakeSignals(t.Context(), in)
				var got []string
				take := func() {
					synctest.Wait()
					for len(forwarded) > 0 {
						got = append(got, <-forwarded)
					}
				}
				for _, s := range tt.steps {
					time.Sleep(s.after)
					in <- s.sig
					take()
				}
				for end := time.Now().Add(tt.rest); time.Now().Before(end); time.Sleep(time.Second) {
					take()
				}
				take()
				if !slices.Equal(got, tt.forward) || (ctx.Err() != nil) != tt.ended || code() != tt.code {
					t.Errorf("forwarded %q, ended %t, code %d, want %q, %t, %d", got, ctx.Err() != nil, code(), tt.forward, tt.ended, tt.code)
				}
				stop()
			})
		})
	}
}

// TestSignalsThatNobodyTakes end the sandbox rather than being lost.
func TestSignalsThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(chan os.Signal, 4)
		ctx, _, _, stop := cli.TakeSignals(t.Context(), in)
		for range 3 {
			in <- syscall.SIGINT
		}
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the sandbox goes on")
		}
		stop()
	})
}
