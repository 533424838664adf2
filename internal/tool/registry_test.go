package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"airlock/agent"
	"airlock/internal/tool"
)

// probe is a tool that does what the test says.
type probe struct {
	info   tool.Info
	invoke func(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result
}

func (p *probe) Info() *tool.Info { return &p.info }
func (p *probe) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	return p.invoke(ctx, m, call)
}

const countSchema = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["name"],
  "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z]*$", "description": "small letters"},
    "count": {"type": "integer", "minimum": 1, "maximum": 9007199254740993},
    "kind": {"enum": ["soft", "hard"]},
    "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3, "uniqueItems": true},
    "mail": {"type": "string", "format": "email"},
    "even": {"multipleOf": 2},
    "map": {"type": "object", "maxProperties": 1, "propertyNames": {"maxLength": 3}},
    "either": {"anyOf": [{"type": "string"}, {"type": "boolean"}], "description": "a word or a choice"}
  }
}`

func action(name, schema string) tool.Action {
	return tool.Action{Name: name, Schema: json.RawMessage(schema), Risk: tool.RiskReadOnly}
}

func named(name string, actions ...tool.Action) *probe {
	return &probe{info: tool.Info{Name: name, Kind: tool.Builtin, Actions: actions}, invoke: func(context.Context, *tool.Machine, tool.Call) tool.Result {
		return tool.Result{OK: true}
	}}
}

func registry(t testing.TB, tools ...tool.Tool) *tool.Registry {
	t.Helper()
	r, err := tool.NewRegistry(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNewRegistryRefuses(t *testing.T) {
	open := `{"type":"object"}`
	with := func(change func(a *tool.Action)) *probe {
		a := action("go", countSchema)
		change(&a)
		return named("a.b", a)
	}
	for name, c := range map[string]struct {
		tools []tool.Tool
		want  string
	}{
		"two tools of one name":                   {[]tool.Tool{named("a.b", action("go", open)), named("a.b", action("go", open))}, "two of this name"},
		"no name":                                 {[]tool.Tool{named("", action("go", open))}, "name must be"},
		"a name with a capital":                   {[]tool.Tool{named("Fs.read", action("go", open))}, `"Fs.read"`},
		"a name that ends with a dot":             {[]tool.Tool{named("fs.", action("go", open))}, "name must be"},
		"a name with a line feed behind it":       {[]tool.Tool{named("fs\n", action("go", open))}, `"fs\n"`},
		"a name that goes up":                     {[]tool.Tool{named("../fs", action("go", open))}, "name must be"},
		"a name that is endless":                  {[]tool.Tool{named(strings.Repeat("a", 65), action("go", open))}, "at most 64"},
		"a name in letters that look alike":       {[]tool.Tool{named("сmd.run", action("go", open))}, "name must be"},
		"no actions":                              {[]tool.Tool{named("a.b")}, "no actions"},
		"two actions of one name":                 {[]tool.Tool{named("a.b", action("go", open), action("go", open))}, "two of this name"},
		"an action with an odd name":              {[]tool.Tool{named("a.b", action("go on", open))}, `"go on"`},
		"no schema":                               {[]tool.Tool{named("a.b", action("go", ""))}, "no schema"},
		"a schema that is not JSON":               {[]tool.Tool{named("a.b", action("go", "{"))}, "ends too early"},
		"a schema with a name twice":              {[]tool.Tool{named("a.b", action("go", `{"type":"object","type":"object"}`))}, "twice"},
		"a schema that is true":                   {[]tool.Tool{named("a.b", action("go", "true"))}, "no JSON object"},
		"a schema of a list":                      {[]tool.Tool{named("a.b", action("go", `{"type":"array"}`))}, `"type": "object"`},
		"a schema of another dialect":             {[]tool.Tool{named("a.b", action("go", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`))}, "draft-07"},
		"a schema with nonsense in it":            {[]tool.Tool{named("a.b", action("go", `{"type":"object","required":"name"}`))}, "required"},
		"a pattern that is none":                  {[]tool.Tool{named("a.b", action("go", `{"type":"object","properties":{"a":{"pattern":"("}}}`))}, "regex"},
		"a schema that reads a file":              {[]tool.Tool{named("a.b", action("go", `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`))}, "only references within"},
		"a schema that asks another machine":      {[]tool.Tool{named("a.b", action("go", `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`))}, "only references within"},
		"a schema that is elsewhere":              {[]tool.Tool{named("a.b", action("go", `{"type":"object","$ref":"#/definitions/x","definitions":{"x":{}}}`))}, "itself"},
		"a command argument that is not there":    {[]tool.Tool{with(func(a *tool.Action) { a.Command = "comand" })}, `"comand"`},
		"a path argument that is not there":       {[]tool.Tool{with(func(a *tool.Action) { a.Paths = []string{"name", "file"} })}, `"file"`},
		"a host argument that is not there":       {[]tool.Tool{with(func(a *tool.Action) { a.Hosts = []string{"host"} })}, `"host"`},
		"a risk that there is not":                {[]tool.Tool{with(func(a *tool.Action) { a.Risk = "" })}, "risk"},
		"a place that there is not":               {[]tool.Tool{with(func(a *tool.Action) { a.Place = "moon" })}, "moon"},
		"a tool that is nil":                      {[]tool.Tool{nil}, "no info"},
		"a schema larger than anybody would read": {[]tool.Tool{named("a.b", action("go", `{"type":"object","description":"`+strings.Repeat("x", 1<<18)+`"}`))}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := tool.NewRegistry(c.tools...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("NewRegistry: %v, %v; want an error with %q", r, err, c.want)
			}
		})
	}
}

