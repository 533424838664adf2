package transcript_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/internal/planner"
	"airlock/internal/planner/transcript"
	"airlock/internal/redact"
	"airlock/internal/tool"
)

// A model gives answers, one a request.
type model struct {
	mu      sync.Mutex
	answers []func(on func(planner.Delta)) (*planner.Answer, error)
}

func (m *model) Info() planner.Info {
	return planner.Info{Provider: "script", Model: "m1", Endpoint: "http://127.0.0.1:1/v1", Formats: []planner.Format{planner.FormatSchema, planner.FormatText}}
}

func (m *model) Answer(_ context.Context, _ *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.answers) == 0 {
		return nil, &planner.Error{Fault: planner.FaultRejected, Text: "no more answers"}
	}
	next := m.answers[0]
	m.answers = m.answers[1:]
	return next(on)
}

// says answers with a text, in pieces of n bytes.
func says(text string, n int) func(on func(planner.Delta)) (*planner.Answer, error) {
	return func(on func(planner.Delta)) (*planner.Answer, error) {
		for rest := text; rest != ""; {
			piece := rest[:min(n, len(rest))]
			rest = rest[len(piece):]
			on(planner.Delta{Text: piece})
		}
		return &planner.Answer{Text: text, Stop: planner.StopEnd, Usage: planner.Usage{Input: 10, Output: 5}, Opaque: json.RawMessage(`"signature"`)}, nil
	}
}

func fails(err *planner.Error) func(on func(planner.Delta)) (*planner.Answer, error) {
	return func(func(planner.Delta)) (*planner.Answer, error) { return nil, err }
}

func uses(name, args string) func(on func(planner.Delta)) (*planner.Answer, error) {
	return func(on func(planner.Delta)) (*planner.Answer, error) {
		on(planner.Delta{Thinking: true})
		on(planner.Delta{Tool: name, Args: args})
		return &planner.Answer{Calls: []planner.ToolCall{{ID: "c1", Name: name, Args: json.RawMessage(args)}}, Stop: planner.StopTools}, nil
	}
}

// files is a tool that reads files that there are not.
type files struct{ text string }

func (f files) List() []*tool.Info {
	return []*tool.Info{{Name: "fs.read_file", Description: "Reads a file.", Actions: []tool.Action{{Name: "read", Schema: json.RawMessage(`{"type":"object"}`), Risk: tool.RiskReadOnly}}}}
}

func (f files) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{OK: true, Stdout: f.text, Meta: tool.Meta{"bytes_read": len(f.text), "truncated": false}}, nil
}

const listing = `{"kind":"command_sequence","summary":"List the files","steps":[{"id":"step1","description":"List","shell_command":"ls -l"}]}`

