package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"airlock/internal/surface/stdio"
	"airlock/internal/tool"
)

// FuzzLines: whatever comes in, a call has a tool and an object, each line that is not blank
// and cancels nothing is answered by one line of JSON, and a batch by a list.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"", "\n", `{"tool":"a"}`, "{\"tool\":\"a\",\"params\":{\"x\":[1,{\"y\":null}]}}\r\n\n[{\"tool\":\"a\"},7,{}]\n[]", `{"cancel":true}`, "{\"cancel\":true}\n{\"cancel\":1}",
		"\ufeff{\"tool\":\"a\"}\n\ufeff{}", "{\"tool\":\"\xff\"}", `{"tool":"\ud800"}`, `{"tool":"a","tool":"b"}`, `{"Tool":"a"}`, `[[[[[[`, "{}{}", "\x00", "\u2028\n\u0085", `{"tool":"\u0000\u009b"}`,
		`{"tool":"a","params":{"n":1e9999}}`, `[{"cancel":true}]`, `{"tool":"a","params":null}`, "1\r2\n3",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &stdio.Server{Jobs: 2, Call: func(_ context.Context, name string, params json.RawMessage) (json.RawMessage, bool) {
			if value, err := tool.ParseJSON(params); err != nil {
				t.Errorf("params %q: %v", params, err)
			} else if _, object := value.(map[string]any); !object || name == "" || !utf8.ValidString(name) {
				t.Errorf("a call of %q with %q", name, params)
			}
			document, err := json.Marshal(name)
			if err != nil {
				t.Error(err)
			}
			return document, true
		}}
		var out bytes.Buffer
		if _, err := s.Serve(t.Context(), bytes.NewReader(data), &out); err != nil {
			t.Fatalf("Serve: %v", err)
		}
		answers := strings.SplitAfter(out.String(), "\n")
		if last := answers[len(answers)-1]; last != "" {
			t.Fatalf("the last answer has no end: %q", last)
		}
		answers = answers[:len(answers)-1]
		for line := range strings.SplitSeq(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
			line = strings.TrimSpace(line)
			if line == "" || isCancel(line) {
				continue
			}
			if len(answers) == 0 {
				t.Fatalf("no answer to %q", line)
			}
			checkAnswer(t, line, answers[0])
			answers = answers[1:]
		}
		if len(answers) > 0 {
			t.Errorf("answers to nothing: %q", answers)
		}
	})
}

// isCancel says so of what Go's reader of JSON takes for a cancel, if it is one that all do.
func isCancel(line string) bool {
	value, err := tool.ParseJSON([]byte(line))
	object, ok := value.(map[string]any)
	return err == nil && ok && len(object) == 1 && object["cancel"] == true
}

func checkAnswer(t *testing.T, line, answer string) {
	t.Helper()
	var got any
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatalf("%q is answered with %q: %v", line, answer, err)
	}
	if strings.ContainsFunc(strings.TrimSuffix(answer, "\n"), func(r rune) bool {
		return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029'
	}) {
		t.Errorf("%q is answered with more than a line: %q", line, answer)
	}
	var calls []json.RawMessage
	if _, err := tool.ParseJSON([]byte(line)); err != nil || json.Unmarshal([]byte(line), &calls) != nil || len(calls) > 1000 || line == "null" {
		return
	}
	if list, ok := got.([]any); !ok || len(list) != len(calls) {
		t.Errorf("the batch %q is answered with %q", line, answer)
	}
}
