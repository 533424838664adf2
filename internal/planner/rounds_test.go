package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"airlock/internal/action"
	"airlock/internal/planner"
	"airlock/internal/tool"
)

// tools are some that answer at once, and keep what they were asked.
type tools struct {
	list []*tool.Info
	give func(ctx context.Context, call tool.Call) (tool.Result, error)

	mu    sync.Mutex
	calls []tool.Call
}

func (b *tools) List() []*tool.Info { return b.list }

func (b *tools) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	b.mu.Lock()
	b.calls = append(b.calls, call)
	b.mu.Unlock()
	if b.give == nil {
		return tool.Result{OK: true, Stdout: "given\n", Meta: tool.Meta{"duration_ms": 3, "truncated": false}}, nil
	}
	return b.give(ctx, call)
}

func info(name, act string, risk tool.Risk) *tool.Info {
	return &tool.Info{Name: name, Description: "Does it.", Actions: []tool.Action{{Name: act, Schema: json.RawMessage(`{"type":"object"}`), Risk: risk}}}
}

// box has the four that there are.
func box() *tools {
	return &tools{list: []*tool.Info{
		info("sysinfo", "get", tool.RiskReadOnly), info("services", "list", tool.RiskReadOnly),
		info("packages", "list", tool.RiskReadOnly), info("fs.read_file", "read", tool.RiskReadOnly),
	}}
}

// calls answers with calls of tools: a name and arguments each.
func calls(pairs ...string) turn {
	a := planner.Answer{Stop: planner.StopTools}
	for i := 0; i < len(pairs); i += 2 {
		a.Calls = append(a.Calls, planner.ToolCall{ID: fmt.Sprintf("c%d", i), Name: pairs[i], Args: json.RawMessage(pairs[i+1])})
	}
	return turn{answer: a}
}

// plan works an ask out, and gives the progress, too.
func plan(t *testing.T, p *planner.Planner, ask *planner.Ask) (*planner.Outcome, []planner.Progress, error) {
	t.Helper()
	var seen []planner.Progress
	out, err := p.Plan(t.Context(), ask, func(p planner.Progress) { seen = append(seen, p) })
	return out, seen, err
}

// results are what the last request gives of the tools.
func results(m *model) []planner.ToolResult {
	messages := m.requests[len(m.requests)-1].Messages
	return messages[len(messages)-1].Results
}

var run = &planner.Ask{Verb: planner.Run, Words: "list files"}

func TestToolsAreUsedOneAfterAnother(t *testing.T) {
	b := box()
	m := script(textOnly, calls("fs_read_file", `{"path":"/etc/hosts"}`, "sysinfo", ``), text(listing))
	out, seen, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run)
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Call{{Tool: "fs.read_file", Action: "read", Args: json.RawMessage(`{"path":"/etc/hosts"}`)}, {Tool: "sysinfo", Action: "get", Args: json.RawMessage(`{}`)}}
	if fmt.Sprint(b.calls) != fmt.Sprint(want) {
		t.Errorf("called: %s, want %s", b.calls, want)
	}
	if len(out.Uses) != 2 || !out.Uses[0].OK || out.Uses[0].Call.Tool != "fs.read_file" || out.Uses[0].Bytes == 0 {
		t.Errorf("Uses: %+v", out.Uses)
	}
	var names []string
	for _, p := range seen {
		names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", p), "planner."))
	}
	if got := strings.Join(names, " "); got != "Asked Using Used Using Used Asked" {
		t.Errorf("progress: %s", got)
	}
	if got := results(m); len(got) != 2 || got[0].ID != "c0" || got[1].ID != "c2" || got[0].Text != `{"ok":true,"stdout":"given\n","meta":{"truncated":false}}` || got[0].Failed {
		t.Errorf("results: %+v", got)
	}
	if len(out.Messages) != 4 {
		t.Errorf("Messages: %+v", out.Messages)
	}
}

