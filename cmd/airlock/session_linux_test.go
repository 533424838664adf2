package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

// aPlan is an answer that proposes commands.
func aPlan(t *testing.T, summary string, commands ...string) string {
	t.Helper()
	steps := []map[string]any{}
	for i, c := range commands {
		steps = append(steps, map[string]any{"id": string(rune('a' + i)), "description": "Do " + string(rune('a'+i)), "shell_command": c})
	}
	data, err := json.Marshal(map[string]any{"kind": "command_sequence", "summary": summary, "steps": steps})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// anAnswer is one that proposes nothing.
func anAnswer(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"kind": "answer_only", "summary": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// converse starts a session whose model answers as s says.
func converse(t *testing.T, p *place, s *modeltest.Script, env ...string) *console {
	t.Helper()
	cmd := p.command(t, "ai")
	cmd.Env = append(cmd.Env, "AIRLOCK_PROVIDER=openai", "AIRLOCK_MODEL=test-1", "AIRLOCK_BASE_URL="+modeltest.OpenAI(t, s),
		"OPENAI_API_KEY="+modeltest.Key)
	cmd.Env = append(cmd.Env, env...)
	c := start(t, cmd)
	c.atPrompt(t, 1)
	return c
}

// ready is what the terminal is told when the session reads a request, for the n-th time.
func (c *console) atPrompt(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(patience); strings.Count(c.String(), "\x1b[?2004h") < n || !strings.HasSuffix(c.String(), "ai> \r\x1b[4C"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for prompt %d in:\n%s\n%q", n, c.String(), c.String())
		}
	}
}

const planQuestion = `\[n\]o \? $`

func TestASessionIsAConversation(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{
		{Text: aPlan(t, "Write a greeting", "echo hello >greeting", "cat greeting"), Usage: planner.Usage{Input: 100, Output: 20}},
		{Text: anAnswer(t, "It says hello."), Usage: planner.Usage{Input: 50, Output: 5}},
	}}
	c := converse(t, p, s)
	c.types("write a greeting\r")
	c.wait(t, `(?s)Write a greeting.*\$ echo hello >greeting.*hello\r\n.*`+planQuestion)
	c.types("c\r")
	c.wait(t, `committed 1 change`)
	c.atPrompt(t, 2)
	if got, err := os.ReadFile(filepath.Join(p.work, "greeting")); string(got) != "hello\n" || err != nil {
		t.Errorf("greeting = %q, %v", got, err)
	}
	c.types("what does it say?\r")
	c.wait(t, `It says hello\.`)
	c.atPrompt(t, 3)
	c.types("/tokens\r")
	c.wait(t, `150 tokens in, 25 out`)
	c.atPrompt(t, 4)
	c.types("/save plan.json\r")
	c.wait(t, `the plan is in plan.json`)
	c.atPrompt(t, 5)
	c.types("/clear\r")
	c.atPrompt(t, 6)
	c.types("anew\r")
	c.atPrompt(t, 7)
	c.types("\x04")
	c.ends(0)
	asked := s.Requests()
	if len(asked) != 3 {
		t.Fatalf("the model was asked %d times, want 3", len(asked))
	}
	for _, want := range []string{"write a greeting", "echo hello", "what does it say?"} {
		if !strings.Contains(string(asked[1].Body), want) {
			t.Errorf("the second request does not have %q:\n%s", want, asked[1].Body)
		}
		if strings.Contains(string(asked[2].Body), want) {
			t.Errorf("after /clear the request still has %q:\n%s", want, asked[2].Body)
		}
	}
	if got, err := os.ReadFile(filepath.Join(p.work, "plan.json")); !strings.Contains(string(got), "It says hello.") || err != nil {
		t.Errorf("plan.json = %q, %v, want the last answer", got, err)
	}
}

func TestAnInterruptedAnswerLeavesTheSessionInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Ask: func(n int, _ []byte) modeltest.Turn {
		if n == 0 {
			return modeltest.Turn{Text: anAnswer(t, "A very long answer that does not end, and does not end"), Stall: true}
		}
		return modeltest.Turn{Text: anAnswer(t, "Here I am.")}
	}}
	c := converse(t, p, s)
	c.types("tarry forever\r")
	c.wait(t, `writing`) // the model has been asked
	c.types("\x03")
	c.wait(t, `interrupted; nothing was run`)
	c.atPrompt(t, 2)
	c.types("still there?\r")
	c.wait(t, `Here I am\.`)
	c.atPrompt(t, 3)
	c.types("/quit\r")
	c.ends(0)
	if asked := s.Requests(); len(asked) != 2 || strings.Contains(string(asked[1].Body), "tarry forever") {
		t.Errorf("%d requests; what was interrupted must not be part of the conversation", len(asked))
	}
}

