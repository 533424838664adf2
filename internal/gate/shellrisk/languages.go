package shellrisk

import "strings"

// sed judges sed's scripts, whose e and w commands run programs and write files.
func sed(c *call) {
	c.judge()
	s := &c.scan
	var scripts []field
	for i := range s.opts {
		if o := &s.opts[i]; o.name == "-e" || o.opt != nil && o.name != "-f" && o.opt.shift && o.has {
			scripts = append(scripts, o.value)
		}
	}
	files := s.operands
	if !s.shift && len(files) > 0 {
		scripts, files = append(scripts, files[0]), files[1:]
	}
	for i := range scripts {
		if f := &scripts[i]; !c.literal(f) || !sedReads(f.Value) {
			c.part.add(Unknown, "sed's script could run a program or write a file")
		}
	}
	for i := range s.opts {
		if o := &s.opts[i]; o.opt != nil && o.opt.risk == WritesInside {
			for j := range files {
				c.file(c.part, &files[j], useWrite, c.sc, &c.fr)
			}
			break // however often it is said
		}
	}
	c.append(*c.part)
}

// sedReads reports whether a sed script surely neither runs nor writes anything.
func sedReads(s string) bool {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case strings.IndexByte(" \t\n;{}!,0123456789$~+", c) >= 0:
			i++
		case c == '/' || c == '\\':
			if c == '\\' {
				i++
			}
			if i = sedSkip(s, i, 1); i < 0 {
				return false
			}
			for i < len(s) && (s[i] == 'I' || s[i] == 'M') {
				i++
			}
		case c == 's' || c == 'y':
			if i = sedSkip(s, i+1, 2); i < 0 {
				return false
			}
			for i < len(s) && strings.IndexByte("gpiImM0123456789", s[i]) >= 0 {
				i++
			}
			if i < len(s) && strings.IndexByte(" \t\n;}", s[i]) < 0 {
				return false
			}
		case strings.IndexByte("pPdDnNgGhHxzlqQ=F", c) >= 0:
			i++
		case strings.IndexByte("btT:#aicrR", c) >= 0:
			end := strings.IndexByte(s[i:], '\n')
			if strings.IndexByte("btT:", c) >= 0 { // a label, before which there may be spaces
				i += len(s[i+1:]) - len(strings.TrimLeft(s[i+1:], " \t"))
				end = 1 + strings.IndexAny(s[i+1:], " \t;}\n")
				if end == 0 {
					return true
				}
			}
			if end < 0 {
				return true
			}
			if strings.IndexByte("aic", c) >= 0 && end > 0 && s[i+end-1] == '\\' {
				return false
			}
			i += end
		default:
			return false
		}
	}
	return true
}

