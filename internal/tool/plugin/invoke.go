package plugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/tool"
)

const (
	// overtime is how much longer than its limit a call is waited for: for the guest to end
	// the executable.
	overtime = 10 * time.Second

	// maxProcs bounds a fork bomb, where the machine has control groups to do it with.
	maxProcs = 512

	refusedProcs = "max_procs " // begins the guest's word that it has none
)

// safeEnv are the variables that every plugin sees; LC_* are, too.
var safeEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR",
	"NO_COLOR", "PAGER", "GIT_TERMINAL_PROMPT", "DEBIAN_FRONTEND",
}

// errTooMuch ends an executable that prints too much.
var errTooMuch = errors.New("more than max_output")

// Invoke runs the executable and takes its answer. A plugin whose manifest does not ask
// for the host is not run there, whoever says so.
func (p *plugin) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	if m.Where == tool.OnHost && !p.host {
		return p.fail(tool.PermissionDenied, "it runs in a sandbox only; call it there, or, if you trust it with this machine, write run: host in %s", p.manifest)
	}
	stdin, err := envelope(call)
	if err != nil {
		return p.fail(tool.InvalidArgs, "%v", err)
	}
	if failure := p.look(ctx, m); failure != nil {
		return *failure
	}
	limit := p.timeout
	if m.MaxTime > 0 {
		limit = min(limit, m.MaxTime)
	}
	procs := int64(maxProcs)
	if m.MaxProcs > 0 {
		procs = min(procs, m.MaxProcs)
	}
	waiting, cancel := context.WithTimeout(ctx, limit+overtime)
	defer cancel()
	params := agent.ExecParams{Argv: []string{p.executable}, ExecOptions: agent.ExecOptions{
		Cwd: m.WorkDir, Env: p.environ(m.Env), ClearEnv: true, Stdin: stdin, User: m.User,
		TimeoutMS: max(limit.Milliseconds(), 1), MaxProcs: procs,
	}}
	r := p.run(waiting, m, params)
	if r.err == nil && r.res.NotStarted != "" && strings.HasPrefix(r.res.Stderr, refusedProcs) && m.MaxProcs == 0 {
		params.MaxProcs = 0
		r = p.run(waiting, m, params)
	}
	return p.result(ctx, r, limit)
}

// envelope is a call as the executable reads it: one line without white space, the members
// in the order of tool.Call and within args by name, with no escape that JSON does not
// ask for. Whatever reads it sees what the gate saw.
func envelope(call tool.Call) (string, error) {
	if len(call.Args) > tool.MaxArgs {
		return "", fmt.Errorf("args have %d bytes, more than %d", len(call.Args), tool.MaxArgs)
	}
	args := map[string]any{}
	if len(call.Args) > 0 {
		dec := json.NewDecoder(bytes.NewReader(call.Args))
		dec.UseNumber()
		if err := dec.Decode(&args); err != nil {
			return "", fmt.Errorf("args are no JSON object: %w", err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) || args == nil {
			return "", errors.New("args are not one JSON object")
		}
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Tool   string         `json:"tool"`
		Action string         `json:"action"`
		Args   map[string]any `json:"args"`
	}{call.Tool, call.Action, args})
	return line.String(), err
}

// look makes sure that the executable is still a file: a link in its place could lead
// anywhere. On the host it must be the file that was loaded, which is what was asked
// about. What the guest cannot tell is left to the start.
func (p *plugin) look(ctx context.Context, m *tool.Machine) *tool.Result {
	st, err := m.Client.Stat(ctx, p.executable, false)
	switch {
	case err != nil:
		return nil
	case st.Type != "file":
		return new(p.fail(tool.PermissionDenied, "%s: it was a file when the plugin was loaded, and now it is a %s", p.executable, st.Type))
	case m.Where == tool.OnHost && (st.Size != p.size || !st.MTime.Equal(p.changed)):
		return new(p.fail(tool.PermissionDenied, "%s: it has changed since the plugin was loaded; start Airlock anew to take it as it is now", p.executable))
	}
	return nil
}

// environ is what the executable sees of the machine's environment.
func (p *plugin) environ(all map[string]string) map[string]string {
	env := map[string]string{}
	for name, value := range all {
		if slices.Contains(safeEnv, name) || strings.HasPrefix(name, "LC_") || slices.Contains(p.env, name) {
			env[name] = value
		}
	}
	env["AIRLOCK_TOOL"], env["AIRLOCK_PLUGIN_DIR"] = p.info.Name, p.dir
	return env
}

