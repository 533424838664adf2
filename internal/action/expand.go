package action

import "strings"

// dollar scans what begins with $.
func (sc *scanner) dollar(quoted bool) {
	switch {
	case sc.at("$$"): // the shell's number, whatever follows
		sc.i += 2
	case sc.at("$(("):
		sc.i += 2
		sc.arithmetic()
	case sc.at("$("):
		sc.i += 2
		sc.command(")")
	case sc.at("${"):
		sc.i += 2
		sc.parameter(quoted)
	case sc.at("$["): // arithmetic to bash, text to sh
		sc.failed = true
	case !quoted && sc.at("$'"): // bash takes backslashes in it, sh does not
		sc.i += 2
		from := sc.i
		sc.failed = !sc.skipTo("'") || strings.Contains(sc.s[from:sc.i], `\`)
		sc.i++
	default:
		sc.i++
	}
}

// parameter scans from behind ${ to behind its brace. Nothing in it is a placeholder.
func (sc *scanner) parameter(quoted bool) {
	for sc.i < len(sc.s) && !sc.failed {
		switch c := sc.s[sc.i]; {
		case c == '}':
			sc.i++
			return
		case c == '\\':
			sc.i += 2
		case (c == '\'' || c == '"') && quoted, c == '`', c == '\n':
			sc.failed = true
		case c == '\'':
			sc.i++
			sc.failed = !sc.skipTo("'")
			sc.i++
		case c == '"':
			before := len(sc.holes)
			sc.i++
			sc.double(-1)
			sc.holes = sc.holes[:before]
		case c == '$':
			before := len(sc.holes)
			sc.dollar(quoted)
			sc.holes = sc.holes[:min(before, len(sc.holes))]
		default:
			sc.i++
		}
	}
	sc.failed = true
}

// arithmetic scans from the second of two opening parentheses to behind the last closing
// one. Nothing in it is a placeholder.
func (sc *scanner) arithmetic() {
	open := 1
	for ; sc.i < len(sc.s); sc.i++ {
		switch sc.s[sc.i] {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				sc.i++
				return
			}
		case '\'', '"', '`', '\\', '#', '\n':
			sc.failed = true
			return
		}
	}
	sc.failed = true
}

// backquotes scans `text`, in which nothing is a placeholder: it is unquoted twice.
func (sc *scanner) backquotes() {
	for sc.i++; sc.i < len(sc.s); sc.i++ {
		switch sc.s[sc.i] {
		case '\\':
			sc.i++
		case '`':
			sc.i++
			return
		}
	}
	sc.failed = true
}

// heredoc reads a here-document's announcement, from behind <<.
func (sc *scanner) heredoc() {
	var d heredoc
	if sc.at("-") {
		d.tabs = true
		sc.i++
	}
	for sc.at(" ", "\t") {
		sc.i++
	}
	start := sc.i
	for !sc.boundary() {
		if strings.IndexByte("$`\\", sc.s[sc.i]) >= 0 {
			sc.failed = true
			return
		}
		if q := sc.s[sc.i]; q == '\'' || q == '"' {
			sc.i++
			if !sc.skipTo(string(q)) {
				sc.failed = true
				return
			}
		}
		sc.i++
	}
	d.end = unquoted(sc.s[start:sc.i])
	if d.end == "" || strings.ContainsAny(d.end, "\n\\$`") {
		sc.failed = true
	}
	sc.docs = append(sc.docs, d)
}

// bodies skips the here-documents that begin on this line.
func (sc *scanner) bodies() {
	for _, d := range sc.docs {
		for {
			line, _, more := strings.Cut(sc.s[sc.i:], "\n")
			sc.i = min(sc.i+len(line)+1, len(sc.s))
			if d.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if line == d.end || !more {
				break
			}
		}
	}
	sc.docs = nil
}
