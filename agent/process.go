package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"airlock/internal/rpc"
)

// Streams are where a command's streams go while it runs.
type Streams struct {
	// Stdin is read by one goroutine and fed to the command as it takes it; nil is an
	// empty input. When the command ends while a Read waits, that goroutine stays until the Read
	// returns, drops what it brought, and ends: nothing else of a Process outlives Wait.
	Stdin io.Reader

	// Stdout and Stderr take output as it comes, in order, from one goroutine; nil
	// discards. One that is slow holds up its own command and, since the connection has one
	// flow, the other calls of this Client. When one fails, the command is canceled and
	// the failure is Wait's error. On a terminal all output is Stdout's.
	Stdout io.Writer
	Stderr io.Writer
}

// Run runs a command to its end. With nil streams the result holds its output, each
// stream cut at MaxOutput; else output goes to the streams as it comes and the result
// holds none. A command that fails, is not found, or is ended by TimeoutMS is a result; an
// error means that its fate is not known. What needs a capability that the guest lacks
// is ErrUnsupported, before anything is sent.
func (c *Client) Run(ctx context.Context, params ExecParams, streams *Streams) (ExecResult, error) {
	if streams == nil && params.TTY == nil && !params.Stream && !params.Input {
		if err := c.allow(ctx, MethodExec, params.needs()); err != nil {
			return ExecResult{}, err
		}
		c.op(ctx, MethodExec, slog.Int("command_bytes", params.size()))
		return c.exec(ctx, rpc.Call{Method: MethodExec, Params: params})
	}
	p, err := c.Start(ctx, params, streams)
	if err != nil {
		return ExecResult{}, err
	}
	return p.Wait()
}

// RunCode is Run for code in a language; see ExecCode.
func (c *Client) RunCode(ctx context.Context, params ExecCodeParams, streams *Streams) (ExecResult, error) {
	if streams == nil && params.TTY == nil && !params.Stream && !params.Input {
		if err := c.allow(ctx, MethodExecCode, params.needs()); err != nil {
			return ExecResult{}, err
		}
		c.op(ctx, MethodExecCode, slog.String("lang", params.Lang), slog.Int("code_bytes", len(params.Code)))
		return c.exec(ctx, rpc.Call{Method: MethodExecCode, Params: params})
	}
	p, err := c.StartCode(ctx, params, streams)
	if err != nil {
		return ExecResult{}, err
	}
	return p.Wait()
}

// Start starts a command with live streams and returns once the request is sent. ctx
// bounds the command's whole life: when it ends, so does the command. Every Process needs
// a Wait. Stdin stays open for Input where params.Input is set; a Streams.Stdin sets it.
func (c *Client) Start(ctx context.Context, params ExecParams, streams *Streams) (*Process, error) {
	s := params.live(streams)
	if err := c.allow(ctx, MethodExec, params.needs()); err != nil {
		return nil, err
	}
	c.op(ctx, MethodExec, slog.Int("command_bytes", params.size()))
	return c.start(ctx, MethodExec, params, s)
}

// StartCode is Start for code in a language.
func (c *Client) StartCode(ctx context.Context, params ExecCodeParams, streams *Streams) (*Process, error) {
	s := params.live(streams)
	if err := c.allow(ctx, MethodExecCode, params.needs()); err != nil {
		return nil, err
	}
	c.op(ctx, MethodExecCode, slog.String("lang", params.Lang), slog.Int("code_bytes", len(params.Code)))
	return c.start(ctx, MethodExecCode, params, s)
}

// live sets what live streams need and returns them without nils.
func (o *ExecOptions) live(streams *Streams) Streams {
	var s Streams
	if streams != nil {
		s = *streams
	}
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	if s.Stderr == nil {
		s.Stderr = io.Discard
	}
	o.Stream = true
	o.Input = o.Input || s.Stdin != nil
	return s
}

// needs are the capabilities that these options ask for.
func (o *ExecOptions) needs() []string {
	var needs []string
	if o.Cwd != "" || o.Env != nil || o.ClearEnv || o.Stdin != "" || o.User != "" || o.Groups != nil || o.TimeoutMS != 0 || o.MaxProcs != 0 {
		needs = append(needs, CapExec)
	}
	if o.EndRest {
		needs = append(needs, CapRest)
	}
	if o.Stream || o.TTY != nil {
		needs = append(needs, CapStream)
	}
	if o.Input {
		needs = append(needs, CapInput)
	}
	if o.TTY != nil {
		needs = append(needs, CapTTY)
	}
	if o.Detach || o.KeepOutput != 0 || o.Label != "" {
		needs = append(needs, CapProcesses)
	}
	return needs
}

func (p *ExecParams) needs() []string {
	needs := p.ExecOptions.needs()
	if p.Argv != nil {
		needs = append(needs, CapExec)
	}
	return needs
}

func (p *ExecParams) size() int {
	n := len(p.Cmd)
	for _, a := range p.Argv {
		n += len(a)
	}
	return n
}

