package redact

// lookBack is how far before a word a rule may look.
const lookBack = 128

// A span is what a rule found: text[start:end] is secret. The zero span is nothing.
type span struct{ start, end int }

// undecided is the answer of a rule that needs bytes which are not there yet.
var undecided = span{-1, -1}

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
// rules whose secrets are left out between. It returns how far it came, where what stands
// behind must be looked at again when there is more, and the new floor.
func scan(v view, from int, plain func(string), secret func(*rule)) (stop, floor int) {
	a := machine()
	text, done, state := v.text, from, uint16(0)
	for i := from; i < len(text); i++ {
		state = a.next[int(state)*a.stride+int(a.class[text[i]])]
		if len(a.words[state]) == 0 {
			continue
		}
		found, by := find(v, a.words[state], i+1, done)
		switch {
		case found == undecided:
			start := i + 1 - int(a.depth[state])
			plain(text[done:start])
			return start, v.floor
		case found.end > 0:
			if by.keep {
				plain(text[done:found.end])
			} else {
				// Between the word and what it led to, there may be others.
				gap := max(i+1, done)
				plain(text[done:min(gap, found.start)])
				if gap < found.start {
					scan(view{text[:found.start], true, v.floor}, gap, plain, secret)
				}
				secret(by)
				v.floor = found.end
			}
			done, i, state = found.end, found.end-1, 0
		}
	}
	if v.last {
		plain(text[done:])
		return len(text), v.floor
	}
	end := max(done, len(text)-int(a.depth[state]))
	plain(text[done:end])
	return end, v.floor
}

// find asks the rules of the words that end before end.
func find(v view, words []word, end, done int) (span, *rule) {
	for _, w := range words {
		start := end - len(w.text)
		if start < done {
			continue // a part of what was redacted
		}
		if s := w.rule.look(v, start, end, w.rule); s == undecided || s.end > s.start && s.start >= start {
			return s, w.rule
		}
	}
	return span{}, nil
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
	}, func(r *rule) {
		changed = true
		out = append(out, mark(r.id)...)
	})
	return string(out), changed
}
