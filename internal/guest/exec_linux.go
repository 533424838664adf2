package guest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	maxGroups   = 1 << 16 // as the kernel's NGROUPS_MAX
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// cutOff is how long the last output of a command that was ended may take to be sent.
	cutOff = killGrace + settleLimit
)

// errTimedOut is the cause of a call's end when its own limit passed.
var errTimedOut = errors.New("timed out")

// execParams are agent.ExecParams with what is missing told from what is empty.
type execParams struct {
	agent.ExecParams
	Cmd  *string   `json:"cmd"`
	Argv *[]string `json:"argv"`
}

// check validates what can be told without looking at the machine.
func (p *execParams) check() error {
	switch {
	case p.Cmd == nil && p.Argv == nil:
		return missing("cmd")
	case p.Cmd != nil && p.Argv != nil:
		return invalid("cmd and argv exclude each other")
	case p.Cmd != nil && strings.IndexByte(*p.Cmd, 0) >= 0:
		return invalid("cmd has a NUL byte")
	case p.Argv != nil && (len(*p.Argv) == 0 || (*p.Argv)[0] == ""):
		return invalid("argv names no program")
	}
	if p.Argv != nil {
		for i, arg := range *p.Argv {
			if strings.IndexByte(arg, 0) >= 0 {
				return invalid("argv[%d] has a NUL byte", i)
			}
		}
	}
	return checkOptions(&p.ExecOptions)
}

func checkOptions(o *agent.ExecOptions) error {
	switch {
	case o.Cwd != "" && !filepath.IsAbs(o.Cwd):
		return invalid("cwd: %q is not absolute", clip(o.Cwd))
	case strings.IndexByte(o.Cwd, 0) >= 0:
		return invalid("cwd has a NUL byte")
	case strings.IndexByte(o.User, 0) >= 0:
		return invalid("user has a NUL byte")
	case o.TimeoutMS < 0:
		return invalid("timeout_ms is negative")
	case o.MaxProcs < 0:
		return invalid("max_procs is negative")
	case len(o.Groups) > maxGroups:
		return invalid("groups: more than %d", maxGroups)
	}
	if err := checkBackground(o); err != nil {
		return err
	}
	for _, gid := range o.Groups {
		if gid == math.MaxUint32 {
			return invalid("groups: %d is no group", gid)
		}
	}
	for name, value := range o.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return invalid("env: %q is no name of a variable", clip(name))
		}
		if strings.IndexByte(value, 0) >= 0 {
			return invalid("env: the value of %q has a NUL byte", clip(name))
		}
	}
	return nil
}

func (s *session) exec(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p execParams
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	var what told
	if p.Argv != nil {
		what = toldArgv(*p.Argv)
	} else {
		what = told{cmd: cut(*p.Cmd, maxTold)}
	}
	return s.call(ctx, peer, req, &p.ExecOptions, what, func(c *call) *agent.ExecResult {
		prog, err := c.program()
		if err != nil {
			return c.refused(err)
		}
		if p.Argv != nil {
			prog.argv = *p.Argv
		} else {
			prog.argv, prog.code = shell("sh", *p.Cmd)
		}
		return c.run(prog, c.outputs())
	})
}

// A call is an exec or exec_code while it is performed.
type call struct {
	ctx  context.Context //nolint:containedctx // the job's, and ends with it
	a    *Agent
	job  *job
	opts *agent.ExecOptions
	from *caller // nil: it was started in the background
}

// A caller is the request that a call answers, and its connection.
type caller struct {
	s    *session
	peer rpc.Peer
	id   uint64
}

