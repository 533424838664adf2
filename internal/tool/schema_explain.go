package tool

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"airlock/internal/changes"
	"airlock/internal/near"
)

// maxProblems is how many problems of one call are told.
const maxProblems = 5

// explain lists the problems that a validation found, each with the path of the value it
// is about.
func (s *schema) explain(invalid *jsonschema.ValidationError, args any) string {
	var found problems
	s.collect(invalid, args, &found)
	slices.Sort(found.texts)
	texts := slices.Compact(found.texts)
	if found.more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", found.more))
	}
	return strings.Join(texts, "; ")
}

// problems are the first that were found, and how many more there are: a call can have a
// hundred thousand, and each is work to put into words.
type problems struct {
	texts []string
	more  int
}

func (p *problems) add(text func() string) {
	if len(p.texts) == maxProblems {
		p.more++
		return
	}
	p.texts = append(p.texts, text())
}

// collect walks to the leaves: what stands above them only says that something below is
// wrong. Alternatives are told as one problem, not as what is wrong with each.
func (s *schema) collect(e *jsonschema.ValidationError, args any, found *problems) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains:
	default:
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				s.collect(cause, args, found)
			}
			return
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			found.add(func() string { return jsonPath(append(slices.Clone(e.InstanceLocation), name)) + ": is missing" })
		}
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		for _, name := range k.Properties {
			found.add(func() string {
				text := jsonPath(append(slices.Clone(e.InstanceLocation), name)) + ": there is no such argument"
				if near := near.Name(name, s.propertiesAt(e.SchemaURL)); near != "" {
					text += ", did you mean " + near + "?"
				}
				return text
			})
		}
	default:
		found.add(func() string {
			value := lookUp(args, e.InstanceLocation)
			return jsonPath(e.InstanceLocation) + ": " + wanted(e.ErrorKind, value) + s.hint(e)
		})
	}
}

// wanted says what a value should have been and what it is.
func wanted(k jsonschema.ErrorKind, value any) string {
	got := ", got " + quoteValue(value)
	switch k := k.(type) {
	case *kind.Type:
		return "want " + typeWords(k.Want) + ", got " + typeWords([]string{k.Got})
	case *kind.Enum:
		words := make([]string, len(k.Want))
		for i, v := range k.Want {
			words[i] = quoteValue(v)
		}
		return "want one of " + strings.Join(words, ", ") + got
	case *kind.Const:
		return "want " + quoteValue(k.Want) + got
	case *kind.Minimum:
		return "want at least " + ratText(k.Want) + got
	case *kind.Maximum:
		return "want at most " + ratText(k.Want) + got
	case *kind.ExclusiveMinimum:
		return "want more than " + ratText(k.Want) + got
	case *kind.ExclusiveMaximum:
		return "want less than " + ratText(k.Want) + got
	case *kind.MinLength:
		if k.Want == 1 {
			return "is empty"
		}
		return fmt.Sprintf("want at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("want at most %d characters, got %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("want at least %s, got %d", items(k.Want), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("want at most %s, got %d", items(k.Want), k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are the same", k.Duplicates[0]+1, k.Duplicates[1]+1)
	case *kind.Pattern:
		return quote(k.Got) + " has not the form that is wanted"
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.FalseSchema:
		return "has not the form that is wanted" + got
	}
	// The library's own words, which it gives with a place only.
	alone := &jsonschema.ValidationError{ErrorKind: k}
	return changes.Printable(clip(strings.TrimPrefix(alone.Error(), "at '': "), 300))
}

func items(n int) string {
	if n == 1 {
		return "1 item"
	}
	return strconv.Itoa(n) + " items"
}

// ratText is a bound as it was written, not as a fraction.
func ratText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// hint is the description of what the schema wanted, where a rule alone does not tell.
func (s *schema) hint(e *jsonschema.ValidationError) string {
	switch e.ErrorKind.(type) {
	case *kind.Pattern, *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.FalseSchema:
	default:
		return ""
	}
	at, _ := s.schemaAt(e.SchemaURL).(map[string]any)
	if text, _ := at["description"].(string); text != "" {
		return " (" + clip(text, 300) + ")"
	}
	return ""
}

// schemaAt is the part of the schema that a URL with a JSON pointer names.
func (s *schema) schemaAt(url string) any {
	_, pointer, _ := strings.Cut(url, "#")
	var path []string
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part != "" {
			path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		}
	}
	return lookUp(s.doc, path)
}

// propertiesAt lists the properties that an object of the schema has.
func (s *schema) propertiesAt(url string) []string {
	at, _ := s.schemaAt(url).(map[string]any)
	properties, _ := at["properties"].(map[string]any)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// lookUp walks into a JSON value; nil where there is nothing.
func lookUp(value any, path []string) any {
	for _, part := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// jsonPath is where a value is, such as args.packages[2].
func jsonPath(path []string) string {
	b := strings.Builder{}
	b.WriteString("args")
	for _, part := range path {
		switch {
		case part != "" && strings.Trim(part, "0123456789") == "":
			b.WriteString("[" + clip(part, 20) + "]")
		case plainName(part):
			b.WriteString("." + part)
		default:
			b.WriteString("[" + quote(part) + "]")
		}
	}
	return b.String()
}

// plainName reports whether a name needs no quotes in a path.
func plainName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// typeWords says JSON types in words.
func typeWords(types []string) string {
	words := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "string":
			words[i] = "a text"
		case "integer":
			words[i] = "a whole number"
		case "number":
			words[i] = "a number"
		case "boolean":
			words[i] = "true or false"
		case "array":
			words[i] = "a list"
		case "object":
			words[i] = "an object"
		default:
			words[i] = t
		}
	}
	return strings.Join(words, " or ")
}

// quoteValue shows a JSON value in an error: short, on one line, printable.
func quoteValue(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case json.Number:
		return clip(v.String(), 40)
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return quote(fmt.Sprint(value))
}

// quote shows text from outside: cut, and with what is not printable escaped.
func quote(s string) string { return strconv.Quote(clip(s, 80)) }

// clip cuts text to about n bytes, between two characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
