package material

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"airlock/internal/redact"
)

// RedactorOptions say which secrets are known. The zero value knows none of its own.
type RedactorOptions struct {
	// WorkDir is the folder whose .env files, and those of the folders above it in the same
	// repository, hold secrets. Empty means that no files are looked at.
	WorkDir string

	// Environ are variables, NAME=value each: the values of those whose names say that they
	// are secret are.
	Environ []string

	// Extra are secrets themselves, such as a provider's key. Those of fewer than 6 bytes are
	// not looked for.
	Extra []string
}

// A Redactor takes secrets out of texts: what package redact finds, and values that are known
// to be secret, wherever they stand, also as JSON, URLs and base64 have them. It does not
// change; it is safe for concurrent use.
type Redactor struct{ known *finder }

// Bounds of what is known.
const (
	maxEnvFiles  = 32
	maxEnvFile   = 1 << 20
	maxKnown     = 1000     // values
	maxKnownSize = 16 << 10 // of a value that is found at once; of a longer one its beginning is
)

// NewRedactor reads the .env files there are now. nil opts know no values.
func NewRedactor(opts *RedactorOptions) *Redactor {
	var o RedactorOptions
	if opts != nil {
		o = *opts
	}
	var b finderBuilder
	for _, value := range o.Extra {
		b.add(strings.TrimSpace(value), "key")
	}
	for _, pair := range o.Environ {
		if name, value, ok := strings.Cut(pair, "="); ok && secretName(name) {
			b.learn(name, value)
		}
	}
	if o.WorkDir != "" {
		for _, name := range envFiles(o.WorkDir) {
			text, err := readSmall(name, maxEnvFile)
			if err != nil {
				continue // nothing that is read elsewhere comes from a file that cannot be read
			}
			envLines(text, func(_ string, v *variable, _ string) {
				if v != nil {
					for _, value := range v.values() {
						b.learn(v.name, value)
					}
				}
			})
		}
	}
	return &Redactor{b.build()}
}

// Text redacts a text. What was redacted once stays as it is.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return redact.Text(s)
	}
	for range 4 { // with a secret out of the way another may be told, rarely
		out := r.look(s)
		if out == s {
			break
		}
		s = out
	}
	return s
}

// look takes out what is found at one look. Both look at the text as it is: a known value
// may be a part of a longer secret, or reach beyond what a rule takes for its end.
func (r *Redactor) look(s string) string {
	known, found := r.known.spans(s), redact.Spans(s)
	if len(known)+len(found) == 0 {
		return s
	}
	all := append(known, found...)
	slices.SortStableFunc(all, func(a, b redact.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	var out []byte
	done := 0
	for _, span := range all {
		if span.Start >= done {
			out = append(out, s[done:span.Start]...)
			out = append(out, "[redacted:"+span.Rule+"]"...)
		}
		done = max(done, span.End)
	}
	return string(append(out, s[done:]...))
}

// File redacts a file's text: of files that are there to hold secrets (.env files, .netrc,
// .npmrc, .pgpass, credentials) what they hold, of others what Text finds. Of name, the last
// part counts.
func (r *Redactor) File(name, text string) string {
	switch kindOf(name) {
	case envKind:
		return r.Text(redactEnv(text, r.Text))
	case netrcKind:
		return r.Text(redactNetrc(text))
	case pgpassKind:
		return r.Text(redactPgpass(text))
	case iniKind:
		return r.Text(redactINI(text))
	}
	return r.Text(text)
}

// envFiles are the .env files of a folder and of those above it in its repository, the
// nearest first.
func envFiles(dir string) []string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	all := folders(repository(dir), dir)
	slices.Reverse(all)
	var out []string
	for _, folder := range all {
		f, err := os.Open(folder)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(maxVisited) // what was listed counts
		f.Close()
		slices.Sort(names)
		for _, name := range names {
			if kindOf(name) == envKind && len(out) < maxEnvFiles {
				out = append(out, filepath.Join(folder, name))
			}
		}
	}
	return out
}

// learn adds a value if it is worth looking for, and what in it is secret by itself.
func (b *finderBuilder) learn(name, value string) {
	value = strings.TrimSpace(value)
	if !worth(name, value) {
		return
	}
	b.add(value, "env")
	if isURL(value) {
		if u, err := url.Parse(value); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok && worth("PASSWORD", password) {
				b.add(password, "env")
			}
		}
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= 16 && !plainWords(line) && !strings.HasPrefix(line, "-----") {
				b.add(line, "env")
			}
		}
	}
}