// call performs work within the limits that all calls share. A command counts until its
// answer has left, because its output is held for that long. One that goes on without its
// connection counts no more: there is a limit for those.
func (s *session) call(ctx context.Context, peer rpc.Peer, req *rpc.Request, opts *agent.ExecOptions, what told, work func(*call) *agent.ExecResult) (any, error) {
	if opts.Detach {
		return s.spawn(ctx, opts, what, work)
	}
	s.begin(req.ID)
	defer s.end(req.ID)
	if err := s.a.slot(ctx); err != nil {
		return nil, err
	}
	sent(req, func() {
		<-s.a.slots
		s.a.rest.later()
	})
	j, err := s.a.begin(opts, what, &caller{s, peer, req.ID}, work)
	if err != nil {
		return nil, err
	}
	select {
	case <-j.over:
	case <-ctx.Done():
		if s.cut() && j.detach() {
			return nil, errStopped // there is nobody to tell
		}
		j.stop(errStopped)
		<-j.over
	}
	s.a.jobs.forget(j)
	return j.res, nil
}

// spawn starts a job that goes on without the connection, and answers when it runs.
func (s *session) spawn(ctx context.Context, opts *agent.ExecOptions, what told, work func(*call) *agent.ExecResult) (any, error) {
	j, err := s.a.begin(opts, what, nil, work)
	if err != nil {
		return nil, err
	}
	select {
	case <-j.begun:
	case <-j.over:
	case <-ctx.Done():
		if s.cut() {
			return nil, errStopped // there is nobody to tell
		}
	}
	select {
	case <-j.begun:
		return agent.ExecResult{Process: j.info.Process}, nil
	default:
	}
	j.stop(errStopped) // it is over, or nobody will know its name
	<-j.over
	s.a.jobs.forget(j)
	return j.res, nil
}

// begin begins a job.
func (a *Agent) begin(opts *agent.ExecOptions, what told, from *caller, work func(*call) *agent.ExecResult) (*job, error) {
	ctx, j, err := a.newJob(opts, what)
	if err != nil {
		return nil, err
	}
	release := func() {}
	if opts.TimeoutMS > 0 && opts.TimeoutMS < math.MaxInt64/int64(time.Millisecond) {
		ctx, release = context.WithTimeoutCause(ctx, time.Duration(opts.TimeoutMS)*time.Millisecond, errTimedOut)
	}
	j.run(func() *agent.ExecResult {
		defer release()
		return work(&call{ctx: ctx, a: a, job: j, opts: opts, from: from})
	})
	return j, nil
}

// program is a program with everything but its argv.
func (c *call) program() (*program, error) {
	user := c.opts.User
	if user == "" {
		user = c.a.user
	}
	cred, who, known, err := become(user, c.opts.Groups)
	if err != nil {
		return nil, &startError{kind: failed, err: err}
	}
	if !known {
		who.name, who.home = "", ""
	}
	env, path := environment(c.opts, who)
	mark := ""
	if c.opts.EndRest || c.opts.Detach { // end has to find what it left
		mark = newMark()
		env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, agent.EnvExec+"=") }), mark)
	}
	return &program{
		env: env, path: path, dir: c.opts.Cwd, cred: cred, uid: int(who.uid),
		stdin: c.opts.Stdin, input: c.opts.Input, tty: c.opts.TTY, maxProcs: c.opts.MaxProcs, mark: mark, endRest: c.opts.EndRest,
	}, nil
}

// environment is a command's environment, and the PATH in it or, failing that, the
// usual one.
//
// A command without a terminal has nobody to ask: three variables keep the usual
// programs from trying. They replace the agent's own values, and o.Env replaces them.
func environment(o *agent.ExecOptions, who account) (env []string, path string) {
	vars := map[string]string{}
	set := func(name, value string) {
		if _, ours := o.Env[name]; !ours {
			vars[name] = value
		}
	}
	if !o.ClearEnv {
		for _, line := range os.Environ() {
			if name, value, ok := strings.Cut(line, "="); ok && name != "" {
				set(name, value)
			}
		}
		if vars["PATH"] == "" {
			set("PATH", defaultPath)
		}
		if o.TTY == nil {
			set("GIT_TERMINAL_PROMPT", "0")
			set("DEBIAN_FRONTEND", "noninteractive")
			set("PAGER", "cat")
		} else if vars["TERM"] == "" {
			set("TERM", "xterm-256color")
		}
		if who.home != "" {
			set("HOME", who.home)
			set("USER", who.name)
			set("LOGNAME", who.name)
		}
	}
	env = make([]string, 0, len(vars)+len(o.Env))
	for _, from := range []map[string]string{vars, o.Env} {
		for name, value := range from {
			env = append(env, name+"="+value)
		}
	}
	path = vars["PATH"]
	if given, ok := o.Env["PATH"]; ok {
		path = given
	}
	if path == "" {
		path = defaultPath
	}
	return env, path
}

