package planner

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"slices"

	"airlock/internal/action"
)

//go:embed schema_strict.json
var strictSchema []byte

// Schema is the AiAction JSON Schema as the strictest endpoints ask for it: every member
// is required, those without a value being null, and there are no others.
func Schema() json.RawMessage { return slices.Clone(strictSchema) }

// propose is the tool that a model answers with under FormatTool.
const propose = "propose_action"

// proposal is that tool. Its schema is the AiAction's, with the definition of a step put in its
// place: not every endpoint follows references.
func proposal() ToolDef {
	var whole struct {
		Definitions struct {
			Step json.RawMessage
		} `json:"definitions"`
	}
	var text bytes.Buffer
	if json.Unmarshal(action.Schema(), &whole) != nil || json.Compact(&text, action.Schema()) != nil {
		panic("planner: the AiAction schema is no JSON") // no test passes with such a schema
	}
	var step bytes.Buffer
	_ = json.Compact(&step, whole.Definitions.Step) // it is a part of what was just read
	schema := bytes.Replace(text.Bytes(), []byte(`{"$ref":"#/definitions/Step"}`), step.Bytes(), 1)
	schema, _, _ = bytes.Cut(schema, []byte(`,"definitions":`))
	schema = bytes.Replace(schema, []byte(`"$schema":"http://json-schema.org/draft-07/schema#",`), nil, 1)
	return ToolDef{
		Name:        propose,
		Description: "Answers the request: hands the AiAction to the person, who decides about it. Nothing is run by this call.",
		Schema:      append(schema, '}'),
	}
}

// none is what stands for no value in a member whose null means that; "" for other members.
func none(place string) string {
	switch place {
	case "/summary", "/steps/*/working_directory":
		return `""`
	case "/steps":
		return "[]"
	case "/steps/*/needs_confirmation", "/steps/*/is_destructive", "/steps/*/requires_sudo":
		return "false"
	}
	return ""
}

// withoutNulls writes the value that stands for none in place of the nulls that the strict
// schema allows. Everything else stays byte for byte, so that whatever else is wrong with the text is
// found by who reads the plan.
func withoutNulls(data []byte) []byte {
	if len(data) > action.MaxSize || !bytes.Contains(data, []byte("null")) || !json.Valid(data) {
		return data
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	w := nullWalk{dec: dec, data: data}
	if !w.value("") {
		return data
	}
	return append(w.out, data[w.from:]...)
}

// A nullWalk is on its way through a text.
type nullWalk struct {
	dec  *json.Decoder
	data []byte
	out  []byte
	from int // what of data is not in out yet
}

// value walks one value, whose place is known down to steps' members: below "-" nothing is looked for.
func (w *nullWalk) value(place string) bool {
	t, err := w.dec.Token()
	if err != nil {
		return false
	}
	switch t {
	case nil:
		if instead := none(place); instead != "" {
			end := int(w.dec.InputOffset())
			w.out = append(append(w.out, w.data[w.from:end-len("null")]...), instead...)
			w.from = end
		}
	case json.Delim('{'):
		for w.dec.More() {
			name, err := w.dec.Token()
			if err != nil {
				return false
			}
			if !w.value(below(place, name.(string))) {
				return false
			}
		}
		_, err = w.dec.Token()
	case json.Delim('['):
		for w.dec.More() {
			if !w.value(below(place, "*")) {
				return false
			}
		}
		_, err = w.dec.Token()
	}
	return err == nil
}

// below is the place of a member; "-" where none of those with a null can be.
func below(place, name string) string {
	if place == "-" || len(name) > len("needs_confirmation") {
		return "-"
	}
	next := place + "/" + name
	if len(next) > len("/steps/*/needs_confirmation") {
		return "-"
	}
	return next
}
