package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
)

// Exit codes of a command that did not exit by itself, as people know them from shells,
// timeout and docker.
const (
	exitTimeout       = 124
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the signal's number
)

const (
	maxCommand = 131071          // bytes: the kernel takes no longer argument
	endTime    = 7 * time.Second // that the guest may take to end what it runs
	endPoll    = 10 * time.Millisecond

	// endGrace is what the guest gives the others of a process group whose first is gone,
	// before it kills them, and some more.
	endGrace = 700 * time.Millisecond
)

// defaults are for commands without a terminal: they keep the usual programs from
// waiting for somebody.
var defaults = map[string]string{
	"GIT_TERMINAL_PROMPT": "0",
	"DEBIAN_FRONTEND":     "noninteractive",
	"PAGER":               "cat",
	"GIT_PAGER":           "cat",
}

// Run makes cmd.run, which runs a shell line.
//
// A command that ran to its end is a Result that is OK, whatever its exit code: the
// error codes are for the tool's own failures, and meta's exit_code and signal say what
// became of the command. One that was ended at its time limit is TIMEOUT with exit code 124 and
// what it wrote until then; a shell that is not there is NOT_FOUND with 127.
func Run() tool.Tool {
	return &run{tool.Info{
		Name:        "cmd.run",
		Description: "Runs a shell command and returns its output and exit code.",
		Kind:        tool.Builtin,
		Actions: []tool.Action{{
			Name:        "execute",
			Description: "Runs a shell line to its end.",
			Schema:      schemaOf("cmd.run", "execute"),
			Risk:        tool.RiskUnknown,
			Command:     "command",
			Paths:       []string{"working_directory"},
		}},
	}}
}

type run struct{ info tool.Info }

func (r *run) Info() *tool.Info { return &r.info }

type runArgs struct {
	Command   string `json:"command"`
	WorkDir   string `json:"working_directory"`
	TimeoutMS int64  `json:"timeout_ms"`
}

func (r *run) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	var args runArgs
	if failure := decode(call, &args); failure != nil {
		return *failure
	}
	if len(args.Command) > maxCommand {
		return tool.Fail(tool.InvalidArgs, fmt.Sprintf("args.command: want at most %d bytes, got %d: write the script to a file and run that", maxCommand, len(args.Command)))
	}
	c := &command{m: m, args: &args, dir: m.WorkDir, started: time.Now()}
	if args.WorkDir != "" {
		c.dir = absolute(m, args.WorkDir)
	}
	return c.run(ctx)
}

// A command is one call of cmd.run.
type command struct {
	m        *tool.Machine
	args     *runArgs
	dir      string
	started  time.Time
	out, err capture
}

// shells are tried in order. The line stands behind --, so that one that begins with a
// dash is no option.
var shells = []string{"bash", "sh"}

func (c *command) run(ctx context.Context) tool.Result {
	if ctx.Err() != nil {
		return c.broken(ctx, ctx.Err())
	}
	choice := shells
	if c.m.Stdin != nil {
		// A shell that turns out to be missing would have taken some of the input with it.
		choice = c.present(ctx)
	}
	var res agent.ExecResult
	for _, shell := range choice {
		var err error
		if res, err = c.try(ctx, shell); err != nil {
			return c.broken(ctx, err)
		}
		if res.NotStarted != "not_found" {
			break
		}
	}
	return c.result(ctx, &res)
}

// present is the shell that is there; all where that cannot be told.
func (c *command) present(ctx context.Context) []string {
	probe := agent.ExecParams{Argv: []string{shells[0], "-c", ":"}, ExecOptions: c.options()}
	probe.Cwd, probe.TTY = "", nil
	res, err := c.m.Client.Run(ctx, probe, nil)
	if err == nil && res.NotStarted == "not_found" {
		return shells[1:]
	}
	return shells[:1]
}

// options are the command's, without its time limit.
func (c *command) options() agent.ExecOptions {
	return agent.ExecOptions{Cwd: c.dir, Env: environ(c.m), ClearEnv: true, User: c.m.User, TTY: c.m.TTY}
}

// environ is the Machine's environment with what keeps programs from waiting, and
// without what would make a shell do more than its line says: a file to read first,
// functions in place of programs, options.
func environ(m *tool.Machine) map[string]string {
	env := make(map[string]string, len(m.Env)+len(defaults))
	if m.TTY == nil {
		maps.Copy(env, defaults)
	}
	maps.Copy(env, m.Env)
	maps.DeleteFunc(env, func(name, _ string) bool {
		switch name {
		case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS":
			return true
		}
		return strings.HasPrefix(name, "BASH_FUNC_")
	})
	return env
}

// limit is after how many milliseconds the guest ends the command; 0: never.
func (c *command) limit(ctx context.Context) int64 {
	limit := c.args.TimeoutMS
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(time.Until(deadline).Milliseconds(), 1); limit == 0 || left < limit {
			limit = left
		}
	}
	return limit
}

// try runs the line with one shell.
func (c *command) try(ctx context.Context, shell string) (agent.ExecResult, error) {
	params := agent.ExecParams{Argv: []string{shell, "-c", "--", c.args.Command}, ExecOptions: c.options()}
	params.TimeoutMS, params.MaxProcs = c.limit(ctx), c.m.MaxProcs
	streams := &agent.Streams{Stdin: c.m.Stdin, Stdout: tee(&c.out, c.m.Stdout), Stderr: tee(&c.err, c.m.Stderr)}
	// The guest is told of the end of ctx here, so that what it ends is gone on return.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p, err := c.m.Client.Start(running, params, streams)
	if err != nil {
		return agent.ExecResult{}, err
	}
	signals := c.m.Signals
	for {
		select {
		case <-p.Done():
			return p.Wait()
		case <-ctx.Done():
			return c.end(ctx, p, cancel)
		case sig, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			// One that comes when the command has just ended has nobody to reach.
			_ = p.Signal(ctx, sig)
		case size := <-c.m.Resizes:
			_ = p.Resize(ctx, size)
		}
	}
}

