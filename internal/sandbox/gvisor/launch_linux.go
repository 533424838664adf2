package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

func (b *box) start(ctx context.Context, engine string) error {
	if b.dir != "" {
		// It is there already.
	} else if err := b.makeDir(); err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	// The keeper takes some milliseconds to come up; what it needs is written meanwhile.
	if err := b.launch(engine); err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	plan, err := b.prepare()
	if err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	if b.lasting != nil {
		if err := b.prepareLasting(plan); err != nil {
			return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
		}
	}
	stop := context.AfterFunc(ctx, func() { b.keeper.Process.Kill() })
	defer stop()
	rep, err := b.tellPlan(ctx, plan)
	if err != nil {
		err = b.explain(ctx, err)
		if _, ok := errors.AsType[*sandbox.Unavailable](err); ok {
			return err // it says all there is
		}
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	b.notes = append(b.notes, rep.Notes...)
	if b.lasting != nil {
		return nil // the keeper has reached the guest agent
	}
	if _, err := b.client.Hello(ctx); err != nil {
		return fmt.Errorf("start sandbox %s: the guest agent does not answer: %w", b.spec.ID, b.explain(ctx, err))
	}
	return nil
}

// explain adds to an error of the start what the keeper's log says of it.
func (b *box) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*sandbox.Unavailable](err); ok {
		return err
	}
	data, _ := os.ReadFile(filepath.Join(b.dir, "log"))
	text := string(data)
	if text == "" { // it ended before it had a log
		text = b.keeper.Said()
	}
	if line := lastLine(text); line != "" && !strings.Contains(line, "level=INFO") {
		return fmt.Errorf("%w (the engine said: %s)", err, line)
	}
	return err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := lines[len(lines)-1]
	if len(line) > 500 {
		line = line[:500] + "…"
	}
	return line
}

// launch has a keeper for the sandbox: the engine under the name that makes it one. Its stdin and
// stdout are the guest agent's.
func (b *box) launch(engine string) error {
	k, err := launch.Take(engine)
	if err != nil {
		return err
	}
	conn, err := net.FileConn(k.Control)
	if err != nil {
		k.End()
		return fmt.Errorf("use the control socket: %w", err)
	}
	k.Control.Close()
	b.control, b.keeper = conn.(*net.UnixConn), k
	go b.watch()
	go b.listen()
	if b.lasting != nil {
		// Its keeper makes streams of its own.
		return errors.Join(k.In.Close(), k.Out.Close())
	}
	b.client = agent.NewClient(duplex{k.Out, k.In}, &agent.Options{Logger: b.driver.log, NoHandshake: true})
	return nil
}

// tellPlan gives the keeper its plan, its log, and its part of the lock: the folder is in use
// until both have let go of it.
func (b *box) tellPlan(ctx context.Context, p *plan) (reply, error) {
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return reply{}, err
	}
	defer log.Close()
	return b.call(ctx, request{Op: opStart, Plan: p}, log, b.lock)
}

// duplex is the agent's connection: the keeper's stdout and stdin. Not embedded: a file has
// more ways to write than Write.
type duplex struct{ out, in *os.File }

func (d duplex) Read(p []byte) (int, error)  { return d.out.Read(p) }
func (d duplex) Write(p []byte) (int, error) { return d.in.Write(p) }

func (d duplex) Close() error { return errors.Join(d.in.Close(), d.out.Close()) }

func (d duplex) SetReadDeadline(t time.Time) error  { return d.out.SetReadDeadline(t) }
func (d duplex) SetWriteDeadline(t time.Time) error { return d.in.SetWriteDeadline(t) }
