package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"airlock/internal/sandbox"
)

func pids(b *bench, l sandbox.Lasting) []int {
	b.Helper()
	s, err := l.Status(b.Context())
	if err != nil || len(s.PIDs) != 3 {
		b.Fatalf("Status = %+v, %v", s, err)
	}
	return s.PIDs
}

func keeperKilled(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	if err := syscall.Kill(pids(b, l)[0], syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	b.isDone(l, sandbox.ErrEnded)
	swept := within(startLimit, func() bool { // the processes of a killed keeper take a moment to end
		removed, err := b.keeping().Sweep(b.Context())
		if err != nil {
			b.Errorf("Sweep: %v", err)
		}
		return len(removed) == 1
	})
	if !swept {
		b.Error("Sweep found nothing of a sandbox whose keeper was killed")
	}
	if _, err := b.keeping().Open(b.Context(), l.ID()); !errors.Is(err, sandbox.ErrNoSandbox) {
		b.Errorf("Open = %v, want ErrNoSandbox", err)
	}
	b.release(l)
}

func monitorKilled(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	c := b.client(l)
	p, err := c.Start(b.Context(), b.params(l, "sleep 100"), nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := syscall.Kill(pids(b, l)[2], syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	b.isDone(l, sandbox.ErrEnded)
	if _, err := p.Wait(); err == nil {
		b.Error("a command ended well in a sandbox that was killed")
	}
	b.release(l)
}

func (b *bench) isDone(l sandbox.Lasting, want error) {
	b.Helper()
	select {
	case <-l.Done():
	case <-time.After(startLimit):
		b.Fatal("the sandbox did not end")
	}
	if !errors.Is(l.Err(), want) {
		b.Errorf("Err = %v, want %v", l.Err(), want)
	}
}

func endedTwice(b *bench) {
	l := b.keep(sandbox.LastingSpec{})
	other, err := b.keeping().Open(b.Context(), l.ID())
	if err != nil {
		b.Fatal(err)
	}
	var both sync.WaitGroup
	for _, one := range []sandbox.Lasting{l, other} {
		both.Go(func() {
			if err := one.End(context.Background()); err != nil {
				b.Errorf("End: %v", err)
			}
		})
	}
	both.Wait()
	b.isDone(other, sandbox.ErrRemoved)
	b.release(l)
	b.release(other)
}

func lived(b *bench) {
	kept := filepath.Join(b.TempDir(), "upper.tar")
	spec := sandbox.LastingSpec{Expired: kept}
	spec.Times = sandbox.Times{Life: time.Hour}
	l := b.keep(spec)
	b.in(l, "echo x > made-in-time")
	// A connection that is open does not hold it up.
	b.client(l)
	if err := l.Touch(b.Context(), &sandbox.Times{Life: time.Nanosecond}); err != nil {
		b.Fatal(err)
	}
	b.isDone(l, sandbox.ErrExpired)
	data, err := os.ReadFile(kept)
	if err != nil || !bytes.Contains(data, []byte("made-in-time")) {
		b.Errorf("what it changed is not kept: %d bytes, %v", len(data), err)
	}
	b.release(l)
}

func idled(b *bench) {
	l := b.keep(sandbox.LastingSpec{Times: sandbox.Times{Idle: time.Hour}})
	params := b.params(l, "sleep 2")
	params.Detach = true
	c := b.client(l)
	begun := time.Now()
	if _, err := c.Spawn(b.Context(), params); err != nil {
		b.Fatal(err)
	}
	// Only now, so that it does not end before there is a command.
	if err := l.Touch(b.Context(), &sandbox.Times{Idle: 700 * time.Millisecond}); err != nil {
		b.Fatal(err)
	}
	c.Close()
	b.isDone(l, sandbox.ErrExpired)
	if took := time.Since(begun); took < 2*time.Second {
		b.Errorf("it ended after %v, while a command ran", took)
	}
	b.release(l)
}

func idledPaused(b *bench) {
	times := sandbox.Times{Idle: 300 * time.Millisecond, IdleThen: sandbox.ThenPause}
	l := b.keep(sandbox.LastingSpec{Times: times})
	defer b.end(l)
	for {
		paused := within(startLimit, func() bool { // asking is no call
			s, err := l.Status(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return s.State == sandbox.Paused
		})
		if !paused {
			b.Fatal("an idle sandbox is not paused")
		}
		resumed := time.Now()
		if err := l.Resume(b.Context()); err != nil {
			b.Fatal(err)
		}
		c, err := l.Client(b.Context())
		if err == nil {
			defer c.Close() // one that calls is not idle
			break
		}
		if took := time.Since(resumed); took < times.Idle {
			b.Fatalf("%v after it was resumed: %v", took, err)
		}
		times.Idle *= 2 // it was idle for so long again: this machine is slow
		if err := l.Touch(b.Context(), &times); err != nil {
			b.Fatal(err)
		}
	}
	b.prints(l, "echo back", "back")
}
