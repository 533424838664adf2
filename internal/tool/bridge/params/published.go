package params

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge/acp"
	"airlock/internal/tool/bridge/setup"
)

// Tools of the original bridge whose parameters are known.
const (
	label   = "label_github_issue"
	collect = "watch_collect"
	analyse = "analyse_watch_report"
)

// maxShown is how many bytes a default may have that a schema shows.
const maxShown = 4 << 10

// Published is the schema of an agent's parameters that callers are shown, and that holds
// before the defaults are in them: the entry's own, without what it demands of parameters
// that have a default. Where the entry has none, it describes what is known and demands
// nothing: Prepare says in the bridge's own words what does not hold.
func Published(a *setup.Agent) json.RawMessage {
	schema := a.Schema
	if schema == nil {
		if a.Kind != setup.ACP {
			return outline(a)
		}
		schema = acp.Schema()
	}
	doc, err := object(schema)
	if _, refers := doc["$ref"]; err != nil || refers || len(a.Defaults) == 0 {
		return schema // one that is none is the registry's to refuse
	}
	if !refersToStable(doc) {
		return outline(a)
	}
	relax(doc, a.Defaults)
	showDefaults(doc, a.Defaults)
	return written(doc, schema)
}

// written is a schema as JSON, or the other one.
func written(doc map[string]any, other json.RawMessage) json.RawMessage {
	text, err := encode(doc)
	if err != nil {
		return other
	}
	return text
}

// outline describes the parameters that an entry without a schema has.
func outline(a *setup.Agent) json.RawMessage {
	properties := map[string]any{}
	for _, name := range known(a) {
		property := map[string]any{}
		if text := about(a.Name, name); text != "" {
			property["description"] = text
		}
		properties[name] = property
	}
	doc := map[string]any{"type": "object"}
	if len(properties) > 0 {
		doc["properties"] = properties
	}
	showDefaults(doc, a.Defaults)
	return written(doc, json.RawMessage(`{"type":"object"}`))
}

// known are the names of the parameters that an entry speaks of.
func known(a *setup.Agent) []string {
	names := slices.Concat(slices.Collect(maps.Keys(a.Defaults)), slices.Collect(maps.Keys(a.Params)))
	for _, option := range a.Args {
		names = append(names, option.Param)
	}
	if a.Name == analyse {
		names = append(names, "report", "report_path")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// about describes a parameter that is known; "" where it is not.
func about(agent, param string) string {
	switch param {
	case repoName:
		return "A GitHub repository, such as owner/name"
	case issueNumber:
		return "The number of an issue, a whole number from 1 to 999999999"
	case sources:
		return "A list of github, pypi, npm, reddit, hackernews"
	}
	switch {
	case agent == label && param == "dry_run":
		return "true: change nothing, and say what would be done"
	case agent == analyse && param == "report":
		return "The report itself; this or report_path is needed"
	case agent == analyse && param == "report_path":
		return "The file that the report is in; this or report is needed"
	}
	return ""
}

// showDefaults says in a schema what is taken for the parameters that are not given.
func showDefaults(doc map[string]any, defaults map[string]json.RawMessage) {
	properties, _ := doc["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
	}
	_, bounded := doc["additionalProperties"]
	for name, text := range defaults {
		value, err := tool.ParseJSON(text)
		if err != nil || len(text) > maxShown {
			continue
		}
		property, given := properties[name]
		if doc, ok := property.(map[string]any); ok {
			doc["default"] = value
		} else if !given && !bounded {
			properties[name] = map[string]any{"default": value}
		}
	}
	if len(properties) > 0 {
		doc["properties"] = properties
	}
}

// relax takes out of a schema what parameters may fail only because the defaults are not in
// them yet: whatever matches it with them matches what is left without them. Rules of
// single parameters stay.
func relax(doc map[string]any, defaults map[string]json.RawMessage) {
	if _, refers := doc["$ref"]; refers {
		clear(doc) // draft-07 reads nothing beside a reference, and what it refers to is others' too
		return
	}
	without(doc, "required", defaults)
	// More members, another value, or the opposite: nothing that a part can answer for.
	for _, keyword := range []string{"minProperties", "enum", "const", "not", "if", "then", "else"} {
		delete(doc, keyword)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := doc[keyword].([]any)
		for _, part := range list {
			relaxPart(part, defaults)
		}
	}
	// Of parts that are relaxed, more than one may match.
	if parts, given := doc["oneOf"]; given {
		delete(doc, "oneOf")
		all, _ := doc["allOf"].([]any)
		doc["allOf"] = append(all, map[string]any{"anyOf": parts})
	}
	dependencies, _ := doc["dependencies"].(map[string]any)
	for name, needed := range dependencies {
		if _, ok := needed.([]any); ok {
			without(dependencies, name, defaults)
			continue
		}
		relaxPart(needed, defaults)
	}
}

// refersToStable reports whether all references in a schema are to parts that relax leaves
// where they are.
func refersToStable(value any) bool {
	switch v := value.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(part any) bool { return !refersToStable(part) })
	case map[string]any:
		for name, part := range v {
			to, ok := part.(string)
			if name == "$ref" && ok && to != "#" && !slices.ContainsFunc(stable, func(prefix string) bool { return strings.HasPrefix(to, prefix) }) {
				return false
			}
			if !refersToStable(part) {
				return false
			}
		}
	}
	return true
}

var stable = []string{"#/definitions/", "#/properties/", "#/patternProperties/", "#/additionalProperties"}

func relaxPart(part any, defaults map[string]json.RawMessage) {
	if doc, ok := part.(map[string]any); ok {
		relax(doc, defaults)
	}
}

// without takes the names that have a default out of a list of names.
func without(doc map[string]any, keyword string, defaults map[string]json.RawMessage) {
	names, ok := doc[keyword].([]any)
	if !ok {
		return
	}
	left := slices.DeleteFunc(names, func(name any) bool {
		text, _ := name.(string)
		_, given := defaults[text]
		return given
	})
	doc[keyword] = left
	if len(left) == 0 && keyword == "required" {
		delete(doc, keyword)
	}
}
