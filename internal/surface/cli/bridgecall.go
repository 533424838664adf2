package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf16"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
)

// settling decides on change sets, one at a time.
type settling struct {
	mu    sync.Mutex
	store *changes.Store
	wish  decision
}

// newBridgeCalls makes ready what calls need. person says that there is one to ask.
func (p *Program) newBridgeCalls(ctx context.Context, f *bridgeFlags, b *Bridge, person bool) (*bridgeCalls, error) {
	wish, err := f.wish()
	if err != nil {
		return nil, err
	}
	if f.jobs < 0 {
		return nil, usage("--jobs %d: it is negative", f.jobs)
	}
	if wish == undecided && !person {
		wish = keep
	}
	place, err := p.place(&placeFlags{memory: f.memory, cpus: f.cpus, procs: f.procs, dir: b.File.Workspace})
	if err != nil {
		return nil, err
	}
	plans, err := p.plans()
	if err != nil {
		return nil, err
	}
	c := &bridgeCalls{p: p, b: b, f: f, place: place, station: plans.Station(), watch: p.newBridgeWatch(f), person: person}
	c.settle.wish = wish
	c.ctx, c.signals = endOnSignal(ctx)
	c.watch.over = c.ctx.Done()
	return c, nil
}

// stop ends what the calls used.
func (c *bridgeCalls) stop() {
	if err := c.station.Close(); err != nil {
		c.p.complain(err)
	}
	c.signals.stop()
}

// code is the exit code that a signal made, or 0.
func (c *bridgeCalls) code() int { return c.signals.code() }

// call makes a call, decides on what it changed, and gives its answer, which is no error
// where ok is true.
func (c *bridgeCalls) call(call tool.Call) (document json.RawMessage, ok bool) {
	return c.callIn(c.ctx, call)
}

// callIn is call within a context of its own.
func (c *bridgeCalls) callIn(ctx context.Context, call tool.Call) (document json.RawMessage, ok bool) {
	req := &executor.OneCall{
		Tools: c.b.Tools, Call: call, Place: *c.place, Who: "bridge", Events: c.watch,
		Consent: c.consent(call.Tool),
	}
	if c.f.verbose {
		w := c.watch.stderr(call.Tool)
		defer w.flush()
		req.Stderr = w
	}
	if c.person {
		req.Asker = c.p.Terminal
	}
	out, err := c.station.Call(ctx, req)
	c.watch.clear()
	switch canceled := ctx.Err() != nil; {
	case canceled && err != nil && (out == nil || out.Set == nil):
		return errorDocument("Agent execution was canceled"), false
	case out != nil && out.Result.Meta != nil:
	case err != nil:
		return errorDocument(err.Error()), false
	default:
		return errorDocument("there is no answer"), false
	}
	t, _ := c.b.Tools.Lookup(call.Tool)
	bridge.Note(t, out.Result)
	document = bridge.Answer(t, out.Result)
	if err != nil && out.Result.OK {
		// It was done, and something around it failed: that is not to look like success.
		document = errorDocument(err.Error())
	}
	settled := c.decide(ctx, out)
	return document, out.Result.OK && err == nil && settled
}

// answer prints an answer, and gives the exit code that it makes.
func (c *bridgeCalls) answer(document json.RawMessage, ok bool) error {
	err := c.print(document)
	switch code := c.code(); {
	case err != nil:
		return err
	case code != 0:
		return fail(code, nil)
	case !ok:
		return fail(exitGeneral, nil)
	}
	return nil
}

// print prints an answer. A signal ends us though nobody takes it.
func (c *bridgeCalls) print(document json.RawMessage) error {
	done := make(chan error, 1)
	go func() { done <- c.p.printDocument(document) }()
	select {
	case err := <-done:
		return err
	case <-c.ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(stuckAfter):
		return nil
	}
}

// consent is how a person has let a tool run: by naming the file that lists it. What is beside
// that file's agents, such as a plugin, it says nothing of.
func (c *bridgeCalls) consent(name string) string {
	if t, ok := c.b.Tools.Lookup(name); !ok || t.Info().Kind != tool.Bridge {
		return ""
	}
	return "--config " + c.f.config
}

// decide decides on what a call changed. It is false where that failed.
func (c *bridgeCalls) decide(ctx context.Context, out *executor.CallOutcome) bool {
	if out.Ended != nil {
		c.p.say("%v; its changes are lost", out.Ended)
		return false
	}
	if out.Set == nil || len(out.Set.Changes) == 0 {
		return true
	}
	c.settle.mu.Lock()
	defer c.settle.mu.Unlock()
	if c.settle.store == nil {
		store, err := c.p.open()
		if err != nil {
			c.p.complain(err)
			return false
		}
		c.settle.store = store
	}
	rep := &runReport{out: &executor.Outcome{ID: out.ID, Set: out.Set}, asking: c.person, guard: c.b.guard()}
	if !out.Result.OK {
		rep.code = exitGeneral
	}
	wish := c.settle.wish
	if ctx.Err() != nil && wish != discard {
		wish = keep // who has canceled it is not asked, and lets nothing out
	}
	if err := c.p.settle(context.WithoutCancel(ctx), c.settle.store, rep, wish); err != nil {
		c.p.complain(explainSet(err))
		return false
	}
	return true
}

// harmlessJSON writes what could control a terminal, or hide what is seen, as \u escapes.
// In JSON such characters stand in texts alone, where an escape means the same.
func harmlessJSON(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n', unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// bridgeLines makes the calls that stdin's lines ask for.
func (p *Program) bridgeLines(ctx context.Context, f *bridgeFlags) error {
	b, err := p.bridge(f)
	if err != nil {
		return err
	}
	defer p.closeBridge(b)
	if p.interactive() {
		p.say(`each line is a call, {"tool": "NAME", "params": {…}}; Ctrl-D ends`)
	}
	p.Terminal.take() // what is typed is calls
	c, err := p.newBridgeCalls(ctx, f, b, false)
	if err != nil {
		return err
	}
	defer c.stop()
	failed, err := c.serve()
	code := c.code()
	switch {
	case code != 0:
		return fail(code, nil)
	case errors.Is(err, syscall.EPIPE):
		return fail(exitSignalBase+signalPipe, nil)
	case err != nil:
		return fail(exitFailed, err)
	case failed:
		return fail(exitGeneral, nil)
	}
	return nil
}

// serve answers the lines of stdin.
func (c *bridgeCalls) serve() (failed bool, err error) {
	jobs := c.f.jobs
	if jobs == 0 {
		jobs = c.b.File.Parallel
	}
	out := c.p.Stdout
	if c.f.events {
		shared := &lockedWriter{w: out} // an event and an answer are one write each
		out, c.watch.out = shared, shared
	}
	return c.p.Lines(c.ctx, c.p.Stdin, out, jobs, func(ctx context.Context, name string, params json.RawMessage) (json.RawMessage, bool) {
		return c.callIn(ctx, tool.Call{Tool: name, Args: params})
	})
}

// A lockedWriter makes one write at a time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
