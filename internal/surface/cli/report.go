package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
)

// runReport is what a run is told as.
type runReport struct {
	out     *executor.Outcome
	code    int
	state   changes.State // "" while the set's own holds
	failure error         // why there was no run to speak of
	// unrecorded is why the run's end is not in the record: nothing is decided then.
	unrecorded error

	asking  bool      // there is somebody to ask
	quiet   bool      // the answer is an object: changes are in it, and not listed
	screen  *screen   // the terminal that the command could write to; nil: none
	capture *captured // what --json keeps; nil otherwise

	// decide asks about the changes, in place of the usual question; nil: the usual one.
	decide func(ctx context.Context, show func() error) decision

	guard commitGuard // stricter than the gate; may be nil

	showDiff func() // shows the changes, where there is somebody to ask; nil: the question does
}

// noteUnrecorded takes an end that could not be recorded for airlock's own failure.
func (r *runReport) noteUnrecorded(err error) {
	if err == nil {
		return
	}
	if r.out.Set != nil && len(r.out.Set.Changes) > 0 {
		err = fmt.Errorf("%w; the changes are kept as %s", err, r.out.Set.ID)
	}
	r.unrecorded, r.failure, r.code = fail(exitFailed, err), err, exitFailed
}

// exitOf is the exit code for how a command ended.
func exitOf(out *executor.Outcome) int {
	res := &out.Result
	switch {
	case errors.Is(out.Ended, sandbox.ErrOutOfMemory):
		return exitSignalBase + int(syscall.SIGKILL)
	case out.Ended != nil:
		return exitFailed
	case errors.Is(out.Output, syscall.EPIPE):
		return exitSignalBase + signalPipe // as where no sandbox lies between
	case out.Output != nil:
		return exitFailed
	case res.TimedOut:
		return exitTimedOut
	case res.NotStarted == "not_found":
		return exitNotFound
	case res.NotStarted == "not_executable":
		return exitRefused
	case res.NotStarted != "":
		return exitFailed
	case res.Signal != "":
		return exitSignalBase + signalNumber(res.Signal)
	}
	return res.ExitCode
}

// tellEnd says what the command's own output cannot: why it did not run, or was ended.
func (p *Program) tellEnd(rep *runReport, name string, timeout time.Duration) {
	res := &rep.out.Result
	var text string
	switch {
	case rep.out.Ended != nil:
		text = fmt.Sprintf("%v; its changes are lost", rep.out.Ended)
	case errors.Is(rep.out.Output, syscall.EPIPE): // whoever closed the pipe knows
		return
	case rep.out.Output != nil:
		text = fmt.Sprintf("the command was ended, because its output could not be written: %v", rep.out.Output)
	case res.TimedOut:
		text = fmt.Sprintf("timed out after %s", timeout)
	case res.NotStarted == "not_found":
		text = printable(name) + ": there is no such command in the sandbox"
	case res.NotStarted != "":
		text = printable(name) + " cannot be executed: " + printable(strings.TrimPrefix(strings.TrimSpace(res.Stderr), name+": "))
	default:
		return
	}
	rep.screen.tidy(p.Stderr)
	p.say("%s", text)
}

// runObject is what --json prints.
type runObject struct {
	ID         string          `json:"id"`
	ExitCode   int             `json:"exit_code"`
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	DurationMS int64           `json:"duration_ms"`
	TimedOut   bool            `json:"timed_out"`
	Changes    []changes.Entry `json:"changes"` // of the working folder
	Outside    []changes.Entry `json:"outside"` // elsewhere, committed only when named
	Noise      int             `json:"noise"`   // of caches and temporary files, only counted
	State      changes.State   `json:"state"`
	Error      string          `json:"error,omitempty"` // why there was no run, the sandbox ended, or a commit was refused
}

func (r *runReport) object() *runObject {
	res := &r.out.Result
	o := &runObject{
		ID: r.out.ID, ExitCode: r.code, Stdout: r.capture.stdout.String(), Stderr: r.capture.stderr.String(),
		DurationMS: r.out.Duration.Milliseconds(), TimedOut: res.TimedOut,
		Changes: []changes.Entry{}, Outside: []changes.Entry{}, State: changes.None,
	}
	if r.out.Set != nil {
		o.Changes = changes.Entries(r.out.Set, changes.Work)
		o.Outside = changes.Entries(r.out.Set, changes.Outside)
		o.Noise = r.out.Set.NoiseCount
		o.State = r.out.Set.State
	}
	if r.state != "" {
		o.State = r.state
	}
	o.Error = r.trouble()
	return o
}

// trouble says why there was no run, the sandbox ended, or a commit was refused; "" where
// nothing was wrong.
func (r *runReport) trouble() string {
	switch {
	case r.failure != nil:
		return r.failure.Error()
	case r.out.Ended != nil:
		return r.out.Ended.Error()
	case r.out.Output != nil:
		return r.out.Output.Error()
	}
	return r.out.Result.NotStarted
}
