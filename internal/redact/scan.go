package redact

import "strings"

// lookBack is how far before a word a rule may look.
const lookBack = 128

// A span is what a rule found: text[start:end] is secret. The zero span is nothing.
type span struct {
	start, end int

	reach int // the rule has looked at the bytes before this one; 0 means up to the one behind end
}

// undecided is the answer of a rule that needs bytes which are not there yet.
var undecided = span{start: -1, end: -1}

// A view is a part of a text, as the rules see it: they ask whether more may come before
// they take an end for one.
type view struct {
	text  string
	last  bool // nothing comes behind it
	floor int  // the end of the last secret, 0 where there is none: a mark stands before it
}

// open reports whether what stands at i is not known yet.
func (v view) open(i int) bool { return i >= len(v.text) && !v.last }

// at is the byte at i; 0 behind the end. Of what was redacted, the end of the mark is seen:
// a second look at the result sees no more.
func (v view) at(i int) byte {
	switch {
	case i < 0 || i >= len(v.text):
		return 0
	case i < v.floor:
		return ']'
	}
	return v.text[i]
}

// scan looks at v from a place on, and hands out what it has decided: plain text, and the
// secrets that are left out between. It returns how far it came, where what stands behind
// must be looked at again when there is more, and the new floor.
func scan(v view, from int, plain func(string), secret func(*rule, span)) (stop, floor int) {
	s := scanner{v: v, done: from, plain: plain, secret: secret}
	return s.run(from), s.v.floor
}

// A scanner is a scan under way.
type scanner struct {
	v      view
	done   int    // up to here all was handed out
	state  uint16 // of the automaton
	tried  int    // of the words that end at the first byte, so many were asked for already
	plain  func(string)
	secret func(*rule, span)
}

// run looks at the bytes from i on; with tried words, the first of them was passed already.
func (s *scanner) run(i int) int {
	a, text, state := machine(), s.v.text, s.state
	for ; i < len(text); i++ {
		if s.tried == 0 {
			state = a.next[int(state)*a.stride+int(a.class[text[i]])]
		}
		if len(a.words[state]) == 0 {
			continue
		}
		found, nth := find(s.v, a.words[state][s.tried:], i+1, s.done)
		nth += s.tried
		s.tried = 0
		switch {
		case found.end < 0:
			start := i + 1 - int(a.depth[state])
			s.plain(text[s.done:start])
			return start
		case found.end > 0:
			s.state = state
			s.take(found, i, nth)
			i, state = found.end-1, 0
		}
	}
	end := len(text)
	if !s.v.last {
		end = max(s.done, end-int(a.depth[state]))
	}
	s.plain(text[s.done:end])
	return end
}

// take hands out what the nth word that ends at i led to, and what stands before it.
func (s *scanner) take(found span, i, nth int) {
	by := machine().words[s.state][nth].rule
	if by.keep {
		s.plain(s.v.text[s.done:found.end])
	} else {
		// Between the word and what it led to there may be others, which must be found now:
		// the next time, this word will lead nowhere.
		before := *s
		before.v.text, before.v.last, before.tried = s.v.text[:found.start], true, nth+1
		if i < found.start {
			before.run(i)
		} else {
			s.plain(s.v.text[s.done:found.start])
		}
		s.secret(by, found)
		s.v.floor = found.end
	}
	s.done = found.end
}

// find asks the rules of the words that end before end. It gives the word's place among them.
//
// A rule that has looked at what was redacted finds nothing: before that was redacted, it
// was asked already. So what was redacted once stays as it is.
func find(v view, words []word, end, done int) (span, int) {
	for i, w := range words {
		start := end - len(w.text)
		if start < done {
			continue // a part of what was redacted
		}
		s := w.rule.look(v, start, end, w.rule)
		if s.end > s.start && s.start >= start && !w.rule.keep {
			s = v.unmarked(s, end)
		}
		if s.end < 0 || s.end > s.start && s.start >= start {
			return s, i
		}
	}
	return span{}, 0
}

// unmarked is what a rule found, unless there is a mark in what it looked at, from a word's
// end on.
func (v view) unmarked(found span, from int) span {
	reach := min(len(v.text), max(found.reach, found.end+1))
	stop := min(len(v.text), reach+len(markStart)-1)
	if strings.Contains(v.text[from:stop], markStart) {
		return span{}
	}
	// The beginning of one may be all that there is yet.
	if i := strings.LastIndexByte(v.text[from:stop], '['); i >= 0 && v.open(from+i+len(markStart)-1) && strings.HasPrefix(markStart, v.text[from+i:stop]) {
		return undecided
	}
	return found
}

// scanAll redacts a whole text, and reports whether there was a secret.
func scanAll(s string) (string, bool) {
	var out []byte
	changed := false
	scan(view{text: s, last: true}, 0, func(text string) {
		if len(text) == len(s) {
			return // there is nothing in it
		}
		if out == nil {
			out = make([]byte, 0, len(s)+64)
		}
		out = append(out, text...)
	}, func(r *rule, _ span) {
		changed = true
		out = append(out, mark(r.id)...)
	})
	return string(out), changed
}