func TestListIsSortedAndOnesOwn(t *testing.T) {
	r := registry(t, named("b", action("go", countSchema)), named("a.c", action("go", countSchema)), named("a", action("go", countSchema)))
	list := r.List()
	if got := fmt.Sprint(list[0].Name, list[1].Name, list[2].Name); got != "a"+"a.c"+"b" {
		t.Errorf("List: %s", got)
	}
	list[0] = nil
	if r.List()[0] == nil {
		t.Error("a caller changed the registry's list")
	}
	if _, ok := r.Lookup("a.c"); !ok {
		t.Error("Lookup: a.c is not there")
	}
	if _, ok := r.Lookup("A.C"); ok {
		t.Error("Lookup: A.C is there")
	}
}

func TestCheck(t *testing.T) {
	r := registry(t,
		named("one.only", action("go", countSchema)),
		named("fs.read_file", action("read", `{"type":"object"}`), action("peek", `{"type":"object"}`)))
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for name, c := range map[string]struct {
		tool, action, args string
		code               tool.ErrorCode
		want               []string
	}{
		"what is right":                            {"one.only", "go", `{"name":"x","count":3,"kind":"soft","names":["a"]}`, "", nil},
		"the only action need not be named":        {"one.only", "", `{"name":"x"}`, "", nil},
		"no arguments are an empty object":         {"fs.read_file", "read", ``, "", nil},
		"a large integer is compared exactly":      {"one.only", "go", `{"name":"x","count":9007199254740994}`, tool.InvalidArgs, []string{"args.count", "at most 9007199254740993, got 9007199254740994"}},
		"a large integer at the bound is in":       {"one.only", "go", `{"name":"x","count":9007199254740993}`, "", nil},
		"another tool":                             {"fs.raed_file", "read", `{}`, tool.NotFound, []string{"did you mean fs.read_file?"}},
		"a part of a tool's name":                  {"read_file", "read", `{}`, tool.NotFound, []string{"did you mean fs.read_file?"}},
		"a tool like none":                         {"teleport", "go", `{}`, tool.NotFound, []string{"there are fs.read_file, one.only"}},
		"a tool's name that plays with a terminal": {"\x1b[2Jx", "go", `{}`, tool.NotFound, []string{`"\x1b[2Jx"`}},
		"another action":                           {"fs.read_file", "reed", `{}`, tool.InvalidArgs, []string{"did you mean read?"}},
		"one of several actions has to be named":   {"fs.read_file", "", `{}`, tool.InvalidArgs, []string{"read, peek"}},
		"a missing argument":                       {"one.only", "go", `{}`, tool.InvalidArgs, []string{"args.name: is missing"}},
		"an argument too many":                     {"one.only", "go", `{"name":"x","conut":1}`, tool.InvalidArgs, []string{"args.conut: there is no such argument", "did you mean count?"}},
		"an argument in capitals is another":       {"one.only", "go", `{"name":"x","COUNT":1}`, tool.InvalidArgs, []string{"args.COUNT", "did you mean count?"}},
		"another type":                             {"one.only", "go", `{"name":7}`, tool.InvalidArgs, []string{"args.name: want a text, got a number"}},
		"a fraction":                               {"one.only", "go", `{"name":"x","count":1.5}`, tool.InvalidArgs, []string{"args.count: want a whole number"}},
		"too little":                               {"one.only", "go", `{"name":"x","count":0}`, tool.InvalidArgs, []string{"at least 1, got 0"}},
		"too short":                                {"one.only", "go", `{"name":""}`, tool.InvalidArgs, []string{"args.name: is empty"}},
		"too long":                                 {"one.only", "go", `{"name":"xxxxxxxxx"}`, tool.InvalidArgs, []string{"at most 8 characters, got 9"}},
		"another form":                             {"one.only", "go", `{"name":"X"}`, tool.InvalidArgs, []string{`"X" has not the form`, "small letters"}},
		"none of the words":                        {"one.only", "go", `{"name":"x","kind":"wet"}`, tool.InvalidArgs, []string{`"soft", "hard"`, `got "wet"`}},
		"a wrong item":                             {"one.only", "go", `{"name":"x","names":["a",2]}`, tool.InvalidArgs, []string{"args.names[1]: want a text"}},
		"too few items":                            {"one.only", "go", `{"name":"x","names":[]}`, tool.InvalidArgs, []string{"at least 1 item, got 0"}},
		"too many items":                           {"one.only", "go", `{"name":"x","names":["a","b","c","d"]}`, tool.InvalidArgs, []string{"at most 3 items, got 4"}},
		"an item twice":                            {"one.only", "go", `{"name":"x","names":["a","a"]}`, tool.InvalidArgs, []string{"items 1 and 2 are the same"}},
		"none of the alternatives":                 {"one.only", "go", `{"name":"x","either":3}`, tool.InvalidArgs, []string{"args.either", "a word or a choice"}},
		"a format":                                 {"one.only", "go", `{"name":"x","mail":"a\u001b[2J"}`, tool.InvalidArgs, []string{`args.mail: 'a\x1b[2J' is not valid email`}},
		"a number that does not divide":            {"one.only", "go", `{"name":"x","even":3}`, tool.InvalidArgs, []string{"args.even: multipleOf: got 3, want 2"}},
		"too many members":                         {"one.only", "go", `{"name":"x","map":{"a":1,"b":2}}`, tool.InvalidArgs, []string{"args.map: maxProperties"}},
		"a member with a wrong name":               {"one.only", "go", `{"name":"x","map":{"abcd":1}}`, tool.InvalidArgs, []string{"at most 3 characters, got 4"}},
		"several problems":                         {"one.only", "go", `{"count":0,"x":1}`, tool.InvalidArgs, []string{"args.name", "args.count", "args.x"}},
		"a list for arguments":                     {"one.only", "go", `[]`, tool.InvalidArgs, []string{"args: want an object, got a list"}},
		"null for arguments":                       {"one.only", "go", `null`, tool.InvalidArgs, []string{"args: want an object, got null"}},
		"a name that plays with a terminal":        {"one.only", "go", `{"name":"x","\u001b[2J\u202e":1}`, tool.InvalidArgs, []string{`args["\x1b[2J\u202e"]`}},
		"no JSON":                                  {"one.only", "go", `{"name":`, tool.ParseError, []string{"ends too early"}},
		"something behind":                         {"one.only", "go", `{"name":"x"} {}`, tool.ParseError, []string{"behind its end"}},
		"a name twice":                             {"one.only", "go", `{"name":"x","name":"y"}`, tool.ParseError, []string{`the name "name" twice`}},
		"a name twice, once in another spelling":   {"one.only", "go", `{"name":"x","n\u0061me":"y"}`, tool.ParseError, []string{`the name "name" twice`}},
		"a name twice, far inside":                 {"fs.read_file", "read", `{"a":[{"b":{"c":1,"c":2}}]}`, tool.ParseError, []string{`the name "c" twice`}},
		"too deep":                                 {"fs.read_file", "read", `{"a":` + deep + `}`, tool.ParseError, []string{"deeper than 64"}},
		"too large":                                {"fs.read_file", "read", `{"a":"` + strings.Repeat("x", tool.MaxArgs) + `"}`, tool.ParseError, []string{"more than 1048576"}},
		"bytes that are no text":                   {"fs.read_file", "read", "{\"a\":\"\xff\"}", tool.ParseError, []string{"UTF-8"}},
		"half of a pair":                           {"fs.read_file", "read", `{"a":"\ud800x"}`, tool.ParseError, []string{"surrogate"}},
		"the other half":                           {"fs.read_file", "read", `{"a":"\udc00"}`, tool.ParseError, []string{"surrogate"}},
		"a whole pair":                             {"fs.read_file", "read", `{"a":"\ud83d\ude00 \\ud800"}`, "", nil},
		"a number that would fill the memory":      {"fs.read_file", "read", `{"a":1e999999}`, tool.ParseError, []string{"out of bounds"}},
		"a number without end":                     {"fs.read_file", "read", `{"a":` + strings.Repeat("9", 65) + `}`, tool.ParseError, []string{"65 characters"}},
	} {
		t.Run(name, func(t *testing.T) {
			res := r.Check(tool.Call{Tool: c.tool, Action: c.action, Args: json.RawMessage(c.args)})
			if c.code == "" {
				if res != nil {
					t.Fatalf("Check: %+v, want nothing", *res)
				}
				return
			}
			if res == nil || res.OK || res.Code() != c.code {
				t.Fatalf("Check: %+v, want %s", res, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(res.Stderr, want) {
					t.Errorf("Check: %q, want %q in it", res.Stderr, want)
				}
			}
		})
	}
}

func TestCheckTellsTheFirstOfManyProblemsSoon(t *testing.T) {
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, `,"nime%06d":1`, i)
	}
	r := registry(t, named("a.b", action("go", countSchema)))
	started := time.Now()
	res := r.Check(tool.Call{Tool: "a.b", Args: json.RawMessage(`{"name":"x"` + b.String() + `}`)})
	if took := time.Since(started); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	if res.Code() != tool.InvalidArgs || !strings.Contains(res.Stderr, "args.nime000004") || !strings.HasSuffix(res.Stderr, "and 59995 more") || len(res.Stderr) > 1000 {
		t.Errorf("%d bytes: %.2000s", len(res.Stderr), res.Stderr)
	}
}

