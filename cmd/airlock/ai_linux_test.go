package main_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/planner/modeltest"
)

const aiQuestion = `\[c\]ommit  \[d\]iff  \[e\]dit  \[r\]etry  \[k\]eep  e\[x\]plain  \[n\]o \? $`

// proposal is an AiAction with one step.
func proposal(summary, command string) modeltest.Turn {
	return modeltest.Turn{Text: `{"kind":"command_sequence","summary":"` + summary + `","steps":[{"id":"1","description":"Do it","shell_command":"` + command + `"}]}`}
}

func explanation(text string) modeltest.Turn {
	return modeltest.Turn{Text: `{"kind":"answer_only","summary":"` + text + `"}`}
}

// ask is airlock with a model that follows the script.
func (p *place) ask(t *testing.T, script *modeltest.Script, args ...string) *exec.Cmd {
	t.Helper()
	cmd := p.command(t, args...)
	cmd.Env = append(cmd.Env, "AIRLOCK_PROVIDER=openai", "AIRLOCK_MODEL=test-1", "AIRLOCK_BASE_URL="+modeltest.OpenAI(t, script), "OPENAI_API_KEY=sk-test-4f9a8c1e7b2d6053")
	return cmd
}

// content is a file of the working folder; "" where there is none.
func (p *place) content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.work, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheModelsPlanIsDecidedAbout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	script := &modeltest.Script{Turns: []modeltest.Turn{
		proposal("Say one", "echo one >said"), explanation("It says one."), proposal("Say two", "echo two >said"),
	}}
	cmd := p.ask(t, script, "ai", "run", "say", "something")
	edit := filepath.Join(p.home, "edit")
	writeProgram(t, edit, "#!/bin/sh\nsed -i s/two/three/ \"$1\"\n")
	cmd.Env = append(cmd.Env, "EDITOR="+edit)
	c := start(t, cmd)
	c.wait(t, `(?s)Say one.*\+one.*`+aiQuestion)
	c.types("\r") // no answer is no answer
	c.wait(t, `(?s)\[n\]o \? \r\n.*`+aiQuestion)
	c.types("x\r")
	c.wait(t, `(?s)It says one\..*`+aiQuestion)
	c.types("r\r")
	c.wait(t, `What should be different .*\? $`)
	c.types("louder\r")
	c.wait(t, `(?s)discarded.*Say two.*\+two.*`+aiQuestion)
	c.types("e\r")
	c.wait(t, `(?s)\+three.*`+aiQuestion)
	c.types("c\r")
	c.ends(0)
	if got := p.content(t, "said"); got != "three\n" {
		t.Errorf("said = %q, want what was edited", got)
	}
	requests := script.Requests()
	if len(requests) != 3 {
		t.Fatalf("%d requests, want 3", len(requests))
	}
	if body := string(requests[2].Body); !strings.Contains(body, "louder") || !strings.Contains(body, "say something") {
		t.Errorf("the last request has neither the remark nor the conversation: %s", body)
	}
	if got := p.changes(t); strings.Contains(got, "said") {
		t.Errorf("changes that were replaced are left: %s", got)
	}
}

func TestAFailedStepGoesBackToTheModel(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	script := &modeltest.Script{Turns: []modeltest.Turn{
		{Text: `{"kind":"plan_and_commands","summary":"Try","steps":[{"id":"1","description":"First","shell_command":"echo first >made"},{"id":"2","description":"Second","shell_command":"echo no such luck >&2; exit 3"},{"id":"3","description":"Third","shell_command":"echo third >>made"}]}`},
		{Text: `{"kind":"command_sequence","summary":"Another way","steps":[{"id":"1","description":"Otherwise","shell_command":"echo second >>made"}]}`},
	}}
	c := start(t, p.ask(t, script, "ai", "do", "make it"))
	c.wait(t, `\[m\]odel: ask what to do  \[q\] stop \? $`)
	c.types("m\r")
	c.wait(t, `(?s)Another way.*`+aiQuestion)
	c.types("c\r")
	c.ends(0)
	if got := p.content(t, "made"); got != "first\nsecond\n" {
		t.Errorf("made = %q, want the first step's and the new one's", got)
	}
	if body := string(script.Requests()[1].Body); !strings.Contains(body, "no such luck") || !strings.Contains(body, "exit code 3") {
		t.Errorf("the model was not told of the failure: %s", body)
	}
}

func TestInterruptedWhileTheModelIsAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		turn  modeltest.Turn
		shows string
	}{
		{"before it answers", modeltest.Turn{Silent: true}, `waiting`},
		{"in the middle of its answer", modeltest.Turn{Text: proposal("A summary that never ends", "touch ran").Text, Chunk: 30, Stall: true}, `writing`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c := start(t, p.ask(t, &modeltest.Script{Turns: []modeltest.Turn{tt.turn}}, "ai", "run", "something"))
			c.wait(t, tt.shows)
			c.types("\x03")
			c.ends(130)
			c.wait(t, `interrupted; nothing was run`)
			if got := p.content(t, "ran"); got != "" {
				t.Error("a command of half an answer ran")
			}
		})
	}
}

func TestMaterialIsPipedInOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	script := &modeltest.Script{Turns: []modeltest.Turn{proposal("Use it", "echo used >made")}}
	cmd := p.ask(t, script, "ai", "run", "use this")
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, cmd)
	if _, err := pipe.Write([]byte("what was piped in\n")); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	c.wait(t, aiQuestion)
	c.types("c\r")
	c.ends(0)
	if got := p.content(t, "made"); got != "used\n" {
		t.Errorf("made = %q", got)
	}
	if body := string(script.Requests()[0].Body); !strings.Contains(body, "what was piped in") {
		t.Errorf("the material was not sent: %s", body)
	}
}

func TestTheLastCommandIsRunAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	script := &modeltest.Script{Turns: []modeltest.Turn{proposal("Make the folder", "mkdir none")}}
	cmd := p.ask(t, script, "ai", "fix")
	cmd.Env = append(cmd.Env, "AIRLOCK_SHELL=bash", "AIRLOCK_LAST_COMMAND=touch left; ls none", "AIRLOCK_LAST_EXIT_CODE=2")
	c := start(t, cmd)
	c.wait(t, `Run it again, in a sandbox that is thrown away \? \[y\]es  \[n\]o $`)
	c.types("y\r")
	c.wait(t, aiQuestion)
	c.types("n\r")
	c.ends(0)
	body := string(script.Requests()[0].Body)
	for _, want := range []string{"last_command", "touch left; ls none", "last_exit_code", "No such file", "running the command again in a sandbox"} {
		if !strings.Contains(body, want) {
			t.Errorf("the request lacks %q: %s", want, body)
		}
	}
	if got := p.changes(t); strings.Contains(got, "left") {
		t.Errorf("what the repeated command changed is kept: %s", got)
	}
}

func TestTerminatedWhileTheModelIsAsked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := start(t, p.ask(t, &modeltest.Script{Turns: []modeltest.Turn{{Silent: true}}}, "ai", "run", "something"))
	c.wait(t, `waiting`)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.ends(143)
}
