package tool_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"airlock/internal/tool"
)

func TestDecodeCall(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string // want: the call as JSON, or what the error says
		fails      bool
	}{
		"a call":                          {`{"tool":"a","action":"b","args":{"n": 12345678901234567890}}`, `{"tool":"a","action":"b","args":{"n":12345678901234567890}}`, false},
		"no action":                       {`{"tool":"a","args":{}}`, `{"tool":"a","action":"","args":{}}`, false},
		"no arguments":                    {` {"tool":"a"} `, `{"tool":"a","action":"","args":{}}`, false},
		"members nobody knows":            {`{"tool":"a","id":7,"args":{}}`, `{"tool":"a","action":"","args":{}}`, false},
		"arguments of another type":       {`{"tool":"a","args":null}`, `{"tool":"a","action":"","args":null}`, false},
		"nothing":                         {``, "is empty", true},
		"a list":                          {`[]`, "want an object", true},
		"no tool":                         {`{"action":"b"}`, `add "tool"`, true},
		"a tool that is no text":          {`{"tool":7}`, "the call's tool is a number", true},
		"an action that is null":          {`{"tool":"a","action":null}`, "the call's action is null", true},
		"two tools":                       {`{"tool":"fs.read_file","tool":"cmd.run"}`, `"tool" twice`, true},
		"two tools, one with a capital":   {`{"tool":"fs.read_file","Tool":"cmd.run"}`, `did you mean "tool"?`, true},
		"two tools, one by folding":       {`{"tool":"x","arg\u017f":{}}`, `did you mean "args"?`, true},
		"two commands inside":             {`{"tool":"a","args":{"command":"ls","command":"rm"}}`, `"command" twice`, true},
		"two calls":                       {`{"tool":"a"}{"tool":"b"}`, "behind its end", true},
		"the beginning of a call":         {`{"tool":"a"`, "ends too early", true},
		"no JSON":                         {`tool: a`, "not JSON", true},
		"bytes that are no text":          {"{\"tool\":\"\xff\"}", "UTF-8", true},
		"brackets without end":            {`{"tool":"a","args":` + strings.Repeat("[", 1<<16), "deeper than", true},
		"arguments without end":           {`{"tool":"a","args":{"a":"` + strings.Repeat("x", tool.MaxArgs) + `"}}`, "args have", true},
		"a call without end":              {`{"tool":"` + strings.Repeat("x", tool.MaxCall) + `"}`, "more than", true},
		"a number that fills the memory":  {`{"tool":"a","args":{"n":1e9999999}}`, "out of bounds", true},
		"a byte order mark is no bracket": {"\ufeff{}", "not JSON", true},
	} {
		t.Run(name, func(t *testing.T) {
			call, err := tool.DecodeCall(strings.NewReader(c.text))
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("DecodeCall: %+v, %v; want an error with %q", call, err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("DecodeCall: %v", err)
			}
			if got, _ := json.Marshal(call); string(got) != c.want {
				t.Errorf("DecodeCall: %s, want %s", got, c.want)
			}
		})
	}
}

func TestDecodeCallTakesNoMoreThanItsLimit(t *testing.T) {
	endless := &counter{r: strings.NewReader(strings.Repeat(" ", 4<<20))}
	if _, err := tool.DecodeCall(endless); err == nil || endless.n > tool.MaxCall+1 {
		t.Errorf("DecodeCall: %v after %d bytes", err, endless.n)
	}
	torn := errors.New("torn")
	if _, err := tool.DecodeCall(iotest.ErrReader(torn)); !errors.Is(err, torn) {
		t.Errorf("DecodeCall: %v", err)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func FuzzDecodeCall(f *testing.F) {
	f.Add(`{"tool":"fs.read_file","action":"read","args":{"path":"/etc/hosts","max_bytes":10240}}`)
	f.Add(`{"tool":"a","args":{"a":[1e5,-0.5,true,null,"\ud83d\ude00"]},"x":{}}`)
	f.Add(`{"tool":"a","tool":"b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		call, err := tool.DecodeCall(strings.NewReader(text))
		if err != nil {
			if call.Tool != "" || call.Args != nil {
				t.Errorf("an error and a call: %+v", call)
			}
			return
		}
		// What was let in says the same when it is written and read once more.
		again, err := json.Marshal(call)
		if err != nil {
			t.Fatalf("the call cannot be written: %v", err)
		}
		second, err := tool.DecodeCall(strings.NewReader(string(again)))
		if err != nil || second.Tool != call.Tool || second.Action != call.Action {
			t.Fatalf("once more: %+v, %v; first %+v", second, err, call)
		}
		// Any other reader of JSON sees the same tool.
		var other struct{ Tool, Action string }
		if err := json.Unmarshal([]byte(text), &other); err != nil || other.Tool != call.Tool || other.Action != call.Action {
			t.Fatalf("another reader: %+v, %v; here %+v", other, err, call)
		}
	})
}

func FuzzNewRegistry(f *testing.F) {
	f.Add(countSchema, `{"name":"x","either":3}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/definitions/b"}},"definitions":{"b":{"oneOf":[{"type":"null"},{"const":1}]}}}`, `{"a":2}`)
	f.Add(`{"type":"object","$id":"http://x/y","patternProperties":{"^a":{"not":{"format":"email"}}},"if":{"required":["b"]},"then":{"maxProperties":1}}`, `{"ab":"a@b","b":1}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`, `{"a":1}`)
	f.Add(`{"type":"object","additionalProperties":{"$ref":"#"}}`, `{"a":{"b":{}}}`)
	f.Add(`{}`, " ")
	f.Fuzz(func(t *testing.T, schema, args string) {
		r, err := tool.NewRegistry(named("a.b", action("go", schema)))
		if err != nil {
			return
		}
		res := r.Check(tool.Call{Tool: "a.b", Args: json.RawMessage(args)})
		if res != nil && (res.OK || res.Stderr == "" || len(res.Stderr) > 1<<15) {
			t.Fatalf("Check: %+v", res)
		}
		if res == nil && args != "" && !strings.HasPrefix(strings.TrimSpace(args), "{") {
			t.Fatalf("let in: %s", args)
		}
	})
}

func FuzzCheck(f *testing.F) {
	r := registry(f, named("a.b", action("go", countSchema)))
	f.Add(`{"name":"x","count":3,"kind":"soft","names":["a"],"either":true}`)
	f.Add(`{"name":"X","count":1e2,"more":{"a":[[]]}}`)
	f.Fuzz(func(t *testing.T, args string) {
		call := tool.Call{Tool: "a.b", Args: json.RawMessage(args)}
		res := r.Check(call)
		if res != nil {
			if res.OK || res.Stderr == "" || (res.Code() != tool.InvalidArgs && res.Code() != tool.ParseError) || len(res.Stderr) > 1<<14 {
				t.Fatalf("Check: %+v", res)
			}
			return
		}
		if args == "" {
			t.Fatal("nothing has no name, and was let in")
		}
		var got struct {
			Name  string      `json:"name"`
			Count json.Number `json:"count"`
		}
		if err := json.Unmarshal(call.Args, &got); err != nil || got.Name == "" || len(got.Name) > 8 {
			t.Fatalf("let in: %s (%v)", args, err)
		}
	})
}
