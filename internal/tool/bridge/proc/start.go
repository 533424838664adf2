package proc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"airlock/agent"
)

const (
	// overtime is how much longer than its limit, or than being told to end it, the guest is
	// waited for.
	overtime = 10 * time.Second

	maxStderr = 64 << 10 // bytes of an Outcome's Stderr
)

// ErrTooMuch is what the stdout of a Run returns once there is more than it takes: the
// process is ended, and the Outcome says TooMuch.
var ErrTooMuch = errors.New("it printed too much")

// A Running is a process that was started. It is safe for concurrent use.
type Running struct {
	run  *Run
	proc *agent.Process
	errs *tail

	over chan struct{} // closed when its time is over
	done chan struct{} // closed when outcome is set
	out  Outcome

	mu     sync.Mutex
	reason Reason // set before over is closed
}

// A Reason is why a process's time is over.
type Reason string

// The reasons.
const (
	NotOver  Reason = ""
	Timeout  Reason = "timeout"  // Limit, or ctx's deadline, has passed
	Canceled Reason = "canceled" // ctx has ended
)

// Do runs a process to its end, with Params.Stdin as all of its input and its stdout in
// the Outcome. A process that does not read its input, or closes it, loses nothing.
func (r *Run) Do(ctx context.Context) Outcome {
	buffer := &bounded{most: r.MaxOutput}
	p, err := r.Start(ctx, nil, buffer)
	if err != nil {
		over := NotOver
		if ctx.Err() != nil {
			over = reasonOf(ctx)
		}
		return Outcome{Err: err, TimedOut: over == Timeout, Canceled: over == Canceled}
	}
	out := p.Wait()
	out.Stdout = buffer.data
	return out
}

// Start starts a process whose stdin is read from stdin by one goroutine, as
// agent.Streams says it, and whose stdout goes to stdout from another. With a nil
// stdin its input is Params.Stdin, and where Params.Input is set what Input gives it.
// What stdout returns as an error ends it, and is the Outcome's Err; ErrTooMuch is TooMuch.
//
// It is ended when ctx ends or Limit has passed, both after Grace. Every Running needs a
// Wait. The error is that of a process that may or may not have been started.
func (r *Run) Start(ctx context.Context, stdin io.Reader, stdout io.Writer) (*Running, error) {
	known, err := r.Client.Hello(ctx)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	params := r.Params
	params.EndRest = known.Has(agent.CapRest)
	params.TimeoutMS = max((r.Limit + r.Grace).Milliseconds(), 1)
	p := &Running{run: r, errs: &tail{most: maxStderr, live: r.Stderr}, over: make(chan struct{}), done: make(chan struct{})}
	// The guest is asked to end it, and its answer waited for: what ctx would do leaves it
	// to the guest when that is done.
	life, end := context.WithTimeout(context.WithoutCancel(ctx), r.Limit+r.Grace+overtime)
	started := Starting(ctx, end)
	proc, err := r.Client.Start(life, params, &agent.Streams{Stdin: stdin, Stdout: stdout, Stderr: p.errs})
	started()
	if err != nil {
		end()
		return nil, err
	}
	p.proc = proc
	go func() {
		defer close(p.done)
		defer end()
		var handing sync.WaitGroup
		handing.Go(func() { p.hand(life) })
		p.watch(ctx, end)
		handing.Wait()
	}()
	return p, nil
}

// Starting calls end when ctx has ended and, overtime later, what is being started still has
// not been. Sooner would be too soon: the guest may have been asked already, so it is the guest
// that has to be asked to end it, and its answer that says what became of it. Whoever starts
// it calls started once, when that is done.
func Starting(ctx context.Context, end func()) (started func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		late := time.NewTimer(overtime)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
			end()
		}
	})
	return func() {
		stop()
		close(done)
	}
}

// watch is the life of a process: it ends it when its time is over.
func (p *Running) watch(ctx context.Context, end func()) {
	limit := time.NewTimer(p.run.Limit)
	defer limit.Stop()
	var last <-chan time.Time // of the guest's own time
	canceled := ctx.Done()
	var graceOver <-chan time.Time
	for running := true; running; {
		select {
		case <-p.proc.Done():
			running = false
		case <-limit.C:
			p.setOver(Timeout) // the guest's own timer ends it, Grace later
		case <-canceled:
			canceled = nil
			p.setOver(reasonOf(ctx))
			grace := time.NewTimer(p.run.Grace)
			defer grace.Stop()
			graceOver = grace.C
		case <-graceOver:
			p.proc.Cancel()
			late := time.NewTimer(overtime)
			defer late.Stop()
			last = late.C
		case <-last:
			end() // the guest does not answer
		}
	}
	p.out = p.outcome(ctx)
}

// hand hands signals on to the process while it runs.
func (p *Running) hand(ctx context.Context) {
	signals := p.run.Signals
	for {
		select {
		case <-p.proc.Done():
			return
		case signal, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			_ = p.proc.Signal(ctx, signal) // it may just have ended
		}
	}
}

// reasonOf is why ctx has ended.
func reasonOf(ctx context.Context) Reason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Timeout
	}
	return Canceled
}

func (p *Running) setOver(why Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == NotOver {
		p.reason = why
		close(p.over)
	}
}

// outcome is how it went, once it has.
func (p *Running) outcome(ctx context.Context) Outcome {
	res, err := p.proc.Wait()
	if ctx.Err() != nil {
		p.setOver(reasonOf(ctx))
	}
	out := Outcome{Result: res, Stderr: p.errs.text()}
	out.Result.Stdout = ""
	if res.NotStarted == "" {
		out.Result.Stderr = ""
	}
	why := p.Reason()
	switch {
	case errors.Is(err, ErrTooMuch):
		out.TooMuch = true
	case err == nil && res.TimedOut:
		p.setOver(Timeout) // the guest's timer may have come before the one here
		out.TimedOut = true
	case err == nil && res.Canceled:
		out.TimedOut, out.Canceled = why == Timeout, why != Timeout
	case err == nil:
		out.Canceled = why == Canceled
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		// The guest did not say what became of it, long after it had to.
		out.Err = err
		out.TimedOut, out.Canceled = why != Canceled, why == Canceled
	default:
		out.Err = err
	}
	return out
}

// Over is closed when its time is over: Limit has passed, or ctx has ended. It is ended
// Grace later.
func (p *Running) Over() <-chan struct{} { return p.over }

// Reason is why its time is over; NotOver where it is not.
func (p *Running) Reason() Reason {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// Input gives bytes to its stdin, and returns when it can take more: see
// agent.Process.Input. Params.Input must be set, and Start's stdin nil.
func (p *Running) Input(ctx context.Context, data []byte) error { return p.proc.Input(ctx, data) }

// CloseInput closes its stdin.
func (p *Running) CloseInput(ctx context.Context) error { return p.proc.CloseInput(ctx) }

// End has it ended now. It does not wait: the Outcome's Result says Canceled.
func (p *Running) End() { p.proc.Cancel() }

// Done is closed when Wait will not block.
func (p *Running) Done() <-chan struct{} { return p.done }

// Wait waits for its end, and for its output to be written. It may be called more than
// once, and returns the same. Its Outcome has no Stdout: that went to Start's.
func (p *Running) Wait() Outcome {
	<-p.done
	return p.out
}
