package executor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// An ending sandbox ends for want of memory.
type ending struct {
	sandbox.Sandbox
	done chan struct{}
}

func (e *ending) Done() <-chan struct{} { return e.done }
func (e *ending) Err() error            { <-e.done; return sandbox.ErrOutOfMemory }

func TestWhyACommandWasKilled(t *testing.T) {
	killed := &Outcome{Result: agent.ExecResult{Signal: "SIGKILL"}}
	req := &Request{Limits: sandbox.Limits{Memory: 1}}
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  error
	}{
		{"the sandbox's end comes a little later", memoryLag * 4 / 5, sandbox.ErrOutOfMemory},
		{"it comes too late to be the reason", memoryLag * 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sb := &ending{done: make(chan struct{})}
				time.AfterFunc(tt.after, func() { close(sb.done) })
				if err := outOfMemory(sb, req, killed); !errors.Is(err, tt.want) {
					t.Errorf("outOfMemory = %v, want %v", err, tt.want)
				}
				<-sb.done
			})
		})
	}
}

func TestAnEndThatIsThereCountsHoweverLateOneLooks(t *testing.T) {
	sb := &ending{done: make(chan struct{})}
	close(sb.done)
	for range 1000 {
		if err := endWithin(sb, 0); !errors.Is(err, sandbox.ErrOutOfMemory) {
			t.Fatalf("endWithin = %v, want %v", err, sandbox.ErrOutOfMemory)
		}
	}
}
