package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals turns what is sent to airlock into what becomes of the command: the first
// interrupt is handed on, the second ends the command, the third ends the sandbox. A
// request to terminate is handed on, and after a while insisted upon.
type signals struct {
	lastSignal
	forward chan string
	cancel  context.CancelFunc
	in      chan os.Signal
	done    chan struct{}
}

// terminateGrace is how long a command may take to end itself after SIGTERM.
const terminateGrace = 10 * time.Second

// withSignals gives a context that ends when the sandbox shall, and takes the program's
// signals until stop.
func withSignals(ctx context.Context) (context.Context, *signals) {
	in := make(chan os.Signal, 4)
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	return takeSignals(ctx, in)
}

// takeSignals is withSignals for the signals of in.
func takeSignals(ctx context.Context, in chan os.Signal) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(ctx)
	s := &signals{forward: make(chan string, 4), cancel: cancel, in: in, done: make(chan struct{})}
	go s.loop(ctx)
	return ctx, s
}

func (s *signals) loop(ctx context.Context) {
	defer close(s.done)
	var insist <-chan time.Time
	for count := 0; ; {
		select {
		case <-ctx.Done():
			return
		case got, ok := <-s.in:
			if !ok {
				return
			}
			s.note(got)
			sig := s.last()
			count++
			if count == 1 && sig == syscall.SIGINT {
				s.send(signalName(sig)) // a person who waits longer says so
				continue
			}
			s.escalate(count, sig)
		case <-insist:
			count++
			s.escalate(count, syscall.SIGKILL)
		}
		insist = time.After(terminateGrace)
	}
}

// escalate does what the count-th signal asks for.
func (s *signals) escalate(count int, sig syscall.Signal) {
	switch count {
	case 1:
		s.send(signalName(sig))
	case 2:
		s.send("SIGKILL")
	default:
		s.cancel()
	}
}

func (s *signals) send(name string) {
	select {
	case s.forward <- name:
	default: // nothing takes them: the command has not started, or does not answer
		s.cancel()
	}
}

// stop gives signals their usual meaning back. Who has interrupted already wants no more
// than the command's end: another interrupt must not end what is left to be put in order.
func (s *signals) stop() {
	if s.code() != 0 {
		signal.Ignore(os.Interrupt)
	}
	signal.Stop(s.in)
	close(s.in)
	<-s.done
	s.cancel()
}

// ending reports whether the program was told to end: nobody is to be asked any more.
func (s *signals) ending() bool {
	sig := s.last()
	return sig == syscall.SIGTERM || sig == syscall.SIGHUP
}

// name is the signal that ended a run.
func (s *signals) name() string { return signalName(s.last()) }

// interruptible ends the context when the person interrupts a question.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
}

func signalName(s syscall.Signal) string { return signalNames[s] }
