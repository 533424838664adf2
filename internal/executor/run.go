// Package executor runs what was asked for in a sandbox and gathers what it changed. It
// knows neither who asks nor which driver makes the sandbox.
package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/hostview"
	"airlock/internal/sandbox"
)

// A Runner runs commands, each in a sandbox of its own. It is safe for concurrent use.
type Runner struct {
	Driver sandbox.Driver
	Store  func() (*changes.Store, error)
	Homes  []string // of the person: their secrets are hidden
	State  []string // Airlock's own folders: always hidden

	Settings []string // Airlock's settings: seen, and never changed from a sandbox
	UID      uint32
	GID      uint32
}

// A Request says what to run.
type Request struct {
	ID       string // of the sandbox and its change set, of sandbox.NewID's form; "": a fresh one
	Argv     []string
	WorkDir  string            // absolute; its changes are the work
	Env      map[string]string // the whole environment
	Timeout  time.Duration     // 0: none
	Limits   sandbox.Limits
	Hide     []string // hidden beside what is hidden always
	Show     []string // not hidden
	ReadOnly []string
	TTY      *agent.TTY // run on a terminal of this size

	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer

	// Signals are forwarded to the command while it runs, as Resizes are to its terminal.
	// A signal that comes before there is a command ends the run. Both may be nil.
	Signals <-chan string
	Resizes <-chan agent.TTY

	// Before is called once the sandbox has started, before the command does, which its
	// error prevents: that is then the run's. Gathered is called with what the run came to,
	// while the sandbox is being ended. Both may be nil.
	Before   func(ctx context.Context) error
	Gathered func(out *Outcome)

	// Notes takes sentences about the sandbox before the command starts, and Finished is
	// called as soon as the command has ended and its output is written, before what it
	// changed is read. Both may be nil.
	Notes    func(string)
	Finished func()
}

// An Outcome is what a run came to.
type Outcome struct {
	ID       string
	Result   agent.ExecResult
	Duration time.Duration // of the command
	Started  bool          // the command did run
	Output   error         // what the command wrote could not be handed on, and so it was ended
	Ended    error         // the sandbox ended under the command: sandbox.ErrOutOfMemory or ErrEnded
	Set      *changes.Set  // what was changed; nil where Ended left nothing to read
}

// guardTime is how much longer than its time limit a command may take to be ended inside
// before the sandbox is ended from outside.
const guardTime = 5 * time.Second

// Run runs a command and gathers its changes into a set, which is kept until somebody
// decides on it. When ctx ends, so do the command and the sandbox, and there is no set.
func (r *Runner) Run(ctx context.Context, req *Request) (*Outcome, error) {
	s, err := r.Open(ctx, &Place{
		WorkDir: req.WorkDir, Env: req.Env, Limits: req.Limits,
		Hide: req.Hide, Show: req.Show, ReadOnly: req.ReadOnly, Signals: req.Signals, ID: req.ID,
	})
	if err != nil {
		return nil, err
	}
	out, err := r.use(ctx, s, req)
	if err == nil && req.Gathered != nil {
		req.Gathered(out)
	}
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return out, err
}

// ErrSignaled is the error of a run that a signal ended before there was a command.
var ErrSignaled = errors.New("ended before the command had started")

// start makes the sandbox, unless a signal comes first.
func (r *Runner) start(ctx context.Context, place *Place, spec *sandbox.Spec) (sandbox.Sandbox, error) {
	starting, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-place.Signals:
			cancel(ErrSignaled)
		case <-starting.Done():
		}
	}()
	sb, err := r.Driver.Start(starting, spec)
	cancel(nil)
	<-watched
	if !errors.Is(context.Cause(starting), ErrSignaled) {
		return sb, err
	}
	if sb != nil {
		err = sb.Close()
	}
	return nil, errors.Join(ErrSignaled, err)
}

