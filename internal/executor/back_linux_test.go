package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"airlock/agent"
	"airlock/internal/event"
	"airlock/internal/executor"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
)

// reaching is a tool whose call is a function.
type reaching struct {
	info tool.Info
	do   func(ctx context.Context, m *tool.Machine) tool.Result
}

func (r *reaching) Info() *tool.Info { return &r.info }

func (r *reaching) Invoke(ctx context.Context, m *tool.Machine, _ tool.Call) tool.Result {
	return r.do(ctx, m)
}

func newReaching(name string, place tool.Place, do func(ctx context.Context, m *tool.Machine) tool.Result) *reaching {
	return &reaching{tool.Info{Name: name, Kind: tool.Bridge, Actions: []tool.Action{{
		Name: "run", Schema: json.RawMessage(`{"type": "object"}`), Risk: tool.RiskUnknown, Place: place,
	}}}, do}
}

// person answers every question with the same.
type person struct{ answer string }

func (p person) Ask(_ context.Context, q *tool.Prompt) (string, error) {
	return q.Tool + " is told " + p.answer, nil
}

// reach makes a call of a tool named outer, whose work is do, beside others.
func (w *planWorld) reach(t *testing.T, place tool.Place, do func(ctx context.Context, m *tool.Machine) tool.Result, others ...tool.Tool) (*executor.CallOutcome, error) {
	t.Helper()
	reg, err := tool.NewRegistry(append(append(builtin.Tools(), newReaching("outer", place, do)), others...)...)
	if err != nil {
		t.Fatal(err)
	}
	return w.plans.CallOnce(t.Context(), &executor.OneCall{
		Tools: reg, Call: tool.Call{Tool: "outer"}, Who: "test", Asker: person{"yes"}, Events: w.sink,
		Place: executor.Place{WorkDir: w.work, Env: map[string]string{"PATH": os.Getenv("PATH")}},
	})
}

func command(line string) tool.Call {
	args, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		panic(err)
	}
	return tool.Call{Tool: "cmd.run", Args: args}
}

func TestAToolReachesBackWithItsOwnRights(t *testing.T) {
	inner := newReaching("inner", tool.AnyPlace, func(_ context.Context, m *tool.Machine) tool.Result {
		return tool.Result{OK: true, Stdout: m.Where.String()}
	})
	for _, tt := range []struct {
		name  string
		place tool.Place
		call  tool.Call
		want  string // what its result holds
		rows  string // that the record has
		boxes int
	}{
		{"on the host it calls on the host", tool.HostOnly, command("echo on"), "on\n", "call verdict call verdict result result", 0},
		{"in a sandbox it calls in that sandbox", tool.AnyPlace, command("echo in"), "in", "call verdict call verdict result result", 1},
		{"what the gate refuses is not run", tool.HostOnly, command("touch forbidden"), "refused by forbidden", "call verdict call verdict result result", 0},
		{"from a sandbox nothing is called on the host", tool.AnyPlace, tool.Call{Tool: "sysinfo"}, "nothing is called on the host", "call verdict result", 1},
		{"an agent for sandboxes runs in one, also when the host calls it", tool.HostOnly, tool.Call{Tool: "inner"}, "sandbox", "call verdict call verdict result result", 1},
		{"a tool that there is not", tool.HostOnly, tool.Call{Tool: "cmd.walk"}, "there is no such tool", "call verdict call result result", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newPlanWorld(t)
			var got tool.Result
			out, err := w.reach(t, tt.place, func(ctx context.Context, m *tool.Machine) tool.Result {
				got = m.Back.Call(ctx, tt.call)
				return tool.Result{OK: true}
			}, inner)
			if err != nil || !out.Result.OK {
				t.Fatalf("the outer call: %+v, %v", out, err)
			}
			if !strings.Contains(got.Stdout+got.Stderr, tt.want) {
				t.Errorf("the inner call's result is %+v, want %q in it", got, tt.want)
			}
			if rows := strings.Join(w.rows.kinds, " "); rows != tt.rows {
				t.Errorf("the record has %s, want %s", rows, tt.rows)
			}
			if n := len(w.driver.boxes); n != tt.boxes {
				t.Errorf("%d sandboxes were made, want %d", n, tt.boxes)
			}
		})
	}
}

func TestToolsThatCallEachOtherComeToAnEnd(t *testing.T) {
	w := newPlanWorld(t)
	var depth atomic.Int32
	var last tool.Result
	out, err := w.reach(t, tool.HostOnly, func(ctx context.Context, m *tool.Machine) tool.Result {
		depth.Add(1)
		res := m.Back.Call(ctx, tool.Call{Tool: "outer"})
		if !res.OK {
			last = res
		}
		return tool.Result{OK: true}
	})
	if err != nil || !out.Result.OK {
		t.Fatalf("the call: %+v, %v", out, err)
	}
	if depth.Load() != 8 || last.Code() != tool.PermissionDenied || !strings.Contains(last.Stderr, "8 deep") {
		t.Errorf("%d calls, the last refused with %+v; want 8", depth.Load(), last)
	}
}

