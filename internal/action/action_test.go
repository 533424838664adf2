package action_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"airlock/internal/action"
)

func TestExamplesOfTheSpecification(t *testing.T) {
	for _, tt := range []struct {
		file  string
		kind  action.Kind
		steps int
		last  string // the last step's command, or its beginning
	}{
		{"answer_only.json", action.AnswerOnly, 0, ""},
		{"command_sequence.json", action.CommandSequence, 2, "kill -9 $(lsof -i :8080 -t)"},
		{"plan_and_commands.json", action.PlanAndCommands, 4, "docker-compose up -d"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			p, err := action.Parse(data)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if p.Kind != tt.kind || len(p.Steps) != tt.steps || p.Summary == "" {
				t.Errorf("Parse: kind %q, %d steps, summary %q; want %q, %d, some", p.Kind, len(p.Steps), p.Summary, tt.kind, tt.steps)
			}
			if n := len(p.Steps); n > 0 && p.Steps[n-1].ShellCommand != tt.last {
				t.Errorf("last command = %q, want %q", p.Steps[n-1].ShellCommand, tt.last)
			}
			// What the typed form says is what encoding/json reads too: no member is lost.
			var want action.Plan
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*p, want) {
				t.Errorf("Parse = %+v, want %+v", *p, want)
			}
			again, err := action.Parse(action.Marshal(p))
			if err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("Parse(Marshal) = %+v, %v; want %+v", again, err, p)
			}
		})
	}
}

func TestSchemaIsOneADraft7ReaderTakes(t *testing.T) {
	var s struct {
		Schema   string   `json:"$schema"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(action.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Schema != "http://json-schema.org/draft-07/schema#" || len(s.Required) != 1 || s.Required[0] != "kind" {
		t.Errorf("Schema() = %+v", s)
	}
	action.Schema()[0] = 'x'
	if action.Schema()[0] == 'x' {
		t.Error("who is given the schema can change it for all")
	}
}

// step is a plan of one step, with members in place of or beside the usual ones.
func step(members string) string {
	return `{"kind":"command_sequence","steps":[{"id":"a","description":"d","shell_command":"true"` + members + `}]}`
}

func steps(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"s%d","description":"","shell_command":"true"}`, i)
	}
	return `{"kind":"plan_and_commands","steps":[` + strings.Join(list, ",") + `]}`
}

