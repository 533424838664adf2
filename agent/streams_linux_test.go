package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"airlock/agent"
)

func TestWaitDoesNotWaitForARead(t *testing.T) {
	c := guestClient(t, nil)
	in, feeder := io.Pipe() // a terminal at which nobody types
	defer feeder.Close()    // ends the Read
	res, err := c.Run(t.Context(), agent.ExecParams{Cmd: "exit 4"}, &agent.Streams{Stdin: in})
	if err != nil || res.ExitCode != 4 {
		t.Errorf("Run = %+v, %v", res, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestABrokenStdinIsReported(t *testing.T) {
	c := guestClient(t, nil)
	var out bytes.Buffer
	res, err := c.Run(t.Context(), agent.ExecParams{Cmd: "wc -c"}, &agent.Streams{Stdin: &broken{n: 100_000}, Stdout: &out})
	if !errors.Is(err, errBroken) || res.ExitCode != 0 || out.String() != "100000\n" {
		t.Errorf("Run = %+v, %v, %q", res, err, out.String())
	}
}

// gate is a writer that takes nothing until it is opened.
type gate struct {
	open  chan struct{}
	began chan struct{} // closed by the first Write
	buf   bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	if g.buf.Len() == 0 {
		close(g.began)
	}
	<-g.open
	return g.buf.Write(p)
}

func TestASlowWriterHoldsUpNoContext(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		g := &gate{open: make(chan struct{}), began: make(chan struct{})}
		p, err := c.Start(t.Context(), agent.ExecParams{Cmd: "seq 1000000"}, &agent.Streams{Stdout: g})
		if err != nil {
			t.Fatal(err)
		}
		<-g.began
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := c.Ping(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ping behind a paused stream: %v", err)
			}
			cancel()
		}
		close(g.open)
		if res, err := p.Wait(); err != nil || res.ExitCode != 0 || g.buf.Len() != 6_888_896 {
			t.Errorf("Wait = %+v, %v, %d bytes", res, err, g.buf.Len())
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("ping afterwards: %v", err)
		}
	})
}

func TestACanceledCommandIsEndedInTheGuest(t *testing.T) {
	c := guestClient(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	mark := t.TempDir() + "/mark"
	// No hello was said: the client cancels all the same.
	if _, err := c.Exec(ctx, "sleep 1; touch "+mark); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Exec: %v, want %v", err, context.DeadlineExceeded)
	}
	time.Sleep(1500 * time.Millisecond)
	if res, err := c.Exec(t.Context(), "test -e "+mark); err != nil || res.ExitCode != 1 {
		t.Errorf("the command went on: %+v, %v", res, err)
	}
}
