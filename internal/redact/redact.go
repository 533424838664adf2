// Package redact finds secrets in text and replaces them: private keys, the tokens of
// well-known services, what is assigned to a name such as password, credentials in URLs,
// headers and options of commands. It knows neither who holds the text nor what for.
//
// A secret becomes [redacted:RULE]. What is found depends on the text alone, so the same
// text always gives the same result, and what was redacted once stays as it is.
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
	for range looks {
		out, changed := scanAll(s)
		if !changed {
			break
		}
		s = out
	}
	return s
}

// looks is how often a text is looked at while secrets are found in it. With one of them
// out of the way, a rule may see a secret that it could not tell before: the end of a value
// that was too long, or a name whose value was something else's.
const looks = 2

// Prepare makes what the first text would have to wait for, a millisecond or less.
func Prepare() { machine() }

// mark is what stands in a secret's place.
func mark(rule string) string { return markStart + rule + "]" }

const markStart = "[redacted:"
