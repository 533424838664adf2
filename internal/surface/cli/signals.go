package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// signals turns what is sent to airlock into what becomes of the command: the first
// interrupt is handed on, the second ends the command, the third ends the sandbox. A
// request to terminate is handed on, and after a while insisted upon.
type signals struct {
	forward chan string
	cancel  context.CancelFunc
	in      chan os.Signal
	done    chan struct{}

	mu   sync.Mutex
	last syscall.Signal // the last that came
}

// terminateGrace is how long a command may take to end itself after SIGTERM.
const terminateGrace = 10 * time.Second

// withSignals gives a context that ends when the sandbox shall, and takes the program's
// signals until stop.
func withSignals(ctx context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(ctx)
	s := &signals{forward: make(chan string, 4), cancel: cancel, in: make(chan os.Signal, 4), done: make(chan struct{})}
	signal.Notify(s.in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go s.loop(ctx)
	return ctx, s
}

func (s *signals) loop(ctx context.Context) {
	defer close(s.done)
	count := 0
	insist := make(<-chan time.Time)
	for {
		select {
		case <-ctx.Done():
			return
		case got, ok := <-s.in:
			if !ok {
				return
			}
			sig, _ := got.(syscall.Signal)
			s.mu.Lock()
			s.last = sig
			s.mu.Unlock()
			count++
			switch {
			case count >= 3:
				s.cancel()
			case count == 2:
				s.send("SIGKILL")
				insist = time.After(terminateGrace)
			default:
				s.send(signalName(sig))
				if sig != syscall.SIGINT {
					insist = time.After(terminateGrace)
				}
			}
		case <-insist:
			if count >= 2 {
				s.cancel()
				return
			}
			count = 2
			s.send("SIGKILL")
			insist = time.After(terminateGrace)
		}
	}
}

func (s *signals) send(name string) {
	select {
	case s.forward <- name:
	default: // nothing takes them: the command has not started, or does not answer
		s.cancel()
	}
}

// stop gives signals their usual meaning back.
func (s *signals) stop() {
	signal.Stop(s.in)
	close(s.in)
	<-s.done
}

// code is the exit code for a run that a signal ended, or 0.
func (s *signals) code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == 0 {
		return 0
	}
	return exitSignalBase + int(s.last)
}

// name is the signal that ended a run.
func (s *signals) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return signalName(s.last)
}

// interruptible ends the context when the person interrupts a question.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
}

func signalName(s syscall.Signal) string { return signalNames[s] }
