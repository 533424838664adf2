package planner

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"airlock/internal/action"
)

// maxStarts bounds how often a search for an object may begin in vain, each time reading
// to the end of the text.
const maxStarts = 32

// maxPlans bounds how many objects of one text are looked at.
const maxPlans = 32

// extract finds the plan in a model's text: the text as a whole, an object in a fenced
// block, an object anywhere. It is nil, nil where there is nothing that looks like a plan.
// Two plans that differ are none: which one was meant is not for us to guess.
func extract(text string) (*action.Plan, *action.InvalidError) {
	var plan *action.Plan
	var wrong *action.InvalidError
	for _, candidate := range candidates(text) {
		p, err := parse(candidate)
		switch {
		case err != nil:
			wrong = err
		case plan == nil:
			plan = p
		case !reflect.DeepEqual(plan, p):
			return nil, problem("one AiAction object", "several that differ")
		}
	}
	if plan != nil {
		return plan, nil
	}
	return nil, wrong
}

// parse reads a plan as a model may write it.
func parse(text string) (*action.Plan, *action.InvalidError) {
	plan, err := action.Parse(withoutNulls([]byte(text)))
	if err == nil {
		return plan, nil
	}
	var invalid *action.InvalidError
	if !errors.As(err, &invalid) {
		invalid = problem("a plan that can be read", cut(err.Error(), 200))
	}
	return nil, invalid
}

// problem is a plan's being none at all.
func problem(want, got string) *action.InvalidError {
	return &action.InvalidError{Problems: []action.Problem{{Want: want, Got: got}}}
}

// candidates are the texts that may be the plan.
func candidates(text string) []string {
	text = strings.TrimSpace(withoutThoughts(strings.TrimPrefix(text, "\uFEFF")))
	if strings.HasPrefix(text, "{") {
		end := balanced(text)
		if end < 0 || end == len(text) {
			return []string{text}
		}
	}
	for _, block := range fenced(text) {
		if strings.HasPrefix(block, "{") {
			if found := objects(block); len(found) > 0 {
				return found
			}
		}
	}
	return objects(text)
}

// withoutThoughts leaves out what some models write before the answer.
func withoutThoughts(text string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "<think>")
	if !ok {
		return text
	}
	if _, answer, ok := strings.Cut(rest, "</think>"); ok {
		return answer
	}
	return text
}

// fenced are the contents of the first markdown blocks of a text.
func fenced(text string) []string {
	var blocks []string
	for len(blocks) < maxPlans {
		_, rest, ok := cutFence(text)
		if !ok {
			break
		}
		_, rest, _ = strings.Cut(rest, "\n") // the language
		block, rest, _ := cutFence(rest)
		blocks = append(blocks, strings.TrimSpace(block))
		text = rest
	}
	return blocks
}

// cutFence cuts a text at the first line that begins a fence, behind the fence.
func cutFence(text string) (before, after string, ok bool) {
	if after, ok := strings.CutPrefix(text, "```"); ok {
		return "", after, true
	}
	return strings.Cut(text, "\n```")
}

// objects are the balanced objects in a text that look like plans; where one begins like a
// plan and never ends, all that is left.
func objects(text string) []string {
	var found []string
	for vain := 0; len(found) < maxPlans; {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		text = text[begin:]
		if !beginsObject(text) {
			text = text[1:]
			continue
		}
		end := balanced(text)
		if end > 0 {
			if looksLikePlan(text[:end]) {
				found = append(found, text[:end])
			}
			text = text[end:]
			continue
		}
		if vain++; vain == maxStarts {
			break
		}
		if len(found) == 0 && beginsPlan(text) {
			return []string{text}
		}
		text = text[1:]
	}
	return found
}

// beginsObject reports whether a member's name or the end follows the brace that text begins with.
func beginsObject(text string) bool {
	rest := strings.TrimLeft(text[1:min(len(text), 64)], " \t\r\n")
	return strings.HasPrefix(rest, `"`)
}

// beginsPlan reports whether text begins with a plan's first member.
func beginsPlan(text string) bool {
	rest := strings.TrimLeft(text[1:min(len(text), 64)], " \t\r\n")
	for _, name := range []string{`"kind"`, `"summary"`, `"steps"`} {
		if strings.HasPrefix(rest, name) {
			return true
		}
	}
	return false
}

// looksLikePlan reports whether an object has, or was meant to have, a plan's members.
func looksLikePlan(object string) bool {
	if !json.Valid([]byte(object)) {
		return beginsPlan(object)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &members) != nil {
		return false
	}
	_, steps := members["steps"]
	_, summary := members["summary"]
	switch kind, ok := members["kind"]; string(kind) {
	case `"answer_only"`, `"command_sequence"`, `"plan_and_commands"`:
		return true
	default:
		// Other things have a kind, too: an answer may quote one.
		return steps || ok && summary
	}
}

// balanced is where the object that text begins with ends; -1 where it does not.
func balanced(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return -1
}