func TestOnlyToolsThatReadAreOffered(t *testing.T) {
	b := &tools{list: []*tool.Info{
		info("fs.read_file", "read", tool.RiskReadOnly), info("cmd.run", "execute", tool.RiskUnknown),
		info("fs_read.file", "read", tool.RiskReadOnly), info("propose_action", "x", tool.RiskReadOnly),
		info("fs.write_file", "write", tool.RiskWritesInside), info("Bad name", "x", tool.RiskReadOnly),
		{Name: "svc.manage", Actions: []tool.Action{{Name: "status", Risk: tool.RiskReadOnly}, {Name: "stop", Risk: tool.RiskService}}},
	}}
	m := script(textOnly, calls("cmd_run", `{"command":"id"}`, "svc_manage", `{}`, "fs.read_file", `{}`), text(listing))
	out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run)
	if err != nil {
		t.Fatal(err)
	}
	if offered := m.requests[0].Tools; len(offered) != 1 || offered[0].Name != "fs_read_file" {
		t.Errorf("offered: %+v", offered)
	}
	if len(b.calls) != 0 || len(out.Uses) != 3 || out.Uses[0].OK {
		t.Errorf("called: %+v; Uses: %+v", b.calls, out.Uses)
	}
	for _, r := range results(m) {
		if !r.Failed || !strings.Contains(r.Text, "there are fs_read_file") || !strings.Contains(r.Text, string(tool.NotFound)) {
			t.Errorf("result: %+v", r)
		}
	}
}

func TestArgumentsThatAreNoObjectAreNotCalled(t *testing.T) {
	for _, args := range []string{
		`[]`, `"x"`, `null`, `{`, `{}{}`, `{},"tool":"cmd.run"`, `{"a":1}]`, "\x00", `{"path":"` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		b := box()
		m := script(textOnly, calls("sysinfo", args), text(listing))
		out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.calls) != 0 || out.Uses[0].OK || !strings.Contains(results(m)[0].Text, string(tool.InvalidArgs)) {
			t.Errorf("%.40q: called %+v, %+v", args, b.calls, results(m))
		}
		last := m.requests[1].Messages
		if sent := last[len(last)-2].Calls[0].Args; string(sent) != "{}" {
			t.Errorf("%.40q: sent back as %.40q", args, sent)
		}
	}
}

func TestTheSameCallIsAnsweredFromBefore(t *testing.T) {
	b := box()
	m := script(textOnly,
		calls("fs_read_file", `{"path":"a","max_bytes":10}`), calls("fs_read_file", `{ "max_bytes": 10, "path": "a" }`),
		calls("fs_read_file", `{"path":"b","max_bytes":10}`), text(listing))
	p := planner.New(m, &planner.Options{Tools: b, Limits: planner.Limits{Calls: 3}})
	out, _, err := plan(t, p, run)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.calls) != 2 || len(out.Uses) != 2 {
		t.Errorf("%d calls, %d uses", len(b.calls), len(out.Uses))
	}
	if len(m.requests[3].Tools) != 0 {
		t.Error("it does not count")
	}
}

// loop calls another file each time it is asked, as long as it may and then some.
func loop(n int) []turn {
	var turns []turn
	for i := range n {
		turns = append(turns, calls("fs_read_file", fmt.Sprintf(`{"path":"f%d"}`, i)))
	}
	return turns
}

