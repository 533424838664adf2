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
	return s.call(ctx, peer, req, &p.ExecOptions, func(c *call) *agent.ExecResult {
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
	ctx     context.Context //nolint:containedctx // a call is the request, and ends with it
	s       *session
	peer    rpc.Peer
	id      uint64
	opts    *agent.ExecOptions
	started time.Time
}

// call performs work within the limits that all calls share. A command counts until its
// answer has left, because its output is held for that long.
func (s *session) call(ctx context.Context, peer rpc.Peer, req *rpc.Request, opts *agent.ExecOptions, work func(*call) *agent.ExecResult) (any, error) {
	s.begin(req.ID)
	defer s.end(req.ID)
	if err := s.a.slot(ctx); err != nil {
		return nil, err
	}
	sent(req, func() {
		<-s.a.slots
		s.a.rest.later()
	})
	if opts.TimeoutMS > 0 && opts.TimeoutMS < math.MaxInt64/int64(time.Millisecond) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(opts.TimeoutMS)*time.Millisecond, errTimedOut)
		defer cancel()
	}
	c := &call{ctx: ctx, s: s, peer: peer, id: req.ID, opts: opts, started: time.Now()}
	res := work(c)
	res.DurationMS = time.Since(c.started).Milliseconds()
	return res, nil
}

// program is a program with everything but its argv.
func (c *call) program() (*program, error) {
	user := c.opts.User
	if user == "" {
		user = c.s.a.user
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
	if c.opts.EndRest {
		mark = newMark()
		env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, agent.EnvExec+"=") }), mark)
	}
	return &program{
		env: env, path: path, dir: c.opts.Cwd, cred: cred, uid: int(who.uid),
		stdin: c.opts.Stdin, input: c.opts.Input, tty: c.opts.TTY, maxProcs: c.opts.MaxProcs, mark: mark,
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

// outputs are the sinks of a call's stdout and stderr.
func (c *call) outputs() [2]sink {
	if !c.opts.Stream && c.opts.TTY == nil {
		return [2]sink{&capture{}, &capture{}}
	}
	stream := func(name string) sink { return &stream{peer: c.peer, id: c.id, name: name} }
	return [2]sink{stream("stdout"), stream("stderr")}
}

// run runs p to its end and says how it went. What the sinks captured is in the result.
func (c *call) run(p *program, to [2]sink) *agent.ExecResult {
	if c.ctx.Err() != nil {
		return c.ended(&agent.ExecResult{ExitCode: -1})
	}
	// Output that was printed before the end is sent after it, while the client takes it.
	sending, stop := context.WithCancel(context.WithoutCancel(c.ctx))
	defer stop()
	unhook := context.AfterFunc(c.ctx, func() { time.AfterFunc(cutOff, stop) })
	defer unhook()
	for _, s := range to {
		if s, ok := s.(*stream); ok {
			s.ctx = sending
		}
	}
	proc, err := c.s.a.start(p, to[0], to[1])
	if err != nil {
		return c.refused(err)
	}
	if !p.helper {
		c.s.add(c.id, proc)
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
		}
	}
	proc.endRest()
	proc.release()
	proc.outcome(res)
	for i, text := range []*string{&res.Stdout, &res.Stderr} {
		if captured, ok := to[i].(*capture); ok {
			*text = captured.text()
		}
	}
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
