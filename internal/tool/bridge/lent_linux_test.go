package bridge_test

import (
	"context"
	"strings"
	"testing"

	"airlock/internal/event"
	"airlock/internal/tool"
)

// calls is a tool's way back that makes calls on the tool's own machine.
type calls struct{ w *world }

func (c calls) Call(ctx context.Context, call tool.Call) tool.Result {
	return c.w.tools.Invoke(ctx, c.w.m, call)
}

func (calls) Admit(context.Context, tool.Where, tool.Call) (func(tool.Result), error) {
	return func(tool.Result) {}, nil
}
func (c calls) Sandbox(context.Context) (*tool.Machine, error)  { return c.w.m, nil }
func (calls) Ask(context.Context, *tool.Prompt) (string, error) { return "", tool.ErrNobody }
func (calls) Publish(event.Event)                               {}

// TestAnAgentInASandboxGetsNoVariablesOfAnother: it could have changed the other's script, or
// look at its environment.
func TestAnAgentInASandboxGetsNoVariablesOfAnother(t *testing.T) {
	const (
		asks = `read line; echo '{"type":"call","id":1,"tool":"%"}'; read -r got; printf '{"type":"result","result":%s}\n' "$got"`
		says = `printf '{"w":"%s","g":"%s","own":"%s"}' "$WANTED" "${GITHUB_TOKEN:+there}" "$OWN"`
	)
	through := func(name string) string { return sh(strings.Replace(asks, `"%"`, `"`+name+`"`, 1)) }
	for _, tt := range []struct{ name, sandbox, call, want string }{
		{"by itself it has all that its entry names", "airlock", "inner", `{"w":"this one","g":"there","own":"x"}`},
		{"another's call gives it what that one has", "airlock", "some", `{"w":"this one","g":"","own":"x"}`},
		{"one that has none, none", "airlock", "none", `{"w":"","g":"","own":"x"}`},
		{"nor by way of one that would have all", "airlock", "far", `{"w":"","g":"","own":"x"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			place := `, protocol: "1.1", sandbox: ` + tt.sandbox
			w := newWorld(t, "  inner: {path: inner, sandbox: airlock, env: {WANTED: null, GITHUB_TOKEN: null, OWN: x}}\n"+
				"  some: {path: some, env: [WANTED]"+place+"}\n  none: {path: none"+place+"}\n"+
				"  all: {path: some, env: [WANTED, GITHUB_TOKEN]"+place+"}\n  far: {path: far"+place+"}\n",
				map[string]string{"inner": sh(says), "some": through("inner"), "none": through("inner"), "far": through("all")})
			w.m.Where, w.m.Back = tool.InSandbox, calls{w}
			_, got := w.call(tt.call, `{}`)
			wantIn(t, "the answer", got, tt.want)
		})
	}
}
