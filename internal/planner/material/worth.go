package material

import (
	"net/url"
	"strings"

	"airlock/internal/redact"
)

// shortest is how long a value must be at least to be looked for in other texts: shorter ones
// would be found where they are not meant.
const shortest = 6

// plainValues are values of secrets' variables that are everybody's: taking them out of
// texts would hide nothing, and garble much.
const plainValues = " password passwd secret secrets changeme default example examples postgres postgresql mysql mariadb mongodb redis " +
	"rabbitmq elastic minioadmin development production staging testing localhost docker airlock anonymous nobody administrator " +
	"system github gitlab disabled enabled optional required private public username root admin guest test user true false " +
	"none null undefined master string number "

// secretName reports whether a variable's name says that its value is secret.
func secretName(name string) bool {
	if redact.Name(name) {
		return true
	}
	up := strings.ToUpper(name)
	for _, end := range []string{"_KEY", "_PAT", "_PASS", "_PW", "_CRED", "_CREDS", "_AUTH", "_DSN", "_SALT", "_WEBHOOK", "_COOKIE", "_JWT"} {
		if strings.HasSuffix(up, end) {
			return !strings.HasSuffix(up, "PUBLIC_KEY")
		}
	}
	return false
}

// worth reports whether a value is looked for in other texts. Of a variable whose name says
// nothing, a value of words, a number, a path or an address without credentials is not.
func worth(name, value string) bool {
	if len(value) < shortest || strings.Contains(plainValues, " "+strings.ToLower(value)+" ") || placeholder(value) {
		return false
	}
	if isURL(value) {
		return !plainURL(value)
	}
	if secretName(name) {
		return !pathLike(value)
	}
	return !plainNumber(value) && !pathLike(value) && !plainWords(value)
}

// placeholder reports whether a value stands for one that is to be put there, or refers to
// another.
func placeholder(value string) bool {
	switch {
	case strings.Trim(value, "*xX.•-_? ") == "":
		return true
	case strings.HasPrefix(value, "[redacted:"):
		return true
	case value[0] == '<' && value[len(value)-1] == '>':
		return true
	case value[0] == '$' && (strings.HasPrefix(value, "${") || strings.HasPrefix(value, "$(") || wordOf(value[1:], capitals+"_"+figures)):
		return true
	case strings.HasPrefix(value, "{{"):
		return true
	}
	for _, part := range strings.FieldsFunc(strings.ToLower(value), notLetter) {
		switch part {
		case "your", "placeholder", "changeme", "replace", "insert", "example", "sample", "dummy", "todo":
			return strings.Trim(strings.ToLower(value), letters+"-_. ") == ""
		}
	}
	return false
}

const (
	letters  = "abcdefghijklmnopqrstuvwxyz"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	figures  = "0123456789"
)

func notLetter(r rune) bool { return r < 'a' || r > 'z' }

func wordOf(s, of string) bool { return s != "" && strings.Trim(s, of) == "" }

func isURL(value string) bool {
	i := strings.Index(value, "://")
	return i > 0 && wordOf(strings.ToLower(value[:i]), letters+figures+"+-.")
}

// plainURL reports whether a URL has nothing secret in it: no user, and a path and a query of
// words.
func plainURL(value string) bool {
	u, err := url.Parse(value)
	if err != nil || u.User != nil {
		return false
	}
	return plainParts(u.Host) && plainParts(u.Path) && plainParts(u.RawQuery) && plainParts(u.Fragment)
}

// plainNumber reports whether a value counts or measures something.
func plainNumber(value string) bool {
	if !wordOf(value, figures+".,:-+TZ_ ") {
		return false
	}
	only := strings.Trim(value, figures) == ""
	return !only || len(value) <= 5 || strings.HasSuffix(value, "000")
}

// pathLike reports whether a value is a path, without a part that looks like a key.
func pathLike(value string) bool {
	rooted := strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || strings.HasPrefix(value, "~/")
	if !rooted || !wordOf(strings.ToLower(value), letters+figures+"/._-~@: ") {
		return false
	}
	for part := range strings.SplitSeq(value, "/") {
		if len(part) >= 16 && !plainParts(part) {
			return false
		}
	}
	return true
}

// plainWords reports whether a value is made of words, names and short numbers: eu-west-1,
// db.example.org:5432, "My Application".
func plainWords(value string) bool {
	if len(value) > 64 {
		return strings.Count(value, " ")*16 > len(value) && plainParts(value) // a sentence
	}
	return plainParts(value)
}

// plainParts reports whether what stands between signs are words and short numbers, and at
// most one of them both: v2, 30s.
func plainParts(value string) bool {
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n-_./:,;@+=&?'\"()[]*|<>~%!#\\", r) })
	odd := 0
	for _, part := range parts {
		switch {
		case wordOf(part, figures) && len(part) <= 5:
		case len(part) <= 16 && (wordOf(part, letters) || wordOf(part[1:], letters) && wordOf(part[:1], capitals) || wordOf(part, capitals)):
		case len(part) == 1:
		case len(part) <= 5 && len(parts) > 1 && wordOf(part, letters+figures):
			odd++
		default:
			return false
		}
	}
	return odd <= 1
}
