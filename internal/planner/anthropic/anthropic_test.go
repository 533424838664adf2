package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"airlock/internal/planner"
	"airlock/internal/planner/anthropic"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = modeltest.Key

// model makes a model at url, and ends its connections with the test.
func model(t testing.TB, url string, opts *endpoint.Options) *anthropic.Model {
	t.Helper()
	client := endpoint.Client(opts)
	t.Cleanup(client.CloseIdleConnections)
	m, err := anthropic.New(&anthropic.Options{Model: "claude-sonnet-5-5", BaseURL: url, Key: key, HTTP: client})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

// ask is a request with a text alone.
func ask(text string) *planner.Request {
	return &planner.Request{
		System:   "You plan.",
		Messages: []planner.Message{{Role: planner.User, Text: text}},
		Format:   planner.FormatText,
	}
}

func answer(t *testing.T, m *anthropic.Model, req *planner.Request) *planner.Answer {
	t.Helper()
	a, err := m.Answer(t.Context(), req, nil)
	if err != nil {
		t.Fatalf("Answer: %v", err)
	}
	return a
}

// fault asks, and gives the error.
func fault(t *testing.T, m *anthropic.Model, req *planner.Request) *planner.Error {
	t.Helper()
	a, err := m.Answer(t.Context(), req, nil)
	var e *planner.Error
	if !errors.As(err, &e) {
		t.Fatalf("Answer = %+v, %v, want a *planner.Error", a, err)
	}
	if strings.Contains(e.Error(), key) {
		t.Errorf("the key is in the error %q", e)
	}
	return e
}

func TestTheSuite(t *testing.T) {
	modeltest.Run(t, modeltest.Anthropic, func(t *testing.T, url string) planner.Model {
		return model(t, url, nil)
	})
}

func TestAnAnswerComesAsItIsWritten(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{{
		Thinking: "Let me see: a file is wanted.",
		Text:     "I look at it first.",
		Calls:    []planner.ToolCall{{ID: "toolu_1", Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/hostname"}`)}},
		Usage:    planner.Usage{Input: 2101, Cached: 1500, Output: 87},
		Chunk:    5,
	}}}
	m := model(t, modeltest.Anthropic(t, script), nil)
	var text, args strings.Builder
	thought, tools := 0, map[string]int{}
	req := ask("what is this machine called?")
	req.Tools = []planner.ToolDef{{Name: "fs_read_file", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}
	a, err := m.Answer(t.Context(), req, func(d planner.Delta) {
		text.WriteString(d.Text)
		args.WriteString(d.Args)
		if d.Thinking {
			thought++
		}
		if d.Tool != "" {
			tools[d.Tool]++
		}
	})
	if err != nil {
		t.Fatalf("Answer: %v", err)
	}
	opaque := a.Opaque
	a.Opaque = nil
	want := &planner.Answer{
		Text:  "I look at it first.",
		Calls: []planner.ToolCall{{ID: "toolu_1", Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/hostname"}`)}},
		Stop:  planner.StopTools,
		Usage: planner.Usage{Input: 2101, Cached: 1500, Output: 87},
		Model: "claude-sonnet-5-5",
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("Answer (-want +got):\n%s", diff)
	}
	if text.String() != want.Text || args.String() != string(want.Calls[0].Args) || thought < 2 || tools["fs_read_file"] < 2 || len(tools) != 1 {
		t.Errorf("it came as %q, %q, thought %d times, called %v", text.String(), args.String(), thought, tools)
	}
	if !json.Valid(opaque) || !strings.Contains(string(opaque), "redacted.") {
		t.Errorf("Opaque = %s, want the thoughts", opaque)
	}
}

func TestItIsBoundedInTime(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{{Silent: true}}}
	m := model(t, modeltest.Anthropic(t, script), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := m.Answer(ctx, ask("hello"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Answer: err = %v, want the context's", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, opts := range map[string]*anthropic.Options{
		"nothing":                   nil,
		"no model":                  {Model: " ", Key: key},
		"a key with a line break":   {Model: "m", Key: key + "\nX-Other: 1"},
		"a key with a blank":        {Model: "m", Key: key + " "},
		"an address without scheme": {Model: "m", Key: key, BaseURL: "api.anthropic.com"},
		"a file":                    {Model: "m", Key: key, BaseURL: "file:///etc/passwd"},
		"no host":                   {Model: "m", Key: key, BaseURL: "https:///v1"},
		"a password in the address": {Model: "m", Key: key, BaseURL: "https://me:" + key + "@example.com"},
		"a query":                   {Model: "m", Key: key, BaseURL: "https://example.com/?key=" + key},
		"no URL":                    {Model: "m", Key: key, BaseURL: "https://" + key + "\x7f"},
	} {
		m, err := anthropic.New(opts)
		if err == nil || m != nil {
			t.Errorf("%s: New = %v, %v, want an error", name, m, err)
		} else if strings.Contains(err.Error(), key) || !strings.HasPrefix(err.Error(), "anthropic: ") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func TestABaseURLIsTakenAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]string{
		"": "https://api.anthropic.com", "https://api.anthropic.com/": "https://api.anthropic.com",
		"https://api.anthropic.com/v1": "https://api.anthropic.com", "https://api.anthropic.com/v1/": "https://api.anthropic.com",
		"https://example.com/proxy/v1/messages": "https://example.com/proxy", "http://[::1]:8080/anthropic/": "http://[::1]:8080/anthropic",
	} {
		m, err := anthropic.New(&anthropic.Options{Model: "m", Key: key, BaseURL: text})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		info := m.Info()
		wanted := planner.Info{
			Provider: "anthropic", Model: "m", Endpoint: want,
			Formats: []planner.Format{planner.FormatSchema, planner.FormatTool, planner.FormatText},
		}
		if diff := cmp.Diff(wanted, info); diff != "" {
			t.Errorf("%q: Info (-want +got):\n%s", text, diff)
		}
	}
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "ok"}}}
	url := modeltest.Anthropic(t, script)
	for _, end := range []string{"", "/", "/v1", "/gateway", "/gateway/v1/"} {
		answer(t, model(t, url+end, nil), ask("a"))
	}
	var paths []string
	for _, seen := range script.Requests() {
		paths = append(paths, seen.Path)
	}
	if diff := cmp.Diff([]string{"/v1/messages", "/v1/messages", "/v1/messages", "/gateway/v1/messages", "/gateway/v1/messages"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
