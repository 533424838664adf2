package bridge

import (
	"bytes"
	"encoding/json"
	"testing"

	"airlock/agent"
	"airlock/internal/tool"
)

// FuzzLastValue holds what is found against the slow way: every suffix is tried.
func FuzzLastValue(f *testing.F) {
	for _, seed := range []string{
		`{"a":1}`, `x {"a":"}"}`, `[1,{"b":2}]`, `{} {}`, `"{}`, `{"a":"\"{"}`, `{"a":"\\"}`, `\"}`, `]]`, `[[`, ``, `{"a":"\\\""}`, `"[1]`, `{"`, `"a\"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			return
		}
		data = trimmed(data)
		begin, ok := lastValue(data)
		want, found := 0, false
		for i := len(data) - 1; i >= 0 && !found; i-- {
			if (data[i] == '{' || data[i] == '[') && json.Valid(data[i:]) {
				want, found = i, true
			}
		}
		if ok != found || ok && begin != want {
			t.Errorf("lastValue(%q) = %d, %v, want %d, %v", data, begin, ok, want, found)
		}
	})
}

// FuzzDocument: whatever is printed and said, the answer is JSON.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"status":"error","error":"x"}`), "", 0)
	f.Add([]byte("no\xff"), `"X": there is no such tool; there are a`, 1)
	f.Add([]byte(`{`), "refused by x: y", 2)
	f.Fuzz(func(t *testing.T, printed []byte, stderr string, n int) {
		a := crashed(&agent.ExecResult{ExitCode: n}, trimmed(printed), stderr)
		valid(t, a.result())
		valid(t, new(told(encode(string(printed)))).result())
		if text := trimmed(printed); json.Valid(text) {
			res := new(told(text)).result()
			valid(t, res)
			if got := Document(res); !bytes.Equal(got, text) {
				t.Errorf("Document = %q, want %q", got, text)
			}
		}
		code := tool.ErrorCodes[max(n, 0)%len(tool.ErrorCodes)]
		valid(t, tool.Fail(code, stderr))
		valid(t, tool.Result{OK: true, Stdout: string(printed), Meta: tool.Meta{MetaOutcome: OutcomeOK}})
	})
}

func valid(t *testing.T, res tool.Result) {
	t.Helper()
	if got := Document(res); !json.Valid(got) {
		t.Errorf("Document(%+v) = %q", res, got)
	}
}
