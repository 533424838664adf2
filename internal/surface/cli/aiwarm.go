package cli

import (
	"context"
	"slices"

	"airlock/internal/action"
	"airlock/internal/planner"
	"airlock/internal/tool"
)

// An aheadStarter is a driver that can start what the next sandbox needs before it is known what that is.
type aheadStarter interface {
	Ahead(ctx context.Context)
}

// warm makes, while the model is waited for, what its answer will need: the record, the
// store, the first look at a plan, which compiles a schema and reads policies and tables, and, for words whose answer
// is run, what every sandbox starts with.
// What fails here fails again where it is needed, and is said there. The channel is closed
// when it is done.
func (r *aiRun) warm(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if d, ok := r.p.Driver.(aheadStarter); ok && !r.f.planOnly && slices.Contains([]planner.Verb{planner.Run, planner.Do, planner.Fix}, r.verb) {
			d.Ahead(ctx)
		}
		_, _ = r.p.Record()
		_, _ = r.p.Store()
		plan, err := action.Parse([]byte(`{"kind":"command_sequence","steps":[{"id":"1","description":"nothing","shell_command":"ls >/dev/null; true"}]}`))
		if err != nil {
			return
		}
		r.tools.plans.Caller.Review(ctx, plan, &tool.Machine{WorkDir: r.tools.place.WorkDir, Env: r.tools.place.Env, Where: tool.OnHost})
	}()
	return done
}
