package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// A lastSignal is the signal that came last. It is safe for concurrent use.
type lastSignal struct{ number atomic.Int64 }

func (l *lastSignal) note(got os.Signal) {
	sig, _ := got.(syscall.Signal)
	l.number.Store(int64(sig))
}

// last is 0 where none came.
func (l *lastSignal) last() syscall.Signal { return syscall.Signal(l.number.Load()) }

// code is the exit code of what the signal ended, or 0.
func (l *lastSignal) code() int {
	if sig := l.last(); sig != 0 {
		return exitSignalBase + int(sig)
	}
	return 0
}

// endSignals end a context with the first signal that asks the program to end, and keep
// which that was.
type endSignals struct {
	lastSignal
	in   chan os.Signal
	done chan struct{}
}

func endOnSignal(ctx context.Context) (context.Context, *endSignals) {
	ctx, cancel := context.WithCancel(ctx)
	s := &endSignals{in: make(chan os.Signal, 4), done: make(chan struct{})}
	signal.Notify(s.in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		defer close(s.done)
		defer cancel()
		for got := range s.in {
			s.note(got)
			cancel()
		}
	}()
	return ctx, s
}

// stop gives signals their usual meaning back.
func (s *endSignals) stop() {
	signal.Stop(s.in)
	close(s.in)
	<-s.done
}
