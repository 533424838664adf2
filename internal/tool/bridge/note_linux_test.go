package bridge_test

import (
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
)

func TestWhatNeverReachedTheAgentIsNotedOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		res  func(w *world) tool.Result
		want string // outcomes that were counted
		log  string
	}{
		{"a refusal", func(*world) tool.Result { return tool.Fail(tool.PermissionDenied, "refused by user/r: no") }, "it refused", "Refused: user/r: no"},
		{"what the published schema refuses", func(*world) tool.Result {
			return tool.Fail(tool.InvalidArgs, "it run: args.a: want a string")
		}, "it invalid", "Validation error: a: want a string"},
		{"a sandbox that could not be made", func(*world) tool.Result { return tool.Fail(tool.IOError, "no sandbox can be made here") }, "it not-started", "no sandbox"},
		{"what Prepare has counted itself", func(w *world) tool.Result {
			res, _ := w.call("it", `{"repo_name":"x"}`)
			return res
		}, "it invalid", "Invalid repo_name format"},
		{"what ran", func(w *world) tool.Result {
			res, _ := w.call("it", `{}`)
			return res
		}, "it ok", "completed successfully"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh(`echo '{}'`)})
			it, _ := w.tools.Lookup("it")
			health, _ := w.tools.Lookup("health_check")
			res := tt.res(w)
			bridge.Note(it, res)
			bridge.Note(health, res)
			if got := string(bridge.Answer(it, res)); !strings.HasPrefix(got, `{"status":"error","error":"`) && !res.OK {
				t.Errorf("the answer is %s", got)
			}
			if got := w.metrics.outcomes(); got != tt.want {
				t.Errorf("counted %q, want %q", got, tt.want)
			}
			if !strings.Contains(w.log.String(), tt.log) {
				t.Errorf("logged %s, want %q in it", w.log, tt.log)
			}
		})
	}
}
