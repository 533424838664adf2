package pkgs_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs"
	"airlock/internal/tool/builtin/pkgs/throwaway"
)

type object = map[string]any

// A box is a machine to throw away, with the tools that are to be tested there.
type box struct {
	t        *testing.T
	machine  *tool.Machine
	registry *tool.Registry
}

// newBox makes a machine that setup has been run in; the test is skipped where one of the
// programs is not installed.
func newBox(t *testing.T, setup string, programs ...string) *box {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed here", p)
		}
	}
	r, err := tool.NewRegistry(pkgs.Tools()...)
	if err != nil {
		t.Fatalf("NewRegistry: %v", err)
	}
	c := throwaway.Machine{Setup: setup}.Start(t)
	return &box{t: t, registry: r, machine: &tool.Machine{
		Client: c, WorkDir: "/", Env: map[string]string{"HOME": "/root", "PATH": "/nowhere"},
	}}
}

// call makes a call through the registry.
func (b *box) call(t *testing.T, name, action string, args object) tool.Result {
	t.Helper()
	return b.registry.Invoke(t.Context(), b.machine, tool.Call{Tool: name, Action: action, Args: marshal(t, args)})
}

func marshal(t *testing.T, args object) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	return data
}

// do is call of pkg.manage that must succeed.
func (b *box) do(t *testing.T, action string, args object) tool.Result {
	t.Helper()
	res := b.call(t, "pkg.manage", action, args)
	if !res.OK {
		t.Fatalf("%s %v: %v\nstdout: %s\nstderr: %s", action, args, res.Meta, res.Stdout, res.Stderr)
	}
	return res
}

// fails is call of pkg.manage that must not, with a code and words in stderr.
func (b *box) fails(t *testing.T, action string, args object, code tool.ErrorCode, says string) tool.Result {
	t.Helper()
	res := b.call(t, "pkg.manage", action, args)
	if res.OK || res.Code() != code || !strings.Contains(res.Stderr, says) {
		t.Fatalf("%s %v: ok %v, code %s, meta %v; want %s and %q in stderr\nstdout: %s\nstderr: %s",
			action, args, res.OK, res.Code(), res.Meta, code, says, res.Stdout, res.Stderr)
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

// wantNames checks a list in meta, in any order.
func wantNames(t *testing.T, res tool.Result, member string, want ...string) {
	t.Helper()
	got, ok := res.Meta[member].([]string)
	got = slices.Clone(got)
	slices.Sort(got)
	slices.Sort(want)
	if !ok || !slices.Equal(got, want) {
		t.Errorf("meta %s = %v, want %v\nstdout: %s\nstderr: %s", member, res.Meta[member], want, res.Stdout, res.Stderr)
	}
}

// listed is what packages lists of these names.
func (b *box) listed(t *testing.T, filter string) string {
	t.Helper()
	res := b.call(t, "packages", "list", object{"filter": filter})
	if !res.OK {
		t.Fatalf("packages: %v %s", res.Meta, res.Stderr)
	}
	return res.Stdout
}

func names(list ...string) object { return object{"packages": list, "assume_yes": true} }
