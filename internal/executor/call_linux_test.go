package executor_test

import (
	"encoding/json"
	"errors"
	"testing"

	"airlock/internal/tool"
)

func TestEveryResultSaysHowLongItsCallTook(t *testing.T) {
	for _, tt := range []struct {
		name string
		call tool.Call
		want tool.ErrorCode
	}{
		{"a refused one", tool.Call{Tool: "cmd.run", Args: json.RawMessage(`{"command": "echo forbidden"}`)}, tool.PermissionDenied},
		{"one whose arguments are wrong", tool.Call{Tool: "cmd.run", Args: json.RawMessage(`{}`)}, tool.InvalidArgs},
		{"one of a tool that is not there", tool.Call{Tool: "cmd.walk", Args: json.RawMessage(`{}`)}, tool.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newPlanWorld(t)
			res, _, err := w.plans.Caller.Call(t.Context(), &tool.Machine{}, &tool.Question{Call: tt.call, WorkDir: "/"})
			if _, refused := errors.AsType[*tool.RefusedError](err); err != nil && !refused {
				t.Fatalf("Call: %v", err)
			}
			if res.Code() != tt.want || res.Meta[tool.MetaDurationMS] != int64(0) {
				t.Errorf("meta %v, want %s and a duration of 0", res.Meta, tt.want)
			}
		})
	}
}