func TestAnInterruptedPlanLeavesTheSessionInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{
		{Text: aPlan(t, "Wait", "echo x >made; cat /proc/self/stat >/dev/null; echo ready; exec sleep 1000")}, {Text: anAnswer(t, "Here I am.")},
	}}
	c := converse(t, p, s)
	c.types("wait\r")
	c.wait(t, `ready\r\n`)
	c.types("\x03")
	c.wait(t, `\[q\] stop \? $`)
	c.types("q\r")
	c.wait(t, planQuestion)
	c.types("n\r")
	c.atPrompt(t, 2)
	c.types("\x03")
	c.atPrompt(t, 3)
	c.types("\x03")
	c.wait(t, `Ctrl-D or /quit leaves`)
	c.atPrompt(t, 4)
	c.types("still there?\r")
	c.wait(t, `Here I am\.`)
	c.atPrompt(t, 5)
	c.types("exit\r")
	c.ends(0)
}

func TestAFailedRequestDoesNotEndASession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{
		{Status: 401, Body: `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`},
		{Text: anAnswer(t, "Here I am.")},
	}}
	c := converse(t, p, s)
	c.types("hello\r")
	c.wait(t, `airlock: the model at .*401`)
	c.atPrompt(t, 2)
	c.types("/hlep\r")
	c.wait(t, `there is no /hlep; did you mean /help\?`)
	c.atPrompt(t, 3)
	c.types("hello again\r")
	c.wait(t, `Here I am\.`)
	c.atPrompt(t, 4)
	c.types("\x04")
	c.ends(0)
}

func TestCommandsOfASessionRunInASandbox(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "I see.")}}}
	write(t, p, "notes.txt", "remember the milk\n")
	c := converse(t, p, s)
	c.types("!echo out-42; echo err-43 >&2; echo x >made; exit 3\r")
	c.wait(t, `(?s)out-42.*err-43.*exit code 3|(?s)err-43.*out-42`)
	c.wait(t, `\[c\]ommit  \[d\]iff  \[k\]eep  \[n\]o \? $`)
	c.types("n\r")
	c.atPrompt(t, 2)
	c.types("/include note\t\r")
	c.wait(t, `1 file is sent with each request`)
	c.atPrompt(t, 3)
	c.types("/context what now\r")
	c.wait(t, `(?s)POST http.*what now.*── tool`)
	c.atPrompt(t, 4)
	if n := len(s.Requests()); n != 0 {
		t.Errorf("/context asked the model %d times", n)
	}
	shown := c.String()
	c.types("/fix\r")
	c.wait(t, `I see\.`)
	c.atPrompt(t, 5)
	c.types("\x04")
	c.ends(0)
	body := string(s.Requests()[0].Body)
	for _, want := range []string{"out-42", "err-43", "exit 3", "remember the milk"} {
		if !strings.Contains(body, want) {
			t.Errorf("the request does not have %q:\n%s", want, body)
		}
		if !strings.Contains(shown, want) {
			t.Errorf("/context does not show %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(p.work, "made")); err == nil {
		t.Error("a file of a command whose changes were discarded is there")
	}
}

func TestRequestsAreRememberedWithoutSecrets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const secret = "sk-proj-Q7x1pM9vT3bN5kL8wR2yZ6aC"
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "First.")}, {Text: anAnswer(t, "Second.")}, {Text: anAnswer(t, "Third.")}}}
	c := converse(t, p, s)
	c.types("use OPENAI_API_KEY=" + secret + " for it\r")
	c.wait(t, `First\.`)
	c.atPrompt(t, 2)
	c.types("of two\x1b\rlines\r")
	c.wait(t, `Second\.`)
	c.atPrompt(t, 3)
	c.types("\x04")
	c.ends(0)
	file := filepath.Join(p.state, "ai_history")
	data, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(data), secret) || !strings.Contains(string(data), "redacted") {
		t.Errorf("the history is %q, %v", data, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history's mode is %v, %v", info.Mode(), err)
	}
	c = converse(t, p, s)
	c.types("\x12two")
	c.wait(t, `lines`)
	c.types("\r")
	c.wait(t, `Third\.`)
	c.atPrompt(t, 2)
	c.types("\x04")
	c.ends(0)
	asked := s.Requests()
	if got := string(asked[len(asked)-1].Body); !strings.Contains(got, `of two\nlines`) && !strings.Contains(got, `of two\\nlines`) {
		t.Errorf("the entry did not come back whole: %s", got)
	}
}

