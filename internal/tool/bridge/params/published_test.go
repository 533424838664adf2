package params_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/setup"
)

// described is a tool that is only asked what it is.
type described struct{ info tool.Info }

func (d described) Info() *tool.Info { return &d.info }

func (described) Invoke(context.Context, *tool.Machine, tool.Call) tool.Result {
	return tool.Fail(tool.IOError, "it is only described")
}

// registry is one of a single tool with a published schema.
func registry(schema json.RawMessage) (*tool.Registry, error) {
	return tool.NewRegistry(described{tool.Info{
		Name: "x", Kind: tool.Bridge, Actions: []tool.Action{{Name: "run", Schema: schema, Risk: tool.RiskUnknown}},
	}})
}

// accepts says what a published schema has against parameters.
func accepts(t testing.TB, schema json.RawMessage, args string) string {
	t.Helper()
	r, err := registry(schema)
	if err != nil {
		t.Fatalf("the registry refuses %s: %v", schema, err)
	}
	if failure := r.Check(tool.Call{Tool: "x", Args: json.RawMessage(args)}); failure != nil {
		return failure.Stderr
	}
	return ""
}

func raw(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func TestPublished(t *testing.T) {
	tests := []struct {
		name  string
		agent setup.Agent
		want  string
	}{
		{"nothing is known", setup.Agent{Name: "x"}, `{"type":"object"}`},
		{
			"args, defaults and params are known",
			setup.Agent{Name: "x", Args: []setup.Option{{Param: "to", Flag: "--to"}}, Defaults: raw("n", "1.0"), Params: map[string]setup.Rule{"note": {Raw: true}}},
			`{"properties":{"n":{"default":1.0},"note":{},"to":{}},"type":"object"}`,
		},
		{
			"the original's tool", *labelAgent(),
			`{"properties":{"dry_run":{"default":true,"description":"true: change nothing, and say what would be done"},` +
				`"issue_number":{"description":"The number of an issue, a whole number from 1 to 999999999"},` +
				`"repo_name":{"description":"A GitHub repository, such as owner/name"}},"type":"object"}`,
		},
		{
			"a report",
			setup.Agent{Name: "analyse_watch_report"},
			`{"properties":{"report":{"description":"The report itself; this or report_path is needed"},` +
				`"report_path":{"description":"The file that the report is in; this or report is needed"}},"type":"object"}`,
		},
		{"a schema without defaults is as it was written", setup.Agent{Name: "x", Schema: json.RawMessage(`{"type": "object"}`)}, `{"type": "object"}`},
		{
			"what has a default is not required",
			setup.Agent{
				Name: "x", Defaults: raw("a", `"x<y"`, "c", "3", "d", "4"),
				Schema: json.RawMessage(`{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"maximum":1.50},"d":true}}`),
			},
			`{"properties":{"a":{"default":"x<y","type":"string"},"b":{"maximum":1.50},"c":{"default":3},"d":true},"required":["b"],"type":"object"}`,
		},
		{
			"nothing is left that is required",
			setup.Agent{Name: "x", Defaults: raw("a", "1"), Schema: json.RawMessage(`{"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{}}}`)},
			`{"additionalProperties":false,"properties":{"a":{"default":1}},"type":"object"}`,
		},
		{
			"alternatives are relaxed",
			setup.Agent{
				Name: "x", Defaults: raw("a", "1"),
				Schema: json.RawMessage(`{"type":"object","minProperties":2,"not":{"required":["b"]},"oneOf":[{"required":["a","b"]},{"required":["c"]}],` +
					`"allOf":[{"$ref":"#/definitions/d"}],"definitions":{"d":{"required":["a"]}},"dependencies":{"b":["a","c"],"c":{"required":["a"]}}}`),
			},
			`{"allOf":[{},{"anyOf":[{"required":["b"]},{"required":["c"]}]}],"definitions":{"d":{"required":["a"]}},"dependencies":{"b":["c"],"c":{}},"properties":{"a":{"default":1}},"type":"object"}`,
		},
		{
			"a long default is not shown",
			setup.Agent{Name: "x", Defaults: raw("a", `"`+strings.Repeat("x", 5000)+`"`)},
			`{"properties":{"a":{}},"type":"object"}`,
		},
		{
			"references to where things are moved",
			setup.Agent{
				Name: "x", Defaults: raw("a", "1"),
				Schema: json.RawMessage(`{"type":"object","oneOf":[{"required":["a"]}],"properties":{"b":{"$ref":"#/oneOf/0"}}}`),
			},
			`{"properties":{"a":{"default":1}},"type":"object"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := params.Published(&test.agent)
			if string(got) != test.want {
				t.Errorf("Published = %s\nwant %s", got, test.want)
			}
			if _, err := registry(got); err != nil {
				t.Errorf("the registry refuses it: %v", err)
			}
		})
	}
}

func TestASchemaThatIsNoneIsTheRegistrysToRefuse(t *testing.T) {
	for _, schema := range []string{`{`, `[]`, `{"type":"string"}`, `{"type":"object","$ref":"#/definitions/a","definitions":{"a":{}}}`, `{"type":"object","required":1}`} {
		a := &setup.Agent{Name: "x", Schema: json.RawMessage(schema), Defaults: raw("a", "1")}
		if _, err := registry(params.Published(a)); err == nil {
			t.Errorf("%s is published as %s", schema, params.Published(a))
		}
	}
}

func TestAPublishedACPAgentTakesAPrompt(t *testing.T) {
	a := &setup.Agent{Name: "gemini", Kind: setup.ACP}
	if problem := accepts(t, params.Published(a), `{"prompt":"x","files":["a"]}`); problem != "" {
		t.Error(problem)
	}
	if accepts(t, params.Published(a), `{}`) == "" {
		t.Error("it takes none")
	}
	a.Defaults = raw("prompt", `"look around"`)
	if problem := accepts(t, params.Published(a), `{}`); problem != "" {
		t.Errorf("with a default: %s", problem)
	}
}

// FuzzPublished: what is prepared passes the schema that callers are shown, with the
// defaults and without.
func FuzzPublished(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`,
		`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}`,
		`{"type":"object","anyOf":[{"minProperties":2},{"not":{"required":["b"]}}]}`,
		`{"type":"object","if":{"required":["a"]},"then":{"required":["b"]},"else":false}`,
		`{"type":"object","dependencies":{"b":["a"],"a":{"required":["c"]}},"enum":[{"a":1}]}`,
		`{"type":"object","allOf":[{"$ref":"#/definitions/x"}],"definitions":{"x":{"required":["a"],"properties":{"b":{"$ref":"#/definitions/x"}}}}}`,
		`{"type":"object","properties":{"b":{"$ref":"#/oneOf/0"}},"oneOf":[{"const":{"a":1}},true]}`,
		`{"type":"object","maxProperties":1,"propertyNames":{"maxLength":2},"patternProperties":{"^a":{"type":"integer"}}}`,
		`{"type":"object","properties":{"b":{"$ref":"#"}},"required":["a"]}`,
	} {
		f.Add(schema, `{"a":1}`, `{"b":2}`)
		f.Add(schema, `{"b":{"a":1}}`, `{"a":1}`)
		f.Add(schema, `{}`, `{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, schema, args, defaults string) {
		a := &setup.Agent{Name: "x", Schema: json.RawMessage(schema)}
		if err := json.Unmarshal([]byte(defaults), &a.Defaults); err != nil || strings.Contains(schema, `"$id"`) {
			t.Skip()
		}
		r, err := params.New(a, &setup.Security{MaxParams: 1 << 16})
		if err != nil {
			t.Skip()
		}
		prepared, _, err := r.Prepare(json.RawMessage(args))
		if err != nil {
			t.Skip()
		}
		for _, text := range []string{args, string(prepared)} {
			if problem := accepts(t, params.Published(a), text); problem != "" {
				t.Errorf("schema %s, defaults %s: published as %s, which refuses %s: %s", schema, defaults, params.Published(a), text, problem)
			}
		}
	})
}