// sedSkip skips n texts that the byte at i encloses; -1 where one does not end.
func sedSkip(s string, i, n int) int {
	if i >= len(s) || s[i] == '\n' || s[i] == '\\' {
		return -1
	}
	delim := s[i]
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			return sedClass(s, i, n, delim)
		case delim:
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// sedClass goes on where a bracket may hold the delimiter: only where it does not, the
// two ways to read it agree.
func sedClass(s string, i, n int, delim byte) int {
	end := strings.IndexByte(s[min(i+2, len(s)):], ']')
	if end < 0 {
		// As text it would end like any other; as a class never.
		return -1
	}
	if strings.IndexByte(s[i:i+2+end], delim) >= 0 {
		return -1
	}
	rest := sedSkip(string(delim)+s[i+end+3:], 0, n)
	if rest < 0 {
		return -1
	}
	return rest - 1 + i + end + 3
}

// awk judges awk's program, which can run others and write files.
func awk(c *call) {
	c.judge()
	s := &c.scan
	if !s.shift && !s.only {
		if len(s.operands) == 0 || !s.operands[0].Known || !awkReads(s.operands[0].Value) {
			c.part.add(Unknown, "awk's program could run another one or write a file")
		}
	}
	c.append(*c.part)
}

// awkReads reports whether an awk program surely neither runs nor writes anything.
func awkReads(s string) bool {
	code, ok := awkCode(s)
	if !ok || strings.ContainsAny(code, "@`") {
		return false
	}
	for _, word := range []string{"system", "getline", "printf\"", "include", "load"} {
		if strings.Contains(code, word) {
			return false
		}
	}
	if strings.Contains(strings.ReplaceAll(code, "||", ""), "|") {
		return false
	}
	for {
		at := strings.Index(code, "print")
		if at < 0 {
			return true
		}
		code = code[at+len("print"):]
		end := strings.IndexAny(code, ";}") // after a comma a line's end is none
		if end < 0 {
			end = len(code)
		}
		depth := 0
		for i := range end {
			switch code[i] {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			case '>':
				if depth <= 0 {
					return false
				}
			}
		}
	}
}

// awkCode takes strings and patterns out of an awk program.
func awkCode(s string) (string, bool) {
	var b strings.Builder
	last := byte('(') // the last character that was code
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '/' && i > 1 && (s[i-1] == '+' || s[i-1] == '-' || s[i-1] == ' ') && (strings.HasSuffix(strings.TrimRight(s[:i], " \t"), "++") || strings.HasSuffix(strings.TrimRight(s[:i], " \t"), "--")):
			return "", false
		case c == '"', c == '/' && strings.IndexByte("(,!~&|{};:?=<>+-*%^\n", last) >= 0:
			end := i + 1
			for end < len(s) && s[end] != c {
				if s[end] == '\\' {
					end++
				}
				if end < len(s) && s[end] == '\n' || c == '/' && end < len(s) && s[end] == '[' {
					return "", false
				}
				end++
			}
			if end >= len(s) {
				return "", false
			}
			i, last = end, '"'
			b.WriteByte('"')
			continue
		case c == '/' && awkUnsure(s, i):
			return "", false
		case c == '#':
			for i < len(s) && s[i] != '\n' {
				i++
			}
			b.WriteByte('\n')
			last = '\n'
			continue
		case c == '\\':
			return "", false
		}
		b.WriteByte(c)
		if c != ' ' && c != '\t' {
			last = c
		}
	}
	return b.String(), true
}

// awkUnsure reports whether the slash at i could start a pattern as well as divide: behind
// a word or a bracket, with text in quotes before the next slash, or behind ++ and --.
func awkUnsure(s string, i int) bool {
	next := strings.IndexByte(s[i+1:], '/')
	return next >= 0 && strings.ContainsAny(s[i+1:i+1+next], "\"#")
}

// sql judges the text that a database's client is given.
func sql(c *call) {
	c.judge()
	s := &c.scan
	if s.only {
		c.append(*c.part)
		return
	}
	var texts []field
	for i := range s.opts {
		if o := &s.opts[i]; o.opt != nil && o.opt.shift {
			texts = append(texts, o.value)
		}
	}
	if c.prog.skip == 0 && s.prog.loose && len(s.operands) > 1 { // sqlite3 FILE SQL
		texts = append(texts, s.operands[1:]...)
	}
	if c.fr.stdin != nil && len(texts) == 0 {
		texts = append(texts, field{Word: Word{Value: c.fr.stdin.text, Known: c.fr.stdin.known}})
	}
	if len(texts) == 0 {
		c.part.add(Unknown, c.name+" runs what it reads")
	}
	for i := range texts {
		risk := Unknown
		if texts[i].Known || texts[i].Value != "" {
			risk = sqlRisk(texts[i].Value)
		}
		if !texts[i].Known && risk != Destructive {
			risk = Unknown
		}
		if risk != ReadOnly {
			c.part.add(risk, c.name+" is given statements that are not a lone query")
		}
	}
	c.append(*c.part)
}

