package action

import (
	"bytes"
	_ "embed"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed schema.json
var schemaText []byte

// Schema is the AiAction JSON Schema (draft-07), for models and editors. Parse asks for
// more than it says.
func Schema() []byte { return slices.Clone(schemaText) }

// compiled is the schema, ready for use. What is embedded compiles, or no test passes.
var compiled = sync.OnceValue(func() *jsonschema.Schema {
	const name = "airlock:ai-action.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic("action: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // load nothing from anywhere
	if err := c.AddResource(name, document); err != nil {
		panic("action: " + err.Error())
	}
	return c.MustCompile(name)
})
