package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/executor"
	"airlock/internal/sandbox/manager"
)

// attachFlags are those of airlock sandbox attach.
type attachFlags struct {
	json, input bool
	from        int64
}

func (p *Program) sandboxAttachCmd() *cobra.Command {
	f := &attachFlags{}
	cmd := &cobra.Command{
		Use:   "attach [flags] ID PROCESS",
		Short: "The output of a command in the background, since its start and then live",
		Long: `Show the output of a command in the background: what is kept of it since its start, and
then as it comes, until it ends. The exit code is the command's, as of airlock sandbox exec.

Ctrl-C lets go of it, and it goes on. With --stdin on a terminal of its own, where Ctrl-C
is the command's, Ctrl-P Ctrl-Q lets go.`,
		Example: `  airlock sandbox exec -d ID -- make all   # prints p1
  airlock sandbox attach ID p1`,
		Args:              takes(2, 2, "say which command of which sandbox: airlock sandbox attach ID PROCESS; airlock sandbox ps ID lists them"),
		ValidArgsFunction: p.completeProcesses(false),
	}
	fl := cmd.Flags()
	fl.Int64Var(&f.from, "from", 0, "begin at this byte of its output; -N begins with its last N bytes")
	fl.BoolVarP(&f.input, "stdin", "i", false, "feed the command's input, which was left open with exec --detach --stdin")
	fl.BoolVar(&f.json, "json", false, "print one JSON object when it has ended, instead of its output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		box, err := p.openBox(ctx, args[0])
		if err != nil {
			return p.execEnds(ctx, f.json, args[0], err)
		}
		defer func() { _ = box.Release() }() // it goes on whatever that says
		info, err := p.processOf(ctx, box, args[1])
		if err != nil {
			return p.execEnds(ctx, f.json, box.Info.ID, err)
		}
		if f.input && info.Running && !info.Input {
			return p.execEnds(ctx, f.json, box.Info.ID, fmt.Errorf("the input of %s is closed; airlock sandbox exec --detach --stdin leaves it open", printable(args[1])))
		}
		defer ignoreBrokenPipes()()
		return p.attachTo(ctx, box, info, f)
	}
	return cmd
}

// processOf finds a command of a sandbox.
func (p *Program) processOf(ctx context.Context, box *manager.Box, name string) (*agent.ProcessInfo, error) {
	client, err := p.guestOf(ctx, box)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return findProcess(ctx, client, name)
}

// An attachment is what is seen of a command in the background, over one connection after
// the other.
type attachment struct {
	p    *Program
	box  *manager.Box
	info *agent.ProcessInfo
	req  *executor.Request
	in   *relay // nil: nothing is fed
	at   int64  // offset of the output that comes next
	lost int64  // bytes of it that were kept no more
	seen atomic.Int64

	noWait bool // what is kept, and no more
}

// attachTo shows a command's output until it ends or the person lets go.
func (p *Program) attachTo(ctx context.Context, box *manager.Box, info *agent.ProcessInfo, f *attachFlags) error {
	call := &insideCall{id: box.Info.ID, name: processCommand(info), json: f.json, most: box.Info.Limits.Output, input: &f.input}
	tty := f.input && info.TTY && isTerminal(p.Stdin) && !f.json
	call.tty = &tty
	req := &executor.Request{Env: map[string]string{}}
	s, err := p.connectInside(call, req)
	if err != nil {
		return p.execEnds(ctx, f.json, call.id, err)
	}
	defer s.restore()
	ctx, signals := endOnSignal(ctx)
	defer signals.stop()
	ctx, letGo := context.WithCancelCause(ctx)
	defer letGo(nil)
	a := &attachment{p: p, box: box, info: info, req: req, at: offsetOf(info, f.from)}
	if req.Stdin != nil {
		a.in = newRelay(req.Stdin, tty)
		go func() {
			select {
			case <-a.in.letGo:
				letGo(errLetGo)
			case <-ctx.Done():
			}
		}()
	}
	rep := &insideReport{id: call.id, captured: s.captured, screen: s.screen, process: info.Process}
	begun := time.Now()
	rep.res, err = a.follow(ctx)
	rep.took = time.Since(begun)
	s.restore()
	switch {
	case errors.Is(context.Cause(ctx), errLetGo):
		rep.code, rep.failure = 0, fmt.Errorf("let go of %s, which goes on", printable(info.Process))
	case signals.code() != 0 && err != nil:
		rep.code, rep.failure = signals.code(), fmt.Errorf("let go of %s, which goes on", printable(info.Process))
	default:
		p.judge(ctx, rep, box, call, err, nil)
	}
	if a.lost > 0 {
		rep.screen.tidy(p.Stderr)
		p.say("%s of its output were kept no more", bytesText(a.lost))
	}
	return p.tellInside(rep, call)
}

var errLetGo = errors.New("let go")

// offsetOf is where output begins that is asked for from there on.
func offsetOf(info *agent.ProcessInfo, from int64) int64 {
	if from < 0 {
		from = max(info.Output+from, 0)
	}
	return from
}

const (
	reconnects    = 5 // after a connection is lost without the sandbox's end
	reconnectWait = 200 * time.Millisecond
)

// follow shows the output until the command ends, and connects again where a connection is
// lost though the sandbox is there.
func (a *attachment) follow(ctx context.Context) (agent.ExecResult, error) {
	for tries := 0; ; tries++ {
		before := a.at
		res, err := a.once(ctx)
		if !errors.Is(err, agent.ErrConnectionLost) || endedWithin(a.box, reconnectWait) {
			return res, err
		}
		if a.at > before {
			tries = 0
		}
		if tries >= reconnects {
			return res, err
		}
	}
}

// once shows what comes over one connection.
func (a *attachment) once(ctx context.Context) (agent.ExecResult, error) {
	client, err := a.p.guestOf(ctx, a.box)
	if err != nil {
		return agent.ExecResult{}, err
	}
	defer client.Close()
	a.seen.Store(0)
	streams := &agent.Streams{Stdout: a.outlet(a.req.Stdout), Stderr: a.outlet(a.req.Stderr)}
	if a.in != nil {
		view := a.in.reader()
		defer view.stop()
		streams.Stdin = view
	}
	proc, err := client.Attach(ctx, agent.AttachParams{
		Process: a.info.Process, From: a.at, Input: a.in != nil, TTY: a.req.TTY, NoWait: a.noWait,
	}, streams)
	if err != nil {
		return agent.ExecResult{}, err
	}
	resizing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		forwardInside(resizing, proc, nil, a.req.Resizes)
	}()
	res, err := proc.Wait()
	stop()
	<-done
	if ctx.Err() != nil {
		proc.Cancel() // lets go of it, so that the end of the view is not the end of its input
	}
	a.lost += proc.Skipped()
	a.at += a.seen.Load() + proc.Skipped()
	return res, err
}

// outlet counts what is written to w.
func (a *attachment) outlet(w io.Writer) io.Writer {
	if w == nil {
		w = io.Discard
	}
	return outletWriter{countWriter{w, &a.seen}}
}

type countWriter struct {
	w io.Writer
	n *atomic.Int64
}

func (c countWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n.Add(int64(n))
	return n, err
}
