package bridge_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
)

// TestProtocol11 is what package lines says of an agent, as an answer.
func TestProtocol11(t *testing.T) {
	for _, tt := range []struct{ name, script, entry, want, outcome string }{
		{"the result is the answer", `read line; echo '{"type":"progress","done":1}'; echo '{"type":"result","result":{"status":"success"}}'; cat >/dev/null`, "", `{"status":"success"}`, "ok"},
		{"a result that is an error", `read line; echo '{"type":"result","result":{"status":"error","error":"no"}}'`, "", `{"status":"error","error":"no"}`, "error"},
		{"what is no message is the answer", `read line; echo '{"type":"progress"}'; echo '{"a":1}'`, "", `{"a":1}`, "ok"},
		{"the exit code comes first", `read line; echo '{"type":"result","result":{"error":"it says"}}'; exit 2`, "", `{"status":"error","error":"it says","exit_code":2,`, "exit"},
		{"it speaks another version", `echo '{"type":"hello","protocol":"7.0"}'; cat >/dev/null`, "", `{"status":"error","error":"Agent did not keep to its protocol: `, "protocol"},
		{"it waits for the end of its stdin", `cat`, "timeout: 1", `{"status":"error","error":"Agent execution timed out after 1s`, "timeout"},
		{"it has not heard of messages", `read line; echo '{}'`, "", `{}`, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "  it: {path: it, protocol: \"1.1\", "+tt.entry+"}\n", map[string]string{"it": sh(tt.script)})
			res, got := w.call("it", `{"a":"b"}`)
			if !strings.HasPrefix(got, tt.want) || res.Meta[bridge.MetaOutcome] != tt.outcome {
				t.Errorf("document = %s, outcome %v, want %s, %s", got, res.Meta[bridge.MetaOutcome], tt.want, tt.outcome)
			}
		})
	}
}

// TestACP is a program that speaks anything but ACP: package acp tries those that do.
func TestACP(t *testing.T) {
	w := newWorld(t, "  it: {kind: acp, command: "+"/bin/cat"+", timeout: 5}\n", nil)
	for _, tt := range []struct{ name, args, want string }{
		{"no prompt", `{}`, `{"status":"error","error":"Validation error: `},
		{"no agent", `{"prompt":"$(hello)"}`, `{"status":"error","error":"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if res, got := w.call("it", tt.args); res.OK || !strings.HasPrefix(got, tt.want) {
				t.Errorf("document = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", nil)
	if info, ok := w.tools.Lookup("it"); !ok || info.Info().Name != "it" {
		t.Fatal("there is no it")
	}
	if _, _, err := w.tools.Resolve(tool.Call{Tool: "it", Action: "go"}); err == nil {
		t.Error("there is another action than run")
	}
	res := w.tools.Invoke(t.Context(), w.m, tool.Call{Tool: "it", Action: "go", Args: json.RawMessage(`{}`)})
	if got, want := string(bridge.Document(res)), `{"status":"error","error":"Validation error: it has no action \"go\"; did you mean run?"}`; !strings.HasPrefix(got, want[:60]) {
		t.Errorf("document = %s, want %s", got, want)
	}
}

// A backTo makes calls with the registry itself, on the same machine.
type backTo struct {
	tool.Back
	w *world
}

func (b backTo) Call(ctx context.Context, call tool.Call) tool.Result {
	return b.w.tools.Invoke(ctx, b.w.m, call)
}

func TestAnAgentIsGivenAnothersDocument(t *testing.T) {
	w := newWorld(t, `
  asks: {path: asks, protocol: "1.1"}
  told: {path: told}
`, map[string]string{
		"asks": sh(`read line; echo '{"type":"call","id":1,"tool":"told","args":{"a":1}}'; read -r answer; printf %s "$answer" >answer; echo '{"type":"result","result":1}'`),
		"told": sh(`cat`),
	})
	w.m.Back = backTo{w: w}
	if res, got := w.call("asks", `{}`); !res.OK || got != "1" {
		t.Fatal(got)
	}
	var answer struct {
		OK       bool
		Document json.RawMessage
	}
	if err := json.Unmarshal([]byte(w.read("answer")), &answer); err != nil || !answer.OK || string(answer.Document) != `{"a":1}` {
		t.Errorf("answer = %s, err %v", w.read("answer"), err)
	}
}
