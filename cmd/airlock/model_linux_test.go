package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

// A turn is what a script's model answers to one request.
type turn struct {
	Text   string              `json:"text"`
	Plan   json.RawMessage     `json:"plan"` // an AiAction, as the text
	Calls  []planner.ToolCall  `json:"calls"`
	Usage  planner.Usage       `json:"usage"`
	Status int                 `json:"status"`
	Body   string              `json:"body"`
	Raw    bool                `json:"raw"`
	Type   string              `json:"type"`
	Header map[string][]string `json:"header"`
	Cut    int                 `json:"cut"`
	Flood  int64               `json:"flood"`
	Silent bool                `json:"silent"`
}

func (u *turn) turn() modeltest.Turn {
	out := modeltest.Turn{
		Text: u.Text, Calls: u.Calls, Usage: u.Usage, Status: u.Status, Body: u.Body, Raw: u.Raw, ContentType: u.Type,
		Header: http.Header(u.Header), CutAfter: u.Cut, Flood: u.Flood, Silent: u.Silent,
	}
	if len(u.Plan) > 0 {
		out.Text = string(u.Plan)
	}
	return out
}

// models are the servers of scripts, by their work folder.
type models struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]*modeltest.Script
}

// start is the command "model KIND FILE": a server that speaks the wire format of openai,
// anthropic or gemini and answers with the turns of FILE. The environment names it.
func (m *models) start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: model openai|anthropic|gemini FILE")
	}
	var turns []turn
	if err := json.Unmarshal([]byte(ts.ReadFile(args[1])), &turns); err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	script := &modeltest.Script{}
	for i := range turns {
		script.Turns = append(script.Turns, turns[i].turn())
	}
	servers := map[string]func(testing.TB, *modeltest.Script) string{
		"openai": modeltest.OpenAI, "anthropic": modeltest.Anthropic, "gemini": modeltest.Gemini,
	}
	server, ok := servers[args[0]]
	if !ok {
		ts.Fatalf("there is no %s", args[0])
	}
	url := server(m.t, script)
	m.mu.Lock()
	m.by[ts.Getenv("WORK")] = script
	m.mu.Unlock()
	ts.Setenv("AIRLOCK_PROVIDER", args[0])
	ts.Setenv("AIRLOCK_MODEL", "test-1")
	ts.Setenv("AIRLOCK_BASE_URL", url)
	ts.Setenv(strings.ToUpper(args[0])+"_API_KEY", "sk-test-4f9a8c1e7b2d6053")
}

// requests is the command "requests FILE": what the server was asked, a body a line.
func (m *models) requests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: requests FILE")
	}
	m.mu.Lock()
	script := m.by[ts.Getenv("WORK")]
	m.mu.Unlock()
	if script == nil {
		ts.Fatalf("there is no model")
	}
	var out strings.Builder
	for _, seen := range script.Requests() {
		fmt.Fprintf(&out, "%s\n", seen.Body)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out.String()), 0o644))
}
