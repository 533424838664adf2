package shellhook

import (
	"slices"
	"strings"
)

// A job is a pipeline of a fish command line.
type job struct {
	sign     string // what it is joined with to the one before: ; & && || or nothing
	from, to int    // where it is in the line
	calls    int    // of airlock
	unsure   bool   // other commands run before the call does
}

// beforeFish is before for fish, which no parser here reads: quotes, substitutions and
// comments are skipped, and a line with a block is not read.
func beforeFish(line string) part {
	jobs, ok := fishJobs(line)
	if !ok {
		return part{place: foremost(line)}
	}
	at := slices.IndexFunc(jobs, func(j job) bool { return j.calls > 0 })
	switch {
	case at < 0 && len(jobs) == 1:
		return part{place: placeAlone} // by another name
	case at < 0 || jobs[at].calls > 1 || slices.ContainsFunc(jobs[at+1:], func(j job) bool { return j.calls > 0 }):
		return part{}
	case at == 0:
		return part{place: placeAlone}
	case jobs[at].sign == "&":
		return part{}
	}
	first := at - 1
	for first > 0 && (jobs[first].sign == "&&" || jobs[first].sign == "||") {
		first--
	}
	return part{place: placeAfter, command: line[jobs[first].from:jobs[at-1].to], unsure: jobs[at].unsure}
}

// fishJobs takes a line apart; false where it cannot.
func fishJobs(line string) ([]job, bool) {
	var jobs []job
	sign, from, start := "", 0, 0 // of the job and of its present command
	now := job{}
	// command ends a command, and job the whole pipeline.
	command := func(to int) bool {
		text := strings.TrimSpace(line[start:to])
		name, joined, ok := fishName(text)
		if joined != "" && start == from && sign == ";" {
			sign = joined
		}
		if named(name) {
			now.calls++
			now.unsure = strings.Contains(text, "(")
		}
		return ok
	}
	finish := func(to int, next string) bool {
		if strings.TrimSpace(line[from:to]) != "" {
			if !command(to) {
				return false
			}
			now.sign, now.from = sign, from+len(line[from:to])-len(strings.TrimLeft(line[from:to], " \t\r\n"))
			now.to = from + len(strings.TrimRight(line[from:to], " \t\r\n"))
			jobs, now, sign = append(jobs, now), job{}, next
		} else if next != ";" {
			return false
		}
		return true
	}
	for i := 0; i < len(line); {
		n := fishSkip(line, i)
		if n < 0 {
			return nil, false
		}
		if n > 0 {
			i += n
			continue
		}
		n, next := 1, ";"
		switch c := line[i]; {
		case c == '#' && (i == 0 || strings.IndexByte(" \t\r\n;&|", line[i-1]) >= 0):
			if !finish(i, ";") {
				return nil, false
			}
			for n = 0; i+n < len(line) && line[i+n] != '\n'; n++ { //nolint:revive // to the line's end
			}
		case strings.HasPrefix(line[i:], "&&"), strings.HasPrefix(line[i:], "||"):
			n, next = 2, line[i:i+2]
			if !finish(i, next) {
				return nil, false
			}
		case c == ';' || c == '\n' || c == '&' && !fishRedirects(line, i):
			if c == '&' {
				next = "&"
			}
			if !finish(i, next) {
				return nil, false
			}
		case c == '|' && (i == 0 || line[i-1] != '>'):
			if !command(i) {
				return nil, false
			}
			start = i + 1
			i++
			continue
		default:
			i++
			continue
		}
		i += n
		from, start = i, i
	}
	return jobs, finish(len(line), ";") && len(jobs) > 0
}

// fishRedirects reports whether an & belongs to a redirection or a pipe.
func fishRedirects(line string, i int) bool {
	return i > 0 && (line[i-1] == '>' || line[i-1] == '<') || i+1 < len(line) && (line[i+1] == '>' || line[i+1] == '|')
}

// fishSkip is how many bytes at i are quoted or substituted, 0 for none; less where they do
// not end.
func fishSkip(line string, i int) int {
	switch c := line[i]; c {
	case '\\':
		return min(2, len(line)-i)
	case '\'', '"':
		for k := i + 1; k < len(line); k++ {
			switch line[k] {
			case '\\':
				k++
			case c:
				return k + 1 - i
			case '$':
				if c == '"' && k+1 < len(line) && line[k+1] == '(' {
					return -1 // commands in quotes, with quotes of their own
				}
			}
		}
		return -1
	case '(':
		for k := i + 1; k < len(line); {
			switch line[k] {
			case ')':
				return k + 1 - i
			case '(', '#':
				return -1 // one in another, or perhaps a comment
			}
			n := fishSkip(line, k)
			if n < 0 {
				return -1
			}
			k += max(n, 1)
		}
		return -1
	case ')':
		return -1
	}
	return 0
}

// fishName is the name of a command, and what it says itself that it is joined by; false
// for a block.
func fishName(text string) (name, joined string, ok bool) {
	for w := range strings.FieldsSeq(text) {
		switch w {
		case "and":
			joined = "&&"
			continue
		case "or":
			joined = "||"
			continue
		case "command", "not", "!", "time":
			continue
		case "begin", "if", "while", "for", "switch", "function", "end", "else", "case", "{", "}":
			return "", joined, false
		}
		if at := strings.IndexByte(w, '='); at > 0 && strings.Trim(w[:at], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "" {
			continue
		}
		if q := w[:1]; len(w) > 1 && (q == `"` || q == "'") && strings.HasSuffix(w, q) {
			w = w[1 : len(w)-1]
		}
		return strings.TrimPrefix(w, `\`), joined, true
	}
	return "", joined, true
}
