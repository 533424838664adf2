package svcs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/throwaway"
	"airlock/internal/tool/builtin/svcs"
)

type object = map[string]any

// A box is a machine to throw away, with the tools that are to be tested there.
type box struct {
	machine  *tool.Machine
	registry *tool.Registry
}

func newBox(t *testing.T, m throwaway.Machine) *box {
	t.Helper()
	r, err := tool.NewRegistry(svcs.Tools()...)
	if err != nil {
		t.Fatalf("NewRegistry: %v", err)
	}
	return &box{registry: r, machine: &tool.Machine{
		Client: m.Start(t), WorkDir: "/", Env: map[string]string{"HOME": "/root", "PATH": "/nowhere"},
	}}
}

// call makes a call through the registry.
func (b *box) call(t *testing.T, name, action string, args object) tool.Result {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	return b.registry.Invoke(t.Context(), b.machine, tool.Call{Tool: name, Action: action, Args: data})
}

// do is a call of svc.manage that must succeed and leave the service in a state.
func (b *box) do(t *testing.T, action, service, state string) tool.Result {
	t.Helper()
	res := b.call(t, "svc.manage", action, object{"service": service})
	if !res.OK || res.Meta[svcs.MetaState] != state {
		t.Fatalf("%s %s: ok %v, meta %v, want state %s\nstdout: %s\nstderr: %s", action, service, res.OK, res.Meta, state, res.Stdout, res.Stderr)
	}
	return res
}

// fails is a call of svc.manage that must not, with a code and words in stderr.
func (b *box) fails(t *testing.T, action, service string, code tool.ErrorCode, says string) tool.Result {
	t.Helper()
	res := b.call(t, "svc.manage", action, object{"service": service})
	if res.OK || res.Code() != code || !strings.Contains(res.Stderr, says) {
		t.Fatalf("%s %s: ok %v, meta %v; want %s and %q in stderr\nstdout: %s\nstderr: %s",
			action, service, res.OK, res.Meta, code, says, res.Stdout, res.Stderr)
	}
	return res
}

// sh runs a line in the machine and returns its output.
func (b *box) sh(t *testing.T, line string) string {
	t.Helper()
	res, err := b.machine.Client.Run(t.Context(), agent.ExecParams{Cmd: line}, nil)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s: %v, %+v", line, err, res)
	}
	return res.Stdout
}

func (b *box) list(t *testing.T, args object) (string, tool.Meta) {
	t.Helper()
	res := b.call(t, "services", "list", args)
	if !res.OK {
		t.Fatalf("services: %v\n%s", res.Meta, res.Stderr)
	}
	return res.Stdout, res.Meta
}
