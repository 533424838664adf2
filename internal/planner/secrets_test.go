package planner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/redact"
	"airlock/internal/tool"
)

// The secrets that are looked for: ones with a form of their own, and one that only the
// Planner's own redaction knows, which JSON writes in another way.
const (
	token  = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	odd    = "odd\"secret\\with<all>\nthat JSON writes otherwise"
	keyPEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDBj08sp5++4anG\ncmQxJjAkBgNVBAoTHVByb2dyZXNzIFNvZnR3YXJlIENvcnBvcmF0aW9uMSAwHgYD\n-----END PRIVATE KEY-----\n"
)

// fragments are parts of the secrets, none of which may be sent in any spelling.
var fragments = []string{"ghp_0123", "456789abcdef", "GHIJ4567", `odd"sec`, `odd\"sec`, `odd\\\"sec`, "secret\\", "that JSON writes", "MIIEvQ", "cmQxJjAk"}

func leaks(t *testing.T, where string, data []byte) {
	t.Helper()
	for _, f := range fragments {
		if i := strings.Index(string(data), f); i >= 0 {
			t.Errorf("%s holds %q: %.200s", where, f, data[max(i-50, 0):])
		}
	}
}

func TestNoSecretLeavesInAnyWay(t *testing.T) {
	redactOdd := func(s string) string { return strings.ReplaceAll(s, odd, "[redacted:odd]") }
	all := "a " + token + " b " + odd + " c\n" + keyPEM
	inJSON, err := json.Marshal(map[string]string{"path": all, token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, formats := range [][]planner.Format{textOnly, {planner.FormatTool, planner.FormatText}} {
		b := box()
		b.give = func(_ context.Context, call tool.Call) (tool.Result, error) {
			if !strings.Contains(string(call.Args), token) {
				t.Errorf("the tool was not called as the model wrote it: %s", call.Args)
			}
			return tool.Result{OK: false, Stdout: all, Stderr: all, Meta: tool.Meta{"short": token, token: true, "long": all}}, nil
		}
		bad := strings.Replace(listing, `"step1"`, `"`+token+`","id":7`, 1)
		m := script(formats,
			turn{answer: planner.Answer{Text: all, Calls: []planner.ToolCall{{ID: "a", Name: "fs_read_file", Args: inJSON}, {ID: "b", Name: token, Args: inJSON}, {ID: "c", Name: "propose_action", Args: inJSON}}}},
			text(strings.ReplaceAll(bad, "List the files", token)), text(strings.ReplaceAll(listing, "List the files", token)))
		p := planner.New(m, &planner.Options{Tools: b, Redact: func(s string) string { return redact.Text(redactOdd(s)) }, Limits: planner.Limits{Rounds: 1}})
		ask := &planner.Ask{
			Verb: planner.Do, Words: all,
			Context:  planner.Context{OS: all, Distro: token, CWD: "/" + token, User: token, LastCommand: "login " + all, LastStderr: all},
			Material: []planner.Piece{{Kind: planner.FromFailure, Name: all, Text: all, Note: all}, {Kind: planner.PieceKind(token), Name: token, Text: strings.Repeat("x", 100) + " " + token}},
			Earlier: []planner.Message{
				{Role: planner.User, Text: all},
				{Role: planner.Assistant, Text: all, Calls: []planner.ToolCall{{ID: "x", Name: "sysinfo", Args: inJSON}}},
				{Role: planner.User, Results: []planner.ToolResult{{ID: "x", Name: "sysinfo", Text: all}}},
				{Role: planner.Assistant, Text: all},
			},
		}
		firstSent, err := json.Marshal(p.First(ask))
		if err != nil {
			t.Fatal(err)
		}
		leaks(t, "First", firstSent)
		out, _, err := plan(t, p, ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.requests) != 3 || out.Plan.Summary != token {
			t.Fatalf("%d requests, %+v", len(m.requests), out.Plan)
		}
		for _, req := range m.requests {
			sent, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			leaks(t, "a request", sent)
			if !strings.Contains(string(sent), "[redacted:") {
				t.Error("nothing was redacted")
			}
		}
		kept, err := json.Marshal(out.Messages)
		if err != nil {
			t.Fatal(err)
		}
		leaks(t, "what is kept", kept)
	}
}

// A secret that lies where a result is cut is taken out before.
func TestNoSecretIsCutInTwo(t *testing.T) {
	for before := range 80 {
		b := box()
		b.give = func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{OK: true, Stdout: strings.Repeat("x", 480+before) + " " + token + strings.Repeat(" y", 1000)}, nil
		}
		m := script(textOnly, calls("sysinfo", `{}`), text(listing))
		if _, _, err := plan(t, planner.New(m, &planner.Options{Tools: b, Limits: planner.Limits{ToolBytes: 1024}}), run); err != nil {
			t.Fatal(err)
		}
		leaks(t, "the result", []byte(results(m)[0].Text))
		if len(results(m)[0].Text) > 1024 {
			t.Errorf("%d bytes", len(results(m)[0].Text))
		}
	}
}

func TestAKeyInALargeAnswerIsNotSentBackInParts(t *testing.T) {
	for before := 32<<10 - 60; before < 32<<10+10; before += 7 {
		m := script(textOnly, text(strings.Repeat("x", before)+" "+token+" and more"), text(listing))
		if _, _, err := plan(t, planner.New(m, nil), run); err != nil {
			t.Fatal(err)
		}
		sent := m.requests[1].Messages[1].Text
		leaks(t, "the answer that goes back", []byte(sent))
		if len(sent) > 32<<10 {
			t.Errorf("%d bytes go back", len(sent))
		}
	}
}
