package redact

import (
	"strings"
	"unicode/utf8"
)

// passwordWords are names, or parts of names, of what is a password whatever it looks
// like; secretWords of what is one if it looks a little like one.
var (
	passwordWords = []string{"password", "passwd", "passphrase", "passwort", "pwd", "_pass", "-pass"}
	secretWords   = []string{
		"secret", "token", "apikey", "api_key", "api-key", "access_key", "accesskey", "access-key", "private_key",
		"privatekey", "private-key", "account_key", "accountkey", "auth_key", "authkey", "auth-key", "encryption_key",
		"encryptionkey", "signing_key", "signingkey", "master_key", "masterkey", "sharedaccesskey", "credentials",
	}
)

// dullEnds are last words of names that hold something about a secret, not the secret.
var dullEnds = wordSet("file files path dir folder name names type kind url uri urls endpoint host length len size count id ids hint " +
	"policy field fields expires expiry expiration expired ttl at version ref arn prefix suffix enabled disabled required " +
	"min max limit limits budget provider class manager cmd command prompt label index usage used hash_algorithm algorithm " +
	"reset changed created updated age format mode format scope scopes store storage lifetime timeout service")

// assignment finds what is given to a name that ends in one of the rule's words, or goes on
// after it: NAME=value, name: value, "name": "value", name => 'value', <name>value</name>,
// --name value.
func assignment(v view, start, end int, r *rule) span {
	c := &cursor{v: v, i: end}
	rest := c.skip(40, keyChars)
	from := keyStart(v, start)
	if !sensitive(v.text[from:start], v.text[start:end], rest) {
		return c.settle(span{})
	}
	a := assigned{cursor: c, rule: r, name: v.text[from:c.i], from: from}
	return c.settle(a.value())
}

// keyStart is where the name begins that has its word at start.
func keyStart(v view, start int) int {
	from := start
	for from > 0 && start-from < lookBack/2 && keyChars[v.at(from-1)] {
		from--
	}
	return from
}

// sensitive reports whether a name is one of a secret's: left of the word, the word, and
// right of it.
func sensitive(left, word, rest string) bool {
	if (word == "PWD" || word == "pwd") && (left == "" || strings.HasSuffix(lower(left), "old")) && rest == "" && word == "PWD" {
		return false // the working folder
	}
	if rest == "" {
		return true
	}
	first := rest[0]
	if first >= 'a' && first <= 'z' && !isUpper(word) && rest != "s" {
		return false // another word, such as tokenizer
	}
	if isUpper(word) && first >= 'A' && first <= 'Z' && rest != "S" {
		return false
	}
	if rest == "s" || rest == "S" {
		return lower(word) != "token"
	}
	return !dullEnds[lastWord(rest)]
}

func isUpper(s string) bool { return s != lower(s) && s == strings.ToUpper(s) }

// lastWord is the last part of a name such as _key-file or KeyFile, in lower case.
func lastWord(name string) string {
	name = strings.TrimRight(name, "_-.0123456789")
	if i := strings.LastIndexAny(name, "_-."); i >= 0 {
		name = name[i+1:]
	}
	for i := len(name) - 1; i > 0; i-- {
		if name[i] >= 'A' && name[i] <= 'Z' && name[i-1] >= 'a' && name[i-1] <= 'z' {
			name = name[i:]
			break
		}
	}
	return lower(name)
}

// assigned reads what is given to a name.
type assigned struct {
	*cursor
	rule *rule
	name string
	from int // where the name begins
}

func (a *assigned) value() span {
	named := a.i
	switch {
	case strings.HasPrefix(a.name, "-") && blank[a.peek()]:
		a.skip(8, blank)
		return a.word(func(value string) bool { return value[0] != '-' })
	case a.v.at(a.from-1) == '<' && a.take('>'):
		from := a.i
		value := a.until(longest, tagEnd)
		if a.peek() != '<' {
			return span{} // a placeholder, not an element
		}
		return a.unless(from, value, value)
	}
	_, _, quotedName := a.quote()
	a.take(']')
	spaced := a.skip(8, blank) != ""
	switch {
	case a.take('='):
		if a.peek() == '=' || a.peek() == '~' {
			return span{} // a comparison
		}
		a.take('>')
	case a.take(':'):
		if a.peek() == ':' || a.peek() == '/' {
			return span{}
		}
		if !a.take('=') && !quotedName {
			return a.yaml(named)
		}
	default:
		return span{}
	}
	spaced = a.skip(8, blank) != "" || spaced
	if mark, slashes, ok := a.openQuote(); ok {
		return a.inQuotes(mark, slashes)
	}
	if !spaced {
		return a.word(a.plausible)
	}
	return a.word(func(value string) bool { return a.plausible(value) && a.fits(value) })
}

