package material

import (
	"os/user"
	"strings"
	"unicode/utf8"

	"airlock/internal/changes"
)

const (
	maxWord      = 128      // bytes of a name that the machine gives itself
	maxOSRelease = 64 << 10 // bytes of its file that are read
)

// short bounds a name.
func short(s string) string {
	if len(s) <= maxWord {
		return s
	}
	return s[:runeStart(s, maxWord)]
}

// user is who the person is to the machine.
func (g *gatherer) user() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return g.Environ("USER")
}

// distro names the distribution; empty where there is none.
func distro() string {
	for _, name := range osReleaseFiles {
		if text, err := readSmall(name, maxOSRelease); err == nil {
			if d := distroOf(text); d != "" {
				return d
			}
		}
	}
	return ""
}

// distroOf reads the format that os-release(5) describes: NAME=value lines, quoted as a
// shell does it. A line that is not of that form is passed over. The result is printable.
func distroOf(text string) string {
	var name, version string
	for line := range strings.Lines(text) {
		key, raw, ok := strings.Cut(strings.TrimRight(line, " \t\r\n"), "=")
		if !ok || key != "NAME" && key != "VERSION_ID" {
			continue
		}
		value, ok := unquoted(raw)
		if !ok {
			continue
		}
		if key == "NAME" {
			name = value
		} else {
			version = value
		}
	}
	if name == "" {
		return ""
	}
	return short(changes.Printable(strings.TrimSpace(name + " " + version)))
}

// unquoted is a value of os-release; ok is false for one that a shell would not take for a
// single word.
func unquoted(raw string) (value string, ok bool) {
	if raw == "" || !utf8.ValidString(raw) {
		return "", raw == ""
	}
	mark := raw[0]
	if mark != '"' && mark != '\'' {
		return raw, strings.Trim(raw, wordChars) == ""
	}
	if len(raw) < 2 || raw[len(raw)-1] != mark {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == mark, mark == '"' && (c == '$' || c == '`'):
			return "", false
		case c == '\\' && mark == '"':
			if i++; i == len(inner) || strings.IndexByte("$\"\\`", inner[i]) < 0 {
				return "", false
			}
			b.WriteByte(inner[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

const wordChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-+:/"