func TestParseTakes(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"an answer without steps", `{"kind":"answer_only"}`},
		{"an answer with an empty list of steps", `{"kind":"answer_only","steps":[]}`},
		{"members it does not know", `{"kind":"answer_only","model":"x","nested":{"a":[1,2,{"b":null}]},"steps":[]}`},
		{"a member that differs from a known one by case, as an unknown one", `{"kind":"answer_only","STEPS":[{"id":"x"}]}`},
		{"a byte order mark", "\xef\xbb\xbf" + `{"kind":"answer_only"}`},
		{"CRLF between members", "{\r\n\"kind\":\r\n\"answer_only\"\r\n}\r\n"},
		{"white space after the object", `{"kind":"answer_only"}` + "\n\n \t"},
		{"as many steps as there may be", steps(action.MaxSteps)},
		{"a whole surrogate pair", step(`,"working_directory":"\ud83d\ude00"`)},
		{"a command of several lines with tabs", strings.Replace(step(""), `"true"`, `"if true\n\tthen echo\nfi"`, 1)},
		{"a working directory above", step(`,"working_directory":"../other dir"`)},
		{"the longest command", strings.Replace(step(""), `"true"`, `"`+strings.Repeat("a", action.MaxCommand)+`"`, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := action.Parse([]byte(tt.text)); err != nil {
				t.Errorf("Parse: %v", err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const one = `"id":"a","description":"d","shell_command":"true"`
	for _, tt := range []struct {
		name, text string
		want       []string // Problem.String of each
	}{
		{"nothing", "", []string{`want a JSON object, got an empty text`}},
		{"white space", " \n", []string{`want a JSON object, got an empty text`}},
		{"a list", "[]", []string{`want a JSON object, got a list of 0`}},
		{"null", "null", []string{`want a JSON object, got null`}},
		{"a cut-off text", "{\n  \"kind\":", []string{`line 2, column 10: want valid JSON, got the end of the text`}},
		{
			"a trailing comma", "{\r\n\"kind\": \"answer_only\",\r\n}",
			[]string{`line 3, column 1: want valid JSON, got invalid character '}' looking for beginning of object key string`},
		},
		{
			"columns in characters", `{"kind":"é" x}`,
			[]string{`line 1, column 13: want valid JSON, got invalid character 'x' after object key:value pair`},
		},
		{
			"a second object", `{"kind":"answer_only"} {"kind":"answer_only"}`,
			[]string{`line 1, column 24: want valid JSON, got invalid character '{' after top-level value`},
		},
		{
			"a fence around it", "```json\n{}\n```",
			[]string{"line 1, column 1: want valid JSON, got invalid character '`' looking for beginning of value"},
		},
		{
			"a member twice", `{"kind":"answer_only","kind":"command_sequence"}`,
			[]string{`line 1, column 28: want each member once, got "kind" twice`},
		},
		{
			"a member twice, once with an escape", `{"kind":"answer_only","\u006bind":"answer_only"}`,
			[]string{`line 1, column 33: want each member once, got "kind" twice`},
		},
		{
			"a member twice, in what it does not know", `{"kind":"answer_only","x":[{"a":1,"a":2}]}`,
			[]string{`line 1, column 37: want each member once, got "a" twice`},
		},
		{"bytes that are no text", "{\"kind\":\"\xff\"}", []string{`line 1, column 10: want text in UTF-8, got a byte that is none`}},
		{
			"half a surrogate pair", `{"kind":"answer_only","summary":"a\ud800b"}`,
			[]string{`line 1, column 35: want both halves of a surrogate pair, got one: \ud800`},
		},
		{
			"the wrong half of a surrogate pair", `{"kind":"answer_only","summary":"\\\udc00\ud800"}`,
			[]string{`line 1, column 36: want both halves of a surrogate pair, got one: \udc00`},
		},
		{
			"deep nesting", `{"kind":"answer_only","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
			[]string{`line 1, column 58: want at most 32 levels of nesting, got more`},
		},
		{"no kind", `{}`, []string{`kind: want one of "answer_only", "command_sequence", "plan_and_commands", got nothing: it is missing`}},
		{
			"another kind", `{"kind":"tool_call"}`,
			[]string{`kind: want one of "answer_only", "command_sequence", "plan_and_commands", got "tool_call"`},
		},
		{
			"a kind that is no text", `{"kind":3,"summary":null,"steps":{}}`,
			[]string{
				`kind: want one of "answer_only", "command_sequence", "plan_and_commands", got 3`,
				`summary: want a string, got null`,
				`steps: want a list, got an object`,
			},
		},
		{
			"a kind in the wrong case", `{"KIND":"command_sequence","kind":"answer_only","steps":[{` + one + `}]}`,
			[]string{`steps: want none in an answer_only plan, got 1`},
		},
		{"commands without steps", `{"kind":"command_sequence"}`, []string{`steps: want at least one in a command_sequence plan, got none`}},
		{"a plan without steps", `{"kind":"plan_and_commands","steps":[]}`, []string{`steps: want at least one in a plan_and_commands plan, got none`}},
		{"a step too many", steps(101), []string{`steps: want at most 100 steps, got 101`}},
		{"a step that is none", `{"kind":"command_sequence","steps":["ls"]}`, []string{`steps[0]: want an object, got "ls"`}},
		{
			"members in the wrong case", `{"kind":"command_sequence","steps":[{"id":"a","description":"d","Shell_Command":"true"}]}`,
			[]string{`steps[0].shell_command: want a string, got nothing: it is missing`},
		},
		{
			"several steps with several problems, in their order",
			`{"kind":"command_sequence","steps":[{` + one + `},{"shell_command":["ls"],"id":7,"is_destructive":"no"},` +
				`{"id":"a","description":"d","shell_command":" ","working_directory":"~/x"}]}`,
			[]string{
				`steps[1].id: want a string, got 7`,
				`steps[1].description: want a string, got nothing: it is missing`,
				`steps[1].shell_command: want a string, got a list of 1`,
				`steps[1].is_destructive: want true or false, got "no"`,
				`steps[2].id: want an id that no other step has, got "a", which is that of steps[0]`,
				`steps[2].shell_command: want a command, got " "`,
				`steps[2].working_directory: want a path that is absolute or relative to the plan's folder: no shell expands ~ and $ here, got "~/x"`,
			},
		},
		{"a number as a flag", step(`,"requires_sudo":1`), []string{`steps[0].requires_sudo: want true or false, got 1`}},
		{"a NUL in a command", strings.Replace(step(""), "true", `ls\u0000rm`, 1), []string{`steps[0].shell_command: want a command without NUL, which a shell cannot take, got one with it`}},
		{"an empty id", strings.Replace(step(""), `"a"`, `""`, 1), []string{`steps[0].id: want an id, got ""`}},
		{"an id that hides what it is", strings.Replace(step(""), `"a"`, `"a\u202e\u001b[2J"`, 1), []string{`steps[0].id: want printable characters, with no space at the ends, got "a\u202e\x1b[2J"`}},
		{"a long id", strings.Replace(step(""), `"a"`, `"`+strings.Repeat("a", 65)+`"`, 1), []string{`steps[0].id: want at most 64 bytes, got 65`}},
		{"a long command", strings.Replace(step(""), `"true"`, `"`+strings.Repeat("a", action.MaxCommand+1)+`"`, 1), []string{`steps[0].shell_command: want at most 65536 bytes, got 65537`}},
		{"a long description", strings.Replace(step(""), `"d"`, `"`+strings.Repeat("a", action.MaxDescription+1)+`"`, 1), []string{`steps[0].description: want at most 4096 bytes, got 4097`}},
		{"a long summary", `{"kind":"answer_only","summary":"` + strings.Repeat("a", action.MaxSummary+1) + `"}`, []string{`summary: want at most 65536 bytes, got 65537`}},
		{"a working directory with a line's end", step(`,"working_directory":"/tmp\n"`), []string{`steps[0].working_directory: want a path of printable characters, with no space at its ends, got "/tmp\n"`}},
		{"a working directory with a variable", step(`,"working_directory":"$HOME/x"`), []string{`steps[0].working_directory: want a path that is absolute or relative to the plan's folder: no shell expands ~ and $ here, got "$HOME/x"`}},
		{"a text that is too long", strings.Repeat(" ", action.MaxSize) + "{}", []string{`want at most 1048576 bytes, got more`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := action.Parse([]byte(tt.text))
			var invalid *action.InvalidError
			if !errors.As(err, &invalid) || p != nil {
				t.Fatalf("Parse: plan %+v, err %v; want an InvalidError", p, err)
			}
			var got []string
			for _, p := range invalid.Problems {
				got = append(got, p.String())
				if !strings.Contains(err.Error(), p.String()) {
					t.Errorf("the message %q does not say %q", err, p)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestProblemsHavePointers(t *testing.T) {
	_, err := action.Parse([]byte(strings.Replace(step(""), `"true"`, "1", 1)))
	var invalid *action.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("Parse: %v", err)
	}
	if p := invalid.Problems[0]; p.Path != "steps[0].shell_command" || p.Pointer != "/steps/0/shell_command" {
		t.Errorf("path %q, pointer %q", p.Path, p.Pointer)
	}
}

func TestAMessageIsShortAndPrintableWhateverThePlanHolds(t *testing.T) {
	bad := `{"id":"` + strings.Repeat(`\u001b]0;x\u0007é`, 500) + `","description":[],"shell_command":{},"is_destructive":"` + strings.Repeat("x", 500) + `"}`
	_, err := action.Parse([]byte(`{"kind":"command_sequence","steps":[` + strings.Repeat(bad+",", 30) + bad + `]}`))
	var invalid *action.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("Parse: %v", err)
	}
	if len(invalid.Problems) != 4*31 {
		t.Errorf("%d problems, want %d", len(invalid.Problems), 4*31)
	}
	text := err.Error()
	if len(text) > 8000 || !strings.HasSuffix(text, "and 104 more") {
		t.Errorf("a message of %d bytes that ends with %q", len(text), text[len(text)-40:])
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
		t.Errorf("the message holds %q", text[i:i+1])
	}
}

func TestRead(t *testing.T) {
	if _, err := action.Read(strings.NewReader(step(""))); err != nil {
		t.Errorf("Read: %v", err)
	}
	t.Run("reads no more than a plan can be long", func(t *testing.T) {
		endless := &counter{}
		var invalid *action.InvalidError
		if _, err := action.Read(endless); !errors.As(err, &invalid) {
			t.Errorf("Read: err = %v, want an InvalidError", err)
		}
		if endless.n > action.MaxSize+4096 {
			t.Errorf("read %d bytes", endless.n)
		}
	})
	t.Run("an error of the reader's stays one", func(t *testing.T) {
		if _, err := action.Read(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Read: err = %v, want %v", err, io.ErrClosedPipe)
		}
	})
}

// A counter is an endless text of spaces.
type counter struct{ n int }

func (c *counter) Read(p []byte) (int, error) {
	c.n += len(p)
	return copy(p, bytes.Repeat([]byte(" "), len(p))), nil
}

func TestMarshalKeepsShellCharacters(t *testing.T) {
	p := &action.Plan{Kind: action.CommandSequence, Steps: []action.Step{{ID: "a", ShellCommand: "a <b >c && d\u2028"}}}
	if data := action.Marshal(p); !bytes.Contains(data, []byte(`a <b >c && d`)) {
		t.Errorf("Marshal = %s", data)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"answer_only", "command_sequence", "plan_and_commands"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"answer_only","kind":"x"}`))
	f.Add([]byte(step(`,"x":[[{"\ud800":1e9}]]`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := action.Parse(data)
		if err != nil {
			var invalid *action.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("Parse: err = %v, want an InvalidError with problems", err)
			}
			for _, p := range invalid.Problems {
				if p.Want == "" || p.Got == "" {
					t.Errorf("problem %+v does not say what is wrong", p)
				}
			}
			return
		}
		if len(p.Steps) > action.MaxSteps || (p.Kind == action.AnswerOnly) != (len(p.Steps) == 0) {
			t.Errorf("Parse let through %q with %d steps", p.Kind, len(p.Steps))
		}
		written := action.Marshal(p)
		if len(written) > action.MaxSize { // indentation can make it so
			return
		}
		again, err := action.Parse(written)
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("Parse(Marshal) = %+v, %v; want %+v", again, err, p)
		}
	})
}

func TestThePagesExampleIsAPlan(t *testing.T) {
	page, err := os.ReadFile("../../docs/plans.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	block, _, ok := strings.Cut(rest, "```")
	plan, err := action.Parse([]byte(block))
	if !ok || err != nil || len(plan.Steps) != 2 || !plan.Steps[1].NeedsConfirmation {
		t.Errorf("Parse of the example = %+v, %v", plan, err)
	}
}
