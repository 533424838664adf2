package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"airlock/agent"
	"airlock/internal/audit"
	"airlock/internal/sandbox/manager"
	"airlock/internal/tool"
)

// rowExec is a command that was started in a sandbox that lasts.
const rowExec = "exec"

// maxRecordedCode bounds what of a piece of code is recorded.
const maxRecordedCode = 64 << 10

// execRow says what is about to be run in a sandbox. Of the environment only names are recorded.
type execRow struct {
	Argv      []string `json:"argv,omitempty"`
	Lang      string   `json:"lang,omitempty"`
	Code      string   `json:"code,omitempty"`
	WorkDir   string   `json:"workdir"`
	User      string   `json:"user,omitempty"`
	Env       []string `json:"env,omitempty"`
	TimeoutMS int64    `json:"timeout_ms,omitempty"`
	Detached  bool     `json:"detached,omitempty"`
}

// execResult says what came of it.
type execResult struct {
	Of         string `json:"of"`
	ExitCode   int    `json:"exit_code"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Error      string `json:"error,omitempty"`
}

// admitInside asks the gate about what somebody has run in a sandbox, as admitRun does: only a policy's rule speaks
// against it. A sandbox with an image's files has no project; the user's and the system's policies hold.
func (p *Program) admitInside(ctx context.Context, info *manager.Info, o *agent.ExecOptions, work *insideWork) error {
	dir := "/"
	if info.OverHost() {
		dir = info.WorkDir
	}
	if p.Gate.OnlyBuiltin(dir) {
		return nil
	}
	argv := work.argv
	if work.lang != "" {
		argv = []string{work.lang, "-c", work.code}
	}
	cwd := dir
	if info.OverHost() {
		cwd = o.Cwd
	}
	j, err := p.Gate.Admit(ctx, lineQuestion(tool.InSandbox, cwd, shellLine(argv), o.Env))
	refused, ok := errors.AsType[*tool.RefusedError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return err
	}
	log, err := p.Record()
	if err == nil {
		err = log.Record(ctx, rowRefused, info.ID, &refusedRow{argv, cwd, j.Verdict, j.Risk, j.Rule, j.Why})
	}
	return errors.Join(refused, err)
}

// recordInside writes down what is about to be run. Nothing is run that cannot be recorded.
func (p *Program) recordInside(ctx context.Context, info *manager.Info, o *agent.ExecOptions, work *insideWork, detached bool) (*audit.Log, error) {
	log, err := p.Record()
	if err == nil {
		code := cutText(work.code, maxRecordedCode)
		err = log.Record(ctx, rowExec, info.ID, &execRow{
			Argv: work.argv, Lang: work.lang, Code: code, WorkDir: o.Cwd, User: o.User, Env: slices.Sorted(maps.Keys(o.Env)),
			TimeoutMS: o.TimeoutMS, Detached: detached,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("nothing was run, because it cannot be recorded: %w", err)
	}
	return log, nil
}

// cutText gives at most so many bytes of a text.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// recordEnd writes down what came of it. That it was not written is told: the command has run.
func (p *Program) recordEnd(ctx context.Context, log *audit.Log, rep *insideReport) {
	row := &execResult{Of: rowExec, ExitCode: rep.code, TimedOut: rep.res.TimedOut, DurationMS: rep.took.Milliseconds()}
	if rep.failure != nil {
		row.Error = rep.failure.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTime)
	defer cancel()
	if err := log.Record(ctx, rowResult, rep.id, row); err != nil {
		p.complain(fmt.Errorf("how it ended is not recorded: %w", err))
	}
}
