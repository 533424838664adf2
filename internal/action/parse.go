package action

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// What a plan may hold. Lengths are in bytes.
const (
	MaxSize        = 1 << 20 // of a plan's text
	MaxSteps       = 100
	MaxCommand     = 64 << 10 // shell_command
	MaxSummary     = 64 << 10 // summary, which for an answer is all of it
	MaxDescription = 4 << 10  // description
	MaxID          = 64       // id
	MaxPath        = 4096     // working_directory
)

// Read reads a plan as Parse does, and no more of r than a plan can be long. An error of
// r's is returned wrapped.
func Read(r io.Reader) (*Plan, error) {
	data, err := readAll(r)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse reads a plan, a JSON object as Schema describes it, and checks what the schema
// does not say: bounds on every length and on the number of steps, steps exactly where the
// kind has them, ids that differ and can be shown, commands that are not empty and hold
// no NUL, working directories that mean what they say. Members that it does not know are
// left out; names are told apart by case. A byte order mark before the object is skipped.
// The error is an *InvalidError.
func Parse(data []byte) (*Plan, error) {
	if len(data) > MaxSize {
		return nil, invalid("", fmt.Sprintf("at most %d bytes", MaxSize), "more")
	}
	root, err := decode(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if err != nil {
		return nil, err
	}
	object, ok := root.(map[string]any)
	if !ok {
		return nil, invalid("", "a JSON object", brief(describe(root)))
	}
	var findings []finding
	if steps, _ := object["steps"].([]any); len(steps) > MaxSteps {
		// What is wrong with each of a great many is nothing anybody reads.
		return nil, asError([]finding{{place{"steps"}, fmt.Sprintf("at most %d steps", MaxSteps), strconv.Itoa(len(steps))}})
	}
	if err := compiled().Validate(root); err != nil {
		findings = ofSchema(err, root)
	}
	p := build(object)
	if err := asError(append(findings, check(p)...)); err != nil {
		return nil, err
	}
	return p, nil
}

// Marshal writes a plan as Parse reads it, indented, with a newline at its end. Text that
// is not UTF-8, which no parsed plan holds, is replaced.
func Marshal(p *Plan) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p); err != nil {
		panic("action: " + err.Error()) // strings and booleans can always be written
	}
	return b.Bytes()
}

// build makes a plan of an object; what has the wrong type is left out. Members are
// looked up by their exact names: encoding/json would take KIND for kind, and so let
// through what the schema has not seen.
func build(object map[string]any) *Plan {
	var p Plan
	text(object, "kind", (*string)(&p.Kind))
	text(object, "summary", &p.Summary)
	list, _ := object["steps"].([]any)
	for _, item := range list {
		member, _ := item.(map[string]any)
		var s Step
		text(member, "id", &s.ID)
		text(member, "description", &s.Description)
		text(member, "shell_command", &s.ShellCommand)
		s.NeedsConfirmation, _ = member["needs_confirmation"].(bool)
		s.IsDestructive, _ = member["is_destructive"].(bool)
		s.RequiresSudo, _ = member["requires_sudo"].(bool)
		text(member, "working_directory", &s.WorkingDirectory)
		p.Steps = append(p.Steps, s)
	}
	return &p
}

func text(object map[string]any, name string, to *string) { *to, _ = object[name].(string) }

// check looks for what the schema does not say. Of a value that is missing or of the
// wrong type it may say something too, which asError leaves out.
func check(p *Plan) []finding {
	var all []finding
	add := func(at place, want, got string) { all = append(all, finding{at, want, got}) }

	if len(p.Summary) > MaxSummary {
		add(place{"summary"}, atMost(MaxSummary), size(p.Summary))
	}
	switch {
	case p.Kind == AnswerOnly && len(p.Steps) > 0:
		add(place{"steps"}, "none in an answer_only plan", strconv.Itoa(len(p.Steps)))
	case (p.Kind == CommandSequence || p.Kind == PlanAndCommands) && len(p.Steps) == 0:
		add(place{"steps"}, "at least one in a "+string(p.Kind)+" plan", "none")
	}
	first := make(map[string]int, len(p.Steps))
	for i := range p.Steps {
		s := &p.Steps[i]
		at := func(member string) place { return place{"steps", strconv.Itoa(i), member} }
		if want, got := checkID(s.ID); want != "" {
			add(at("id"), want, got)
		} else if before, taken := first[s.ID]; taken {
			add(at("id"), "an id that no other step has", fmt.Sprintf("%q, which is that of steps[%d]", s.ID, before))
		} else {
			first[s.ID] = i
		}
		if len(s.Description) > MaxDescription {
			add(at("description"), atMost(MaxDescription), size(s.Description))
		}
		if want, got := checkCommand(s.ShellCommand); want != "" {
			add(at("shell_command"), want, got)
		}
		if want, got := checkFolder(s.WorkingDirectory); want != "" {
			add(at("working_directory"), want, got)
		}
	}
	return all
}

func checkID(id string) (want, got string) {
	switch {
	case id == "":
		return "an id", `""`
	case len(id) > MaxID:
		return atMost(MaxID), size(id)
	case !printable(id) || strings.TrimSpace(id) != id:
		return "printable characters, with no space at the ends", strconv.Quote(id)
	}
	return "", ""
}

func checkCommand(command string) (want, got string) {
	switch {
	case strings.TrimSpace(command) == "":
		return "a command", brief(strconv.Quote(command))
	case len(command) > MaxCommand:
		return atMost(MaxCommand), size(command)
	case strings.Contains(command, "\x00"):
		return "a command without NUL, which a shell cannot take", "one with it"
	}
	return "", ""
}

func checkFolder(path string) (want, got string) {
	switch {
	case path == "":
		return "", ""
	case len(path) > MaxPath:
		return atMost(MaxPath), size(path)
	case !printable(path) || strings.TrimSpace(path) != path:
		return "a path of printable characters, with no space at its ends", brief(strconv.Quote(path))
	case path[0] == '~' || strings.Contains(path, "$"):
		return "a path that is absolute or relative to the plan's folder: no shell expands ~ and $ here", brief(strconv.Quote(path))
	}
	return "", ""
}

// printable reports whether a person who is shown s sees all of it.
func printable(s string) bool {
	return !slices.ContainsFunc([]rune(s), func(r rune) bool { return !unicode.IsPrint(r) })
}

func atMost(n int) string  { return fmt.Sprintf("at most %d bytes", n) }
func size(s string) string { return fmt.Sprintf("%d", len(s)) }
