package material

import (
	"path/filepath"
	"strings"
)

// A fileKind is how a file that is there to hold secrets is read.
type fileKind int

const (
	otherKind fileKind = iota
	envKind
	netrcKind
	pgpassKind
	iniKind
)

// kindOf tells by a file's name.
func kindOf(name string) fileKind {
	base := strings.ToLower(filepath.Base(filepath.ToSlash(name)))
	switch {
	case base == ".env" || strings.HasPrefix(base, ".env.") || base == ".envrc" || strings.HasSuffix(base, ".env"):
		return envKind
	case base == ".netrc" || base == "_netrc":
		return netrcKind
	case base == ".pgpass" || base == "pgpass.conf":
		return pgpassKind
	case base == "credentials" || base == "credentials.toml" || base == ".npmrc" || base == ".pypirc":
		return iniKind
	}
	return otherKind
}

const fileMark = "[redacted:file]"

// redactNetrc takes out what follows password and account, and the commands of macros.
func redactNetrc(text string) string {
	var b strings.Builder
	before := ""
	for i := 0; i < len(text); {
		n := i
		for n < len(text) && strings.IndexByte(" \t\r\n", text[n]) >= 0 {
			n++
		}
		b.WriteString(text[i:n])
		i = n
		for n < len(text) && strings.IndexByte(" \t\r\n", text[n]) < 0 {
			n++
		}
		word := text[i:n]
		if i = n; before == "password" || before == "account" {
			b.WriteString(fileMark)
			before = ""
			continue
		}
		b.WriteString(word)
		before = word
	}
	return b.String()
}

// redactPgpass takes out the last of host:port:database:user:password.
func redactPgpass(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		at, fields := 0, 0
		for i := 0; i < len(body) && fields < 4; i++ {
			switch body[i] {
			case '\\':
				i++
			case ':':
				fields++
				at = i + 1
			}
		}
		if fields == 4 && at < len(body) {
			b.WriteString(body[:at] + fileMark + line[len(body):])
		} else {
			b.WriteString(line)
		}
	}
	return b.String()
}

// dullSettings are names in such files whose values are no secrets.
const dullSettings = " registry region output cache prefix proxy https-proxy noproxy repository index-servers username save-exact save-prefix " +
	"engine-strict strict-ssl always-auth fund audit loglevel package-lock legacy-peer-deps "

// redactINI takes out the values of NAME = value lines, but for those that say where and how.
func redactINI(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		i := strings.IndexByte(body, '=')
		if i < 0 {
			b.WriteString(line)
			continue
		}
		name := strings.ToLower(strings.Trim(body[:i], " \t#;"))
		if j := strings.LastIndexByte(name, ':'); j >= 0 {
			name = name[j+1:]
		}
		at := skip(body, i+1, " \t")
		if at == len(body) || strings.Contains(dullSettings, " "+name+" ") {
			b.WriteString(line)
			continue
		}
		b.WriteString(body[:at] + fileMark + line[len(body):])
	}
	return b.String()
}
