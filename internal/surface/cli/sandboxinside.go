package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"airlock/agent"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

// An insideCall is a command that is run in a sandbox that goes on afterwards.
type insideCall struct {
	id      string
	name    string        // of the command, for what is said of it
	timeout time.Duration // 0: none
	json    bool
	most    int64 // bytes of each stream that --json keeps; 0: agent.MaxOutput

	// input and tty are what was asked for; nil: what the streams suggest.
	input, tty *bool

	// start starts it, with what the person's streams are.
	start func(ctx context.Context, c *agent.Client, opts *insideStreams) (*agent.Process, error)
}

// insideStreams are the person's streams as a command inside gets them.
type insideStreams struct {
	agent.Streams
	TTY *agent.TTY
	Env map[string]string // what the terminal adds
}

// insideReport is what became of it.
type insideReport struct {
	id       string
	res      agent.ExecResult
	took     time.Duration
	code     int
	ended    string // why the sandbox ended under it: one of the reasons of destroyed sandboxes
	failure  error  // why its end is not known, or what airlock could not do
	process  string // of a detached one
	captured *captured
	screen   *screen
}

// runInside runs a command to its end, connected to the person's terminal or streams.
func (p *Program) runInside(ctx context.Context, sb *manager.Box, call *insideCall) *insideReport {
	rep := &insideReport{id: call.id}
	req := &executor.Request{Env: map[string]string{}}
	s, err := p.connectInside(call, req)
	if err != nil {
		rep.code, rep.failure = exitFailed, err
		return rep
	}
	defer s.restore()
	rep.captured, rep.screen = s.captured, s.screen
	ctx, signals := withSignals(ctx)
	defer signals.stop()
	begun := time.Now()
	rep.res, err = p.waitInside(ctx, sb, call, req, signals)
	rep.took = time.Since(begun)
	s.restore()
	p.judge(ctx, rep, sb, call, err, signals)
	return rep
}

// connectInside gives the request its streams.
func (p *Program) connectInside(call *insideCall, req *executor.Request) (*session, error) {
	input := isTerminal(p.Stdin) && !call.json
	if call.input != nil {
		input = *call.input
	}
	f := &runFlags{json: call.json}
	if call.tty != nil {
		f.tty, f.noTTY = *call.tty, !*call.tty
	}
	from := *p
	if !input {
		from.Stdin = nil
	}
	s, err := from.connect(f, req)
	if call.json && err == nil {
		s.captured.stdout.most, s.captured.stderr.most = call.most, call.most
	}
	return s, err
}

// waitInside starts the command, forwards what comes meanwhile, and waits for its end.
func (p *Program) waitInside(ctx context.Context, sb *manager.Box, call *insideCall, req *executor.Request, signals *signals) (agent.ExecResult, error) {
	if call.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, call.timeout+insideGuard)
		defer cancel()
	}
	client, err := p.guestOf(ctx, sb)
	if err != nil {
		return agent.ExecResult{}, err
	}
	defer client.Close()
	proc, err := call.start(ctx, client, &insideStreams{
		Streams: agent.Streams{Stdin: req.Stdin, Stdout: insideOutlet(req.Stdout), Stderr: insideOutlet(req.Stderr)},
		TTY:     req.TTY, Env: req.Env,
	})
	if err != nil {
		return agent.ExecResult{}, err
	}
	forwarding, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { forwardInside(forwarding, proc, signals.forward, req.Resizes) })
	res, err := proc.Wait()
	stop()
	wg.Wait()
	if err == nil && maybeOutOfMemory(sb, &res) && !endedWithin(sb, memoryLag) {
		lostMemory(ctx, sb, client)
	}
	return res, err
}

// lostMemory waits for the end of a sandbox that does not answer any more: the system takes
// its processes one by one.
func lostMemory(ctx context.Context, sb *manager.Box, client *agent.Client) {
	asking, cancel := context.WithTimeout(ctx, endLag)
	defer cancel()
	if client.Ping(asking) != nil {
		endedWithin(sb, endLag)
	}
}

// maybeOutOfMemory reports whether a command may have been ended because the sandbox passed
// its memory limit: the system may take a process of it first.
func maybeOutOfMemory(sb *manager.Box, res *agent.ExecResult) bool {
	return sb.Info.Limits.Memory > 0 && res.Signal == "SIGKILL" && !res.TimedOut
}

// insideGuard is how much longer than its time limit a command may take to be ended inside
// before it is given up.
const insideGuard = 5 * time.Second

