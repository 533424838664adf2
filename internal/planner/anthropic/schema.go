package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// keywords are those that the API's structured output takes of a schema. What else one says is
// put into its description: the model reads it there, and the answer is checked anyway.
var keywords = [...]string{
	"$ref", "$defs", "type", "anyOf", "oneOf", "allOf", "description", "title", "enum", "const",
	"properties", "additionalProperties", "required", "items", "minItems", "format", "pattern",
}

// formats are those of a text that it takes.
var formats = [...]string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}

// maxSchemaDepth bounds how deep schemas stand in each other.
const maxSchemaDepth = 64

// A member is a member of an object, which keeps its place.
type member struct {
	name  string
	value json.RawMessage
}

// An object is a JSON object whose members are in order: models write them in the schema's.
type object []member

// UnmarshalJSON reads an object.
func (o *object) UnmarshalJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return errors.New("an object is wanted")
	}
	*o = nil
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		*o = append(*o, member{name.(string), value})
	}
	return nil
}

// MarshalJSON writes it.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// get is a member's value; nil where it is not there.
func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set puts a member in its place, or at the end.
func (o *object) set(name string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// strictSchema is a schema as structured output takes it.
func strictSchema(raw json.RawMessage) (map[string]any, error) {
	strict, err := strictly(raw, 0)
	if err != nil {
		return nil, err
	}
	members := make(map[string]any, len(strict))
	for _, m := range strict {
		members[m.name] = m.value
	}
	return members, nil
}

// strictly rewrites a schema and those in it.
func strictly(raw json.RawMessage, depth int) (object, error) {
	var from, to object
	if depth > maxSchemaDepth {
		return nil, errors.New("it is too deep")
	}
	if err := json.Unmarshal(raw, &from); err != nil {
		return nil, err
	}
	if ref := from.get("$ref"); ref != nil { // nothing may stand beside it
		return object{{"$ref", ref}}, nil
	}
	var rest object
	for _, m := range from {
		switch {
		case !slices.Contains(keywords[:], m.name), m.name == "format" && !isFormat(m.value), m.name == "minItems" && string(m.value) != "0" && string(m.value) != "1":
			if m.name != "$schema" && m.name != "$id" && m.name != "$comment" {
				rest = append(rest, m)
			}
			continue
		case m.name == "oneOf":
			m.name = "anyOf"
		}
		value, err := within(m, depth)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		to.set(m.name, value)
	}
	if isObject(to.get("type")) {
		to.set("additionalProperties", json.RawMessage("false"))
	}
	if len(rest) > 0 {
		if err := describe(&to, rest); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// within rewrites the schemas that a keyword holds.
func within(m member, depth int) (json.RawMessage, error) {
	switch m.name {
	case "properties", "$defs":
		var members object
		if err := json.Unmarshal(m.value, &members); err != nil {
			return nil, err
		}
		for i := range members {
			value, err := below(members[i].value, depth)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", members[i].name, err)
			}
			members[i].value = value
		}
		return json.Marshal(members)
	case "anyOf", "allOf":
		var list []json.RawMessage
		if err := json.Unmarshal(m.value, &list); err != nil {
			return nil, err
		}
		for i := range list {
			value, err := below(list[i], depth)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return json.Marshal(list)
	case "items":
		return below(m.value, depth)
	}
	return m.value, nil
}

func below(raw json.RawMessage, depth int) (json.RawMessage, error) {
	strict, err := strictly(raw, depth+1)
	if err != nil {
		return nil, err
	}
	return json.Marshal(strict)
}

func isFormat(raw json.RawMessage) bool {
	var name string
	return json.Unmarshal(raw, &name) == nil && slices.Contains(formats[:], name)
}

// isObject reports whether a schema's type is an object, or may be one.
func isObject(raw json.RawMessage) bool {
	var name string
	var names []string
	if json.Unmarshal(raw, &name) == nil {
		names = []string{name}
	} else if json.Unmarshal(raw, &names) != nil {
		return false
	}
	return slices.Contains(names, "object")
}

// describe adds to a schema's description what it cannot say otherwise.
func describe(schema *object, rest object) error {
	var text string
	if raw := schema.get("description"); raw != nil {
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("description: %w", err)
		}
	}
	more, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	described, err := json.Marshal(strings.TrimSpace(text + "\n\n" + string(more)))
	if err != nil {
		return err
	}
	schema.set("description", described)
	return nil
}
