package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	pid := filepath.Join(t.TempDir(), "pid")
	c := guestClient(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	// No hello was said: the client cancels all the same.
	go func() {
		_, err := c.Exec(ctx, "echo $$ > "+pid+"; exec sleep 1000")
		ended <- err
	}()
	var number []byte
	eventually(t, func() bool {
		number, _ = os.ReadFile(pid)
		return bytes.HasSuffix(number, []byte("\n"))
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("Exec: %v, want %v", err, context.Canceled)
	}
	eventually(t, func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(number)))
		return err != nil
	})
}
