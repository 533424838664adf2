package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/action"
	"airlock/internal/event"
	"airlock/internal/executor"
	"airlock/internal/guest"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
)

// guard denies what holds "forbidden", asks about what holds "ask", and allows the rest;
// answer is what its person says.
type guard struct{ answer bool }

func (g *guard) Judge(_ context.Context, q *tool.Question) tool.Judgement {
	j := tool.Judgement{Verdict: tool.Allow, Risk: tool.RiskReadOnly, Rule: "rest", Why: "nothing speaks against it"}
	switch args := string(q.Call.Args); {
	case q.Action == nil:
		return tool.Judgement{Rule: "unknown", Why: "no such action"}
	case strings.Contains(args, "forbidden"):
		j.Verdict, j.Rule = tool.Deny, "forbidden"
	case strings.Contains(args, "ask"):
		j.Verdict, j.Rule = tool.Ask, "ask"
	}
	return j
}

func (g *guard) Admit(ctx context.Context, q *tool.Question) (tool.Judgement, error) {
	j := g.Judge(ctx, q)
	if j.Verdict == tool.Ask {
		a := tool.Approval{ID: "a", Digest: "d", Asked: time.Now(), Expires: time.Now().Add(time.Minute)}
		q.Asked(a)
		a.Approved, a.By = &g.answer, "test"
		j.Approval = &a
		q.Asked(a)
	}
	if j.Verdict == tool.Deny || j.Verdict == tool.Ask && !g.answer {
		return j, &tool.RefusedError{Judgement: j}
	}
	return j, nil
}

// rows is a Recorder that keeps the kinds of what it is given.
type rows struct {
	mu    sync.Mutex
	kinds []string
	err   error  // of every row whose kind is fails
	fails string // "" is none
}

func (r *rows) Record(_ context.Context, kind, id string, data any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id == "" || data == nil {
		return errors.New("a row without an ID or data")
	}
	if r.err != nil && kind == r.fails {
		return r.err
	}
	if _, err := json.Marshal(data); err != nil {
		return err
	}
	r.kinds = append(r.kinds, kind)
	return nil
}

func (r *rows) Queue(kind, id string, data any) (func(context.Context) error, error) {
	err := r.Record(context.Background(), kind, id, data)
	return func(context.Context) error { return err }, nil
}

// sink keeps events.
type sink struct {
	mu     sync.Mutex
	events []event.Event
}

func (s *sink) Publish(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *sink) names() []string {
	var out []string
	for _, e := range s.events {
		if e.Name() != "output" {
			out = append(out, e.Name())
		}
	}
	return out
}

// planWorld is a world that runs plans.
type planWorld struct {
	*world
	guard *guard
	rows  *rows
	sink  *sink
	plans *executor.PlanRunner
}

