package acp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/event"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/acp"
)

func TestATurnsAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prompt       []string
		status, text string
		stop, err    string
		truncated    bool
	}{
		"what the agent says is the text":        {prompt: []string{"say Hello, ", "say world"}, status: "success", text: "Hello, world", stop: "end_turn"},
		"silence is an answer":                   {prompt: []string{""}, status: "success", stop: "end_turn"},
		"thoughts are none of the text":          {prompt: []string{`update {"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`, "say yes"}, status: "success", text: "yes", stop: "end_turn"},
		"a tool's use is a blank line":           {prompt: []string{"say one", `update {"sessionUpdate":"tool_call","toolCallId":"1","title":"t"}`, "say two"}, status: "success", text: "one\n\ntwo", stop: "end_turn"},
		"an answer that ran out is an answer":    {prompt: []string{"say half", "stop max_tokens"}, status: "success", text: "half", stop: "max_tokens"},
		"too many requests are one as well":      {prompt: []string{"stop max_turn_requests"}, status: "success", stop: "max_turn_requests"},
		"a refusal is an error with its text":    {prompt: []string{"say I won't", "stop refusal"}, status: "error", text: "I won't", stop: "refusal", err: "Agent refused to go on"},
		"a turn that it cancels itself is one":   {prompt: []string{"stop cancelled"}, status: "error", stop: "cancelled", err: "Agent canceled its turn"},
		"an unknown end is one":                  {prompt: []string{"stop tired"}, status: "error", stop: "tired", err: "Agent ended its turn for a reason that the protocol does not know: tired"},
		"its own error is told":                  {prompt: []string{"fail no quota"}, status: "error", err: "Agent answered session/prompt with an error: Internal error: no quota (code -32603)"},
		"it works in the workspace":              {prompt: []string{"cwd"}, status: "success", text: "WORKSPACE", stop: "end_turn"},
		"text ends at a megabyte":                {prompt: []string{"many 1100"}, status: "success", text: strings.Repeat("0123456789", 110000)[:1<<20], stop: "end_turn", truncated: true},
		"an end with 0 and no answer is told":    {prompt: []string{"exit 0"}, status: "error", err: "Agent ended without an answer to session/prompt"},
		"an update of an unknown kind is passed": {prompt: []string{`call _airlock/x {}`, "say on"}, status: "success", text: `{{"code":-32601,"message":"Method not found","data":{"method":"_airlock/x"}}}on`, stop: "end_turn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, a := w.do(t.Context(), test.prompt...)
			text := strings.ReplaceAll(a.Result.Text, w.session.Workspace, "WORKSPACE")
			if a.Status != test.status || text != test.text || a.Result.StopReason != test.stop || a.Error != test.err || a.Result.Truncated != test.truncated {
				t.Errorf("the answer is %.300q %.300q, text %.100q (%d bytes), stop %q, truncated %v; want %+v", a.Status, a.Error, text, len(text), a.Result.StopReason, a.Result.Truncated, test.status)
			}
		})
	}
}

func TestToolCallsAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, a := w.do(t.Context(),
		`update {"sessionUpdate":"tool_call","toolCallId":"1","title":"Read it","kind":"read","status":"pending","locations":[{"path":"/a","line":3}]}`,
		`update {"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`,
		`update {"sessionUpdate":"tool_call_update","toolCallId":"2","title":"late"}`,
		`update {"sessionUpdate":"plan","entries":[{"content":"first","priority":"low","status":"completed"},{"content":"second","priority":"low","status":"in_progress"}]}`,
		"say done")
	if len(a.Result.ToolCalls) != 2 || a.Result.ToolCalls[0].Title != "Read it" || a.Result.ToolCalls[0].Status != "completed" || a.Result.ToolCalls[0].Locations[0].Path != "/a" || a.Result.ToolCalls[1].Kind != "other" {
		t.Errorf("tool_calls = %+v", a.Result.ToolCalls)
	}
	var progress, partial []string
	for _, e := range w.back.events {
		switch e := e.(type) {
		case event.Progress:
			text := e.Message
			if e.Total != nil && *e.Total == 2 && e.Done == 1 {
				text += " 1/2"
			}
			progress = append(progress, e.Tool+": "+text)
		case event.Partial:
			partial = append(partial, string(e.Data))
		}
	}
	if want := []string{"probe: Read it", "probe: second 1/2"}; !slices.Equal(progress, want) {
		t.Errorf("progress = %q, want %q", progress, want)
	}
	if want := []string{`"done"`}; !slices.Equal(partial, want) {
		t.Errorf("partial = %q, want %q", partial, want)
	}
}

