package redact

import "strings"

// authorization finds what stands in a header of that name, behind the scheme if there is
// one.
func authorization(v view, _, end int, _ *rule) span {
	c := &cursor{v: v, i: end}
	c.quote()
	c.skip(8, blank)
	if !c.take(':') && !c.take('=') {
		return c.settle(span{})
	}
	c.skip(8, blank)
	c.quote()
	from := c.i
	value := strings.TrimRight(c.until(longest, quoteEnd), " \t\\")
	scheme, rest, found := strings.Cut(value, " ")
	switch {
	case found && len(scheme) <= 24 && strings.Trim(lower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789-") == "":
		left := strings.TrimLeft(rest, " ")
		from += len(value) - len(left)
		value = left
	case len(value) < 8 || !mixed(value):
		return c.settle(span{})
	}
	if harmless(value) || strings.HasPrefix(value, markStart) {
		return c.settle(span{})
	}
	return c.settle(span{start: from, end: from + len(value)})
}

// bearer finds a token behind that word, wherever it stands.
func bearer(v view, start, end int, _ *rule) span {
	if v.inWord(start) {
		return span{}
	}
	stop, ok := v.run(end, longest, bearerOf)
	value := v.text[end:stop]
	switch {
	case !ok:
		return undecided
	case len(value) < 16 || !strings.ContainsAny(value, "0123456789") || !mixed(value):
		return span{}
	}
	return span{start: end, end: stop}
}

// cookie finds what a browser is known by.
func cookie(v view, _, end int, _ *rule) span {
	c := &cursor{v: v, i: end}
	c.skip(8, blank)
	from := c.i
	value := strings.TrimRight(c.until(longest, quoteEnd), " \t\\")
	if !strings.Contains(value, "=") || harmless(value) || strings.HasPrefix(value, markStart) {
		return c.settle(span{})
	}
	return c.settle(span{start: from, end: from + len(value)})
}

// urlPassword finds a password, or a token in the place of the user's name, before a
// URL's host.
func urlPassword(v view, _, end int, _ *rule) span {
	c := &cursor{v: v, i: end}
	text := c.until(1024, authority)
	at := strings.LastIndexByte(text, '@')
	if at <= 0 {
		return c.settle(span{})
	}
	user, password, found := cutUser(text[:at])
	switch {
	case found && !harmless(password):
		return c.settle(span{start: end + len(user) + 1, end: end + at})
	case !found && !strings.Contains(user, markStart) && len(user) >= 20 && mixed(user) && strings.ContainsAny(user, "0123456789"):
		return c.settle(span{start: end, end: end + at})
	}
	return c.settle(span{})
}

// cutUser cuts user:password. The colon in what stands in a secret's place is none.
func cutUser(text string) (user, password string, found bool) {
	i := strings.IndexByte(strings.ReplaceAll(text, markStart, strings.Repeat("_", len(markStart))), ':')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// netrc finds the password of an entry: machine NAME login USER password SECRET.
func netrc(v view, start, end int, _ *rule) span {
	if v.inWord(start) {
		return span{}
	}
	c := &cursor{v: v, i: end}
	if lower(v.text[start:end]) != "machine" {
		if start > 0 && !lineEnd[v.at(start-1)] {
			return span{} // of every host, it stands at its line's beginning
		}
	} else {
		if c.skip(8, blank) == "" || c.until(256, space) == "" {
			return c.settle(span{})
		}
	}
	for range 3 {
		if c.skip(64, space) == "" {
			break
		}
		name := c.until(16, space)
		if name != "login" && name != "account" && name != "password" || c.skip(64, space) == "" {
			break
		}
		from := c.i
		value := c.until(512, space)
		if name == "password" {
			if harmless(value) {
				break
			}
			return c.settle(span{start: from, end: from + len(value)})
		}
	}
	return c.settle(span{})
}

// userPassword finds the password in curl's option: -u NAME:PASSWORD.
func userPassword(v view, start, end int, _ *rule) span {
	if before := v.at(start - 1); start > 0 && !space[before] && before != '"' && before != '\'' {
		return span{}
	}
	c := &cursor{v: v, i: end}
	if !c.take('=') {
		c.skip(8, blank)
	}
	c.quote()
	from := c.i
	user, password, found := cutUser(c.until(512, valueEnd))
	if !found || user == "" || harmless(password) || digits(user) && digits(password) {
		return c.settle(span{})
	}
	from += len(user) + 1
	return c.settle(span{start: from, end: from + len(password)})
}

// sshpass finds the password that is given on its command line.
func sshpass(v view, _, end int, _ *rule) span {
	c := &cursor{v: v, i: end}
	c.skip(8, blank)
	if mark, slashes, ok := c.quote(); ok {
		from := c.i
		return c.settle(span{start: from, end: from + len(c.quoted(mark, slashes))})
	}
	from := c.i
	value := c.until(512, valueEnd)
	if harmless(value) {
		return c.settle(span{})
	}
	return c.settle(span{start: from, end: from + len(value)})
}

// mysqlLine is how far behind the program's name its password is looked for.
const mysqlLine = 300

// mysqlPassword finds the password that mysql and its kin take right behind -p.
func mysqlPassword(v view, _, end int, _ *rule) span {
	stop := min(len(v.text), end+mysqlLine)
	for i := end; i < stop; i++ {
		switch v.text[i] {
		case '\n', '\r', ';', '|', '&':
			return span{}
		case ' ':
		default:
			continue
		}
		from := i + len(" -p")
		if from >= stop || v.text[i+1:from] != "-p" || v.text[from] == ' ' {
			continue
		}
		if v.text[from] == '"' || v.text[from] == '\'' {
			from++
		}
		to := from
		for to < stop && !strings.ContainsRune(" \t\r\n;|&\"'\\", rune(v.text[to])) {
			to++
		}
		if to == len(v.text) && v.open(to) {
			return undecided
		}
		return span{start: from, end: to}
	}
	if stop == len(v.text) && v.open(stop) {
		return undecided
	}
	return span{}
}
