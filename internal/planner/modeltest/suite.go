package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"airlock/internal/planner"
)

// Key is the key that a Maker's models use. No real account has it.
const Key = "mt-4f9c2e7a-model-test-key"

// A Server starts a server that does what a script says, and ends with the test.
type Server func(t testing.TB, s *Script) string

// A Maker makes a model that asks a server at url, with Key. What the model holds, such as
// connections, ends with the test.
type Maker func(t *testing.T, url string) planner.Model

// Run is the suite that every provider passes.
func Run(t *testing.T, server Server, make Maker) {
	before := goleak.IgnoreCurrent()
	s := &suite{server: server, make: make}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"it says what is known of it", s.info},
		{"a text comes as it is written", s.text},
		{"calls of tools come whole, and their results go back", s.tools},
		{"every format can be asked for", s.formats},
		{"an answer tells why it ended", s.stops},
		{"what a model thinks is not in its answer", s.thinking},
		{"the key is in a header and nowhere else", s.key},
		{"a fault is told as what it is", s.faults},
		{"a key that is echoed is not repeated", s.echo},
		{"every wait ends with its context", s.bounds},
		{"an answer that is canceled in its middle ends", s.cancel},
		{"an answer that is canceled before it begins is not asked for", s.canceled},
		{"many can ask at once", s.many},
	} {
		t.Run(test.name, test.run)
	}
	err := goleak.Find(before)
	for until := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(until); {
		err = goleak.Find(before) // it is not patient
	}
	if err != nil {
		t.Errorf("something is left running: %v", err)
	}
}

type suite struct {
	server Server
	make   Maker
}

// model makes a model whose server does what turns say.
func (s *suite) model(t *testing.T, turns ...Turn) (planner.Model, *Script) {
	t.Helper()
	script := &Script{Turns: turns}
	return s.make(t, s.server(t, script)), script
}

// question is a request with a text alone.
func question(text string) *planner.Request {
	return &planner.Request{
		System:    "You plan. You answer in JSON where you are told to.",
		Messages:  []planner.Message{{Role: planner.User, Text: text}},
		Format:    planner.FormatText,
		MaxTokens: 4096,
	}
}

// answer asks, and gives the answer and what was told on the way.
func answer(t *testing.T, m planner.Model, req *planner.Request) (*planner.Answer, []planner.Delta) {
	t.Helper()
	var told []planner.Delta
	a, err := m.Answer(t.Context(), req, func(d planner.Delta) { told = append(told, d) })
	if err != nil {
		t.Fatalf("Answer: %v", err)
	}
	return a, told
}

// fault asks, and gives the error.
func fault(t *testing.T, ctx context.Context, m planner.Model) *planner.Error {
	t.Helper()
	a, err := m.Answer(ctx, question("What now?"), nil)
	e, ok := errors.AsType[*planner.Error](err)
	if !ok {
		t.Fatalf("Answer = %+v, %v, want a *planner.Error", a, err)
	}
	if a != nil {
		t.Errorf("there is an answer beside the error: %+v", a)
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if text := fmt.Sprintf("%v %+v", inner, inner); strings.Contains(text, Key) || strings.ContainsAny(text, "\x1b\n\a") {
			t.Errorf("the error %q is not safe to show", text)
		}
	}
	if e.Endpoint == "" || strings.Contains(e.Endpoint, "?") {
		t.Errorf("the endpoint is %q", e.Endpoint)
	}
	return e
}

func (s *suite) info(t *testing.T) {
	m, script := s.model(t, Turn{Text: "ok"})
	info := m.Info()
	if info.Provider == "" || info.Model == "" || !strings.HasPrefix(info.Endpoint, "http://") || strings.Contains(info.Endpoint, Key) {
		t.Errorf("Info = %+v", info)
	}
	if n := len(info.Formats); n == 0 || info.Formats[n-1] != planner.FormatText {
		t.Errorf("Formats = %v, want FormatText last", info.Formats)
	}
	info.Formats[0] = "changed"
	if m.Info().Formats[0] == "changed" {
		t.Error("Info can be changed from outside")
	}
	if len(script.Requests()) != 0 {
		t.Error("Info has asked the endpoint")
	}
}