// openQuote is quote, with what a language may write before one.
func (a *assigned) openQuote() (byte, int, bool) {
	switch a.peek() {
	case 'b', 'r', 'u', 'f', 'B', 'R', 'U', 'F':
		if next := a.ahead(1); next == '"' || next == '\'' {
			a.i++
		}
	}
	return a.quote()
}

func (a *assigned) inQuotes(mark byte, slashes int) span {
	from := a.i
	value := a.quoted(mark, slashes)
	return a.unless(from, value, value)
}

// yaml reads what stands behind a colon: a value, where the name begins its line or a
// quoted text, as a key or a header does.
func (a *assigned) yaml(named int) span {
	if !blank[a.peek()] {
		if mark, slashes, ok := a.quote(); ok {
			return a.inQuotes(mark, slashes)
		}
		if a.rule.id == "password" {
			return a.word(a.plausible)
		}
		return span{}
	}
	a.skip(64, blank)
	if mark, slashes, ok := a.openQuote(); ok {
		return a.inQuotes(mark, slashes)
	}
	if !a.leads() {
		return span{}
	}
	from := a.i
	value := a.until(longest, quoteEnd)
	if i := strings.Index(value, " #"); i >= 0 {
		value = value[:i]
	}
	value = strings.TrimRight(value, " \t")
	if strings.ContainsAny(value, " \t") && (a.rule.id != "password" || strings.Count(value, " ") > 8) {
		return span{}
	}
	if value == "|" || value == ">" || value == "|-" || value == ">-" {
		return span{}
	}
	if a.rule.id != "password" && (!a.plausible(value) || strings.ContainsAny(value, "{[&*")) {
		return span{} // code, or YAML's own
	}
	return a.unless(from, value, value)
}

// leads reports whether the name is the first thing of its line or of a quoted text.
func (a *assigned) leads() bool {
	for i := a.from - 1; i >= 0 && a.from-i < lookBack/2; i-- {
		switch c := a.v.at(i); c {
		case ' ', '\t', '-', '+', '>', ',', '{':
		case '\n', '\r', '"', '\'', '`':
			return true
		case 'n', 'r': // an escaped line end
			return a.v.at(i-1) == '\\'
		default:
			return false
		}
	}
	return a.from < lookBack/2
}

// word reads a value without quotes.
func (a *assigned) word(ok func(string) bool) span {
	if mark, slashes, quoted := a.openQuote(); quoted {
		return a.inQuotes(mark, slashes)
	}
	stop := valueEnd
	if c := a.v.at(a.from - 1); c == '?' || c == '&' {
		stop = queryEnd
	}
	from := a.i
	value := a.until(longest, stop)
	for i := 0; i+1 < len(value); i++ {
		if value[i] == '\\' && strings.IndexByte("nrt", value[i+1]) >= 0 {
			value = value[:i]
		}
	}
	value = strings.TrimRight(value, `,)}]\`)
	if value == "" || !ok(value) {
		return span{}
	}
	return a.unless(from, value, value)
}

// plausible tells a value from code: a call, or the name itself once more.
func (a *assigned) plausible(value string) bool {
	name, _, _ := strings.Cut(value, "(")
	if len(name) < len(value) && strings.Trim(lower(name), "abcdefghijklmnopqrstuvwxyz0123456789_.") == "" {
		return false
	}
	tail := value[strings.LastIndexByte(value, '.')+1:]
	return !strings.EqualFold(strings.TrimRight(tail, ",;)"), strings.TrimLeft(a.name, "-"))
}

// fits tells a value with blanks around its sign from code: token = next.
func (a *assigned) fits(value string) bool {
	if strings.ContainsAny(value, "[{") {
		return false
	}
	if a.rule.id == "password" {
		return !strings.Contains(value, ".") || strings.ContainsAny(value, "0123456789!@#$%^&*")
	}
	return len(value) >= 8 && strings.ContainsAny(value, "0123456789")
}

// unless gives a value's place, unless the value is no secret.
func (a *assigned) unless(from int, value, whole string) span {
	if harmless(value) || digits(value) && (len(value) < 4 || a.rule.id != "password") {
		return span{}
	}
	if a.rule.id != "password" && len(value) < 4 && utf8.ValidString(value) {
		return span{}
	}
	return span{start: from, end: from + len(whole)}
}
