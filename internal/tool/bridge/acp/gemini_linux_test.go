package acp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"airlock/internal/tool/bridge/proc"
)

// gemini is a world with the real Gemini CLI in it, which is not logged in.
func gemini(t *testing.T) *world {
	t.Helper()
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
	return w
}

// endedWell reports whether an agent ended by itself, as one should whose input ends.
func endedWell(out *proc.Outcome) bool {
	return out.Err == nil && out.Result.ExitCode == 0 && out.Result.Signal == "" && !out.Result.Canceled
}

func TestGeminiShakesHands(t *testing.T) {
	t.Parallel()
	out, a := gemini(t).do(t.Context(), "Say hello.")
	if a.Status != "error" || !endedWell(&out) {
		t.Errorf("outcome %+v, answer %+v, want an error answer of an agent that ended by itself", out, a)
	}
	wantIn(t, "the error", a.Error, "Agent answered session/new with an error: ", "(code -32000)", "log in with the agent's own program first", "(oauth-personal)", "(gemini-api-key)")
}

// TestGeminiWorks is a turn of the real Gemini CLI with a model that plays a part: it makes
// a file, which is done in the sandbox, and runs a command, for which it asks.
func TestGeminiWorks(t *testing.T) {
	t.Parallel()
	w := gemini(t)
	file := filepath.Join(w.session.Workspace, "made.txt")
	w.run.Params.Env["GEMINI_API_KEY"] = "none"
	w.run.Params.Env["GOOGLE_GEMINI_BASE_URL"] = model(t,
		fmt.Sprintf(`{"functionCall":{"name":"write_file","args":{"file_path":%q,"content":"made\n"}}}`, file),
		`{"functionCall":{"name":"run_shell_command","args":{"command":"touch by-hand","description":"touches"}}}`,
		`{"text":"All done."}`)
	write(t, filepath.Join(w.run.Params.Env["HOME"], ".gemini/settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	w.back.refuse["touch by-hand"] = true

	out, a := w.do(t.Context(), "Make a file.")
	if a.Status != "success" || a.Result.Text != "All done." || !endedWell(&out) {
		t.Fatalf("outcome %+v, answer %+v", out, a)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "made\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(w.session.Workspace, "by-hand")); err == nil {
		t.Error("what was refused was done")
	}
	asked, _ := w.back.what()
	for _, want := range []string{
		fmt.Sprintf(`host fs.write_file {"content":"made\n","path":%q}`, file),
		fmt.Sprintf(`sandbox fs.write_file {"content":"made\n","create_dirs":true,"path":%q}`, file),
		`host probe {"prompt":"asks for leave (execute): touch by-hand"}`,
	} {
		if !slices.Contains(asked, want) {
			t.Errorf("the gate was asked %q, want %s among it", asked, want)
		}
	}
}

// model is the address of a Gemini API whose model gives these parts, one a turn.
func model(t *testing.T, parts ...string) string {
	var turns atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		part := `{"text":"{}"}` // to those who ask which model is best
		if strings.Contains(req.URL.Path, ":streamGenerateContent") && strings.Contains(string(body), "functionDeclarations") {
			part = parts[min(int(turns.Add(1)), len(parts))-1]
		}
		answer := json.RawMessage(`{"candidates":[{"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP","index":0}]}`)
		if req.URL.Query().Get("alt") == "sse" {
			res.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(res, "data: %s\r\n\r\n", answer)
			return
		}
		res.Header().Set("Content-Type", "application/json")
		_, _ = res.Write(answer)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