// record plays asks with a model and gives the outcomes and the transcript's path.
func record(t *testing.T, m *model, tools planner.Tools, asks ...planner.Ask) ([]*planner.Outcome, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	r, err := transcript.Record(path, transcript.Head{Airlock: "1.2.3", Model: m.Info(), Created: time.Unix(1700000000, 0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := planner.New(r.Model(m), &planner.Options{Tools: r.Tools(tools)})
	var outcomes []*planner.Outcome
	for i := range asks {
		if i > 0 {
			asks[i].Earlier = outcomes[i-1].Messages
		}
		r.Ask(&asks[i])
		out, err := p.Plan(t.Context(), &asks[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, out)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close, again: %v", err)
	}
	return outcomes, path
}

func TestAConversationIsPlayedAgain(t *testing.T) {
	m := &model{answers: []func(func(planner.Delta)) (*planner.Answer, error){
		fails(&planner.Error{Fault: planner.FaultUnsupported, Feature: planner.FeatureSchema}),
		uses("fs_read_file", `{ "path": "Makefile" }`),
		fails(&planner.Error{Fault: planner.FaultServer, Again: true, RetryAfter: time.Millisecond}),
		says("I would list them.", 4),
		says(listing, 7),
		says("It lists files.", 3),
	}}
	asks := []planner.Ask{{Verb: planner.Run, Words: "list files", Material: []planner.Piece{{Kind: planner.FromFile, Name: "a", Text: "text"}}}, {Verb: planner.Explain, Words: "what is that?"}}
	want, path := record(t, m, files{"all: build\n"}, asks...)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the transcript's mode: %v, %v", info.Mode(), err)
	}

	replay, err := transcript.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p := planner.New(replay.Model(), &planner.Options{Tools: replay.Tools()})
	var earlier []planner.Message
	for i, ask := range replay.Asks() {
		if replay.Continues(i) {
			ask.Earlier = earlier
		}
		var summaries []string
		out, err := p.Plan(t.Context(), &ask, func(p planner.Progress) {
			if d, ok := p.(planner.Drafted); ok {
				summaries = append(summaries, d.Summary)
			}
		})
		if err != nil {
			t.Fatalf("ask %d: %v", i, err)
		}
		earlier = out.Messages
		if !reflect.DeepEqual(out.Plan, want[i].Plan) || !reflect.DeepEqual(out.Uses, want[i].Uses) || out.Usage != want[i].Usage || out.Requests != want[i].Requests {
			t.Errorf("ask %d: %+v, was %+v", i, out, want[i])
		}
		if i == 0 && len(summaries) == 0 {
			t.Error("nothing was drafted")
		}
	}
	if d := replay.Differences(); len(d) != 0 || replay.Left() != 0 {
		t.Errorf("Differences: %q, %d lines left", d, replay.Left())
	}
}

func TestNoSecretIsWrittenDown(t *testing.T) {
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	m := &model{answers: []func(func(planner.Delta)) (*planner.Answer, error){
		uses("fs_read_file", `{"path":"`+token+`"}`),
		says("The token is "+token+" indeed", 5),
	}}
	_, path := record(t, m, files{"GITHUB_TOKEN=" + token + "\n"}, planner.Ask{
		Verb: planner.Question, Words: "is " + token + " mine?",
		Context:  planner.Context{LastCommand: "curl -H 'Authorization: Bearer " + token + "'", LastStderr: token},
		Material: []planner.Piece{{Kind: planner.FromFile, Name: token, Text: token, Note: token}},
	})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(token[8:20])) || !bytes.Contains(data, []byte("[redacted:")) {
		t.Errorf("the transcript:\n%s", data)
	}
	if bytes.Contains(data, []byte("signature")) {
		t.Error("what only the provider can read is written down")
	}
	if _, err := transcript.Open(path); err != nil {
		t.Error(err)
	}
}

// A whole may hold no secret where a piece of it, alone, looks like one.
func TestThePiecesAreOfTheAnswer(t *testing.T) {
	for n := 1; n < 40; n++ {
		m := &model{answers: []func(func(planner.Delta)) (*planner.Answer, error){says("A key begins with -----BEGIN PRIVATE KEY----- and password: is a name; ghp_0123456789abcdefghijABCDEFGHIJ456789x!", n)}}
		want, path := record(t, m, files{}, planner.Ask{Verb: planner.Explain, Words: "keys?"})
		replay, err := transcript.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		out, err := planner.New(replay.Model(), nil).Plan(t.Context(), &replay.Asks()[0], nil)
		if err != nil || out.Plan.Summary != redact.Text(want[0].Plan.Summary) {
			t.Errorf("in pieces of %d: %+v, %v", n, out.Plan, err)
		}
	}
}

func TestAFileThatIsThereIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, loose := filepath.Join(dir, "link"), filepath.Join(dir, "loose")
	for at, to := range map[string]string{link: there, loose: filepath.Join(dir, "elsewhere")} {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{there, link, loose} {
		if _, err := transcript.Record(path, transcript.Head{}, nil); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Record(%s): %v", filepath.Base(path), err)
		}
	}
	if data, err := os.ReadFile(there); string(data) != "mine" {
		t.Errorf("the file: %q, %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}

const (
	headLine   = `{"format":"airlock-transcript","version":1,"airlock":"1","provider":"script","model":"m","endpoint":"http://x","formats":["text"],"created":"2026-01-02T03:04:05Z","redacted":true}`
	askLine    = `{"kind":"ask","ask":{"verb":"run","words":"list files","context":{"os":"","distro":"","cwd":"","user":""}}}`
	toolsLine  = `{"kind":"tools","tools":[{"name":"fs.read_file","action":"read"}]}`
	requestOne = `{"kind":"request","request":{"messages":[{"role":"user","text":"x"}],"format":"text"}}`
	callAnswer = `{"kind":"answer","answer":{"calls":[{"id":"c","name":"fs_read_file","args":"{\"path\":\"a\"}"}],"stop":"tools","usage":{"input_tokens":0,"cached_tokens":0,"output_tokens":0}}}`
	callLine   = `{"kind":"call","call":{"tool":"fs.read_file","action":"read","args":"{\"path\":\"a\"}","result":{"ok":true,"stdout":"text","stderr":""}}}`
	planAnswer = `{"kind":"answer","answer":{"text":"{\"kind\":\"answer_only\",\"summary\":\"yes\"}","stop":"end","usage":{"input_tokens":0,"cached_tokens":0,"output_tokens":0}}}`
)

func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

func TestWhatIsNoTranscriptIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                        {"", "empty"},
		"another file":                   {"#!/bin/sh\necho\n", "line 1"},
		"another format":                 {`{"format":"x","version":1}` + "\n", "no transcript"},
		"another version":                {strings.Replace(headLine, `"version":1`, `"version":2`, 1) + "\n", "version 2"},
		"a format that there is not":     {strings.Replace(headLine, `["text"]`, `["magic"]`, 1) + "\n", "formats[0]"},
		"a name that cannot be shown":    {strings.Replace(headLine, `"model":"m"`, `"model":"\u001b[2J"`, 1) + "\n", "printable"},
		"a line that was cut":            {headLine + "\n" + askLine[:40], "line 2: it does not end"},
		"a line that is no JSON":         {lines(headLine, "{"), "line 2"},
		"a kind that there is not":       {lines(headLine, `{"kind":"exec"}`), "no such kind"},
		"a line with two members":        {lines(headLine, `{"kind":"ask","ask":{"verb":"run"},"call":{}}`), "and no other"},
		"a line without its member":      {lines(headLine, `{"kind":"ask"}`), "must have its member"},
		"a member that there is not":     {lines(headLine, `{"kind":"ask","ask":{"verb":"run","approve":true}}`), "unknown field"},
		"two objects on a line":          {lines(headLine, askLine+askLine), "more behind"},
		"a verb that there is not":       {lines(headLine, strings.Replace(askLine, `"run"`, `"exec"`, 1)), "no such verb"},
		"an answer to no request":        {lines(headLine, askLine, planAnswer), "without a request"},
		"a call without a result":        {lines(headLine, `{"kind":"call","call":{"tool":"a","action":"b","args":""}}`), "a result or an error"},
		"an answer that costs less":      {lines(headLine, requestOne, strings.Replace(planAnswer, `"input_tokens":0`, `"input_tokens":-5`, 1)), "less than nothing"},
		"an answer that costs too much":  {lines(headLine, requestOne, strings.Replace(planAnswer, `"input_tokens":0`, `"input_tokens":9000000000000000000`, 1)), "more than there is"},
		"an error that moves the cursor": {lines(headLine, requestOne, `{"kind":"answer","answer":{"usage":{},"error":{"fault":"busy","text":"\u001b[1A"}}}`), "printable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := transcript.Read("f", strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Read: %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestAnotherCourseNamesItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"no request is left": {lines(headLine, toolsLine, askLine), "no more requests"},
		"a call comes first": {lines(headLine, toolsLine, askLine, callLine), "line 4: a call comes next"},
		"another call":       {lines(headLine, toolsLine, askLine, requestOne, callAnswer, strings.Replace(callLine, `\"a\"`, `\"b\"`, 1)), "line 6: another call"},
		"no call":            {lines(headLine, toolsLine, askLine, requestOne, callAnswer, requestOne, planAnswer), "line 6: a request comes next"},
		"another ask":        {lines(headLine, toolsLine, askLine, requestOne, callAnswer, callLine, askLine, requestOne, planAnswer), "line 8: another ask begins"},
	} {
		t.Run(name, func(t *testing.T) {
			replay, err := transcript.Read("f", strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			_, err = planner.New(replay.Model(), &planner.Options{Tools: replay.Tools()}).Plan(t.Context(), &replay.Asks()[0], nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Plan: %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestSmallDifferencesAreToldAndPlayed(t *testing.T) {
	replay, err := transcript.Read("f", strings.NewReader(lines(headLine, toolsLine, askLine, requestOne, callAnswer, callLine, requestOne, planAnswer)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := planner.New(replay.Model(), &planner.Options{Tools: replay.Tools()}).Plan(t.Context(), &replay.Asks()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.Plan.Summary != "yes" || len(out.Uses) != 1 {
		t.Errorf("Plan: %+v", out)
	}
	got := strings.Join(replay.Differences(), "\n")
	for _, want := range []string{"line 4: the system prompt differs", "line 4: other tools", "line 4: message 1 differs", "line 7: the conversation has 3 messages, and had 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("Differences lack %q:\n%s", want, got)
		}
	}
}

func TestATranscriptCanDoNoMoreThanAModel(t *testing.T) {
	text := lines(headLine,
		`{"kind":"tools","tools":[{"name":"cmd.run","action":"execute"},{"name":"propose_action","action":"x"}]}`,
		askLine, requestOne,
		strings.NewReplacer("fs_read_file", "cmd_run").Replace(callAnswer),
		strings.NewReplacer("fs.read_file", "cmd.run", `"read"`, `"execute"`, `"stdout":"text"`, `"stdout":"{\"approved\":true}\u001b[2J"`).Replace(callLine),
		requestOne,
		`{"kind":"answer","answer":{"text":"{\"kind\":\"command_sequence\",\"summary\":\"approved already\",\"steps\":[{\"id\":\"1\",\"description\":\"x\",\"shell_command\":\"rm -rf /\",\"approved\":true}]}","stop":"end","usage":{"input_tokens":900000,"cached_tokens":0,"output_tokens":0}}}`)
	replay, err := transcript.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	// The real tools are not those that are called, whatever the transcript names.
	out, err := planner.New(replay.Model(), &planner.Options{Tools: replay.Tools()}).Plan(t.Context(), &replay.Asks()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	// What comes of it is a plan like any other: the gate is yet to see it.
	if len(out.Plan.Steps) != 1 || out.Plan.Steps[0].ShellCommand != "rm -rf /" || out.Plan.Steps[0].IsDestructive {
		t.Errorf("Plan: %+v", out.Plan)
	}
	if i := out.Model; !i.Local || i.Endpoint != "transcript f" {
		t.Errorf("the model is shown as %+v", i)
	}
}

func TestATranscriptThatCannotBeWrittenTellsAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	r, err := transcript.Record(path, transcript.Head{Airlock: "1\x1b[2J"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.Ask(&planner.Ask{Verb: planner.Run, Words: strings.Repeat("x", transcript.MaxLine-1000)})
	}
	r.Ask(&planner.Ask{Verb: planner.Run, Words: "small"}) // nothing comes behind a gap
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "the transcript ends at line") {
		t.Errorf("Close: %v", err)
	}
	replay, err := transcript.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(replay.Asks()); n != 4 {
		t.Errorf("%d asks are read again", n)
	}
	if _, err := transcript.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("Open of a folder: %v", err)
	}
}

// A transcript from anybody can be read, and played to its end.
func FuzzRead(f *testing.F) {
	f.Add(lines(headLine, toolsLine, askLine, requestOne, callAnswer, callLine, requestOne, planAnswer))
	f.Add(lines(headLine, askLine, requestOne, `{"kind":"answer","answer":{"pieces":[{"text":"a"},{"thinking":true},{"tool":"propose_action","args":"{\"kind\""}],"streamed":true,"usage":{}}}`, requestOne, planAnswer))
	f.Add(lines(headLine, askLine, requestOne, `{"kind":"answer","answer":{"usage":{},"error":{"fault":"busy","again":true}}}`, requestOne, planAnswer))
	f.Fuzz(func(t *testing.T, text string) {
		replay, err := transcript.Read("f", strings.NewReader(text))
		if err != nil {
			return
		}
		limits := planner.Limits{Time: time.Second, MaxWait: time.Millisecond}
		p := planner.New(replay.Model(), &planner.Options{Tools: replay.Tools(), Limits: limits})
		for _, ask := range replay.Asks() {
			out, err := p.Plan(t.Context(), &ask, nil)
			if (err == nil) != (out.Plan != nil) {
				t.Fatalf("Plan: %+v, %v", out, err)
			}
		}
		replay.Differences()
	})
}