func TestWhatAToolDoesItselfPassesTheGateAndIsRecorded(t *testing.T) {
	w := newPlanWorld(t)
	_, err := w.reach(t, tool.HostOnly, func(ctx context.Context, m *tool.Machine) tool.Result {
		if _, err := m.Back.Admit(ctx, tool.OnHost, command("forbidden")); err == nil {
			t.Error("what is forbidden was admitted")
		} else if _, ok := errors.AsType[*tool.RefusedError](err); !ok {
			t.Errorf("the refusal is %v", err)
		}
		if done, err := m.Back.Admit(ctx, tool.OnHost, tool.Call{Tool: "cmd.walk"}); err == nil || done != nil {
			t.Errorf("a call of no tool was admitted: %v", err)
		}
		done, err := m.Back.Admit(ctx, tool.InSandbox, command("echo"))
		if err != nil {
			t.Errorf("Admit: %v", err)
			return tool.Result{}
		}
		done(tool.Result{OK: true})
		return tool.Result{OK: true}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"call", "verdict", "call", "verdict", "result", "call", "result", "call", "verdict", "result", "result"}
	if !slices.Equal(w.rows.kinds, want) {
		t.Errorf("the record has %v, want %v", w.rows.kinds, want)
	}
}

func TestAToolOnTheHostHasASandboxForItsWork(t *testing.T) {
	w := newPlanWorld(t)
	var after func() error
	out, err := w.reach(t, tool.HostOnly, func(ctx context.Context, m *tool.Machine) tool.Result {
		one, err := m.Back.Sandbox(ctx)
		two, again := m.Back.Sandbox(ctx)
		if err != nil || again != nil || one.Client != two.Client || one.Where != tool.InSandbox {
			t.Errorf("Sandbox: %v, %v, or not the same one", err, again)
		}
		back := m.Back
		after = func() error { _, err := back.Sandbox(context.Background()); return err }
		return tool.Result{OK: true}
	})
	if err != nil || out.Set == nil || out.ID != out.Set.ID || len(w.driver.boxes) != 1 {
		t.Fatalf("the call: %+v, %v; %d sandboxes", out, err, len(w.driver.boxes))
	}
	if err := after(); err == nil || len(w.driver.boxes) != 1 {
		t.Errorf("when the call is over, Sandbox gives %v", err)
	}
}

func TestAToolAsksAndTells(t *testing.T) {
	w := newPlanWorld(t)
	_, err := w.reach(t, tool.HostOnly, func(ctx context.Context, m *tool.Machine) tool.Result {
		answer, err := m.Back.Ask(ctx, &tool.Prompt{Tool: "somebody else", Question: "?"})
		if err != nil || answer != "outer is told yes" {
			t.Errorf("Ask: %q, %v", answer, err)
		}
		m.Back.Publish(event.Progress{Tool: "outer", Message: "half"})
		return tool.Result{OK: true}
	})
	if err != nil || !slices.Equal(w.sink.names(), []string{"progress"}) {
		t.Errorf("events %v, %v", w.sink.names(), err)
	}
}

func TestAStationStartsOneAgentAndAnotherWhenThatIsLost(t *testing.T) {
	w := newPlanWorld(t)
	var started []*agent.Client
	w.plans.Host = func(context.Context) (*agent.Client, io.Closer, error) {
		client, closer, err := hostAgent(t)
		started = append(started, client)
		return client, closer, err
	}
	reg, err := tool.NewRegistry(append(builtin.Tools(), newReaching("outer", tool.HostOnly, func(ctx context.Context, m *tool.Machine) tool.Result {
		if err := m.Client.Ping(ctx); err != nil {
			return tool.Fail(tool.IOError, err.Error())
		}
		return tool.Result{OK: true}
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	s := w.plans.Station()
	call := func() {
		t.Helper()
		out, err := s.Call(t.Context(), &executor.OneCall{Tools: reg, Call: tool.Call{Tool: "outer"}, Place: executor.Place{WorkDir: w.work}})
		if err != nil || !out.Result.OK {
			t.Errorf("Call: %+v, %v", out, err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(call)
	}
	all.Wait()
	if len(started) != 1 {
		t.Fatalf("%d agents were started for 8 calls at once, want 1", len(started))
	}
	started[0].Close()
	call()
	if len(started) != 2 {
		t.Errorf("%d agents were started in all, want another one for the one that was lost", len(started))
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestWhatACanceledCallChangedIsNotLost(t *testing.T) {
	w := newPlanWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	reg, err := tool.NewRegistry(newReaching("outer", tool.AnyPlace, func(ctx context.Context, m *tool.Machine) tool.Result {
		cancel()
		<-ctx.Done()
		return tool.Fail(tool.IOError, "it was canceled")
	}))
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.plans.CallOnce(ctx, &executor.OneCall{Tools: reg, Call: tool.Call{Tool: "outer"}, Place: executor.Place{WorkDir: w.work}})
	if err != nil || out.Set == nil || out.Set.ID != out.ID || w.kept(t) != 1 {
		t.Errorf("CallOnce: %+v, %v; want a set that is kept", out, err)
	}
}