// end ends a command whose context is over, and waits until it is gone. One that ran
// into the deadline is being ended by the guest already.
func (c *command) end(ctx context.Context, p *agent.Process, cancel context.CancelFunc) (agent.ExecResult, error) {
	late := time.NewTimer(endTime)
	defer late.Stop()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case <-p.Done():
			return p.Wait()
		case <-late.C:
		}
	}
	cancel()
	_, err := p.Wait()
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	for asking.Err() == nil && p.Signal(asking, "SIGCONT") == nil {
		wait(asking, endPoll)
	}
	wait(asking, endGrace)
	return agent.ExecResult{}, err
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// result says how the command went.
func (c *command) result(ctx context.Context, res *agent.ExecResult) tool.Result {
	out := tool.Result{Stdout: c.out.text(), Stderr: c.err.text(), Meta: tool.Meta{}}
	switch {
	case res.NotStarted != "":
		return c.notStarted(ctx, res)
	case res.TimedOut:
		out.Meta[tool.MetaExitCode] = exitTimeout
		return c.failed(out, tool.Timeout, fmt.Sprintf("cmd.run: the command did not end within %s and was ended", c.within(ctx)))
	case res.Signal != "":
		out.Meta["signal"] = res.Signal
		out.Meta[tool.MetaExitCode] = exitSignal + signalNumber(res.Signal)
	case res.Canceled || res.ExitCode < 0:
		return c.failed(out, tool.IOError, "cmd.run: what became of the command is not known")
	default:
		out.Meta[tool.MetaExitCode] = res.ExitCode
	}
	out.OK = true
	return out
}

// within is the time limit that a command ran into.
func (c *command) within(ctx context.Context) time.Duration {
	limit := time.Duration(c.args.TimeoutMS) * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok {
		if all := deadline.Sub(c.started).Round(time.Millisecond); limit == 0 || all < limit {
			return all
		}
	}
	return limit
}

// failed is out as a failure: what the command wrote stays, and why comes behind it.
func (c *command) failed(out tool.Result, code tool.ErrorCode, why string) tool.Result {
	out.OK = false
	if len(out.Stderr) > agent.MaxOutput-len(why) {
		out.Stderr = clip(out.Stderr, agent.MaxOutput-len(why)-1)
	}
	if out.Stderr != "" && !strings.HasSuffix(out.Stderr, "\n") {
		out.Stderr += "\n"
	}
	out.Stderr += why
	out.Meta[tool.MetaErrorCode] = code
	return out
}

// notStarted says why there was no command.
func (c *command) notStarted(ctx context.Context, res *agent.ExecResult) tool.Result {
	code, exit := tool.IOError, exitNotExecutable
	switch res.NotStarted {
	case "not_found":
		code, exit = tool.NotFound, exitNotFound
	case "not_executable":
		code = tool.PermissionDenied
	}
	why := "cmd.run: " + res.Stderr
	if strings.HasPrefix(res.Stderr, "cwd ") {
		code, why = c.folder(ctx, res.Stderr)
	}
	out := tool.Fail(code, why)
	out.Meta[tool.MetaExitCode] = exit
	return out
}

// folder says what is wrong with the working folder.
func (c *command) folder(ctx context.Context, said string) (tool.ErrorCode, string) {
	const what = "cmd.run: working_directory "
	mend := ""
	if strings.HasPrefix(c.args.WorkDir, "~") {
		mend = ": no shell expands ~ here, write the whole path"
	}
	info, err := c.m.Client.Stat(ctx, c.dir, true)
	switch {
	case err != nil && codeOf(err) == tool.NotFound:
		return tool.NotFound, what + c.dir + " does not exist" + mend
	case err != nil:
		return codeOf(err), what + c.dir + ": " + reason(err)
	case info.Type != "dir":
		return tool.InvalidArgs, what + c.dir + " is no folder"
	case strings.Contains(said, ": permission denied"):
		return tool.PermissionDenied, what + c.dir + ": permission denied"
	}
	return tool.IOError, "cmd.run: " + said
}

// broken is the result where what became of the command is not known, or somebody
// else's end was its end.
func (c *command) broken(ctx context.Context, err error) tool.Result {
	out := tool.Result{Stdout: c.out.text(), Stderr: c.err.text(), Meta: tool.Meta{}}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Meta[tool.MetaExitCode] = exitTimeout
		return c.failed(out, tool.Timeout, fmt.Sprintf("cmd.run: the command did not end within %s and was ended", c.within(ctx)))
	case ctx.Err() != nil:
		return c.failed(out, tool.IOError, "cmd.run: canceled, and the command was ended")
	}
	return c.failed(out, tool.IOError, "cmd.run: "+reason(err))
}

// A capture keeps the beginning of a stream, enough for a Result, and takes the rest.
type capture struct{ buf []byte }

func (c *capture) Write(p []byte) (int, error) {
	const most = agent.MaxOutput + 8 // more than a Result holds, so that it knows of the cut
	if room := most - len(c.buf); room > 0 {
		c.buf = append(c.buf, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (c *capture) text() string { return tool.Bounded(string(c.buf)) }

// tee writes to a capture and to w, if there is one.
func tee(c *capture, w io.Writer) io.Writer {
	if w == nil {
		return c
	}
	return io.MultiWriter(c, w)
}
