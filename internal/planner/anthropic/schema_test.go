package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

func TestTheSchemaIsMadeStrict(t *testing.T) {
	for _, test := range []struct {
		name, schema, want string // want: as it stands in the request, byte for byte
	}{
		{
			"members stay in their order",
			`{"type":"object","properties":{"kind":{"enum":["b","a"],"type":"string"},"a":{"type":["string","null"]}},"required":["kind","a"],"additionalProperties":false}`,
			`"properties":{"kind":{"enum":["b","a"],"type":"string"},"a":{"type":["string","null"]}}`,
		},
		{
			"what the API does not take is said in words",
			`{"$schema":"x","type":"object","properties":{"s":{"type":"string","maxLength":9,"description":"A text."},"n":{"type":"integer","minimum":1},"d":{"type":"string","format":"color"}},"minProperties":1}`,
			`"properties":{"s":{"type":"string","description":"A text.\n\n{\"maxLength\":9}"},"n":{"type":"integer","description":"{\"minimum\":1}"},"d":{"type":"string","description":"{\"format\":\"color\"}"}}`,
		},
		{
			"an object has no other members, wherever it stands",
			`{"type":"object","properties":{"l":{"type":["array","null"],"minItems":2,"items":{"type":"object","properties":{}}},"o":{"oneOf":[{"type":"object"},{"$ref":"#/$defs/x","title":"y"}]}},"$defs":{"x":{"type":["object","null"],"additionalProperties":true}}}`,
			`"properties":{"l":{"type":["array","null"],"items":{"type":"object","properties":{},"additionalProperties":false},"description":"{\"minItems\":2}"},"o":{"anyOf":[{"type":"object","additionalProperties":false},{"$ref":"#/$defs/x"}]}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "{}"}}}
			req := ask("a")
			req.Format, req.Schema = planner.FormatSchema, json.RawMessage(test.schema)
			answer(t, model(t, modeltest.Anthropic(t, script), nil), req)
			body := string(script.Requests()[0].Body)
			if !strings.Contains(body, test.want) || !strings.Contains(body, `"output_config":{"format":{`) {
				t.Errorf("the request is\n%s\nwant in it\n%s", body, test.want)
			}
		})
	}
}

func TestThePlansSchemaIsTaken(t *testing.T) {
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "{}"}}}
	req := ask("a")
	req.Format, req.Schema = planner.FormatSchema, planner.Schema()
	answer(t, model(t, modeltest.Anthropic(t, script), nil), req)
	var body struct {
		OutputConfig struct {
			Format struct {
				Schema any `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	if err := json.Unmarshal(script.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	compare(t, "the schema", body.OutputConfig.Format.Schema, string(planner.Schema()))
}