func newPlanWorld(t *testing.T) *planWorld {
	t.Helper()
	w := newWorld(t)
	reg, err := tool.NewRegistry(builtin.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	pw := &planWorld{world: w, guard: &guard{}, rows: &rows{}, sink: &sink{}}
	pw.plans = &executor.PlanRunner{
		Runner:   w.runner,
		Caller:   &executor.Caller{Tools: reg, Guard: pw.guard, Record: pw.rows},
		Journals: &executor.Journals{Dir: filepath.Join(t.TempDir(), "plans")},
		Host:     func(context.Context) (*agent.Client, io.Closer, error) { return hostAgent(t) },
	}
	return pw
}

// hostAgent is the real guest agent in this process.
func hostAgent(t *testing.T) (*agent.Client, io.Closer, error) {
	g, err := guest.New(nil)
	if err != nil {
		return nil, nil, err
	}
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(t.Context(), far) })
	client := agent.NewClient(near, nil)
	return client, closer(func() error {
		client.Close()
		serving.Wait()
		return g.Close()
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// steps makes a plan of commands, with the IDs 1, 2 and so on.
func steps(commands ...string) *action.Plan {
	plan := &action.Plan{Kind: action.PlanAndCommands, Summary: "a test"}
	for i, c := range commands {
		plan.Steps = append(plan.Steps, action.Step{ID: string(rune('1' + i)), Description: "step", ShellCommand: c})
	}
	return plan
}

func (w *planWorld) plan(commands ...string) *executor.PlanRequest {
	return &executor.PlanRequest{
		Plan:   steps(commands...),
		Place:  executor.Place{WorkDir: w.work, Env: map[string]string{"PATH": os.Getenv("PATH")}},
		Events: w.sink, Who: "test",
	}
}

// told is how steps went: "1:0 2:126/refused".
func told(out *executor.PlanOutcome) string {
	var words []string
	for _, s := range out.Steps {
		word := s.ID + ":" + string(s.Status)
		words = append(words, word)
	}
	return strings.Join(append(words, out.NotRun...), " ")
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name    string
		direct  bool
		plan    []string
		prepare func(w *planWorld, req *executor.PlanRequest)
		want    string // told
		success bool
		check   func(w *planWorld, out *executor.PlanOutcome) bool // may be nil
	}{
		{name: "steps run in order in one place", plan: []string{"echo one >f", "cat f"}, want: "1:ok 2:ok", success: true, check: func(w *planWorld, out *executor.PlanOutcome) bool {
			return out.Steps[1].Stdout == "one\n" && out.Set != nil && out.Set.ID == out.ID && len(w.driver.boxes) == 1
		}},
		{name: "a failed step ends the plan, and what was changed is kept", plan: []string{"exit 3", "true"}, want: "1:failed 2", check: func(_ *planWorld, out *executor.PlanOutcome) bool {
			return out.Steps[0].ExitCode == 3 && out.Set != nil && out.Set.ExitCode == 1
		}},
		{name: "a refused step ends the plan and is not run", plan: []string{"true", "touch forbidden", "true"}, want: "1:ok 2:refused 3", check: func(w *planWorld, out *executor.PlanOutcome) bool {
			_, err := os.Stat(filepath.Join(w.work, "forbidden"))
			return out.Refused() && out.Steps[1].ExitCode == 126 && errors.Is(err, os.ErrNotExist)
		}},
		{name: "what is asked and not approved is refused", plan: []string{"echo ask"}, want: "1:refused"},
		{
			name: "what is asked and approved is run", plan: []string{"echo ask"}, want: "1:ok", success: true, prepare: func(w *planWorld, _ *executor.PlanRequest) { w.guard.answer = true },
			check: func(w *planWorld, out *executor.PlanOutcome) bool {
				return slices.Contains(w.rows.kinds, "approval") && out.Steps[0].Verdict == tool.Ask && out.Steps[0].Rule == "ask"
			},
		},
		{name: "on the host there is no change set", direct: true, plan: []string{"echo one >f", "cat f"}, want: "1:ok 2:ok", success: true, check: func(w *planWorld, out *executor.PlanOutcome) bool {
			return out.Set == nil && len(w.driver.boxes) == 0 && out.Steps[1].Stdout == "one\n"
		}},
		{
			name: "a step runs in its own folder", plan: []string{"mkdir d", "pwd"}, want: "1:ok 2:ok", success: true,
			prepare: func(_ *planWorld, req *executor.PlanRequest) { req.Plan.Steps[1].WorkingDirectory = "d" },
			check: func(_ *planWorld, out *executor.PlanOutcome) bool {
				return strings.HasSuffix(out.Steps[1].Stdout, "/d\n")
			},
		},
		{
			name: "a folder that is not there fails its step", plan: []string{"pwd"}, want: "1:failed",
			prepare: func(_ *planWorld, req *executor.PlanRequest) { req.Plan.Steps[0].WorkingDirectory = "none" },
		},
		{
			name: "a step that takes too long is ended", plan: []string{"sleep 100", "true"}, want: "1:timed out 2",
			prepare: func(_ *planWorld, req *executor.PlanRequest) { req.Timeout = 50 * time.Millisecond },
			check:   func(_ *planWorld, out *executor.PlanOutcome) bool { return out.Steps[0].ExitCode == 124 },
		},
		{
			name: "a remedy may skip", plan: []string{"false", "true"}, want: "1:skipped 2:ok", success: true,
			prepare: func(_ *planWorld, req *executor.PlanRequest) {
				req.Helper = &helper{executor.Remedy{Do: executor.Skip}}
			},
		},
		{
			name: "a remedy may edit, and what it makes passes the gate", plan: []string{"false"}, want: "1:ok", success: true,
			prepare: func(_ *planWorld, req *executor.PlanRequest) {
				req.Helper = &helper{executor.Remedy{Do: executor.Edit, Command: "echo forbidden"}, executor.Remedy{Do: executor.Edit, Command: "echo mended"}}
			},
			check: func(_ *planWorld, out *executor.PlanOutcome) bool {
				return out.Steps[0].Stdout == "mended\n" && out.Steps[0].Attempts == 3
			},
		},
		{
			name: "a remedy may put other steps in place of the rest", plan: []string{"false", "false"}, want: "3:ok 4:ok", success: true,
			prepare: func(_ *planWorld, req *executor.PlanRequest) {
				req.Helper = &helper{executor.Remedy{Do: executor.Replace, Steps: []action.Step{{ID: "3", ShellCommand: "true"}, {ID: "4", ShellCommand: "true"}}}}
			},
		},
		{
			name: "a remedy may retry, and the zero one stops", plan: []string{"false", "true"}, want: "1:failed 2",
			prepare: func(_ *planWorld, req *executor.PlanRequest) {
				req.Helper = &helper{executor.Remedy{Do: executor.Retry}, executor.Remedy{}}
			},
			check: func(_ *planWorld, out *executor.PlanOutcome) bool { return out.Steps[0].Attempts == 2 },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newPlanWorld(t)
			req := w.plan(tt.plan...)
			req.Direct = tt.direct
			if tt.prepare != nil {
				tt.prepare(w, req)
			}
			out, err := w.plans.Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(out); got != tt.want || out.Success != tt.success || tt.check != nil && !tt.check(w, out) {
				t.Errorf("Run = %s, success %t, want %s, %t\n%+v\n%v", got, out.Success, tt.want, tt.success, out.Steps, w.rows.kinds)
			}
			names := w.sink.names()
			if names[0] != "plan_start" || names[len(names)-1] != "plan_complete" {
				t.Errorf("events are %q", names)
			}
			if k := w.rows.kinds; k[0] != "plan_start" || k[len(k)-1] != "plan_end" {
				t.Errorf("rows are %q", k)
			}
		})
	}
}

// helper gives remedies, one after the other.
type helper []executor.Remedy

func (h *helper) Fill(context.Context, action.Step, []string) (map[string]string, error) {
	return map[string]string{"NAME": "a b; touch forbidden"}, nil
}

func (h *helper) Failed(context.Context, action.Step, *executor.StepResult) (executor.Remedy, error) {
	r := (*h)[0]
	*h = (*h)[1:]
	return r, nil
}
