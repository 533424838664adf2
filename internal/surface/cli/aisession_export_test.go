package cli

import "airlock/internal/surface/cli/prompt"

// What a session's line is tried by.
var (
	SplitWords           = splitWords
	EscapedWord          = escapedWord
	IncompleteLine       = incompleteLine
	NoSuchSessionCommand = noSuchSessionCommand
)

// SessionLine parses a line.
func SessionLine(text string) (name, words string) {
	l := parseSessionLine(text)
	return l.name, l.words
}

// CompleteLine completes at the end of a line.
func CompleteLine(dir, home string, commands []string, text string) []prompt.Candidate {
	c := &completer{commands, dir, home}
	return c.complete(text, len(text))
}