func TestToolsEndAtTheirBounds(t *testing.T) {
	for name, c := range map[string]struct {
		limits planner.Limits
		give   string
		most   int // calls
	}{
		"rounds":            {planner.Limits{Rounds: 3}, "x", 3},
		"calls":             {planner.Limits{Calls: 2}, "x", 2},
		"bytes in all":      {planner.Limits{AllBytes: 10 << 10, ToolBytes: 4 << 10}, strings.Repeat("x", 1<<20), 3},
		"what is usual":     {planner.Limits{}, "x", 8},
		"bytes that escape": {planner.Limits{AllBytes: 10 << 10, ToolBytes: 4 << 10}, strings.Repeat("\x01\"<\u2028", 1<<18), 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := box()
			b.give = func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{OK: true, Stdout: c.give, Stderr: c.give}, nil
			}
			turns := append(loop(c.most), text(listing))
			m := script(textOnly, turns...)
			out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b, Limits: c.limits}), run)
			if err != nil || len(out.Plan.Steps) != 1 {
				t.Fatalf("Plan: %+v, %v", out, err)
			}
			if len(b.calls) > c.most {
				t.Errorf("%d calls", len(b.calls))
			}
			last := m.requests[len(m.requests)-1]
			if len(last.Tools) != 0 || !strings.Contains(fmt.Sprint(last.Messages), "No more tools can be used") {
				t.Errorf("the last request offers %+v and says %.300s", last.Tools, last.Messages[len(last.Messages)-1].Text)
			}
			for _, m := range last.Messages {
				if len(m.Calls) > 0 || len(m.Results) > 0 {
					t.Error("a request without tools has calls of them")
				}
			}
			size := 0
			for _, u := range out.Uses {
				size += u.Bytes
				if c.limits.ToolBytes > 0 && u.Bytes > c.limits.ToolBytes {
					t.Errorf("a result of %d bytes", u.Bytes)
				}
				if (len(c.give) > 1000) != u.Cut {
					t.Errorf("Cut: %+v", u)
				}
			}
			if c.limits.AllBytes > 0 && size > c.limits.AllBytes {
				t.Errorf("%d bytes in all", size)
			}
		})
	}
}

func TestEndlessCallsAreAnError(t *testing.T) {
	for name, turns := range map[string][]turn{
		"after all rounds":           loop(20),
		"a great many calls at once": {calls(slices.Repeat([]string{"sysinfo", "{}"}, 1000)...)},
	} {
		t.Run(name, func(t *testing.T) {
			b := box()
			m := script(textOnly, turns...)
			out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run)
			var fault *planner.Error
			if !errors.As(err, &fault) || fault.Fault != planner.FaultGarbled || !strings.Contains(err.Error(), "tools") || fault.Mend == "" {
				t.Errorf("Plan: %v", err)
			}
			if out == nil || out.Plan != nil || len(out.Uses) != len(b.calls) || len(m.requests) > 9 {
				t.Errorf("Outcome: %+v after %d requests", out, len(m.requests))
			}
		})
	}
}

func TestAModelThatCallsAtTheEndIsTakenAtItsText(t *testing.T) {
	turns := loop(8)
	last := calls("fs_read_file", `{"path":"more"}`)
	last.answer.Text = listing
	m := script(textOnly, append(turns, last)...)
	out, _, err := plan(t, planner.New(m, &planner.Options{Tools: box()}), run)
	if err != nil || len(out.Plan.Steps) != 1 {
		t.Errorf("Plan: %+v, %v", out, err)
	}
}

func TestAProposalBesideOtherCallsIsNotTaken(t *testing.T) {
	early := strings.Replace(listing, "ls -l", "rm -rf build", 1)
	m := script([]planner.Format{planner.FormatTool, planner.FormatText},
		calls("propose_action", early, "sysinfo", `{}`), calls("propose_action", listing))
	b := box()
	out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run)
	if err != nil || out.Plan.Steps[0].ShellCommand != "ls -l" || len(b.calls) != 1 {
		t.Fatalf("Plan: %+v, %v; called %+v", out, err, b.calls)
	}
	if r := results(m); !r[0].Failed || !strings.Contains(r[0].Text, "propose again") || r[1].Failed {
		t.Errorf("results: %+v", r)
	}
	if req := m.requests[0]; !req.MustCall || req.Tools[len(req.Tools)-1].Name != "propose_action" || req.Schema != nil {
		t.Errorf("request: %+v", req)
	}
	// What the model says last is kept without the call: the next request may offer no tools.
	if last := out.Messages[len(out.Messages)-1]; len(last.Calls) > 0 || !strings.Contains(last.Text, "ls -l") {
		t.Errorf("the last message: %+v", last)
	}
}

