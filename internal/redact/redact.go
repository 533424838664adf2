// Package redact finds secrets in text and replaces them: private keys, the tokens of
// well-known services, what is assigned to a name such as password, credentials in URLs,
// headers and options of commands. It knows neither who holds the text nor what for.
//
// A secret becomes [redacted:RULE]. What is found depends on the text alone, so the same
// text always gives the same result, and what was redacted once stays as it is: a rule that
// comes to such a mark, in what it reads behind its word, finds nothing, because it was asked
// before the mark was there.
//
// The rules are a table (rules.go). One pass over the text looks for the words that a
// secret begins with or stands behind; only where one is found, its rule looks closer. So
// text without secrets costs little.
//
// What no rule knows is not found: a secret without a form of its own and without a name
// beside it looks like any word.
package redact

// Text redacts a text. What is not UTF-8 is passed through.
func Text(s string) string {
	out, changed := scanAll(s)
	if !changed {
		return s
	}
	return out
}

// A Span is where a secret stands in a text, and the rule that found it.
type Span struct {
	Start, End int
	Rule       string
}

// Spans tells what Text would redact, in order. Who knows of more secrets in a text puts
// theirs and these together: what is redacted first hides from the rules what it was.
func Spans(s string) []Span {
	var out []Span
	scan(view{text: s, last: true}, 0, func(string) {}, func(r *rule, found span) {
		out = append(out, Span{found.start, found.end, r.id})
	})
	return out
}

// Prepare makes what the first text would have to wait for, a millisecond or less.
func Prepare() { machine() }

// mark is what stands in a secret's place.
func mark(rule string) string { return markStart + rule + "]" }

const markStart = "[redacted:"
