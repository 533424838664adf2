package cli

import (
	"context"
	"errors"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
	"airlock/internal/tool"
)

// insideObject is what exec, code, shell and attach print with --json.
type insideObject struct {
	ID         string  `json:"id"`
	ExitCode   int     `json:"exit_code"`
	Stdout     *string `json:"stdout,omitempty"` // nil: there is none that could have been seen
	Stderr     *string `json:"stderr,omitempty"`
	Truncated  bool    `json:"truncated,omitempty"`
	DurationMS int64   `json:"duration_ms,omitempty"`
	TimedOut   bool    `json:"timed_out,omitempty"`
	Signal     string  `json:"signal,omitempty"`
	Ended      string  `json:"ended,omitempty"` // why the sandbox has
	Error      string  `json:"error,omitempty"`
	Process    string  `json:"process,omitempty"` // of a command in the background
}

func (r *insideReport) object() *insideObject {
	o := &insideObject{
		ID: r.id, ExitCode: r.code, DurationMS: r.took.Milliseconds(), TimedOut: r.res.TimedOut, Signal: r.res.Signal,
		Ended: r.ended, Process: r.process,
	}
	if r.captured != nil {
		stdout, stderr := r.captured.stdout.String(), r.captured.stderr.String()
		o.Stdout, o.Stderr = &stdout, &stderr
		o.Truncated = r.captured.stdout.cut || r.captured.stderr.cut
	}
	if r.failure != nil {
		o.Error = r.failure.Error()
	}
	return o
}

// tellInside says what the command's own output cannot, and gives its exit code.
func (p *Program) tellInside(rep *insideReport, call *insideCall) error {
	text := ""
	switch {
	case rep.failure != nil:
		text = rep.failure.Error()
	case rep.res.TimedOut:
		text = "timed out after " + call.timeout.String()
	}
	if text != "" {
		rep.screen.tidy(p.Stderr)
		p.say("%s", text)
	}
	if call.json {
		if err := p.printJSON(rep.object()); err != nil {
			return err
		}
	}
	if rep.code != 0 {
		return fail(rep.code, nil)
	}
	return nil
}

// execEnds is ends for a command that was to run in a sandbox: the object is exec's.
func (p *Program) execEnds(ctx context.Context, asJSON bool, id string, err error) error {
	rep := &insideReport{id: id, code: exitFailed, failure: p.explainBox(ctx, err)}
	if gone, ok := errors.AsType[*manager.Gone](err); ok {
		rep.ended = gone.Reason
	}
	if _, refused := errors.AsType[*tool.RefusedError](err); refused {
		rep.code = exitRefused
	}
	p.complain(rep.failure)
	if asJSON {
		if err := p.printJSON(rep.object()); err != nil {
			return err
		}
	}
	return fail(rep.code, nil)
}

// detachIn starts a command in the background.
func (p *Program) detachIn(ctx context.Context, box *manager.Box, f *execFlags, options *agent.ExecOptions, work *insideWork) error {
	id := box.Info.ID
	options.Label, options.KeepOutput, options.Input = f.label, box.Info.Limits.Output, f.input
	if f.tty {
		options.TTY = &agent.TTY{Rows: 24, Cols: 80}
	}
	client, err := p.guestOf(ctx, box)
	if err != nil {
		return p.execEnds(ctx, f.json, id, err)
	}
	defer client.Close()
	var res agent.ExecResult
	if work.lang != "" {
		res, err = client.SpawnCode(ctx, agent.ExecCodeParams{Lang: work.lang, Code: work.code, ExecOptions: *options})
	} else {
		res, err = client.Spawn(ctx, agent.ExecParams{Argv: work.argv, ExecOptions: *options})
	}
	rep := &insideReport{id: id, res: res, process: res.Process}
	call := &insideCall{id: id, name: work.name(), json: f.json}
	switch {
	case err != nil:
		p.judge(ctx, rep, box, call, err, nil)
	case res.Process == "":
		p.judge(ctx, rep, box, call, nil, nil)
	case !f.json:
		if err := p.writeLine(printable(res.Process)); err != nil {
			return err
		}
	}
	return p.tellInside(rep, call)
}

// patience is how long a connection to a sandbox may take before it is asked whether it is paused.
const patience = 300 * time.Millisecond

// guestOf connects to the sandbox's agent.
func (p *Program) guestOf(ctx context.Context, box sandbox.Lasting) (*agent.Client, error) {
	return awake(ctx, box, box.Client)
}

// awake makes a connection to a sandbox. A paused one takes none: that is an error, and no wait.
// The connection does not end with the context that connect is given.
func awake[T any](ctx context.Context, box sandbox.Lasting, connect func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connected, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		select {
		case <-connected:
			return
		case <-time.After(patience):
		}
		if st, err := box.Status(ctx); err == nil && st.State == sandbox.Paused {
			cancel(sandbox.ErrPaused)
		}
	}()
	conn, err := connect(ctx)
	close(connected)
	<-looked
	if err != nil && errors.Is(context.Cause(ctx), sandbox.ErrPaused) {
		err = sandbox.ErrPaused
	}
	return conn, err
}