func TestInvokeKeepsTheEnvelopesPromises(t *testing.T) {
	long := strings.Repeat("é", agent.MaxOutput)
	for name, c := range map[string]struct {
		gives tool.Result
		code  tool.ErrorCode
		check func(t *testing.T, res *tool.Result)
	}{
		"meta is never nil":        {tool.Result{OK: true}, "", nil},
		"what failed has a code":   {tool.Result{}, tool.IOError, nil},
		"a code that there is not": {tool.Fail("EVIL", "x"), tool.IOError, nil},
		"a code that is no text":   {tool.Result{Meta: tool.Meta{tool.MetaErrorCode: 7}}, tool.IOError, nil},
		"a code that came as JSON": {tool.Result{Meta: tool.Meta{tool.MetaErrorCode: "NOT_FOUND"}}, tool.NotFound, nil},
		"what went well has none": {tool.Result{OK: true, Meta: tool.Meta{tool.MetaErrorCode: tool.IOError, "kept": 1}}, "", func(t *testing.T, res *tool.Result) {
			if res.Meta["kept"] != 1 {
				t.Errorf("meta: %v", res.Meta)
			}
		}},
		"text that is none becomes some": {tool.Result{OK: true, Stdout: "a\xffb", Stderr: "\xc3"}, "", func(t *testing.T, res *tool.Result) {
			if res.Stdout != "a�b" || res.Stderr != "�" {
				t.Errorf("%q, %q", res.Stdout, res.Stderr)
			}
		}},
		"text without end is cut between characters": {tool.Result{OK: true, Stdout: "x" + long}, "", func(t *testing.T, res *tool.Result) {
			if !strings.HasSuffix(res.Stdout, "é"+agent.TruncatedMarker) || len(res.Stdout) > agent.MaxOutput+len(agent.TruncatedMarker) {
				t.Errorf("%d bytes, end %q", len(res.Stdout), res.Stdout[len(res.Stdout)-40:])
			}
			if again := tool.Bounded(res.Stdout); again != res.Stdout {
				t.Error("it was cut twice")
			}
		}},
		"bytes without end": {tool.Result{OK: true, Stderr: strings.Repeat("\xff", 3<<20)}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := named("a.b", action("go", countSchema))
			p.invoke = func(context.Context, *tool.Machine, tool.Call) tool.Result { return c.gives }
			res := registry(t, p).Invoke(t.Context(), &tool.Machine{}, tool.Call{Tool: "a.b", Args: json.RawMessage(`{"name":"x"}`)})
			if res.Code() != c.code {
				t.Errorf("code %q, want %q", res.Code(), c.code)
			}
			if _, has := res.Meta[tool.MetaErrorCode]; has == res.OK {
				t.Errorf("ok %v with meta %v", res.OK, res.Meta)
			}
			if _, has := res.Meta[tool.MetaDurationMS]; !has {
				t.Errorf("meta without a duration: %v", res.Meta)
			}
			for _, text := range []string{res.Stdout, res.Stderr} {
				if !utf8.ValidString(text) || len(text) > agent.MaxOutput+len(agent.TruncatedMarker) {
					t.Errorf("a text of %d bytes, UTF-8 %v", len(text), utf8.ValidString(text))
				}
			}
			if c.check != nil {
				c.check(t, &res)
			}
		})
	}
}