func (s *suite) text(t *testing.T) {
	const text = "Grüße, 世界! 🚀 A \"quoted\" line,\nanother one\t— and \\ a </b> data: [DONE] end."
	usage := planner.Usage{Input: 1200, Cached: 800, Output: 34}
	for _, chunk := range []int{1, 7, 1000} {
		m, script := s.model(t, Turn{Text: text, Usage: usage, Chunk: chunk})
		a, told := answer(t, m, question("Say it."))
		var streamed strings.Builder
		for _, d := range told {
			streamed.WriteString(d.Text)
		}
		if a.Text != text || streamed.String() != text {
			t.Errorf("in pieces of %d: Text = %q, told %q, want %q", chunk, a.Text, streamed.String(), text)
		}
		if a.Stop != planner.StopEnd || len(a.Calls) != 0 {
			t.Errorf("Stop = %q, Calls = %v", a.Stop, a.Calls)
		}
		if a.Usage.Input != usage.Input || a.Usage.Cached != usage.Cached || a.Usage.Output != usage.Output {
			t.Errorf("Usage = %+v, want %+v", a.Usage, usage)
		}
		if n := len(script.Requests()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if chunk == 1 && len(told) < 10 {
			t.Errorf("it was told in %d pieces only: nothing comes as it is written", len(told))
		}
	}
}

// tool is one that takes a path.
func tool(name string) planner.ToolDef {
	return planner.ToolDef{
		Name: name, Description: "Reads something.",
		Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"where"}},"required":["path"],"additionalProperties":false}`),
	}
}

func (s *suite) tools(t *testing.T) {
	first := Turn{Text: "I look.", Chunk: 3, Calls: []planner.ToolCall{
		{ID: "call_a1", Name: "fs_read_file", Args: json.RawMessage(`{"path":"/etc/hö\"sts"}`)},
		{ID: "call_b2", Name: "sysinfo", Args: json.RawMessage(`{}`)},
	}}
	m, script := s.model(t, first, Turn{Text: "Done."})
	req := question("Look at the file.")
	req.Tools = []planner.ToolDef{tool("fs_read_file"), tool("sysinfo")}
	a, told := answer(t, m, req)
	if a.Stop != planner.StopTools || a.Text != first.Text || len(a.Calls) != 2 {
		t.Fatalf("answer = %+v, want the text and two calls", a)
	}
	args := map[string]string{}
	for _, d := range told {
		args[d.Tool] += d.Args
	}
	for i, call := range a.Calls {
		want := first.Calls[i]
		if call.ID == "" || call.Name != want.Name || !sameJSON(call.Args, want.Args) {
			t.Errorf("call %d = %+v, want %+v", i, call, want)
		}
		if !sameJSON([]byte(args[call.Name]), want.Args) {
			t.Errorf("of the arguments %s was told %q", want.Args, args[call.Name])
		}
	}
	if a.Calls[0].ID == a.Calls[1].ID {
		t.Errorf("both calls have the ID %q", a.Calls[0].ID)
	}
	req.Messages = append(req.Messages,
		planner.Message{Role: planner.Assistant, Text: a.Text, Calls: a.Calls, Opaque: a.Opaque},
		planner.Message{Role: planner.User, Results: []planner.ToolResult{
			{ID: a.Calls[0].ID, Name: a.Calls[0].Name, Text: "127.0.0.1 localhost"},
			{ID: a.Calls[1].ID, Name: a.Calls[1].Name, Text: "no right to it", Failed: true},
		}})
	if b, _ := answer(t, m, req); b.Text != "Done." || b.Stop != planner.StopEnd {
		t.Errorf("answer to the results = %+v", b)
	}
	last := script.Requests()[1].Body
	for _, want := range []string{"127.0.0.1 localhost", "no right to it", "fs_read_file"} {
		if !bytes.Contains(last, []byte(want)) {
			t.Errorf("the second request does not have %q: %s", want, last)
		}
	}
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func (s *suite) formats(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"note":{"type":["string","null"]}},"required":["kind","note"],"additionalProperties":false}`)
	m, _ := s.model(t, Turn{Text: `{"kind":"a","note":null}`})
	for _, format := range m.Info().Formats {
		req := question("Answer in JSON.")
		req.Format = format
		switch format {
		case planner.FormatSchema:
			req.Schema = schema
		case planner.FormatTool:
			req.Tools, req.MustCall = []planner.ToolDef{tool("answer")}, true
		}
		if a, _ := answer(t, m, req); a.Text != `{"kind":"a","note":null}` {
			t.Errorf("%s: answer = %+v", format, a)
		}
	}
}

