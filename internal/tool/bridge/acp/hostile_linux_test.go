package acp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The lines of an agent that begins as it should.
const (
	hello  = `> {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"authMethods":[]}}`
	opened = `> {"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}`
	ended  = `> {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	chunk  = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`
)

// prompted is the beginning of a turn, and these lines.
func prompted(lines ...string) []string {
	return append([]string{"< initialize", hello, "< session/new", opened, "< session/prompt"}, lines...)
}

func TestAnAgentThatSpeaksStrangely(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 300)
	for name, test := range map[string]struct {
		lines     []string
		text, err string
	}{
		"noise between messages": {
			lines: append([]string{"> Debug: starting", "> {", "> []", `> "x"`, "> 1", "> null", "> {}", `> {"jsonrpc":7,"id":1,"result":{}}`, "> \x00\xff", "> " + strings.Repeat("[", 20000)}, prompted("> "+chunk, ended)...), text: "x",
		},
		"answers to nothing": {
			lines: append([]string{"* 5000 " + `{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}`, `> {"jsonrpc":"2.0","id":3,"result":{}}`, `> {"jsonrpc":"2.0","id":"1","result":{}}`, `> {"jsonrpc":"2.0","id":1.0,"result":{}}`}, prompted("> "+chunk, ended, ended, ended)...), text: "x",
		},
		"a turn that is answered before it is asked for": {
			lines: []string{"< initialize", hello, ended, "< session/new", opened, "< session/prompt", "> " + chunk, ended}, text: "x",
		},
		"another session's text":         {lines: prompted("> "+strings.ReplaceAll(chunk, "s1", "s2"), ended)},
		"text after the end":             {lines: prompted("> "+chunk, ended, "> "+chunk, "* 3000 "+chunk), text: "x"},
		"text before the session":        {lines: append([]string{"> " + chunk}, prompted(ended)...)},
		"an end at once":                 {lines: prompted("> "+chunk, ended, "exit 0"), text: "x"},
		"an end at once with 3":          {lines: prompted("> "+chunk, ended, "exit 3"), text: "x"},
		"a flood of small pieces":        {lines: prompted("* 5000 "+chunk, ended), text: strings.Repeat("x", 5000)},
		"a flood of what nobody knows":   {lines: prompted(`* 5000 {"jsonrpc":"2.0","method":"x/y","params":{}}`, `* 5000 {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, ended)},
		"updates of no shape":            {lines: prompted(`> {"jsonrpc":"2.0","method":"session/update"}`, `> {"jsonrpc":"2.0","method":"session/update","params":[]}`, `> {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"new"}}}`, `> {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk"}}}`, ended)},
		"requests of no shape":           {lines: prompted(`> {"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/x","line":1e99}}`, "< Invalid params", `> {"jsonrpc":"2.0","id":7,"method":"fs/read_text_file"}`, "< Invalid params", `> {"jsonrpc":"2.0","id":"8","method":"session/new"}`, "< Method not found", "> "+chunk, ended), text: "x"},
		"a request without an end":       {lines: prompted("> "+chunk, ended, `> {"jsonrpc":"2.0","id":7,"method":"terminal/create","params":{"sessionId":"s1","command":"sleep 1000"}}`), text: "x"},
		"an id that is long":             {lines: prompted(`> {"jsonrpc":"2.0","id":"` + long + `","method":"x"}`), err: "Agent broke the protocol: a request's id or method has more than 256 bytes"},
		"a method that is long":          {lines: prompted(`> {"jsonrpc":"2.0","id":1,"method":"` + long + `"}`), err: "Agent broke the protocol: a request's id or method has more than 256 bytes"},
		"an id that is no id":            {lines: prompted(`> {"jsonrpc":"2.0","id":{"a":1},"method":"x"}`, `> {"jsonrpc":"2.0","id":-0.1e-2000,"method":"x"}`, `> {"jsonrpc":"2.0","id":1e4097,"method":"x"}`, ended)},
		"a session without a name":       {lines: []string{"< initialize", hello, "< session/new", `> {"jsonrpc":"2.0","id":2,"result":{"sessionId":""}}`}, err: "Agent gave its session a name that is empty or too long"},
		"an answer of another shape":     {lines: []string{"< initialize", `> {"jsonrpc":"2.0","id":1,"result":[]}`}, err: "Agent answered initialize with an error: Internal error: json: cannot unmarshal"},
		"an answer that is none":         {lines: []string{"< initialize", `> {"jsonrpc":"2.0","id":1}`}, err: "Agent speaks version 0"},
		"an end before the first answer": {lines: []string{"< initialize", "exit 0"}, err: "Agent ended without an answer to initialize"},
		"a login that is wanted at last": {lines: prompted(`> {"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"x"}}`), err: "Agent answered session/prompt with an error: x (code -32000); log in with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script(t, test.lines...)
			out, a := w.do(t.Context(), "go")
			if a.Result.Text != test.text || !strings.HasPrefix(a.Error, test.err) || (test.err == "") != (a.Status == "success") {
				t.Errorf("the answer is %q %q with the text %.100q (outcome %+v), want %.100q or an error that begins %q", a.Status, a.Error, a.Result.Text, out, test.text, test.err)
			}
		})
	}
}

