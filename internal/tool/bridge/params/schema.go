package params

import (
	"context"
	"encoding/json"
	"strings"

	"airlock/internal/tool"
)

// A checker checks parameters against a schema, with the registry's rules and words. It is
// safe for concurrent use.
type checker struct{ registry *tool.Registry }

// The call that a checker has its registry check; the registry names it in what it says.
const (
	checked       = "parameters"
	checkedAction = "check"
)

func newChecker(schema json.RawMessage) (*checker, error) {
	registry, err := tool.NewRegistry(described{tool.Info{
		Name: checked, Kind: tool.Bridge,
		Actions: []tool.Action{{Name: checkedAction, Schema: schema, Risk: tool.RiskUnknown}},
	}})
	if err != nil {
		return nil, err
	}
	return &checker{registry}, nil
}

// problem says in plain words what is wrong with the parameters; "" where nothing is.
func (c *checker) problem(params json.RawMessage) string {
	failure := c.registry.Check(tool.Call{Tool: checked, Action: checkedAction, Args: params})
	if failure == nil {
		return ""
	}
	return strings.TrimPrefix(failure.Stderr, checked+" "+checkedAction+": ")
}

// described is a tool that is only asked what it is.
type described struct{ info tool.Info }

func (d described) Info() *tool.Info { return &d.info }

func (described) Invoke(context.Context, *tool.Machine, tool.Call) tool.Result {
	return tool.Fail(tool.IOError, "it is only described")
}