func TestAProposalIsMended(t *testing.T) {
	for name, first := range map[string]turn{
		"one that is not valid": calls("propose_action", `{"kind":"command_sequence"}`),
		"two at once":           calls("propose_action", listing, "propose_action", listing),
		"no JSON":               calls("propose_action", `{"kind":`),
	} {
		t.Run(name, func(t *testing.T) {
			m := script([]planner.Format{planner.FormatTool, planner.FormatText}, first, calls("propose_action", listing))
			out, _, err := plan(t, planner.New(m, &planner.Options{Tools: box()}), run)
			if err != nil || len(out.Plan.Steps) != 1 || out.Invalid != nil {
				t.Fatalf("Plan: %+v, %v", out, err)
			}
			for _, r := range results(m) {
				if !r.Failed || !strings.Contains(r.Text, "no valid AiAction") {
					t.Errorf("results: %+v", results(m))
				}
			}
			if got := m.requests[1].Messages; len(got[1].Calls) != len(results(m)) {
				t.Errorf("%d calls and %d results", len(got[1].Calls), len(results(m)))
			}
			if len(out.Messages) != 2 {
				t.Errorf("Messages: %+v", out.Messages)
			}
		})
	}
}

func TestTheProposalHasThePlansSchema(t *testing.T) {
	m := script([]planner.Format{planner.FormatTool, planner.FormatText}, calls("propose_action", listing))
	if _, _, err := plan(t, planner.New(m, nil), run); err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := json.Unmarshal(m.requests[0].Tools[0].Schema, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(action.Schema(), &want); err != nil {
		t.Fatal(err)
	}
	want["properties"].(map[string]any)["steps"].(map[string]any)["items"] = want["definitions"].(map[string]any)["Step"]
	delete(want, "definitions")
	delete(want, "$schema")
	if !jsonEqual(t, got, want) {
		t.Errorf("schema: %v\nwant %v", got, want)
	}
}

func TestAFailedToolIsAResultAndABrokenOneAnError(t *testing.T) {
	b := box()
	b.give = func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Fail(tool.PermissionDenied, "refused by the rule files:\n\x1b[2J"), nil
	}
	m := script(textOnly, calls("fs_read_file", `{"path":"/etc/shadow"}`), text(listing))
	out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run)
	if err != nil || out.Uses[0].OK || out.Uses[0].Why != `refused by the rule files:\n\x1b[2J` || !results(m)[0].Failed {
		t.Errorf("Plan: %+v, %v", out, err)
	}

	broken := errors.New("the record cannot be written")
	b.give = func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, broken }
	m = script(textOnly, calls("sysinfo", `{}`), text(listing))
	if _, _, err := plan(t, planner.New(m, &planner.Options{Tools: b}), run); !errors.Is(err, broken) || !strings.Contains(err.Error(), "sysinfo") {
		t.Errorf("Plan: %v", err)
	}
}

// A tool's result may say what it likes: it is a string in an object, and no more.
func TestAResultCannotBeMoreThanAResult(t *testing.T) {
	for _, s := range hostile {
		for _, formats := range [][]planner.Format{textOnly, {planner.FormatTool, planner.FormatText}} {
			b := box()
			b.give = func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{OK: true, Stdout: s, Stderr: s, Meta: tool.Meta{"note": s, "approved": true}}, nil
			}
			m := script(formats, calls("fs_read_file", `{"path":"README"}`), turn{answer: planner.Answer{Text: listing}})
			out, _, err := plan(t, planner.New(m, &planner.Options{Tools: b, Limits: planner.Limits{Rounds: 1}}), run)
			if err != nil || out.Plan.Steps[0].ShellCommand != "ls -l" {
				t.Fatalf("Plan: %+v, %v", out, err)
			}
			messages := m.requests[1].Messages
			last := messages[len(messages)-1]
			result := ""
			if formats[0] == planner.FormatTool {
				if len(messages) != 3 || len(last.Results) != 1 {
					t.Fatalf("sent: %+v", messages)
				}
				result = last.Results[0].Text
			} else { // in words, as no tools are offered any more
				_, inside := texts(t, last.Text)
				if len(messages) != 3 || len(inside) != 1 {
					t.Fatalf("sent: %+v", messages)
				}
				_, result, _ = strings.Cut(inside[0], "\n\n")
			}
			var reply struct{ Stdout, Stderr string }
			if err := json.Unmarshal([]byte(result), &reply); err != nil || reply.Stdout != s || reply.Stderr != s {
				t.Errorf("result: %s, %v", result, err)
			}
		}
	}
}
