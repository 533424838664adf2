package openai

import (
	"strings"
	"unicode"

	"airlock/internal/planner"
)

// Where a model's thoughts begin and end, where a server leaves them in the text.
const (
	thinkStart = "<think>"
	thinkEnd   = "</think>"
)

// thoughts parts a text from the thoughts before it: a text that begins with <think> goes on
// behind </think>.
type thoughts struct {
	state int
	held  string // not yet told: it may be the beginning of a mark
	text  strings.Builder
}

// The states.
const (
	atStart = iota
	inThoughts
	inText
)

// add takes a piece of the text, and hands on what of it is the answer's.
func (t *thoughts) add(piece string, on func(planner.Delta)) {
	t.held += piece
	if t.state == atStart {
		trimmed := strings.TrimLeftFunc(t.held, unicode.IsSpace)
		switch {
		case strings.HasPrefix(trimmed, thinkStart):
			t.held, t.state = trimmed[len(thinkStart):], inThoughts
		case strings.HasPrefix(thinkStart, trimmed):
			return // it may still become one
		default:
			t.state = inText
		}
	}
	if t.state == inThoughts {
		on(planner.Delta{Thinking: true})
		_, rest, ok := strings.Cut(t.held, thinkEnd)
		if !ok {
			t.held = t.held[max(0, len(t.held)-len(thinkEnd)+1):]
			return
		}
		t.held = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if t.held == "" && t.text.Len() == 0 {
			t.state = inText
			return
		}
		t.state = inText
	}
	t.tell(on)
}

// tell hands on what is held.
func (t *thoughts) tell(on func(planner.Delta)) {
	if t.text.Len() == 0 { // spaces before an answer are not part of it
		t.held = strings.TrimLeftFunc(t.held, unicode.IsSpace)
	}
	if t.held == "" {
		return
	}
	t.text.WriteString(t.held)
	on(planner.Delta{Text: t.held})
	t.held = ""
}

// end is the whole text.
func (t *thoughts) end(on func(planner.Delta)) string {
	if t.state != inThoughts {
		t.tell(on)
	}
	text := t.text.String()
	// Some templates write the start for the model: then only the end is in the text. JSON
	// may have it in a string.
	if before, after, ok := strings.Cut(text, thinkEnd); ok && !strings.HasPrefix(before, "{") && !strings.HasPrefix(before, "[") && !strings.Contains(before, "`") {
		return strings.TrimLeftFunc(after, unicode.IsSpace)
	}
	return text
}
