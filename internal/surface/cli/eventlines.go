package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"airlock/internal/event"
)

// openEvents gives the sink of a run: the person's screen and, where it was asked for, a
// file of lines.
func (p *Program) openEvents(ctx context.Context, name string, screen *planScreen) (event.Sink, func() error, error) {
	if name == "" {
		return screen, func() error { return nil }, nil
	}
	out, closeFile := p.Stdout, func() error { return nil }
	if name != "-" {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, nil, usage("--events: %w", err)
		}
		out, closeFile = file, file.Close
	}
	bus := event.NewBus(nil)
	end := writeEvents(ctx, out, bus.Subscribe(0))
	return sinks{screen, bus}, func() error {
		if err := errors.Join(bus.Close(), end(), closeFile()); err != nil {
			return fail(exitFailed, fmt.Errorf("write the events: %w", err))
		}
		return nil
	}, nil
}

// errStalled is a reader of events that takes none.
var errStalled = errors.New("whoever reads them has taken none for " + eventPatience.String())

// eventPatience is how long the end of a run waits for a reader that takes nothing.
const eventPatience = 10 * time.Second

// writeEvents begins to write a subscription's events. end waits until all are written, as
// long as somebody takes them.
func writeEvents(ctx context.Context, out io.Writer, sub *event.Subscription) (end func() error) {
	written, taken := make(chan error, 1), make(chan struct{}, 1)
	go func() { written <- event.WriteLines(context.WithoutCancel(ctx), takenWriter{out, taken}, sub) }()
	return func() error {
		for {
			select {
			case err := <-written:
				return err
			case <-taken:
			case <-time.After(eventPatience):
				return errStalled
			}
		}
	}
}

// takenWriter tells that a Write has ended.
type takenWriter struct {
	w     io.Writer
	taken chan<- struct{}
}

func (t takenWriter) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	select {
	case t.taken <- struct{}{}:
	default: // it was told already
	}
	return n, err
}

// sinks are several as one.
type sinks []event.Sink

func (s sinks) Publish(e event.Event) {
	for _, sink := range s {
		sink.Publish(e)
	}
}