// use runs the command in a sandbox and reads what it changed.
func (r *Runner) use(ctx context.Context, s *Session, req *Request) (*Outcome, error) {
	if req.Notes != nil {
		for _, note := range s.Notes() {
			req.Notes(note)
		}
	}
	out := &Outcome{ID: s.ID()}
	if req.Before != nil {
		if err := req.Before(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.command(ctx, s.sb, req, s.work, out); err != nil {
		return nil, err
	}
	if out.Ended != nil {
		return out, nil
	}
	set, err := s.Gather(ctx, changes.Header{Command: req.Argv, ExitCode: out.Result.ExitCode})
	if err != nil {
		return nil, err
	}
	out.Set = set
	return out, nil
}

// command runs the command to its end.
func (r *Runner) command(ctx context.Context, sb sandbox.Sandbox, req *Request, work string, out *Outcome) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if req.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, req.Timeout+guardTime)
	}
	defer cancel()
	start := time.Now()
	var err error
	out.Result, err = r.exec(limited, sb, req, work)
	out.Duration = time.Since(start)
	out.Started = out.Result.NotStarted == ""
	if req.Finished != nil {
		req.Finished()
	}
	switch {
	case err == nil:
		out.Ended = outOfMemory(sb, req, out)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil: // the guest did not end it: what it wrote can still be read
		out.Result = agent.ExecResult{ExitCode: -1, TimedOut: true}
		return nil
	}
	if ended := whyEnded(sb, err); ended != nil {
		out.Ended = ended
		return nil
	}
	if broken, ok := errors.AsType[*outputError](err); ok {
		out.Output = broken.err
		return nil
	}
	return fmt.Errorf("run the command: %w", err)
}

// memoryLag is how long a sandbox may go on after the system has begun to end what runs in
// it for want of memory.
const memoryLag = 250 * time.Millisecond

// outOfMemory gives the sandbox's end if that is why the command was killed: the system may
// take a process of it first.
func outOfMemory(sb sandbox.Sandbox, req *Request, out *Outcome) error {
	if req.Limits.Memory == 0 || out.Result.Signal != "SIGKILL" || out.Result.TimedOut {
		return nil
	}
	return endWithin(sb, memoryLag)
}

// endWithin gives the reason of a sandbox's end that comes within lag, or nil where none does.
// One that is there when whoever waits gets to look counts, however late that is.
func endWithin(sb sandbox.Sandbox, lag time.Duration) error {
	late := time.NewTimer(lag)
	defer late.Stop()
	select {
	case <-sb.Done():
	case <-late.C:
		select {
		case <-sb.Done():
		default:
			return nil
		}
	}
	return sb.Err()
}

// exec runs the command with its streams, and forwards to it what comes meanwhile.
func (r *Runner) exec(ctx context.Context, sb sandbox.Sandbox, req *Request, work string) (agent.ExecResult, error) {
	params := agent.ExecParams{Argv: req.Argv, ExecOptions: agent.ExecOptions{
		Cwd: work, Env: req.Env, ClearEnv: true, User: sb.Identity(), TimeoutMS: req.Timeout.Milliseconds(),
		TTY: req.TTY, MaxProcs: req.Limits.Procs,
	}}
	p, err := sb.Client().Start(ctx, params, &agent.Streams{Stdin: req.Stdin, Stdout: outlet(req.Stdout), Stderr: outlet(req.Stderr)})
	if err != nil {
		return agent.ExecResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var forwarding sync.WaitGroup
	forwarding.Go(func() { forward(ctx, p, req) })
	res, err := p.Wait()
	cancel()
	forwarding.Wait()
	return res, err
}

// outputError is an output that could not be handed on.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// outletWriter marks its writer's errors, to be told from the sandbox's.
type outletWriter struct{ w io.Writer }

func (o outletWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = &outputError{err}
	}
	return n, err
}

func outlet(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return outletWriter{w}
}

// endLag is how long the reason of a sandbox's end may lag behind the end of its
// connection.
const endLag = 2 * time.Second

// whyEnded gives the reason of a sandbox's end, or nil where it still runs.
func whyEnded(sb sandbox.Sandbox, err error) error {
	lag := endLag
	if !errors.Is(err, agent.ErrConnectionLost) {
		lag = 0 // it answered
	}
	return endWithin(sb, lag)
}

// forward hands signals and terminal sizes on until ctx ends.
func forward(ctx context.Context, p *agent.Process, req *Request) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-req.Signals:
			// A command that has just ended cannot be signalled, and need not be.
			_ = p.Signal(ctx, sig)
		case size := <-req.Resizes:
			_ = p.Resize(ctx, size)
		}
	}
}

// Try starts a sandbox, runs a command in it, ends it, and says how long that took.
func (r *Runner) Try(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	hidden, err := hostview.Hidden(&hostview.Rules{Homes: r.Homes, State: r.State, WorkDir: "/"})
	if err != nil {
		return 0, err
	}
	sb, err := r.Driver.Start(ctx, &sandbox.Spec{WorkDir: "/", Hide: hidden})
	if err != nil {
		return 0, err
	}
	res, err := sb.Client().Exec(ctx, "exit 7")
	err = errors.Join(err, sb.Close())
	if err == nil && res.ExitCode != 7 {
		err = fmt.Errorf("a command that exits with 7 exited with %d: %s", res.ExitCode, res.Stderr)
	}
	return time.Since(start), err
}
