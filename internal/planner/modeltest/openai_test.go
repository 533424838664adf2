package modeltest_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"airlock/internal/planner/modeltest"
)

// A counted is a test whose failures are counted, and are none.
type counted struct {
	testing.TB
	failures atomic.Int32
}

func (c *counted) Errorf(string, ...any) { c.failures.Add(1) }

func TestOpenAIRefusesWhatTheAPIRefuses(t *testing.T) {
	const begin = `{"model":"m","messages":[`
	const call = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	for _, test := range []struct {
		name, body string
		ok         bool
	}{
		{"a question", begin + `{"role":"user","content":"hi"}]}`, true},
		{"a call with its result", begin + call + `,{"role":"tool","tool_call_id":"a","content":"x"}]}`, true},
		{"an unknown member", begin + `{"role":"user","content":"hi"}],"top_k":3}`, false},
		{"a wrong type", begin + `{"role":"user","content":"hi"}],"max_tokens":"3"}`, false},
		{"no messages", begin + `]}`, false},
		{"something behind it", begin + `{"role":"user","content":"hi"}]} {}`, false},
		{"a call without its result", begin + call + `,{"role":"user","content":"x"}]}`, false},
		{"a call at the end", begin + call + `]}`, false},
		{"a result without its call", begin + `{"role":"tool","tool_call_id":"a","content":"x"}]}`, false},
		{"two results of one call", begin + call + `,{"role":"tool","tool_call_id":"a","content":"x"},{"role":"tool","tool_call_id":"a","content":"x"}]}`, false},
		{"a message without anything", begin + `{"role":"assistant"}]}`, false},
		{"a role that there is not", begin + `{"role":"robot","content":"x"}]}`, false},
		{"stream_options without a stream", begin + `{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}`, false},
		{"a choice without tools", begin + `{"role":"user","content":"hi"}],"tool_choice":"required"}`, false},
		{"JSON mode without the word", begin + `{"role":"user","content":"hi"}],"response_format":{"type":"json_object"}}`, false},
		{"JSON mode with the word", begin + `{"role":"user","content":"Json!"}],"response_format":{"type":"json_object"}}`, true},
		{"a strict schema that is open", begin + `{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{}}}}}`, false},
		{"a strict schema with what may be missing", begin + `{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"b":{}},"required":[]}}},"required":["a"]}}}}`, false},
		{"the key in the body", begin + `{"role":"user","content":"the-key"}]}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &counted{TB: t}
			url := modeltest.OpenAI(c, &modeltest.Script{Turns: []modeltest.Turn{{Text: "ok"}}})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer the-key")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if ok := res.StatusCode == http.StatusOK && c.failures.Load() == 0; ok != test.ok || !test.ok && c.failures.Load() == 0 {
				t.Errorf("%d %s, %d failures; want ok = %v", res.StatusCode, text, c.failures.Load(), test.ok)
			}
		})
	}
}
