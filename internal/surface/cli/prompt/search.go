package prompt

import (
	"strings"
)

// A search looks for a text in the history, the newest entries first.
type search struct {
	query  string
	at     int // the entry that is shown; the history's length: none
	failed bool

	before state // to come back to
	was    int
}

func (s *search) prompt() string {
	if s.failed {
		return "no “" + s.query + "” in the history: "
	}
	return "search “" + s.query + "”: "
}

func (e *editor) beginSearch() {
	if len(e.history.entries) == 0 {
		e.ok(false)
		return
	}
	e.line.save()
	e.find = &search{at: len(e.history.entries), before: state{e.line.text, e.line.pos}, was: e.at}
}

// searching does what a key means to a search, and reports whether that was all.
func (e *editor) searching(k key) bool {
	s := e.find
	switch k.do {
	case actInsert, actPaste:
		s.query += strings.ReplaceAll(k.text, "\n", " ")
		e.seek(min(s.at, len(e.history.entries)-1), -1)
	case actBackspace:
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
			e.seek(len(e.history.entries)-1, -1)
		}
	case actSearch:
		e.seek(s.at-1, -1)
	case actSearchForward:
		e.seek(s.at+1, 1)
	case actAbort, actInterrupt:
		e.line.text, e.line.pos, e.at = s.before.text, s.before.pos, s.was
		e.find = nil
	case actEscape, actComplete:
		e.find = nil
	case actNone:
	default:
		e.find = nil
		return false
	}
	return true
}

// seek shows the next entry that has the query in it.
func (e *editor) seek(from, step int) {
	s := e.find
	query := strings.ToLower(s.query)
	for i := from; query != "" && i >= 0 && i < len(e.history.entries); i += step {
		text := e.history.entries[i]
		at := strings.Index(strings.ToLower(text), query)
		if at < 0 {
			continue
		}
		s.at, s.failed = i, false
		if e.at == len(e.history.entries) {
			e.draft = string(s.before.text)
		}
		e.at = i
		e.line.text = []rune(text)
		e.line.pos = min(len([]rune(strings.ToLower(text)[:at])), len(e.line.text))
		return
	}
	s.failed = query != ""
	e.ok(!s.failed)
}