// outputs are where a call's stdout and stderr go.
func (c *call) outputs() [2]*outlet {
	var to [2]*outlet
	for i := range to {
		to[i] = &outlet{c: c, stream: i}
		if c.from != nil && (c.opts.Stream || c.opts.TTY != nil) {
			to[i].live = &stream{peer: c.from.peer, id: c.from.id, name: streamNames[i]}
		}
	}
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	c.job.outlets = to[:]
	for _, o := range to {
		o.kept = c.job.output
	}
	return to
}

// run runs p to its end and says how it went. What the outlets hold for the answer is in it.
func (c *call) run(p *program, to [2]*outlet) *agent.ExecResult {
	// Output that was printed before the end is sent after it, while the client takes it.
	sending, stop := context.WithCancel(context.WithoutCancel(c.ctx))
	defer stop()
	unhook := context.AfterFunc(c.ctx, func() { time.AfterFunc(cutOff, stop) })
	defer unhook()
	for _, o := range to {
		if o.live != nil {
			o.live.ctx = sending
		}
	}
	res := c.perform(p, [2]sink{to[0], to[1]})
	if res.NotStarted == "" {
		res.Stdout, res.Stderr = to[0].text(), to[1].text()
	}
	return res
}

// perform runs p to its end. What it prints goes to the sinks.
func (c *call) perform(p *program, to [2]sink) *agent.ExecResult {
	if c.ctx.Err() != nil {
		return c.ended(&agent.ExecResult{ExitCode: -1})
	}
	proc, err := c.a.start(p, to[0], to[1])
	if err != nil {
		return c.refused(err)
	}
	if !p.helper {
		c.job.started(proc)
		if c.from != nil {
			c.from.s.add(c.from.id, running{proc, true})
		}
	}
	res := &agent.ExecResult{}
	select {
	case <-proc.done:
	case <-c.ctx.Done():
		select {
		case <-proc.done:
		default:
			proc.end()
			c.ended(res)
			// An agent that closes ends the rest of all commands together, where it is alone.
			proc.endRest = proc.endRest || proc.mark != "" && !errors.Is(context.Cause(c.ctx), errClosing)
		}
	}
	proc.finishRest()
	proc.release()
	proc.outcome(res)
	return res
}

// ended marks a result whose call's context ended.
func (c *call) ended(res *agent.ExecResult) *agent.ExecResult {
	if errors.Is(context.Cause(c.ctx), errTimedOut) {
		res.TimedOut = true
	} else {
		res.Canceled = true
	}
	return res
}

// refused is the result of a program that did not start. Its stderr says why, also for
// a call that streams.
func (c *call) refused(err error) *agent.ExecResult {
	res := &agent.ExecResult{ExitCode: -1, Stderr: err.Error(), NotStarted: failed}
	if start, ok := errors.AsType[*startError](err); ok {
		res.NotStarted = start.kind
	}
	return res
}

// outcome is how the process ended, as far as that is known.
func (p *process) outcome(res *agent.ExecResult) {
	res.ExitCode = -1
	select {
	case <-p.done:
	default:
		return // it hangs in the kernel
	}
	switch {
	case p.status.Exited():
		res.ExitCode = p.status.ExitStatus()
	case p.status.Signaled():
		sig := p.status.Signal()
		if res.Signal = unix.SignalName(sig); res.Signal == "" {
			res.Signal = fmt.Sprintf("signal %d", int(sig))
		}
	}
}
