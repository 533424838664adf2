package params

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"airlock/internal/lazyregexp"
	"airlock/internal/tool/bridge/setup"
)

// Parameters whose form is known, whoever's they are.
const (
	repoName    = "repo_name"
	issueNumber = "issue_number"
	sources     = "sources"
)

const (
	maxRepo  = 200       // characters of repo_name
	maxIssue = 999999999 // the greatest issue_number
)

// knownSources are what sources may list.
var knownSources = []string{"github", "pypi", "npm", "reddit", "hackernews"}

var (
	repoForm  = lazyregexp.New(`^[a-zA-Z0-9_-]+/[a-zA-Z0-9_.-]+$`)
	issueForm = lazyregexp.New(`^[1-9][0-9]{0,8}$`)
)

// validate checks the parameters and takes out of them, in place, what is to be taken out.
// cut names the strings that this was done to.
func (r *Rules) validate(values map[string]any) (cut []string, err error) {
	s := &sweep{security: &r.security}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := checkName(name); err != nil {
			return nil, err
		}
		switch name {
		case repoName:
			err = checkRepo(values[name])
		case issueNumber:
			err = checkIssue(values[name])
		case sources:
			err = checkSources(values[name])
		default:
			s.top, s.rule = name, r.rules[name]
			values[name], err = s.value(&place{name: name, index: -1}, values[name])
		}
		if err != nil {
			return nil, err
		}
	}
	if s.more > 0 {
		s.cut = append(s.cut, fmt.Sprintf("and %d more", s.more))
	}
	return s.cut, nil
}

func checkName(name string) error {
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return invalid("Invalid parameters: the name %s has a control character: leave it out", quote(name))
	}
	return nil
}

// checkRepo's text is one that people's own programs look for.
func checkRepo(value any) error {
	name, ok := value.(string)
	if !ok || !repoForm.MatchString(name) {
		return invalid("Invalid repo_name format")
	}
	if len(name) > maxRepo {
		return invalid("Invalid repo_name: has %d characters, more than %d", len(name), maxRepo)
	}
	return nil
}

func checkIssue(value any) error {
	number, ok := value.(json.Number)
	if ok && issueForm.MatchString(number.String()) {
		return nil
	}
	text := fmt.Sprintf("Invalid %s: want a whole number from 1 to %d, got ", issueNumber, maxIssue)
	digits, isText := value.(string)
	switch {
	case isText && issueForm.MatchString(digits):
		text += fmt.Sprintf("the text %q: write it without quotes", digits)
	case ok && strings.ContainsAny(number.String(), ".eE"):
		text += number.String() + ": write it with digits alone"
	case ok:
		text += number.String()
	default:
		text += kindWord(value)
	}
	return invalid("%s", text)
}

func checkSources(value any) error {
	list, ok := value.([]any)
	if !ok {
		return invalid("Invalid sources: want a list of %s, got %s", strings.Join(knownSources, ", "), kindWord(value))
	}
	for _, source := range list {
		name, ok := source.(string)
		if ok && slices.Contains(knownSources, name) {
			continue
		}
		got := kindWord(source)
		if ok {
			got = quote(name)
		}
		return invalid("Invalid sources: want a list of %s, with %s in it", strings.Join(knownSources, ", "), got)
	}
	return nil
}

// maxCut is how many of the strings that were changed are named: there can be half a million.
const maxCut = 16

// A sweep goes through the strings of parameters.
type sweep struct {
	security *setup.Security
	top      string     // the parameter that it is in
	rule     setup.Rule // and what holds for that
	cut      []string
	more     int // strings that were changed beyond those in cut
}

// value gives v with its strings sanitized: lists and objects are changed in place.
func (s *sweep) value(at *place, v any) (any, error) {
	switch v := v.(type) {
	case string:
		return s.text(at, v)
	case []any:
		for i := range v {
			var err error
			if v[i], err = s.value(&place{up: at, index: i}, v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkName(name); err != nil {
				return nil, err
			}
			var err error
			if v[name], err = s.value(&place{up: at, name: name, index: -1}, v[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func (s *sweep) text(at *place, text string) (string, error) {
	limit, by := s.security.MaxParam, "max_param_length"
	if s.rule.MaxLength > 0 {
		limit, by = s.rule.MaxLength, "its max_length"
	}
	if n := utf8.RuneCountInString(text); n > limit {
		return "", invalid("Invalid %s: has %d characters, more than %d (%s)", at, n, limit, by)
	}
	if s.rule.Raw || s.security.Sanitize == setup.Off {
		return text, nil
	}
	clean, first := strip(text)
	if len(clean) == len(text) {
		return text, nil
	}
	if s.security.Sanitize != setup.Strip {
		return "", invalid("Invalid %s: has the character %s: leave it out, or let the configuration say params: {%s: {raw: true}}",
			at, strconv.QuoteRuneToASCII(first), clip(s.top))
	}
	if len(s.cut) < maxCut {
		s.cut = append(s.cut, at.String())
	} else {
		s.more++
	}
	return clean, nil
}

// metacharacters are those that mean something to a shell.
const metacharacters = ";&|<>()$`\\"

// strip takes shell metacharacters and control characters out of text, and says which of
// them is the first. A tab and a line's end stay: a line feed, and a carriage return that
// stands before one.
func strip(text string) (clean string, first rune) {
	start := -1
	for i, r := range text {
		if harmful(r, text[i+1:]) {
			start, first = i, r
			break
		}
	}
	if start < 0 {
		return text, 0
	}
	b := strings.Builder{}
	b.Grow(len(text))
	b.WriteString(text[:start])
	rest := text[start:]
	for i, r := range rest {
		if !harmful(r, rest[i+1:]) {
			b.WriteRune(r)
		}
	}
	return b.String(), first
}

// harmful reports whether a character is to be taken out; behind is what follows one of a
// single byte.
func harmful(r rune, behind string) bool {
	switch r {
	case '\t', '\n':
		return false
	case '\r':
		return !strings.HasPrefix(behind, "\n")
	}
	return unicode.IsControl(r) || strings.ContainsRune(metacharacters, r)
}