var sqlDestroys = map[string]bool{"drop": true, "delete": true, "truncate": true, "update": true, "alter": true, "replace": true, "dropdatabase": true, "flushall": true, "flushdb": true, "deletemany": true, "remove": true, "purge": true, "vacuum": true, "reindex": true, "shutdown": true, "kill": true}

var sqlQueries = map[string]bool{"select": true, "show": true, "explain": true, "describe": true, "desc": true, "values": true, "table": true, "help": true, "status": true}

var sqlFunctions = map[string]bool{"count": true, "sum": true, "avg": true, "min": true, "max": true, "now": true, "version": true, "lower": true, "upper": true, "length": true, "coalesce": true, "date": true, "round": true, "distinct": true, "in": true, "exists": true, "and": true, "or": true, "as": true, "not": true, "from": true, "where": true, "values": true, "cast": true, "over": true, "on": true, "using": true, "any": true, "pg_size_pretty": true, "pg_database_size": true, "pg_total_relation_size": true, "pg_relation_size": true, "current_database": true, "current_user": true, "user": true, "database": true, "datetime": true, "strftime": true, "substr": true, "trim": true, "ifnull": true, "nullif": true, "group_concat": true, "string_agg": true, "date_trunc": true, "extract": true, "abs": true, "join": true, "by": true, "interval": true, "concat": true}

// sqlRisk judges statements: all of them queries that call nothing unknown is ReadOnly.
func sqlRisk(text string) Risk {
	risk := ReadOnly
	first := true
	meta := strings.TrimSpace(text)
	if strings.HasPrefix(meta, `\d`) || strings.HasPrefix(meta, `\l`) || meta == ".tables" || strings.HasPrefix(meta, ".schema") || meta == ".databases" {
		if !strings.ContainsAny(meta[1:], "\\|;`!\n") {
			return ReadOnly
		}
		return Unknown
	}
	if strings.ContainsAny(text, "\\`|$#[\r\f\v") || strings.Contains(text, "/*") || strings.Contains(text, "--") {
		risk = Unknown
	}
	word := func(w string, calls bool) {
		w = strings.ToLower(w)
		switch {
		case sqlDestroys[w]:
			risk = Destructive
		case risk == Destructive:
		case first && !sqlQueries[w], w == "into", w == "copy", w == "program", w == "outfile", w == "dumpfile", w == "analyze", w == "for":
			risk = Unknown
		case calls && !sqlFunctions[w]:
			risk = Unknown
		}
		first = false
	}
	for i := 0; i < len(text); {
		ch := text[i]
		switch {
		case ch == '\'' || ch == '"':
			end := strings.IndexByte(text[i+1:], ch)
			if end < 0 {
				return max2(risk, Unknown)
			}
			i += end + 2
			if strings.HasPrefix(strings.TrimLeft(text[i:], " \n\t"), "(") {
				risk = max2(risk, Unknown) // a function's name may be quoted
			}
		case ch == ';':
			first = true
			i++
		case isNameRune(rune(ch)):
			end := i
			for end < len(text) && isNameRune(rune(text[end])) {
				end++
			}
			word(text[i:end], strings.HasPrefix(strings.TrimLeft(text[end:], " \n\t"), "("))
			i = end
		default:
			if first && strings.IndexByte(" \n\t(", ch) < 0 {
				risk = max2(risk, Unknown)
			}
			i++
		}
	}
	return risk
}

func max2(a, b Risk) Risk {
	if a.Less(b) {
		return b
	}
	return a
}

// gitConfig judges git -c KEY=VALUE: many keys name programs that git runs.
func (c *call) gitConfig(f *field) {
	key, value, _ := strings.Cut(f.start(), "=")
	p := c.tables["git-config"]
	s := p.sub(strings.ToLower(key))
	if s == nil || !strings.Contains(f.start(), "=") || s.opts != nil && (!f.Known || s.opts["-"+value] == nil) {
		c.part.add(Unknown, "git -c "+printable(key)+" can make git run programs")
	}
}