func TestInvokeOutlivesAPanic(t *testing.T) {
	p := named("a.b", action("go", countSchema))
	p.invoke = func(context.Context, *tool.Machine, tool.Call) tool.Result {
		var none *tool.Machine
		return tool.Result{Stdout: none.WorkDir}
	}
	res := registry(t, p).Invoke(t.Context(), nil, tool.Call{Tool: "a.b", Args: json.RawMessage(`{"name":"x"}`)})
	if res.Code() != tool.IOError || !strings.Contains(res.Stderr, "a.b go: the tool failed inside") {
		t.Errorf("%+v", res)
	}
}

func TestInvokeGivesTheToolWhatWasChecked(t *testing.T) {
	p := named("a.b", action("go", `{"type":"object"}`))
	var got tool.Call
	p.invoke = func(_ context.Context, _ *tool.Machine, call tool.Call) tool.Result {
		got = call
		return tool.Result{OK: true}
	}
	r := registry(t, p)
	r.Invoke(t.Context(), nil, tool.Call{Tool: "a.b"})
	if got.Action != "go" || string(got.Args) != "{}" {
		t.Errorf("the tool got %+v", got)
	}
	got = tool.Call{}
	if res := r.Invoke(t.Context(), nil, tool.Call{Tool: "a.b", Args: json.RawMessage(`{`)}); res.Code() != tool.ParseError || got.Tool != "" {
		t.Errorf("%+v; the tool got %+v", res, got)
	}
}

func TestInvokeIsBoundByTheMachinesTime(t *testing.T) {
	p := named("a.b", action("go", `{"type":"object"}`))
	p.invoke = func(ctx context.Context, _ *tool.Machine, _ tool.Call) tool.Result {
		<-ctx.Done()
		return tool.Fail(tool.IOError, "")
	}
	r := registry(t, p)
	res := r.Invoke(t.Context(), &tool.Machine{MaxTime: time.Millisecond}, tool.Call{Tool: "a.b"})
	if res.Code() != tool.Timeout || !strings.Contains(res.Stderr, "1ms") {
		t.Errorf("%+v", res)
	}
	p.invoke = func(ctx context.Context, _ *tool.Machine, _ tool.Call) tool.Result {
		<-ctx.Done()
		return tool.Fail(tool.NotFound, "it was not there before the time was over")
	}
	if res := r.Invoke(t.Context(), &tool.Machine{MaxTime: time.Millisecond}, tool.Call{Tool: "a.b"}); res.Code() != tool.NotFound {
		t.Errorf("another failure became %+v", res)
	}
}