// allow is need for a list that may be empty: a 1.0 command does without hello.
func (c *Client) allow(ctx context.Context, method string, needs []string) error {
	if len(needs) == 0 {
		return nil
	}
	_, err := c.need(ctx, method, needs...)
	return err
}

// A Process is a command that runs in the guest. It is safe for concurrent use.
type Process struct {
	c    *Client
	id   uint64 // set before Start returns
	done chan struct{}
	res  ExecResult // with err, set before done is closed
	err  error

	input  inputState
	follow *follow // of Attach's; nil: of a command that ends with its request
}

// start sends the request and waits until it is on its way.
func (c *Client) start(ctx context.Context, method string, params any, s Streams) (*Process, error) {
	return c.begin(ctx, &Process{c: c, done: make(chan struct{})}, method, params, s)
}

func (c *Client) begin(ctx context.Context, p *Process, method string, params any, s Streams) (*Process, error) {
	sent := make(chan struct{})
	notes := make(chan any, 1)
	spec := rpc.Call{Method: method, Params: params, Notes: notes, Sent: func(id uint64) {
		p.id = id
		close(sent)
	}}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, ErrClosed)
	}
	c.work.Go(func() { p.run(ctx, spec, notes, sent, s) })
	c.mu.Unlock()
	select {
	case <-sent:
	case <-p.done:
		select {
		case <-sent: // it was sent, and has ended already
		default:
			return nil, p.err
		}
	}
	return p, nil
}

// run is the life of a Process.
func (p *Process) run(ctx context.Context, spec rpc.Call, notes chan any, sent chan struct{}, s Streams) {
	defer close(p.done)
	answered := make(chan struct{})
	var pumps sync.WaitGroup
	var outErr error
	pumps.Go(func() { outErr = p.output(notes, answered, sent, s) })
	var inErr func() error
	if s.Stdin != nil {
		inErr = p.feed(ctx, sent, answered, s.Stdin)
	}
	p.res, p.err = p.c.exec(ctx, spec)
	close(answered)
	pumps.Wait()
	if inErr != nil {
		if err := inErr(); p.err == nil && err != nil {
			p.err = fmt.Errorf("%s: read stdin: %w", spec.Method, err)
		}
	}
	if outErr != nil {
		p.err = errors.Join(fmt.Errorf("%s: write output: %w", spec.Method, outErr), p.err)
	}
}

// output writes what the guest sends until the command's answer is here and all before
// it is written. After a failure it takes the rest and drops it, so that the connection
// goes on.
func (p *Process) output(notes <-chan any, answered, sent <-chan struct{}, s Streams) error {
	var failed error
	write := func(note any) {
		out := note.(*OutputParams)
		p.follow.take(out)
		if failed != nil || len(out.Data) == 0 {
			return
		}
		w := s.Stdout
		if out.Stream == "stderr" {
			w = s.Stderr
		}
		if _, failed = w.Write(out.Data); failed != nil {
			<-sent
			p.c.cancel(p.id)
		}
	}
	for {
		select {
		case note := <-notes:
			write(note)
		case <-answered:
			for {
				select {
				case note := <-notes:
					write(note)
				default:
					return failed
				}
			}
		}
	}
}

// Wait waits for the command to end and its output to be written. It may be called more
// than once, and returns the same. When ctx of Start ended first, the error is ctx's.
func (p *Process) Wait() (ExecResult, error) {
	<-p.done
	return p.res, p.err
}

// Done is closed when Wait will not block.
func (p *Process) Done() <-chan struct{} { return p.done }

// Cancel has the guest end the command. It does not wait: Wait does, and the result says
// Canceled unless the command had ended before.
//
// One of Attach's is only let go of: the command goes on, with its input open.
func (p *Process) Cancel() {
	p.follow.letGo()
	p.c.cancel(p.id)
}

// Signal sends a signal to the command's process group: see SignalParams for names.
func (p *Process) Signal(ctx context.Context, signal string) error {
	if _, err := p.c.need(ctx, MethodSignal, CapInput); err != nil {
		return err
	}
	return p.c.Call(ctx, MethodSignal, SignalParams{ID: p.id, Signal: signal}, nil)
}

// Resize gives the command's terminal a new size.
func (p *Process) Resize(ctx context.Context, size TTY) error {
	if _, err := p.c.need(ctx, MethodResize, CapTTY); err != nil {
		return err
	}
	return p.c.Call(ctx, MethodResize, ResizeParams{ID: p.id, TTY: size}, nil)
}

// notification decodes the guest's only notification for the process that it is for.
func notification(method string, params json.RawMessage, raw []byte) (uint64, any, error) {
	if method != NotifyOutput {
		return 0, nil, fmt.Errorf("unknown notification %.32q", method)
	}
	out := &OutputParams{}
	if err := json.Unmarshal(params, out); err != nil {
		return 0, nil, err
	}
	if raw != nil {
		out.Data = raw
	}
	if out.Stream != "stdout" && out.Stream != "stderr" {
		return 0, nil, fmt.Errorf("output of a stream %.16q", out.Stream)
	}
	return out.ID, out, nil
}
