package cli

import (
	"context"

	"airlock/internal/action"
	"airlock/internal/tool"
)

// warm makes, while the model is waited for, what its answer will need: the record, the
// store, and the first look at a plan, which compiles a schema and reads policies and tables.
// What fails here fails again where it is needed, and is said there. The channel is closed
// when it is done.
func (r *aiRun) warm(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
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
