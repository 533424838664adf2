package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/lines"
	"airlock/internal/tool/bridge/proc"
	"airlock/internal/tool/bridge/setup"
)

const (
	firstWait = 500 * time.Millisecond // before the second attempt; each further is twice as long
	longWait  = 8 * time.Second        // and none is longer
)

// safeEnv are the variables that each agent sees; LC_* are, too.
var safeEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR",
}

// A job is a call that is made.
type job struct {
	t    *agentTool
	m    *tool.Machine
	id   string
	args json.RawMessage
	argv []string // options included
	pass []string // variables that are handed on
}

// Invoke implements tool.Tool: it runs the agent, more than once where its entry says so,
// and takes its answer.
func (t *agentTool) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	begun := time.Now()
	t.log.dispatching(t.agent.Name, call.Args)
	j := &job{t: t, m: m, id: newID(), args: call.Args, pass: t.agent.Pass}
	if m != nil && m.Where == tool.InSandbox {
		var kept []string
		if j.pass, kept = lent(ctx, t.agent.Pass); len(kept) > 0 {
			t.log.kept(t.agent.Name, kept)
		}
		ctx = lend(ctx, j.pass)
	}
	a, attempts := j.run(ctx)
	took := time.Since(begun)
	if a.ok {
		t.log.succeeded(t.agent.Name, took)
	} else {
		t.log.failed(t.agent.Name, took, a)
	}
	t.count(a, took)
	res := a.result()
	res.Meta[MetaCall] = j.id
	if attempts > 1 {
		res.Meta[MetaAttempts] = attempts
	}
	return res
}

// count tells the metrics of a call.
func (t *agentTool) count(a answer, took time.Duration) {
	if t.metrics != nil {
		t.metrics.Add(Sample{At: time.Now().Add(-took), Agent: t.agent.Name, Outcome: a.outcome, OK: a.ok, Took: took})
	}
}

// newID is a call's ID.
func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it does not fail
	return hex.EncodeToString(id[:])
}

// run makes attempts until one of them will do.
func (j *job) run(ctx context.Context) (a answer, attempts int) {
	if a, ok := j.ready(); !ok {
		return a, 0
	}
	most := j.t.agent.Retries + 1
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		attempts++
		a = j.attempt(ctx, attempts)
		if a.ok || !a.retry || attempts == most || ctx.Err() != nil {
			return a, attempts
		}
		j.t.log.again(j.t.agent.Name, attempts, most, a, wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return a, attempts // the time is over: what went wrong before is more to the point
			}
			return problem(OutcomeCanceled, tool.IOError, "Agent execution was canceled"), attempts
		}
	}
}

// ready says whether the agent can be run here with these parameters.
func (j *job) ready() (answer, bool) {
	a := j.t.agent
	switch {
	case j.m == nil || j.m.Client == nil:
		return problem(OutcomeNotStarted, tool.IOError, "Agent could not be started: there is no machine to run it on"), false
	case j.m.Where == tool.OnHost && a.Sandbox:
		return problem(OutcomeRefused, tool.PermissionDenied, "Refused: "+a.Name+" runs in a sandbox only; to run it on this machine, write sandbox: none in its entry"), false
	case j.m.Where == tool.InSandbox && !a.Sandbox:
		return problem(OutcomeRefused, tool.PermissionDenied, "Refused: "+a.Name+" runs on this machine only, and was called in a sandbox; to run it there, write sandbox: airlock in its entry"), false
	}
	if err := a.Look(j.t.workspace); err != nil {
		return looked(err), false
	}
	j.argv = slices.Clone(a.Argv)
	if a.Kind == setup.ACP {
		return answer{}, true
	}
	options, err := j.t.rules.Options(j.args)
	if err != nil {
		return j.t.invalid(err), false
	}
	j.argv = append(j.argv, options...)
	return answer{}, true
}

// attempt runs the agent once.
func (j *job) attempt(ctx context.Context, number int) answer {
	t, a := j.t, j.t.agent
	stderr := t.log.stderr(a.Name, j.m.Stderr)
	defer stderr.flush()
	r := &proc.Run{
		Client: j.m.Client, Limit: j.limit(ctx), MaxOutput: a.MaxOutput, Stderr: stderr, Signals: j.m.Signals,
		Params: agent.ExecParams{Argv: j.argv, ExecOptions: agent.ExecOptions{
			Cwd: t.workspace, Env: j.environ(number), ClearEnv: true, User: j.m.User, MaxProcs: j.m.MaxProcs,
		}},
	}
	made := &attempt{limit: r.Limit}
	switch {
	case a.Kind == setup.ACP:
		out, document := j.acp(ctx, r)
		if document != nil {
			return told(trimmed(document))
		}
		made.out = out
	case a.Protocol == lines.Protocol:
		made.out, made.final, made.fault = lines.Do(ctx, r, &lines.Session{
			Tool: a.Name, Call: j.id, Attempt: number, Args: j.args, Back: j.m.Back, Document: own, Log: t.log.log,
		})
	default:
		r.Params.Stdin = string(j.args) + "\n"
		made.out = r.Do(ctx)
	}
	return t.answer(made)
}

// limit is how long an attempt may take: as long as the entry says, where the call has so
// much time left.
func (j *job) limit(ctx context.Context) time.Duration {
	limit := j.t.agent.Timeout
	if j.m.MaxTime > 0 {
		limit = min(limit, j.m.MaxTime)
	}
	if deadline, ok := ctx.Deadline(); ok {
		// Rounded, it is what a person set for the first attempt.
		limit = min(limit, time.Until(deadline).Round(100*time.Millisecond))
	}
	return max(limit, time.Millisecond)
}

// environ is what an attempt sees of the environment.
func (j *job) environ(number int) map[string]string {
	a := j.t.agent
	from := j.t.environ
	if j.m.Where == tool.InSandbox {
		from = j.m.Env
	}
	env := map[string]string{}
	for name, value := range from {
		if slices.Contains(safeEnv, name) || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	env["PYTHONPATH"] = j.t.workspace
	for _, name := range j.pass {
		if value, ok := j.t.environ[name]; ok {
			env[name] = value
		}
	}
	maps.Copy(env, a.Set)
	env["AIRLOCK_TOOL"], env["AIRLOCK_CALL"], env["AIRLOCK_ATTEMPT"] = a.Name, j.id, strconv.Itoa(number)
	return env
}