func TestMoreToolCallsThanAreListedAreCounted(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 210 {
		lines = append(lines, `update {"sessionUpdate":"tool_call","toolCallId":"`+strings.Repeat("x", i+1)+`","title":"t"}`)
	}
	_, a := newWorld(t).do(t.Context(), lines...)
	if len(a.Result.ToolCalls) != 200 || a.Result.Left != 10 {
		t.Errorf("%d tool calls and %d left, want 200 and 10", len(a.Result.ToolCalls), a.Result.Left)
	}
}

func TestFilesAreNamedToTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.session.Workspace
	outside := t.TempDir()
	write(t, filepath.Join(ws, "a b.txt"), "")
	write(t, filepath.Join(ws, "dir/c.txt"), "")
	write(t, filepath.Join(outside, "d.txt"), "")
	for link, to := range map[string]string{"in": "dir/c.txt", "out": filepath.Join(outside, "d.txt")} {
		if err := os.Symlink(to, filepath.Join(ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ file, text, err string }{
		"relative":               {file: "a b.txt", text: "[link a b.txt file://WS/a%20b.txt]"},
		"absolute":               {file: filepath.Join(ws, "dir/c.txt"), text: "[link dir/c.txt file://WS/dir/c.txt]"},
		"a link that stays in":   {file: "in", text: "[link dir/c.txt file://WS/dir/c.txt]"},
		"a link that leads out":  {file: "out", err: "Validation error: files: out is outside of the workspace"},
		"upwards":                {file: "../" + filepath.Base(outside) + "/../..", err: "is outside of the workspace"},
		"elsewhere":              {file: "/etc/passwd", err: "Validation error: files: /etc/passwd is outside of the workspace"},
		"not there":              {file: "nowhere", err: "Validation error: files: there is no nowhere in the workspace"},
		"a name that plays":      {file: "no\x1b[2J", err: `there is no no\x1b[2J in the workspace`},
		"a name that cannot be":  {file: "a\x00b", err: `a\x00b cannot be found out about`},
		"the workspace's folder": {file: ".", text: "[link . file://WS]"},
	} {
		t.Run(name, func(t *testing.T) {
			w.session.Files = []string{test.file}
			_, a := w.do(t.Context(), "")
			text := strings.ReplaceAll(a.Result.Text, ws, "WS")
			if text != test.text || !strings.Contains(a.Error, test.err) || (test.err == "") != (a.Status == "success") {
				t.Errorf("the answer is %q %q with the text %q, want %q or an error with %q", a.Status, a.Error, text, test.text, test.err)
			}
		})
	}
}

func TestAnAgentThatWantsALoginIsToldOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run.Params.Env["TESTAGENT_LOGIN"] = "1"
	_, a := w.do(t.Context(), "say hi")
	wantIn(t, "the error", a.Error, `Agent answered session/new with an error: no key\x1b[2J (code -32000)`, "log in with the agent's own program", "Log in with a browser (browser)")
}

func TestAnotherVersionIsAnErrorThatNamesBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run.Params.Env["TESTAGENT_VERSION"] = "99"
	_, a := w.do(t.Context(), "say hi")
	if want := "Agent speaks version 99 of the Agent Client Protocol, and Airlock version 1"; a.Error != want {
		t.Errorf("error = %q, want %q", a.Error, want)
	}
}

func TestTheSchemaIsOfAnObjectAndTakesWhatASessionTakes(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(acp.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	r, err := tool.NewRegistry(&schemed{})
	if err != nil {
		t.Fatal(err)
	}
	for args, ok := range map[string]bool{
		`{"prompt":"x"}`: true, `{"prompt":"x","files":["a"]}`: true,
		`{}`: false, `{"prompt":""}`: false, `{"prompt":1}`: false, `{"prompt":"x","files":"a"}`: false, `{"prompt":"x","model":"y"}`: false,
	} {
		if bad := r.Check(tool.Call{Tool: "probe", Args: []byte(args)}); (bad == nil) != ok {
			t.Errorf("Check(%s) = %+v, want ok %v", args, bad, ok)
		}
	}
}

// schemed is a tool with the schema.
type schemed struct{ tool.Tool }

func (s *schemed) Info() *tool.Info {
	return &tool.Info{Name: "probe", Kind: tool.Bridge, Actions: []tool.Action{{Name: "run", Schema: acp.Schema(), Risk: tool.RiskUnknown}}}
}