// forwardInside hands signals and terminal sizes on until ctx ends.
func forwardInside(ctx context.Context, proc *agent.Process, signals <-chan string, sizes <-chan agent.TTY) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			// A command that has just ended cannot be signalled, and need not be.
			_ = proc.Signal(ctx, sig)
		case size := <-sizes:
			_ = proc.Resize(ctx, size)
		}
	}
}

// outletError is an output that could not be handed on.
type outletError struct{ err error }

func (e *outletError) Error() string { return e.err.Error() }
func (e *outletError) Unwrap() error { return e.err }

// outletWriter marks its writer's errors, to be told from the sandbox's.
type outletWriter struct{ w io.Writer }

func (o outletWriter) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		err = &outletError{err}
	}
	return n, err
}

func insideOutlet(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return outletWriter{w}
}

// endLag is how long the end of a sandbox may lag behind that of its connections, and
// memoryLag how long it may go on after the system has begun to end what runs in it for want
// of memory: its keeper looks for that twice a second.
const (
	endLag    = 2 * time.Second
	memoryLag = 1200 * time.Millisecond
)

// judge says what a command's end means, by the table in docs/sandboxes.md.
func (p *Program) judge(ctx context.Context, r *insideReport, sb *manager.Box, call *insideCall, err error, signals *signals) {
	lag := time.Duration(0)
	if errors.Is(err, agent.ErrConnectionLost) {
		lag = endLag
	}
	if broken, ok := errors.AsType[*outletError](err); ok {
		r.noOutput(broken.err)
		return
	}
	if (err != nil || maybeOutOfMemory(sb, &r.res)) && endedWithin(sb, lag) {
		r.endedBy(p.gone(ctx, sb))
		return
	}
	switch {
	case err == nil:
		r.code = exitOf(&executor.Outcome{Result: r.res})
		r.failure = notRun(call, &r.res)
		if r.code < 0 { // the guest did not run it, and says why in words alone
			r.code = exitFailed
		}
	case call.timeout > 0 && errors.Is(err, context.DeadlineExceeded): // the guest did not end it
		r.res, r.code = agent.ExecResult{ExitCode: -1, TimedOut: true}, exitTimedOut
	case signals != nil && signals.code() != 0 && errors.Is(err, context.Canceled):
		r.code = signals.code() // who sent it knows
		r.res.Signal = signals.name()
	case errors.Is(err, sandbox.ErrPaused):
		r.code, r.failure = exitFailed, p.explainBox(ctx, err)
	default:
		r.code, r.failure = exitFailed, fmt.Errorf("run the command: %w", err)
	}
}

// notRun says why a command did not run; nil where it did.
func notRun(call *insideCall, res *agent.ExecResult) error {
	name, said := printable(call.name), printable(strings.TrimPrefix(strings.TrimSpace(res.Stderr), call.name+": "))
	switch {
	case res.NotStarted == "not_found":
		return fmt.Errorf("%s: there is no such command in the sandbox", name)
	case res.NotStarted == "not_executable":
		return fmt.Errorf("%s cannot be executed: %s", name, said)
	case res.NotStarted != "":
		return fmt.Errorf("%s cannot be started: %s", name, said)
	case res.ExitCode < 0 && res.Signal == "" && !res.TimedOut && !res.Canceled:
		return fmt.Errorf("%s was not run: %s", name, firstOf(said, "the sandbox's agent does not say why"))
	}
	return nil
}

// noOutput is the end of a command whose output could not be handed on.
func (r *insideReport) noOutput(err error) {
	if errors.Is(err, syscall.EPIPE) { // as where no sandbox lies between; whoever closed the pipe knows
		r.code = exitSignalBase + signalPipe
		return
	}
	r.code, r.failure = exitFailed, fmt.Errorf("the command was ended, because its output could not be written: %w", err)
}

// endedWithin reports whether the sandbox has ended, or does so before long.
func endedWithin(sb sandbox.Lasting, lag time.Duration) bool {
	select {
	case <-sb.Done():
		return true
	default:
	}
	if lag == 0 {
		return false
	}
	select {
	case <-sb.Done():
		return true
	case <-time.After(lag):
		return false
	}
}

// endedBy is the end of a command whose sandbox ended.
func (r *insideReport) endedBy(gone *manager.Gone) {
	r.code, r.ended, r.failure = exitFailed, gone.Reason, gone
	if gone.Reason == manager.OutOfMemory {
		r.code = exitSignalBase + int(syscall.SIGKILL)
	}
}
