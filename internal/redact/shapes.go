package redact

import "strings"

// run is where the characters of a set that begin at i end, at most n of them; ok is false
// where that is not known yet.
func (v view) run(i, n int, of *alphabet) (end int, ok bool) {
	stop := min(len(v.text), i+n)
	end = i
	for end < stop && of[v.text[end]] {
		end++
	}
	return end, end < len(v.text) || end == i+n || v.last
}

// inWord reports whether the byte before i belongs to the same word. The letter at the end
// of a colour, as terminals take it, does not.
func (v view) inWord(i int) bool {
	if !alnum_[v.at(i-1)] {
		return false
	}
	for n := 2; n <= 24; n++ {
		switch c := v.at(i - n); {
		case c == '[':
			return v.at(i-n-1) != 0x1b
		case c != ';' && (c < '0' || c > '9'):
			return true
		}
	}
	return true
}

// prefixed finds a token by what it begins with.
func prefixed(v view, start, _ int, r *rule) span {
	// Azure's secrets have their mark inside: what stands before it stays.
	if v.inWord(start) && r.id != "azure-secret" {
		return span{}
	}
	for _, prefix := range r.exact {
		if !strings.HasPrefix(v.text[start:], prefix) {
			continue
		}
		from := start + len(prefix)
		end, ok := v.run(from, r.max+1, r.of)
		switch {
		case end-from > r.max:
			return span{}
		case !ok:
			return undecided
		case end-from < r.min || !mixed(v.text[from:end]):
			return span{}
		}
		return span{start: start, end: end}
	}
	return span{}
}

// mixed tells a token from a word, a placeholder such as xxxxxxxx, and a name: it is made
// of several different characters.
func mixed(s string) bool {
	var seen [256]bool
	n := 0
	for i := range len(s) {
		if !seen[s[i]] {
			seen[s[i]] = true
			n++
		}
	}
	return n >= 6
}

// jwt finds a JSON Web Token: three parts of base64, the first two of which hold objects.
func jwt(v view, start, end int, _ *rule) span {
	if v.inWord(start) || v.text[start:end] != "eyJ" {
		return span{}
	}
	at := start
	for part := range 3 {
		stop, ok := v.run(at, jwtPart, base64u)
		switch {
		case !ok:
			return undecided
		case part == 2:
			return span{start: start, end: stop} // an unsigned one ends with its dot
		case stop-at < 8 || stop-at == jwtPart:
			return span{}
		case v.open(stop):
			return undecided
		case v.at(stop) != '.':
			return span{}
		}
		at = stop + 1
		if part == 0 {
			if v.open(at + 2) {
				return undecided
			}
			if !strings.HasPrefix(v.text[at:], "eyJ") {
				return span{}
			}
		}
	}
	return span{}
}

const jwtPart = 16 << 10

// privateKey finds a PEM or PGP block of a private key, whole or cut off.
func privateKey(v view, start, end int, _ *rule) span {
	line := min(len(v.text), end+64)
	dashes := strings.Index(v.text[end:line], "-----")
	if dashes < 0 {
		if v.open(end + 63) {
			return undecided
		}
		return span{}
	}
	label := v.text[end : end+dashes]
	if !strings.HasSuffix(label, "PRIVATE KEY") && label != "PGP PRIVATE KEY BLOCK" {
		return span{}
	}
	body := end + dashes + len("-----")
	at, stop := body, min(len(v.text), body+keyBlock)
	for at < stop && keyBody[v.text[at]] {
		if v.text[at] == '-' {
			switch rest := v.text[at:min(len(v.text), at+5)]; {
			case rest == "-----":
				return keyEnd(v, start, at)
			case strings.HasPrefix("-----", rest) && v.open(at+4):
				return undecided
			}
		}
		at++
	}
	switch {
	case at == len(v.text) && !v.last && at < body+keyBlock:
		return undecided
	case at-body < 40:
		return span{}
	}
	return span{start: start, end: at}
}

// keyEnd finds the end of a block's last line, which begins at.
func keyEnd(v view, start, at int) span {
	stop := min(len(v.text), at+5+64)
	if i := strings.Index(v.text[at+5:stop], "-----"); i >= 0 {
		return span{start: start, end: at + 5 + i + 5}
	}
	if v.open(at + 5 + 63) {
		return undecided
	}
	return span{start: start, end: at + 5, reach: stop}
}

const keyBlock = 64 << 10

// keyBody is what stands in a block: base64, headers, and line ends as they are or escaped.
var keyBody = letters("azAZ09++//==--  \t\t\r\r\n\n\\\\::,,..(())@@")

// telegram finds a bot's token behind the bot's number.
func telegram(v view, start, _ int, _ *rule) span {
	digits := 0
	for i := start - 1; digits <= 10 && '0' <= v.at(i) && v.at(i) <= '9'; i-- {
		digits++
	}
	if digits < 8 || digits > 10 {
		return span{}
	}
	end, ok := v.run(start+1, 36, base64u)
	switch {
	case end-start-1 > 35:
		return span{}
	case !ok:
		return undecided
	case end-start-1 != 35 || !strings.HasPrefix(v.text[start:], ":AA"):
		return span{}
	}
	return span{start: start + 1, end: end}
}

// signature finds the signature of a signed URL.
func signature(v view, start, end int, _ *rule) span {
	if c := v.at(start - 1); c != '&' && c != '?' && c != ';' {
		return span{}
	}
	stop, ok := v.run(end, 512, signatureOf)
	switch {
	case !ok:
		return undecided
	case stop-end < 32:
		return span{}
	}
	return span{start: end, end: stop}
}

// redacted finds what stands in a secret's place already.
func redacted(v view, start, end int, _ *rule) span {
	stop, ok := v.run(end, 32, markOf)
	switch {
	case !ok || v.open(stop):
		return undecided
	case v.text[start:end] != markStart || v.at(stop) != ']':
		return span{}
	}
	return span{start: start, end: stop + 1}
}