func TestWhatASessionIsToldToDo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	edit := filepath.Join(p.home, "edit")
	writeProgram(t, edit, "#!/bin/sh\ntest -t 0 && sed -i s/small/large/ \"$1\"\n")
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "It is done.")}}}
	c := converse(t, p, s, "EDITOR="+edit)
	c.types("!echo up; cat; exit 4\r") // it waits for input
	c.wait(t, `up\r\n`)
	c.types("a line\n")
	c.wait(t, `a line\r\na line\r\n`)
	c.types("\x03")
	c.wait(t, `exit code 130`)
	c.atPrompt(t, 2)
	c.types("/model test-2\r")
	c.wait(t, `openai test-2 at http.* is asked`)
	c.atPrompt(t, 3)
	c.types("/ask how small is it")
	c.wait(t, `how small is it`)
	c.types("\x18\x05")
	c.wait(t, `how large is it`)
	c.types("\r")
	c.wait(t, `It is done\.`)
	c.atPrompt(t, 5) // the editor had the terminal meanwhile
	c.types("/save /nowhere/plan.json\r")
	c.wait(t, `/save open /nowhere/plan.json`)
	c.atPrompt(t, 6)
	c.types("/include nothing-here\r")
	c.wait(t, `nothing-here`)
	c.atPrompt(t, 7)
	c.types("/history\r")
	c.wait(t, `(?s)  /model test-2\r\n  /ask how large is it\r\n`)
	c.atPrompt(t, 8)
	c.types("\x04")
	c.ends(0)
	body := string(s.Requests()[0].Body)
	for _, want := range []string{`"test-2"`, "how large is it", "cat; exit 4"} {
		if !strings.Contains(body, want) {
			t.Errorf("the request does not have %q:\n%s", want, body)
		}
	}
}

func TestTheLastPlanIsExplained(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: aPlan(t, "Count", "echo 1-2-3")}, {Text: anAnswer(t, "It counts.")}}}
	c := converse(t, p, s)
	c.types("/explain\r")
	c.wait(t, `say what you want: /explain WORDS`)
	c.atPrompt(t, 2)
	c.types("/do count\r")
	c.wait(t, `1-2-3\r\n`)
	c.atPrompt(t, 3) // nothing was changed: there is nothing to ask
	c.types("/explain\r")
	c.wait(t, `It counts\.`)
	c.atPrompt(t, 4)
	c.types("\x04")
	c.ends(0)
	if asked := s.Requests(); len(asked) != 2 || strings.Count(string(asked[1].Body), "echo 1-2-3") < 2 {
		t.Errorf("%d requests; the last one must have the plan beside the conversation", len(asked))
	}
}

func TestASessionIsStoppedAndGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("there is no bash, whose jobs this is about: %v", err)
	}
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "Here I am.")}}}
	airlock := p.command(t, "ai")
	cmd := p.command(t)
	cmd.Path, cmd.Args = bash, []string{"bash", "--norc", "--noprofile", "-i"}
	cmd.Env = append(cmd.Env, "AIRLOCK_PROVIDER=openai", "AIRLOCK_MODEL=test-1", "AIRLOCK_BASE_URL="+modeltest.OpenAI(t, s), "OPENAI_API_KEY="+modeltest.Key)
	c := start(t, cmd)
	c.wait(t, `\$ `)
	c.types("'" + airlock.Path + "' ai\r")
	c.wait(t, `ai> \r\x1b\[4C$`)
	c.types("half a requ")
	c.wait(t, `half a requ`)
	c.types("\x1a")
	c.wait(t, `Stopped`)
	c.types("echo from-the-$((40+2))-shell\r") // in a terminal that is as it was
	c.wait(t, `from-the-42-shell`)
	c.types("fg\r")
	c.wait(t, `(?s)from-the-42-shell.*fg.*half a requ\r.{0,9}$`)
	c.types("est\r")
	c.wait(t, `Here I am\.`)
	c.wait(t, `(?s)Here I am.*ai> \r\x1b\[4C$`)
	c.types("\x04")
	c.wait(t, `(?s)Here I am.*\$ $|(?s)Here I am.*\$ \x1b`)
	c.types("exit\r")
	_ = c.cmd.Wait()
	if asked := s.Requests(); len(asked) != 1 || !strings.Contains(string(asked[0].Body), "half a request") {
		t.Errorf("%d requests; what was typed before must be there", len(asked))
	}
}

func TestSecretsThatComeDuringASessionAreKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const secret = "correct-horse-staple"
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "First.")}, {Text: anAnswer(t, "Second.")}}}
	c := converse(t, p, s)
	c.types("hello\r")
	c.wait(t, `First\.`)
	c.atPrompt(t, 2)
	write(t, p, ".env", "STABLE_PASSWORD="+secret+"\n")
	c.types("!echo " + secret + "\r")
	c.wait(t, secret+`\r\n`)
	c.atPrompt(t, 3)
	c.types("why does " + secret + " not work?\r")
	c.wait(t, `Second\.`)
	c.atPrompt(t, 4)
	c.types("\x04")
	c.ends(0)
	if data, err := os.ReadFile(filepath.Join(p.state, "ai_history")); err != nil || strings.Contains(string(data), secret) {
		t.Errorf("the history is %q, %v", data, err)
	}
	if asked := s.Requests(); len(asked) != 2 || strings.Contains(string(asked[1].Body), secret) {
		t.Errorf("%d requests; the last one must not have the secret: %s", len(asked), asked[len(asked)-1].Body)
	}
}

func TestAKeyCommandThatHangsIsInterrupted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "Here I am.")}}}
	settings := filepath.Join(p.home, ".config", "airlock", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	line := "if test -e hang; then echo it hangs >&2; exec sleep 1000; fi; echo " + modeltest.Key
	text := "ai: {provider: openai, model: test-1, base_url: \"" + modeltest.OpenAI(t, s) + "\", key_command: \"" + line + "\"}\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, p.command(t, "ai"))
	c.atPrompt(t, 1)
	write(t, p, "hang", "")
	c.types("/model test-2\r")
	c.wait(t, `it hangs`)
	c.types("\x03")
	c.atPrompt(t, 2)
	c.types("still there?\r")
	c.wait(t, `Here I am\.`)
	c.atPrompt(t, 3)
	c.types("\x04")
	c.ends(0)
	if asked := s.Requests(); len(asked) != 1 || !strings.Contains(string(asked[0].Body), `"test-1"`) {
		t.Errorf("%d requests; the model must be the one that was asked before", len(asked))
	}
}

func TestASessionEndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		c := converse(t, p, &modeltest.Script{Turns: []modeltest.Turn{{Silent: true}}})
		c.types("half a reque")
		c.wait(t, `half a reque`)
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.ends(128 + int(sig))
		// While the model is asked, too.
		c = converse(t, p, &modeltest.Script{Turns: []modeltest.Turn{{Silent: true}}})
		c.types("hello\r")
		c.wait(t, `waiting`)
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.ends(128 + int(sig))
	}
}

func TestASessionOnADumbTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "Plainly.")}}}
	cmd := p.command(t, "ai")
	cmd.Env = append(cmd.Env, "TERM=dumb", "AIRLOCK_PROVIDER=openai", "AIRLOCK_MODEL=test-1", "AIRLOCK_BASE_URL="+modeltest.OpenAI(t, s),
		"OPENAI_API_KEY="+modeltest.Key)
	c := start(t, cmd)
	c.wait(t, `ai> $`)
	c.types("hello \\\nworld\n")
	c.wait(t, `(?s)Plainly\..*ai> $`)
	c.types("\x04")
	c.ends(0)
	if strings.Contains(c.String(), "\x1b") {
		t.Errorf("a dumb terminal got %q", c.String())
	}
	if body := string(s.Requests()[0].Body); !strings.Contains(body, `hello \n`) && !strings.Contains(body, `hello \\n`) {
		t.Errorf("the request has not both lines: %s", body)
	}
}

func TestAPasteAtThePromptDoesNotRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := &modeltest.Script{Turns: []modeltest.Turn{{Text: anAnswer(t, "One request.")}}}
	c := converse(t, p, s)
	c.types("\x1b[200~first line\r!touch made\rthird line\r\x1b[201~")
	c.wait(t, `third line`)
	c.types("\r")
	c.wait(t, `One request\.`)
	c.atPrompt(t, 2)
	c.types("\x04")
	c.ends(0)
	if n := len(s.Requests()); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}