// A run is how an executable ran.
type run struct {
	res    agent.ExecResult
	err    error
	stdout []byte
	last   string // lines of stderr
}

func (p *plugin) run(ctx context.Context, m *tool.Machine, params agent.ExecParams) run {
	out := &answerBuffer{most: p.maxOutput}
	errs := &stderrLog{log: p.log, name: p.info.Name, live: m.Stderr, ctx: ctx}
	proc, err := m.Client.Start(ctx, params, &agent.Streams{Stdout: out, Stderr: errs})
	if err != nil {
		return run{err: err}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		hand(ctx, proc, m.Signals)
	}()
	res, err := proc.Wait()
	<-ended
	errs.flush()
	return run{res: res, err: err, stdout: out.data, last: errs.last()}
}

// hand hands signals on to the executable while it runs.
func hand(ctx context.Context, proc *agent.Process, signals <-chan string) {
	for {
		select {
		case <-proc.Done():
			return
		case signal, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			_ = proc.Signal(ctx, signal) // it may just have ended
		}
	}
}

// result is the envelope's answer to a run.
func (p *plugin) result(ctx context.Context, r run, limit time.Duration) tool.Result {
	switch {
	case errors.Is(r.err, errTooMuch):
		return p.fail(tool.IOError, "it printed more than %d bytes, and was ended; its manifest can raise max_output", p.maxOutput)
	case r.err == nil && r.res.TimedOut, r.err != nil && errors.Is(r.err, context.DeadlineExceeded):
		within := limit.String()
		if ctx.Err() != nil {
			within = "the time that its caller gives it"
		}
		return p.fail(tool.Timeout, "it did not answer within %s, and was ended%s%s", within, began(r.stdout), tail(r.last))
	case r.err != nil && ctx.Err() != nil, r.err == nil && r.res.Canceled:
		return p.fail(tool.IOError, "the call was canceled")
	case r.err != nil:
		return p.fail(tool.IOError, "%v", r.err)
	case r.res.NotStarted == "not_found":
		return p.fail(tool.NotFound, "%s; a sandbox with an image of its own does not have the host's files", r.res.Stderr)
	case r.res.NotStarted == "not_executable":
		return p.fail(tool.PermissionDenied, "%s", r.res.Stderr)
	case r.res.NotStarted != "":
		return p.fail(tool.IOError, "it was not started: %s", r.res.Stderr)
	}
	answer, err := parseAnswer(r.stdout)
	switch crashed := r.res.ExitCode != 0; {
	case err == nil && crashed && answer.OK:
		return p.crash(r, "it says that all is well (ok is true), but %s", how(&r.res))
	case err == nil:
		return answer
	case crashed:
		return p.crash(r, "%s without an answer%s", how(&r.res), began(r.stdout))
	}
	return p.fail(tool.ParseError, "%v%s%s", err, began(r.stdout), tail(r.last))
}

// how is how a process ended.
func how(res *agent.ExecResult) string {
	if res.Signal != "" {
		return "it was ended by " + res.Signal
	}
	return fmt.Sprintf("it ended with exit code %d", res.ExitCode)
}

// crash is the result of an executable that failed.
func (p *plugin) crash(r run, format string, args ...any) tool.Result {
	res := p.fail(tool.IOError, "%s%s", fmt.Sprintf(format, args...), tail(r.last))
	res.Meta[tool.MetaExitCode] = r.res.ExitCode
	if r.res.Signal != "" {
		res.Meta["signal"] = r.res.Signal
	}
	return res
}

// fail is a result of ours, of printable characters.
func (p *plugin) fail(code tool.ErrorCode, format string, args ...any) tool.Result {
	return tool.Fail(code, changes.Printable(p.info.Name+": "+fmt.Sprintf(format, args...)))
}

const maxShown = 200 // bytes of what an executable printed, in an error

// began shows how what was printed begins.
func began(stdout []byte) string {
	if len(bytes.TrimSpace(stdout)) == 0 {
		return "; it printed nothing"
	}
	shown, more := stdout, ""
	if len(shown) > maxShown {
		shown, more = shown[:maxShown], "…"
	}
	return "; what it printed begins " + cmp.Or(changes.Printable(string(shown)), `""`) + more
}

// tail shows the last lines of stderr.
func tail(last string) string {
	if last == "" {
		return ""
	}
	return "; the last of its stderr: " + changes.Printable(last)
}
