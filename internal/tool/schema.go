package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// draft07 is the only dialect that an action's schema may name, with or without the #.
const draft07 = "http://json-schema.org/draft-07/schema"

// maxSchema bounds the text of one action's schema.
const maxSchema = 256 << 10

// A schema checks the arguments of one action. It is safe for concurrent use.
type schema struct {
	compiled *jsonschema.Schema
	doc      map[string]any // as it was written: descriptions are looked up there
}

// compileSchema reads an action's schema, which must describe an object. It fetches
// nothing: a reference may only point within the schema itself.
func compileSchema(text json.RawMessage) (s *schema, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s, err = nil, fmt.Errorf("the schema: the schema library failed inside: %s", quote(fmt.Sprint(cause)))
		}
	}()
	if len(text) > maxSchema {
		return nil, fmt.Errorf("the schema has %d bytes, more than %d", len(text), maxSchema)
	}
	value, err := ParseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is no JSON object")
	}
	if doc["type"] != "object" {
		return nil, errors.New(`the schema must describe an object: add "type": "object"`)
	}
	if _, given := doc["$ref"]; given {
		return nil, errors.New("the schema must describe its object itself: draft-07 reads nothing beside a $ref")
	}
	if dialect, given := doc["$schema"]; given {
		if name, _ := dialect.(string); strings.TrimSuffix(name, "#") != draft07 {
			return nil, fmt.Errorf("the schema's dialect %v is not draft-07: write %q", quoteValue(dialect), draft07+"#")
		}
	}
	const at = "airlock:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseLoader(noLoader{})
	if err := c.AddResource(at, doc); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	compiled, err := c.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	return &schema{compiled, doc}, nil
}

// noLoader keeps a schema from reading files or asking other machines.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s: only references within the schema (#/definitions/…) are followed", quote(url))
}

// has reports whether the schema describes a property of the arguments by this name.
func (s *schema) has(property string) bool {
	properties, _ := s.doc["properties"].(map[string]any)
	_, ok := properties[property]
	return ok
}

// check says in plain words what is wrong with args; "" where nothing is. Arguments that
// the library fails on are wrong: a plugin's schema is not ours.
func (s *schema) check(args any) (problem string) {
	defer func() {
		if cause := recover(); cause != nil {
			problem = "args cannot be checked: the schema library failed inside: " + quote(fmt.Sprint(cause))
		}
	}()
	err := s.compiled.Validate(args)
	if err == nil {
		return ""
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err.Error()
	}
	return s.explain(invalid, args)
}
