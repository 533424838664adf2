package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"airlock/internal/audit"
	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
	"airlock/internal/tool"
)

// Kinds of rows. A row of one of the others is written before that is done, so that
// nothing is done which is not recorded; what came of it is a row of the kind result.
const (
	rowRun     = "run"
	rowResult  = "result"
	rowCommit  = "commit"
	rowKeep    = "keep"
	rowDiscard = "discard"
	rowUndo    = "undo"
	rowRefused = "verdict" // of a run that the gate did not let begin
)

// refusedRow is a run that did not begin.
type refusedRow struct {
	Argv    []string     `json:"argv"`
	WorkDir string       `json:"workdir"`
	Verdict tool.Verdict `json:"verdict"`
	Risk    tool.Risk    `json:"risk"`
	Rule    string       `json:"rule"`
	Why     string       `json:"why"`
}

// runRow says what is about to be run. Of the environment only names are recorded.
type runRow struct {
	Argv      []string `json:"argv"`
	WorkDir   string   `json:"workdir"`
	Env       []string `json:"env,omitempty"`
	TimeoutMS int64    `json:"timeout_ms,omitempty"`
	Memory    int64    `json:"memory,omitempty"`
	CPUs      float64  `json:"cpus,omitempty"`
	Procs     int64    `json:"pids,omitempty"`
	Hide      []string `json:"hide,omitempty"`
	Show      []string `json:"show,omitempty"`
	ReadOnly  []string `json:"ro,omitempty"`
}

// runResult says what a run came to.
type runResult struct {
	Of         string        `json:"of"`
	ExitCode   int           `json:"exit_code"`
	TimedOut   bool          `json:"timed_out,omitempty"`
	DurationMS int64         `json:"duration_ms"`
	Changes    int           `json:"changes"`
	Outside    int           `json:"outside,omitempty"`
	Noise      int           `json:"noise,omitempty"`
	State      changes.State `json:"state"`
	Error      string        `json:"error,omitempty"`
}

// decisionRow says what shall become of a change set.
type decisionRow struct {
	Paths []changes.Path `json:"paths,omitempty"` // that were named
	Force bool           `json:"force,omitempty"`
	By    string         `json:"by,omitempty"` // who decided: an option, a person, or nobody
}

// decisionResult says what has become of it.
type decisionResult struct {
	Of        string        `json:"of"`
	Committed *int          `json:"committed,omitempty"` // paths
	Undone    *int          `json:"undone,omitempty"`
	Left      int           `json:"left,omitempty"`
	Remaining int           `json:"remaining,omitempty"`
	State     changes.State `json:"state,omitempty"`
	Error     string        `json:"error,omitempty"`
}

// A trail is what is recorded of one run.
type trail struct {
	id    string
	begun chan struct{} // closed when the run's beginning is recorded, or cannot be
	log   *audit.Log    // nil where it is not
	err   error         // why

	ended chan error // the end was recorded beside that of the sandbox; nil: it was not
}

// trail has a run recorded: its beginning while the sandbox starts, and before the command
// does, which is refused where it cannot be recorded; its end while the sandbox ends.
func (p *Program) trail(ctx context.Context, req *executor.Request) *trail {
	t := &trail{id: sandbox.NewID(), begun: make(chan struct{})}
	req.ID = t.id
	row := &runRow{
		Argv: req.Argv, WorkDir: req.WorkDir, Env: slices.Sorted(maps.Keys(req.Env)),
		TimeoutMS: req.Timeout.Milliseconds(),
		Memory:    req.Limits.Memory, CPUs: req.Limits.CPUs, Procs: req.Limits.Procs,
		Hide: req.Hide, Show: req.Show, ReadOnly: req.ReadOnly,
	}
	go func() {
		defer close(t.begun)
		log, err := p.Record()
		if err == nil {
			err = log.Record(ctx, rowRun, t.id, row)
		}
		if err != nil {
			t.err = fmt.Errorf("nothing was run, because it cannot be recorded: %w", err)
			return
		}
		t.log = log
	}()
	req.Before = func(context.Context) error {
		<-t.begun
		return t.err
	}
	req.Gathered = func(out *executor.Outcome) {
		t.ended = make(chan error, 1)
		row := resultRow(&runReport{out: out, code: exitOf(out)})
		go func() { t.ended <- t.write(ctx, row) }()
	}
	return t
}

// end records what a run came to, if it began and that is not recorded yet.
func (t *trail) end(ctx context.Context, rep *runReport, err error) error {
	<-t.begun
	switch {
	case t.log == nil:
		return nil
	case t.ended != nil && err == nil:
		return <-t.ended
	case t.ended != nil: // what went wrong with its end is recorded as well
		if err := <-t.ended; err != nil {
			return err
		}
	}
	return t.write(ctx, resultRow(rep))
}

// write records a run's result. What was begun is finished in the record as well, whatever
// ended it.
func (t *trail) write(ctx context.Context, row *runResult) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTime)
	defer cancel()
	return t.log.Record(ctx, rowResult, t.id, row)
}

func resultRow(rep *runReport) *runResult {
	row := &runResult{
		Of: rowRun, ExitCode: rep.code, TimedOut: rep.out.Result.TimedOut, DurationMS: rep.out.Duration.Milliseconds(),
		State: changes.None, Error: rep.trouble(),
	}
	if set := rep.out.Set; set != nil {
		row.Changes, row.Outside, row.Noise, row.State = set.Work, set.Outside, set.NoiseCount, set.State
	}
	return row
}

// resultTime bounds how long the end of something is waited for to be recorded.
const resultTime = 15 * time.Second

// recorded does something about a change set between two rows: that it shall be done, and
// what came of it. It is not done where the first cannot be written. dry runs are none of
// the record's business.
func (p *Program) recorded(ctx context.Context, kind, id string, row *decisionRow, do func() (*decisionResult, error)) error {
	log, err := p.record()
	if err != nil {
		return err
	}
	if err := log.Record(ctx, kind, id, row); err != nil {
		return fail(exitFailed, fmt.Errorf("%s of %s was not done, because it cannot be recorded: %w", kind, id, err))
	}
	result, err := do()
	if result == nil {
		result = &decisionResult{}
	}
	result.Of = kind
	if err != nil {
		result.Error = err.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTime)
	defer cancel()
	if failed := log.Record(ctx, rowResult, id, result); failed != nil && err == nil {
		err = fail(exitFailed, fmt.Errorf("%s of %s was done, but that is not recorded: %w", kind, id, failed))
	}
	return err
}

// commitResult is a commit's report as it is recorded.
func commitResult(rep *changes.CommitReport) *decisionResult {
	if rep == nil {
		return nil
	}
	n := len(rep.Committed)
	return &decisionResult{Committed: &n, Left: len(rep.Left), Remaining: rep.Remaining, State: rep.State}
}

// undoResult is an undo's report as it is recorded.
func undoResult(rep *changes.UndoReport) *decisionResult {
	if rep == nil {
		return nil
	}
	n := len(rep.Undone)
	return &decisionResult{Undone: &n, State: rep.State}
}

// decidedBy says who decided on a run's changes.
func decidedBy(wish decision, asked bool) string {
	switch {
	case wish != undecided:
		return "option"
	case asked:
		return "person"
	}
	return "default"
}

// noteKept records that changes were kept.
func (p *Program) noteKept(ctx context.Context, id string, row *decisionRow) error {
	log, err := p.record()
	if err == nil {
		err = log.Record(ctx, rowKeep, id, row)
	}
	if err != nil {
		return fail(exitFailed, fmt.Errorf("the changes are kept as %s, but that is not recorded: %w", id, err))
	}
	return nil
}