func TestAMessageIsOfAtMostMaxOutput(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most int64
		line string
		much bool
	}{
		"less":                {1 << 20, "+ 1000000 x", false},
		"more":                {1 << 20, "+ 1100000 x", true},
		"never an end":        {1 << 20, "+ 100000000 x", true},
		"more than the SDK's": {1 << 40, "+ 11000000 x", true},
		"near the SDK's":      {1 << 40, "+ 10400000 x", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script(t, prompted(test.line, "> ", "> "+chunk, ended)...)
			w.run.MaxOutput = test.most
			out, a := w.do(t.Context(), "go")
			if out.TooMuch != test.much || (a.Status == "") != test.much {
				t.Errorf("outcome %+v, answer %+v, want too much %v", out, a, test.much)
			}
		})
	}
}

func TestAsLongAMessageAsThereIsIsRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	w := script(t, prompted(
		fmt.Sprintf(`+ 1 {"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"sessionId":"s1","path":%q,"content":"`, file),
		fmt.Sprintf("+ %d x", 10<<20-1000), `> "}}`, `< "id":7,"result":{}`, "> "+chunk, ended)...)
	w.run.MaxOutput = 1 << 40
	text := w.text("go")
	if st, err := os.Stat(file); text != "x" || err != nil || st.Size() != 10<<20-1000 {
		t.Errorf("the text is %.100q, and the file %v %v", text, st, err)
	}
}

func TestAFloodOfRequestsEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"that wait":              `* 3000 {"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"1"},"options":[]}}`,
		"whose answer is unread": `* 60000 {"jsonrpc":"2.0","id":%d,"method":"` + strings.Repeat("x", 200) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script(t, prompted(line, "hang")...)
			w.back.wait = make(chan struct{})
			_, a := w.do(t.Context(), "go")
			if want := "Agent broke the protocol: it made more than 1024 requests at once"; a.Error != want {
				t.Errorf("error = %q, want %q", a.Error, want)
			}
		})
	}
}

func TestWhatIsAskedForAndNotReadDoesNotFillTheMemory(t *testing.T) { // not beside others: it is their memory, too
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, strings.Repeat("x", 9<<20))
	w := script(t, prompted(fmt.Sprintf(`* 500 {"jsonrpc":"2.0","id":%%d,"method":"fs/read_text_file","params":{"sessionId":"s1","path":%q}}`, file), "hang")...)
	w.run.Limit = 700 * time.Millisecond
	highest := make(chan uint64)
	stop := make(chan struct{})
	go func() {
		var m runtime.MemStats
		var most uint64
		for {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				highest <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	out, _ := w.do(t.Context(), "go")
	close(stop)
	if most := <-highest; !out.TimedOut || most > 512<<20 {
		t.Errorf("outcome %+v with %d MiB of memory, want a time-out below 512", out, most>>20)
	}
}

func TestAnAgentThatDoesNotAnswerIsEnded(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"from the beginning":           {"hang"},
		"when a session is wanted":     {"< initialize", hello, "hang"},
		"but for noise":                {"< initialize", "* 1000000000 x"},
		"and does not read its prompt": {"< initialize", hello, "< session/new", opened, "hang"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script(t, lines...)
			w.run.Limit = 300 * time.Millisecond
			begun := time.Now()
			out, a := w.do(t.Context(), strings.Repeat("go", 1<<19))
			if took := time.Since(begun); !out.TimedOut || out.Canceled || a.Status != "" || took > time.Minute {
				t.Errorf("outcome %+v, answer %+v after %s, want a time-out", out, a, took)
			}
		})
	}
}

func TestAnAgentThatStaysIsEndedAfterItsAnswer(t *testing.T) {
	t.Parallel()
	out, a := script(t, prompted("> "+chunk, ended, "hang")...).do(t.Context(), "go")
	if a.Result.Text != "x" || out.TimedOut || out.Canceled || out.Err != nil {
		t.Errorf("answer %+v, outcome %+v, want the text x and nothing wrong", a, out)
	}
}

func TestACallThatIsCanceledBeforeItBeginsDoesNotLast(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, a := script(t, "hang").do(ctx, "go")
	if a.Status != "" || !out.Canceled && out.Err == nil {
		t.Errorf("answer %+v, outcome %+v", a, out)
	}
}

func TestAnAgentThatFailsIsTheOutcomes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		argv []string
		code int
		why  string
	}{
		"another exit code": {[]string{"/bin/sh", "-c", "echo broken >&2; exit 3"}, 3, ""},
		"no such program":   {[]string{"/no/such/agent"}, -1, "not_found"},
		"closed its input":  {[]string{"/bin/sh", "-c", "exec <&-; exit 4"}, 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.run.Params.Argv = test.argv
			out, a := w.do(t.Context(), strings.Repeat("x", 1<<20))
			if a.Status != "" || out.Result.ExitCode != test.code || out.Result.NotStarted != test.why || out.TimedOut || out.Canceled {
				t.Errorf("answer %+v, outcome %+v", a, out)
			}
		})
	}
}

func TestAConnectionThatBreaksIsTheOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.back.seen = make(chan struct{})
	go func() {
		<-w.back.seen
		w.run.Client.Close()
	}()
	out, a := w.do(t.Context(), "leave sleep 1000", "deaf")
	if out.Err == nil || a.Status != "" {
		t.Errorf("outcome %+v, answer %+v, want an error and none", out, a)
	}
}

func TestTheSandboxsConnectionMayBeTheAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.back.sandbox.Client = w.run.Client
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, strings.Repeat("0123456789abcde\n", 1<<16))
	var lines []string
	for range 5 {
		lines = append(lines, request(t, "fs/read_text_file", map[string]any{"path": file, "limit": 2}), "run head -c 100000 "+file, "many 50")
	}
	if text := w.text(lines...); strings.Count(text, `"exitCode":0`) != 5 {
		t.Errorf("the text is %.300q, want five commands that ended", text)
	}
}
