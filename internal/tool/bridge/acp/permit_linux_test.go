package acp_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/tool"
)

const (
	once     = `{{"optionId":"once","outcome":"selected"}}`
	no       = `{{"optionId":"no","outcome":"selected"}}`
	canceled = `{{"outcome":"cancelled"}}`
)

func TestAPermissionIsJudgedAsTheCallsThatItIsFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before string // an update
		ask    string
		calls  []string
		answer string
	}{
		"a command line": {
			ask:   `{"toolCallId":"1","kind":"execute","rawInput":{"command":"ls -l | wc","cwd":"/tmp","description":"counts"}}`,
			calls: []string{`host cmd.run {"command":"ls -l | wc","working_directory":"/tmp"}`},
		},
		"the words of a command": {
			ask:   `{"toolCallId":"1","kind":"execute","rawInput":{"command":["bash","-lc","echo it's; rm x"]}}`,
			calls: []string{`host cmd.run {"command":"bash -lc 'echo it'\\''s; rm x'"}`},
		},
		"a command with words beside it": {
			ask:   `{"toolCallId":"1","kind":"execute","rawInput":{"command":"git","args":["push","a b"]}}`,
			calls: []string{`host cmd.run {"command":"git push 'a b'"}`},
		},
		"a command that is called a read is a command": {
			ask:   `{"toolCallId":"1","kind":"read","locations":[{"path":"/a"}],"rawInput":{"command":["cat","/a"]}}`,
			calls: []string{`host cmd.run {"command":"cat /a"}`, `host fs.read_file {"path":"/a"}`},
		},
		"a command without a kind": {
			ask:   `{"toolCallId":"1","title":"Bash","rawInput":{"command":"make"}}`,
			calls: []string{`host cmd.run {"command":"make"}`},
		},
		"what was said before counts": {
			before: `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","kind":"execute","rawInput":{"command":"make"}}`,
			ask:    `{"toolCallId":"1"}`,
			calls:  []string{`host cmd.run {"command":"make"}`},
		},
		"what is said anew counts more": {
			before: `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","kind":"execute","rawInput":{"command":"true"}}`,
			ask:    `{"toolCallId":"1","rawInput":{"command":"rm -rf /"}}`,
			calls:  []string{`host cmd.run {"command":"rm -rf /"}`},
		},
		"an edit by its difference": {
			ask:   `{"toolCallId":"1","kind":"edit","content":[{"type":"diff","path":"/w/a","newText":"new"}],"locations":[{"path":"/w/a"}]}`,
			calls: []string{`host fs.write_file {"content":"new","path":"/w/a"}`},
		},
		"an edit by its input": {
			ask:   `{"toolCallId":"1","kind":"edit","rawInput":{"file_path":"/w/a","content":"all"}}`,
			calls: []string{`host fs.write_file {"content":"all","path":"/w/a"}`},
		},
		"a patch of several files": {
			ask:   `{"toolCallId":"1","kind":"edit","rawInput":{"changes":{"/w/b":{},"/w/a":{}}}}`,
			calls: []string{`host fs.write_file {"content":"(the agent does not say what it would write)","path":"/w/a"}`, `host fs.write_file {"content":"(the agent does not say what it would write)","path":"/w/b"}`},
		},
		"a read":   {ask: `{"toolCallId":"1","kind":"read","locations":[{"path":"/a"}]}`, calls: []string{`host fs.read_file {"path":"/a"}`}},
		"a search": {ask: `{"toolCallId":"1","kind":"search","rawInput":{"path":"/a","pattern":"x"}}`, calls: []string{`host fs.read_file {"path":"/a"}`, `host cmd.run {"command":"grep -r -- . /a"}`}},
		"a deletion": {
			ask: `{"toolCallId":"1","kind":"delete","locations":[{"path":"/a'b"}]}`, calls: []string{`host cmd.run {"command":"rm -rf -- '/a'\\''b'"}`},
		},
		"a move": {
			ask:   `{"toolCallId":"1","kind":"move","rawInput":{"source":"/a","destination":"/b"}}`,
			calls: []string{`host cmd.run {"command":"rm -rf -- /a"}`, `host cmd.run {"command":"rm -rf -- /b"}`},
		},
		"a fetch": {
			ask: `{"toolCallId":"1","kind":"fetch","rawInput":{"url":"https://a.example/?x=1"}}`, calls: []string{`host cmd.run {"command":"curl -- 'https://a.example/?x=1'"}`},
		},
		"a fetch of nobody knows what": {
			ask: `{"toolCallId":"1","kind":"fetch","title":"search","rawInput":{"query":"x"}}`, calls: []string{`host probe {"prompt":"asks for leave (fetch): search\ninput: {\"query\":\"x\"}"}`},
		},
		"a command that is not told": {
			ask: `{"toolCallId":"1","kind":"execute","title":"ls"}`, calls: []string{`host probe {"prompt":"asks for leave (execute): ls"}`},
		},
		"a read of nothing":  {ask: `{"toolCallId":"1","kind":"read","title":"all"}`, calls: []string{`host probe {"prompt":"asks for leave (read): all"}`}},
		"an edit of nothing": {ask: `{"toolCallId":"1","kind":"edit","title":"all"}`, calls: []string{`host probe {"prompt":"asks for leave (edit): all"}`}},
		"something of its own": {
			ask:   `{"toolCallId":"1","kind":"other","title":"do\u001b[2J","rawInput":{"x":1},"content":[{"type":"diff","path":"/w/a","newText":"n"}]}`,
			calls: []string{`host fs.write_file {"content":"n","path":"/w/a"}`, `host probe {"prompt":"asks for leave (other): do\\x1b[2J\npaths: /w/a\ninput: {\"x\":1}"}`},
		},
		"no kind at all":                   {ask: `{"toolCallId":"1"}`, calls: []string{`host probe {"prompt":"asks for leave (): "}`}},
		"an input that is no object":       {ask: `{"toolCallId":"1","kind":"execute","title":"x","rawInput":"rm"}`, calls: []string{`host probe {"prompt":"asks for leave (execute): x\ninput: \"rm\""}`}},
		"a command that cannot be read":    {ask: `{"toolCallId":"1","kind":"execute","rawInput":{"command":{"x":1}}}`, answer: no},
		"words that are none":              {ask: `{"toolCallId":"1","kind":"execute","rawInput":{"command":["a",1]}}`, answer: no},
		"two commands":                     {ask: `{"toolCallId":"1","kind":"execute","rawInput":{"command":"a","cmd":"b"}}`, answer: no},
		"a path that there cannot be":      {ask: `{"toolCallId":"1","kind":"edit","locations":[{"path":"a\u0000"}]}`, answer: no},
		"more paths than can be looked at": {ask: `{"toolCallId":"1","kind":"read","locations":[` + strings.TrimSuffix(paths(101), ",") + `]}`, answer: no},
		"more of it than can be shown": {
			ask:   `{"toolCallId":"1","kind":"other","title":"t","rawInput":["` + strings.Repeat("x", 5000) + `"],"locations":[{"path":"/` + strings.Repeat("a", 5000) + `"}]}`,
			calls: []string{`host probe {"prompt":"asks for leave (other): t\npaths: more than can be shown\ninput: more than can be shown"}`},
		},
		"what was too much to keep": {
			before: `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","kind":"read","rawInput":{"path":"/a","x":"` + strings.Repeat("x", 300<<10) + `"}}`,
			ask:    `{"toolCallId":"1"}`,
			calls:  []string{`host probe {"prompt":"asks for leave (read): t"}`},
		},
		"an edit that is too large to show": {
			ask:   `{"toolCallId":"1","kind":"edit","content":[{"type":"diff","path":"/w/a","newText":"` + strings.Repeat("x", 1<<20+1) + `"}]}`,
			calls: []string{`host fs.write_file {"content":"` + strings.Repeat("x", 1000) + `…","path":"/w/a"}`},
		},
		"an edit of a part": {
			ask:   `{"toolCallId":"1","kind":"edit","rawInput":{"file_path":"/w/a","old_string":"a","new_string":"<b>"}}`,
			calls: []string{`host fs.write_file {"content":"<b>","path":"/w/a"}`},
		},
		"an edit that empties": {
			ask:   `{"toolCallId":"1","kind":"edit","content":[{"type":"diff","path":"/w/a","newText":""}],"rawInput":{"content":"x"}}`,
			calls: []string{`host fs.write_file {"content":"","path":"/w/a"}`},
		},
		"nothing but for ever is not chosen": {
			ask: `{"toolCallId":"always-only","kind":"read","locations":[{"path":"/a"}]}`, calls: []string{`host fs.read_file {"path":"/a"}`}, answer: canceled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			prompt := []string{"permit " + test.ask}
			if test.before != "" {
				prompt = []string{"update " + test.before, prompt[0]}
			}
			text := w.text(prompt...)
			asked, done := w.back.what()
			want := test.answer
			if want == "" {
				want = once
			}
			if !slices.Equal(asked, test.calls) || strings.TrimSpace(text) != want || done != len(asked) {
				t.Errorf("asked %.300q with %d results and answered %s, want %.300q and %s", asked, done, text, test.calls, want)
			}
		})
	}
}

