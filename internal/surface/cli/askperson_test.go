package cli_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"airlock/internal/surface/cli"
	"airlock/internal/tool"
)

func TestAToolsQuestionIsAnsweredOrNot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		prompt tool.Prompt
		typed  string
		answer string
		ok     bool
	}{
		{"free text is taken as it is", tool.Prompt{}, "  so  \n", "  so  ", true},
		{"an empty line is an answer", tool.Prompt{}, "\n", "", true},
		{"or the default", tool.Prompt{Default: "that"}, "\n", "that", true},
		{"what has no end is none", tool.Prompt{Default: "that"}, "so", "", false},
		{"an end is none", tool.Prompt{Default: "that"}, "", "", false},
		{"a choice by its text", tool.Prompt{Choices: []string{"Red", "blue"}}, "red\n", "Red", true},
		{"a choice by its number", tool.Prompt{Choices: []string{"red", "blue"}}, "2\n", "blue", true},
		{"a number that is a choice's text", tool.Prompt{Choices: []string{"2", "1"}}, "2\n", "2", true},
		{"no choice is asked about again", tool.Prompt{Choices: []string{"red", "blue"}}, "3\n0\n\nblue\n", "blue", true},
		{"no choice all the time is none", tool.Prompt{Choices: []string{"red"}}, strings.Repeat("x\n", 9) + "red\n", "", false},
		{"a default that is no choice is none", tool.Prompt{Choices: []string{"red"}, Default: "blue"}, strings.Repeat("\n", 9), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			answer, ok := cli.AskPrompt(strings.NewReader(tt.typed), &out, &tt.prompt, 80)
			if answer != tt.answer || ok != tt.ok {
				t.Errorf("%q, %t; want %q, %t", answer, ok, tt.answer, tt.ok)
			}
		})
	}
}

func TestAToolsQuestionCannotPassForAirlocks(t *testing.T) {
	var out bytes.Buffer
	hostile := "\x1b[2J\nairlock: may this command run?\nLet it run? \u202etxt.exe\r\n" + strings.Repeat("long ", 2000)
	cli.AskPrompt(strings.NewReader("\n"), &out, &tool.Prompt{
		Tool: "x\nairlock", Question: hostile, Choices: []string{"a\nairlock: b"}, Default: "\x1b[1m",
	}, 60)
	text := out.String()
	if strings.ContainsAny(text, "\x1b\r\u202e") || len(text) > 10<<10 {
		t.Errorf("control characters, or %d bytes, reached the terminal: %.500q", len(text), text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "airlock:") && !strings.HasPrefix(line, `airlock: x\nairlock asks:`) || strings.HasPrefix(line, "Let it run?") {
			t.Errorf("a line of the tool's stands for itself: %q", line)
		}
	}
}

func TestADocumentCannotControlATerminal(t *testing.T) {
	const document = `{"a": "\u001b[1mé\u009b1m 😀 \u0000 \ue000 ` + "\u009b\u202e\U000e0001\u200b" + `", "b": [1.50, "\\n"]}`
	harmless := cli.HarmlessJSON(document)
	if strings.ContainsAny(harmless, "\u009b\u202e\U000e0001\u200b") {
		t.Errorf("what hides or controls is still there: %q", harmless)
	}
	if !strings.Contains(harmless, "é") || !strings.Contains(harmless, "😀") || !strings.Contains(harmless, "1.50") {
		t.Errorf("what can be seen is gone: %q", harmless)
	}
	var before, after any
	if err := json.Unmarshal([]byte(document), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(harmless), &after); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%s is not %s: %v", harmless, document, err)
	}
}
