package acp_test

import (
	"os"
	"os/exec"
	"testing"

	"airlock/internal/tool/bridge/proc"
)

// TestGeminiShakesHands runs the real Gemini CLI without a login, as far as it comes: it
// understands initialize and session/new, and says that it wants a key.
func TestGeminiShakesHands(t *testing.T) {
	t.Parallel()
	program := os.Getenv("AIRLOCK_TEST_GEMINI")
	if program == "" {
		var err error
		if program, err = exec.LookPath("gemini"); err != nil {
			t.Skip("there is no gemini: put it on PATH, or name it in AIRLOCK_TEST_GEMINI")
		}
	}
	w := newWorld(t)
	w.run.Params.Argv = []string{program, "--acp"}
	w.run.Params.Env["HOME"] = t.TempDir()
	out, a := w.do(t.Context(), "Say hello.")
	if out.Err != nil || a.Status != "error" || !endedWell(&out) {
		t.Errorf("outcome %+v, answer %+v, want an error answer of an agent that ended by itself", out, a)
	}
	wantIn(t, "the error", a.Error, "Agent answered session/new with an error: ", "(code -32000)", "log in with the agent's own program first", "(oauth-personal)", "(gemini-api-key)")
}

// endedWell reports whether an agent ended by itself, as one should whose input ends.
func endedWell(out *proc.Outcome) bool {
	return out.Result.ExitCode == 0 && out.Result.Signal == "" && !out.Result.Canceled
}
