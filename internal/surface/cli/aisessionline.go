package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"airlock/internal/near"
	"airlock/internal/surface/cli/prompt"
)

// A sessionLine is what was typed at a session's prompt.
type sessionLine struct {
	name  string // of the command, with its slash; "!": a command for a sandbox; "": a request
	words string // what follows
}

// parseSessionLine tells a command from a request. Words that begin with the path of a
// file, such as /etc/hosts, are a request.
func parseSessionLine(text string) sessionLine {
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		return sessionLine{"!", strings.TrimSpace(rest)}
	}
	if !strings.HasPrefix(text, "/") {
		return sessionLine{words: text}
	}
	end := strings.IndexAny(text, " \t\n")
	if end < 0 {
		end = len(text)
	}
	if strings.Contains(text[1:end], "/") || end == 1 {
		return sessionLine{words: text}
	}
	return sessionLine{text[:end], strings.TrimSpace(text[end:])}
}

// noSuchSessionCommand says which command was probably meant.
func noSuchSessionCommand(name string, names []string) error {
	if meant := near.Name(name, names); meant != "" {
		return usage("there is no %s; did you mean %s?", printable(name), meant)
	}
	return usage("there is no %s; /help lists what there is", printable(name))
}

// splitWords splits words as a shell does, without giving any of them a meaning: quotes
// and backslashes keep spaces.
func splitWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote := false, rune(0)
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			begun, quote = true, r
		case strings.ContainsRune(" \t\n", r):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is open at the end")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// incompleteLine says whether Enter begins a new line: a command for a sandbox goes on
// while a quote, a bracket or a here-document is open. Words have apostrophes: they do not.
func incompleteLine(text string) bool {
	command, ok := strings.CutPrefix(strings.TrimSpace(text), "!")
	if !ok {
		return false
	}
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command+"\n"), "")
	return syntax.IsIncomplete(err)
}

// Bounds of completion.
const (
	maxListedFiles  = 5000 // of a folder that are looked at
	maxFoundMatches = 300
)

// A completer completes what is typed at a session's prompt.
type completer struct {
	commands []string
	dir      string // relative paths are below it
	home     string
}

// complete gives what the word before pos may be meant to be: a command at the start of the
// text, a path elsewhere.
func (c *completer) complete(text string, pos int) []prompt.Candidate {
	before := text[:pos]
	if strings.HasPrefix(before, "/") && !strings.ContainsAny(before, " \t\n") && !strings.Contains(before[1:], "/") {
		var out []prompt.Candidate
		for _, name := range c.commands {
			if strings.HasPrefix(name, before) {
				out = append(out, prompt.Candidate{Text: name + " ", Show: name})
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	from := lastWord(before)
	if from == 0 && strings.HasPrefix(before, "!") {
		from = 1
	}
	line := parseSessionLine(text)
	if word := before[from:]; word != "" || line.name == "/include" || line.name == "/save" || line.name == "!" && from > 1 {
		return c.paths(word, from)
	}
	return nil
}

// lastWord is where the word at the end begins: spaces behind a backslash belong to it.
func lastWord(s string) int {
	from, escaped := 0, false
	for i, r := range s {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case strings.ContainsRune(" \t\n", r):
			from = i + 1
		}
	}
	return from
}

// paths gives the files that a word may be the beginning of.
func (c *completer) paths(word string, from int) []prompt.Candidate {
	typed := unescaped(word)
	dir, base := filepath.Split(typed)
	look := dir
	if rest, ok := strings.CutPrefix(dir, "~/"); ok && c.home != "" {
		look = filepath.Join(c.home, rest)
	}
	if !filepath.IsAbs(look) {
		look = filepath.Join(c.dir, look)
	}
	f, err := os.Open(look)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxListedFiles) // what can be read is worth offering
	var out []prompt.Candidate
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") || printable(name) != name {
			continue
		}
		end, full := " ", filepath.Join(look, name)
		if info, err := os.Stat(full); err == nil && info.IsDir() {
			end = "/"
		}
		out = append(out, prompt.Candidate{From: from, Text: escapedWord(dir+name) + end, Show: name + strings.TrimSpace(end)})
		if len(out) == maxFoundMatches {
			break
		}
	}
	slices.SortFunc(out, func(a, b prompt.Candidate) int { return strings.Compare(a.Text, b.Text) })
	return out
}

func unescaped(word string) string {
	var b strings.Builder
	escaped := false
	for _, r := range word {
		if escaped = r == '\\' && !escaped; !escaped {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapedWord is a path as a word of a line. A tilde at its beginning keeps its meaning.
func escapedWord(path string) string {
	var b strings.Builder
	for _, r := range path {
		if strings.ContainsRune(" \t\\'\"$`&|;<>()[]{}*?!#", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
