package action

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A Problem is one thing that is wrong with a plan. Its texts are printable, and short
// whatever the plan holds.
type Problem struct {
	Path    string // where, for a person: "steps[2].shell_command", "line 3, column 7"; "" is the whole plan
	Pointer string // the same as a JSON pointer (RFC 6901): "/steps/2/shell_command"; "" too where no value can be named
	Want    string // what was expected there
	Got     string // what is there
}

// String says where, what was expected, and what is there instead.
func (p Problem) String() string {
	text := "want " + p.Want + ", got " + p.Got
	if p.Path == "" {
		return text
	}
	return p.Path + ": " + text
}

// An InvalidError is a text that is not a plan, or not one that Airlock takes. It holds all
// that is wrong, in the plan's order.
type InvalidError struct {
	Problems []Problem // one at least
}

// shownProblems bounds what Error says.
const shownProblems = 20

// Error names every problem on a line of its own, the first twenty at least.
func (e *InvalidError) Error() string {
	if len(e.Problems) == 1 {
		return "invalid plan: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "invalid plan: %d problems", len(e.Problems))
	for i, p := range e.Problems {
		if i == shownProblems {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// invalid is an error with one problem of the plan as a whole or of a place in its text.
func invalid(path, want, got string) error {
	return &InvalidError{Problems: []Problem{{Path: path, Want: want, Got: got}}}
}

// A place is where in a plan a value is: member names and indices.
type place []string

// path is the form that people read.
func (p place) path() string {
	var b strings.Builder
	for _, part := range p {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}

// pointer is the JSON pointer.
func (p place) pointer() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return b.String()
}

// A finding is a problem before it is in order.
type finding struct {
	at        place
	want, got string
}

// order sorts findings as a plan is written: by member as the schema lists them, and by step.
var order = []string{
	"kind", "summary", "steps",
	"id", "description", "shell_command", "needs_confirmation", "is_destructive", "requires_sudo", "working_directory",
}

func compareParts(a, b string) int {
	if m, err := strconv.Atoi(a); err == nil {
		if n, err := strconv.Atoi(b); err == nil {
			return cmp.Compare(m, n)
		}
	}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}

// asError puts findings in order. Where a value is wrong, what is said of it and of
// what is in it after that is left out.
func asError(findings []finding) error {
	if len(findings) == 0 {
		return nil
	}
	slices.SortStableFunc(findings, func(a, b finding) int {
		return slices.CompareFunc(a.at, b.at, compareParts)
	})
	e := new(InvalidError)
	var last place
	for i, f := range findings {
		if i > 0 && len(last) > 0 && len(last) <= len(f.at) && slices.Equal(last, f.at[:len(last)]) {
			continue
		}
		last = f.at
		e.Problems = append(e.Problems, Problem{Path: f.at.path(), Pointer: f.at.pointer(), Want: f.want, Got: f.got})
	}
	return e
}

// ofSchema puts what the schema's validation found into plain words.
func ofSchema(err error, root any) []finding {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []finding{{want: "a plan that can be checked", got: brief(err.Error())}}
	}
	if len(invalid.Causes) > 0 {
		var all []finding
		for _, cause := range invalid.Causes {
			all = append(all, ofSchema(cause, root)...)
		}
		return all
	}
	at := place(slices.Clone(invalid.InstanceLocation))
	got := brief(describe(lookUp(root, at)))
	switch k := invalid.ErrorKind.(type) {
	case *kind.Type:
		want := inWords(k.Want)
		if slices.Equal(at, place{"kind"}) {
			want = typeOf("kind")
		}
		return []finding{{at, want, got}}
	case *kind.Enum:
		return []finding{{at, oneOf(k.Want), got}}
	case *kind.Required:
		var all []finding
		for _, name := range k.Missing {
			all = append(all, finding{append(slices.Clone(at), name), typeOf(name), "nothing: it is missing"})
		}
		return all
	}
	return []finding{{at, "what the schema says of " + strings.Join(invalid.ErrorKind.KeywordPath(), "/"), got}}
}

// typeOf says what a required member holds.
func typeOf(name string) string {
	if name == "kind" {
		return oneOf([]any{string(AnswerOnly), string(CommandSequence), string(PlanAndCommands)})
	}
	return "a string"
}

// inWords says which JSON types were wanted.
func inWords(types []string) string {
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = map[string]string{
			"string": "a string", "boolean": "true or false", "array": "a list", "object": "an object",
			"number": "a number", "integer": "a whole number", "null": "null",
		}[t]
	}
	return strings.Join(words, " or ")
}

// oneOf lists the values that were possible.
func oneOf(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = describe(v)
	}
	return "one of " + strings.Join(words, ", ")
}

// describe says what a JSON value is.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return "an object"
	}
	return fmt.Sprint(v) // true, false, a number
}

// lookUp is the value at a place; nil where there is none.
func lookUp(v any, at place) any {
	for _, part := range at {
		switch container := v.(type) {
		case map[string]any:
			v = container[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(container) {
				return nil
			}
			v = container[i]
		default:
			return nil
		}
	}
	return v
}

// brief cuts what a plan's author has written to what a message can hold.
func brief(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