func paths(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"path":"/` + strings.Repeat("a", i+1) + `"},`)
	}
	return b.String()
}

func TestARefusalIsForOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.back.refuse["/w/b"] = true
	text := w.text(`permit {"toolCallId":"1","kind":"edit","rawInput":{"paths":["/w/a","/w/b","/w/c"]}}`)
	asked, _ := w.back.what()
	if text != no || len(asked) != 2 {
		t.Errorf("answered %s after %q, want %s after two calls", text, asked, no)
	}
	if len(w.back.done) != 1 || w.back.done[0].Code() != tool.PermissionDenied {
		t.Errorf("the first call's result is %+v, want that the agent was not let", w.back.done)
	}
}

func TestWithNobodyToAskEverythingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.session.Back = nil
	text := w.text(`permit {"toolCallId":"1","kind":"read","locations":[{"path":"/a"}]}`,
		`call fs/read_text_file {"sessionId":"s1","path":"/etc/passwd"}`,
		`call fs/write_text_file {"sessionId":"s1","path":"/tmp/x","content":""}`,
		`call terminal/create {"sessionId":"s1","command":"true"}`)
	wantIn(t, "the text", text, no)
	if n := strings.Count(text, "refused: this agent runs without anybody"); n != 3 {
		t.Errorf("the text is %q, want three refusals", text)
	}
}

func TestWithoutASandboxNothingIsDone(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(*back){
		"there is none": func(b *back) { b.sandbox = nil },
		"it is none":    func(b *back) { b.sandbox.Where = tool.OnHost },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			break_(w.back)
			text := w.text(`call fs/read_text_file {"sessionId":"s1","path":"/etc/passwd"}`, `call terminal/create {"sessionId":"s1","command":"true"}`)
			if strings.Contains(text, "root:") || strings.Contains(text, "term-") || strings.Count(text, "sandbox") != 2 {
				t.Errorf("the text is %q, want two errors", text)
			}
			if _, done := w.back.what(); done != 2 {
				t.Errorf("%d results, want 2", done)
			}
		})
	}
}

func TestAPersonWhoDoesNotAnswerDoesNotOutliveTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run.Grace = time.Minute // in which it answers
	w.back.wait, w.back.seen = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.back.seen
		cancel()
	}()
	out, a := w.do(ctx, "say before", `permit {"toolCallId":"1","kind":"read","locations":[{"path":"/a"}]}`, "until-canceled")
	if !out.Canceled || a.Status != "" {
		t.Errorf("outcome %+v, answer %+v, want canceled and none", out, a)
	}
	if want := "before" + canceled; string(out.Stdout) != want {
		t.Errorf("the text is %q, want %q: the agent is told that its request was canceled", out.Stdout, want)
	}
}