func (s *suite) stops(t *testing.T) {
	for _, stop := range []planner.Stop{planner.StopEnd, planner.StopLength, planner.StopRefused} {
		m, _ := s.model(t, Turn{Text: "so far", Stop: stop})
		if a, _ := answer(t, m, question("Go on.")); a.Stop != stop {
			t.Errorf("Stop = %q, want %q", a.Stop, stop)
		}
	}
}

func (s *suite) thinking(t *testing.T) {
	m, _ := s.model(t, Turn{Thinking: "a secret thought of mine", Text: "the answer"})
	a, told := answer(t, m, question("Think."))
	if a.Text != "the answer" {
		t.Errorf("Text = %q", a.Text)
	}
	for _, d := range told {
		if strings.Contains(d.Text, "secret") || d.Thinking && d.Text != "" {
			t.Errorf("told %+v", d)
		}
	}
}

func (s *suite) key(t *testing.T) {
	m, script := s.model(t, Turn{Text: "ok"})
	answer(t, m, question("Say ok."))
	for _, seen := range script.Requests() {
		n := 0
		for _, values := range seen.Header {
			if strings.Contains(strings.Join(values, "\n"), Key) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the key is in %d headers, want 1", n)
		}
		if strings.Contains(seen.Path+seen.Query, Key) || bytes.Contains(seen.Body, []byte(Key)) {
			t.Error("the key is in the URL or the body")
		}
	}
}

func (s *suite) cancel(t *testing.T) {
	m, _ := s.model(t, Turn{Text: strings.Repeat("text ", 2000), Chunk: 4, Pause: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var returned, late atomic.Bool
	_, err := m.Answer(ctx, question("Go on and on."), func(planner.Delta) {
		cancel()
		late.Store(late.Load() || returned.Load())
	})
	returned.Store(true)
	e, ok := errors.AsType[*planner.Error](err)
	if !ok || e.Fault != planner.FaultCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want a cancellation that wraps the context's", err)
	}
	time.Sleep(20 * time.Millisecond) // for what must not come
	if late.Load() {
		t.Error("something was told after Answer had returned")
	}
}

func (s *suite) canceled(t *testing.T) {
	m, script := s.model(t, Turn{Text: "ok"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e := fault(t, ctx, m); e.Fault != planner.FaultCanceled || !errors.Is(e, context.Canceled) {
		t.Errorf("error = %v, want a cancellation", e)
	}
	if len(script.Requests()) != 0 {
		t.Error("the endpoint was asked")
	}
}

func (s *suite) many(t *testing.T) {
	m, _ := s.model(t, Turn{Text: "the same for all", Chunk: 2})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			a, err := m.Answer(t.Context(), question("Say it."), func(planner.Delta) {})
			if err != nil || a.Text != "the same for all" {
				t.Errorf("Answer = %+v, %v", a, err)
			}
		})
	}
	wg.Wait()
}
