package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	maxLabel    = 64        // bytes
	maxTold     = 4 << 10   // bytes of a command that the list of processes tells
	defaultEnd  = 2000      // milliseconds of grace, of end
	longestEnd  = time.Hour // of grace
	stopsAtOnce = -1        // a grace
)

// Why a job's context ended.
var (
	errStopped = errors.New("the request was canceled") // or its connection is gone
	errAsked   = errors.New("it was asked to end")
	errClosing = errors.New("the agent ends")
)

// jobs are the commands that the agent runs or remembers.
type jobs struct {
	life context.Context //nolint:containedctx // the agent's own: it ends what has no connection
	end  context.CancelCauseFunc

	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	last   int64 // number of the newest
	list   []*job
}

func newJobs() *jobs {
	life, end := context.WithCancelCause(context.Background())
	return &jobs{life: life, end: end}
}

// A job is a command from its request to its end, and beyond it where it is remembered.
type job struct {
	a       *Agent
	info    agent.ProcessInfo // what does not change
	keeps   int64             // bytes of output
	begun   chan struct{}     // closed when its program runs
	over    chan struct{}     // closed when all of it has ended; res is set then
	stop    context.CancelCauseFunc
	endRest bool // what it left running ends with it

	mu       sync.Mutex
	proc     *process
	detached bool
	outlets  []*outlet
	output   *keep // of a detached one
	res      *agent.ExecResult
	ended    time.Time
	grace    time.Duration // of the end that it was asked for
}

// errAgentClosed is a command for an agent that is closing.
var errAgentClosed = rpc.Errorf(rpc.CodeInternal, "the agent is closing")

// add makes a job. ctx, which the job's own is, ends when the agent or the job is told to, and
// when the time is over.
func (a *Agent) newJob(opts *agent.ExecOptions, what told) (context.Context, *job, error) {
	ctx, stop := context.WithCancelCause(a.jobs.life)
	j := &job{
		a: a, stop: stop, begun: make(chan struct{}), over: make(chan struct{}),
		keeps: opts.KeepOutput, endRest: opts.EndRest, grace: killGrace,
		info: agent.ProcessInfo{
			Label: opts.Label, Argv: what.argv, Cmd: what.cmd, Lang: what.lang,
			TTY: opts.TTY != nil, Started: time.Now(),
		},
	}
	if j.keeps == 0 {
		j.keeps = agent.DefaultKeepOutput
	}
	j.keeps = min(j.keeps, agent.MaxKeepOutput)
	if opts.Detach {
		j.detached, j.output = true, newKeep(j.keeps)
	}
	js := a.jobs
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closed {
		stop(nil)
		return nil, nil, errAgentClosed
	}
	if opts.Detach && js.backgroundLocked() >= agent.MaxProcesses {
		stop(nil)
		return nil, nil, rpc.Errorf(rpc.CodeBusy, "%d commands run in the background already, and that is the limit", agent.MaxProcesses)
	}
	js.last++
	j.info.Process = fmt.Sprintf("p%d", js.last)
	js.list = append(js.list, j)
	return ctx, j, nil
}

// backgroundLocked counts those that run without a connection.
func (js *jobs) backgroundLocked() int {
	n := 0
	for _, j := range js.list {
		if detached, running := j.state(); detached && running {
			n++
		}
	}
	return n
}

func (j *job) state() (detached, running bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.detached, j.res == nil
}

// find returns the job of this name.
func (js *jobs) find(name string) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.list {
		if j.info.Process == name {
			return j, nil
		}
	}
	return nil, invalid("process: there is no %q, or it is forgotten; processes lists those that are known", clip(name))
}

// forget takes a job off the list.
func (js *jobs) forget(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if i := slices.Index(js.list, j); i >= 0 {
		js.list = slices.Delete(js.list, i, i+1)
	}
}

// trim forgets those that have ended, the oldest first, where there are too many.
func (js *jobs) trim() {
	js.mu.Lock()
	defer js.mu.Unlock()
	ended := 0
	for _, j := range js.list {
		if _, running := j.state(); !running {
			ended++
		}
	}
	js.list = slices.DeleteFunc(js.list, func(j *job) bool {
		if _, running := j.state(); running || ended <= agent.MaxEnded {
			return false
		}
		ended--
		return true
	})
}

// close ends all jobs and waits for them.
func (js *jobs) close() {
	js.mu.Lock()
	js.closed = true
	js.mu.Unlock()
	js.end(errClosing)
	js.running.Wait()
}

// run does the job's work in a goroutine of its own.
func (j *job) run(work func() *agent.ExecResult) {
	j.a.reaper.acquire()
	j.a.jobs.running.Go(func() {
		defer j.a.reaper.release()
		res := work()
		res.DurationMS = time.Since(j.info.Started).Milliseconds()
		j.stop(nil)
		j.mu.Lock()
		j.res, j.ended = res, time.Now()
		detached := j.detached
		j.mu.Unlock()
		close(j.over)
		if detached {
			j.a.jobs.trim()
			j.a.rest.later()
		}
	})
}

// started says that the job's program runs.
func (j *job) started(p *process) {
	j.mu.Lock()
	j.proc = p
	p.grace.Store(int64(j.grace))
	j.mu.Unlock()
	close(j.begun)
}

// terminate asks the job to end. Of two graces the shorter counts.
func (j *job) terminate(grace time.Duration) {
	j.mu.Lock()
	j.grace = grace
	if j.proc != nil {
		j.proc.grace.Store(int64(grace))
	}
	j.mu.Unlock()
	j.stop(errAsked)
}

// detach lets the job go on without its connection, and reports whether it does: it may be over.
// Its output is kept from now on, with what was held for its answer.
func (j *job) detach() bool {
	j.mu.Lock()
	if j.res != nil {
		j.mu.Unlock()
		return false
	}
	if j.output == nil {
		j.output = newKeep(j.keeps)
	}
	j.detached = true
	outlets := j.outlets
	j.mu.Unlock()
	for _, o := range outlets {
		o.keep(j.output)
	}
	return true
}

// outputOnCut is where output goes that no client takes any more, because it was cut off.
func (j *job) outputOnCut() *keep {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.output == nil {
		j.output = newKeep(j.keeps)
	}
	return j.output
}

// tell is what the list says of the job.
func (j *job) tell() agent.ProcessInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	info := j.info
	info.Detached, info.Running = j.detached, j.res == nil
	if j.proc != nil {
		info.PID = j.proc.pid
		info.Input = info.Running && j.proc.stdin.takes()
	}
	if j.output != nil {
		info.First, info.Output = j.output.span()
	}
	if j.res != nil {
		ended, res := j.ended, *j.res
		info.Ended, info.Result = &ended, &res
	}
	return info
}

// A told is what the list of processes says that a command is.
type told struct {
	argv      []string
	cmd, lang string
}

func toldArgv(argv []string) told {
	left := maxTold
	var t told
	for _, arg := range argv {
		if left <= 0 {
			break
		}
		t.argv = append(t.argv, cut(arg, left))
		left -= len(arg) + 1
	}
	return t
}

// cut shortens s to n bytes, at the end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return string([]byte(s[:n])) // so that the whole is not kept for it
}

// checkBackground validates the options of commands in the background.
func checkBackground(o *agent.ExecOptions) error {
	switch {
	case len(o.Label) > maxLabel:
		return invalid("label: %d bytes, and it may have %d", len(o.Label), maxLabel)
	case o.KeepOutput < 0:
		return invalid("keep_output is negative")
	}
	return nil
}
