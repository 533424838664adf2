package lines

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	ten := 10.0
	for _, c := range []struct {
		name, line string
		want       *message // nil: no message
	}{
		{"an empty line", ``, nil},
		{"a list", `["type"]`, nil},
		{"a number", `1`, nil},
		{"an object without a type", `{"id":1,"a":"type"}`, nil},
		{"a type within", `{"a":{"type":"call"}}`, nil},
		{"a type of another case", `{"Type":"call"}`, nil},
		{"a type that Airlock says", `{"type":"cancel","x":"type"}`, nil},
		{"half an object", `{"type":"call"`, nil},
		{"an object that is no JSON", `{"type":"call",}`, nil},
		{"hello", `{"type":"hello","protocol":"1.1"}`, &message{kind: hello, protocol: "1.1"}},
		{"progress", `{"type":"progress","message":"a","done":3,"total":10}`, &message{kind: progress, text: "a", done: 3, total: &ten}},
		{"progress of nothing", `{"type":"progress"}`, &message{kind: progress}},
		{"a part", `{"type":"partial", "data": {"b":1, "a":2} }`, &message{kind: partial, data: json.RawMessage(`{"b":1, "a":2}`)}},
		{"a part that is null", `{"type":"partial","data":null}`, &message{kind: partial, data: json.RawMessage(`null`)}},
		{"a call", `{"type":"call","id":"a","tool":"t","action":"u","args":{"x":[1]}}`, &message{kind: call, id: json.RawMessage(`"a"`), tool: "t", action: "u", args: json.RawMessage(`{"x":[1]}`)}},
		{"a call with params", `{"type":"call","id":1,"tool":"t","params":{"x":1}}`, &message{kind: call, id: json.RawMessage(`1`), tool: "t", args: json.RawMessage(`{"x":1}`)}},
		{"a call without arguments", `{"type":"call","id":1,"tool":"t"}`, &message{kind: call, id: json.RawMessage(`1`), tool: "t", args: json.RawMessage(`{}`)}},
		{"members that nobody knows, and other kinds'", `{"type":"call","id":1,"tool":"t","x":1,"x":2,"data":3,"Question":4}`, &message{kind: call, id: json.RawMessage(`1`), tool: "t", args: json.RawMessage(`{}`)}},
		{"a question", `{"type":"ask","id":2,"question":"q","choices":["a","b"],"default":"b"}`, &message{kind: ask, id: json.RawMessage(`2`), question: "q", choices: []string{"a", "b"}, fallback: "b"}},
		{"a free question", `{"type":"ask","id":2,"question":"q","default":"b"}`, &message{kind: ask, id: json.RawMessage(`2`), question: "q", fallback: "b"}},
		{"a result", `{"result":"x","type":"result","id":5}`, &message{kind: result, id: json.RawMessage(`5`), data: json.RawMessage(`"x"`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decode([]byte(c.line))
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(message{})); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeSaysWhatIsNotRight(t *testing.T) {
	texts := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Quote(strconv.Itoa(i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for _, c := range []struct{ name, line, id, want string }{
		{"two types", `{"type":"call","type":"log","id":1}`, "1", "call: type is there twice"},
		{"a member twice", `{"type":"call","id":1,"tool":"a","tool":"a"}`, "1", "call: tool is there twice"},
		{"a member twice, once with escapes", `{"type":"call","id":1,"tool":"a","\u0074ool":"b"}`, "1", "call: tool is there twice"},
		{"two ids", `{"type":"call","id":1,"id":2,"tool":"a"}`, "", "call: id is there twice"},
		{"another case", `{"type":"call","id":1,"tool":"a","Args":{}}`, "1", `call: it has a member "Args": did you mean "args"?`},
		{"an id of another case", `{"type":"call","Id":1,"tool":"a"}`, "", `call: it has a member "Id": did you mean "id"?`},
		{"no id", `{"type":"ask","question":"q"}`, "", "ask: it has no id"},
		{"an id that is null", `{"type":"call","id":null,"tool":"a"}`, "", "call: id is null: want text or a number"},
		{"an id that is a list", `{"type":"call","id":[1],"tool":"a"}`, "", "call: id is a list"},
		{"an id that is true", `{"type":"call","id":true,"tool":"a"}`, "", "call: id is true or false"},
		{"a long id", `{"type":"call","id":"` + strings.Repeat("x", 127) + `","tool":"a"}`, "", "call: id has 129 bytes, more than 128"},
		{"an id of many digits", `{"type":"call","id":` + strings.Repeat("1", 129) + `,"tool":"a"}`, "", "call: id has 129 bytes"},
		{"text that is not UTF-8", "{\"type\":\"call\",\"id\":7,\"tool\":\"\xff\"}", "7", "call: it is not UTF-8"},
		{"no tool", `{"type":"call","id":1}`, "1", "call: tool is missing"},
		{"an empty tool", `{"type":"call","id":1,"tool":""}`, "1", "call: tool is empty"},
		{"a tool that is a number", `{"type":"call","id":1,"tool":1}`, "1", "call: tool is a number: want text"},
		{"a tool that is null", `{"type":"call","id":1,"tool":null}`, "1", "call: tool is null: want text"},
		{"a tool of any length", `{"type":"call","id":1,"tool":"` + strings.Repeat("a", 257) + `"}`, "1", "call: tool has 257 bytes, more than 256"},
		{"an action that is null", `{"type":"call","id":1,"tool":"a","action":null}`, "1", "call: action is null: want text"},
		{"arguments that are a list", `{"type":"call","id":1,"tool":"a","args":[]}`, "1", "call: args is a list: want an object"},
		{"params that are null", `{"type":"call","id":1,"tool":"a","params":null}`, "1", "call: args is null: want an object"},
		{"args and params", `{"type":"call","id":1,"tool":"a","params":{},"args":{}}`, "1", "call: args and params are the same"},
		{"no question", `{"type":"ask","id":1}`, "1", "ask: question is missing"},
		{"a long question", `{"type":"ask","id":1,"question":"` + strings.Repeat("x", 16385) + `"}`, "1", "ask: question has 16385 bytes, more than 16384"},
		{"no choices in a list", `{"type":"ask","id":1,"question":"q","choices":[]}`, "1", "ask: choices is not right: want a list of 1 to 100 texts"},
		{"too many choices", `{"type":"ask","id":1,"question":"q","choices":` + texts(101) + `}`, "1", "ask: choices is not right"},
		{"choices that are null", `{"type":"ask","id":1,"question":"q","choices":null}`, "1", "ask: choices is not right"},
		{"a choice that is null", `{"type":"ask","id":1,"question":"q","choices":["a",null]}`, "1", "ask: choices[1] is not right"},
		{"an empty choice", `{"type":"ask","id":1,"question":"q","choices":[""]}`, "1", "ask: choices[0] is not right"},
		{"a choice twice", `{"type":"ask","id":1,"question":"q","choices":["a","\u0061"]}`, "1", "ask: choices[1] is there twice"},
		{"a default that is none of them", `{"type":"ask","id":1,"question":"q","choices":["a"],"default":"b"}`, "1", "ask: default is none of choices"},
		{"no version", `{"type":"hello"}`, "", "hello: protocol is missing"},
		{"a version that is a number", `{"type":"hello","protocol":1.1}`, "", "hello: protocol is a number: want text"},
		{"a count that is text", `{"type":"progress","done":"3"}`, "", `progress: done is "3": want a number from 0`},
		{"a count below nothing", `{"type":"progress","total":-1}`, "", "progress: total is -1: want a number from 0"},
		{"a count without bounds", `{"type":"progress","total":1e999}`, "", "progress: total is 1e999: want a number from 0"},
		{"a message that is a list", `{"type":"progress","message":[]}`, "", "progress: message is a list: want text"},
		{"a part without data", `{"type":"partial"}`, "", "partial: data is missing"},
		{"a result without one", `{"type":"result"}`, "", "result: result is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := decode([]byte(c.line))
			if m == nil || err == nil {
				t.Fatalf("decode: message %v, error %v; want both", m, err)
			}
			if string(m.id) != c.id {
				t.Errorf("decode: id = %q, want %q", m.id, c.id)
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("decode: error = %q, want %q first", err, c.want)
			}
		})
	}
}
