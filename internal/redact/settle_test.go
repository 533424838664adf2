package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"airlock/internal/redact"
)

// TestSettled puts the parts of secrets together in all disorder: what was redacted once
// stays as it is, and a Writer does as Text does.
func TestSettled(t *testing.T) {
	parts := []string{
		" ", "\n", "\t", ": ", "=", ":", "\"", "'", "\\", "\\\"", "\\n", ",", "|", "&", "?", "@", "/", "://", "<", ">", "-", "--", "_", ".", "(", ")", "[", "]", "{", "}", "$", "#",
		"password", "Password", "PASSWORD", "pwd", "_pass", "secret", "token", "TOKEN", "api_key", "authorization", "Bearer ", "Basic ", "cookie:", "machine ", "default ", "login ",
		"password ", "account ", "-u ", "--user", "mysql ", "-p", "sshpass -p", "-----BEGIN ", "PRIVATE KEY-----", "-----END ", "eyJ", "sk-", "ghp_", "AKIA", "sig=", ":AA", "Q~",
		"hunter2", "ab", "x", "1234", "123456789", "none", "correct horse", "[redacted:", "[redacted:password]", "[redacted:jwt]", "é", "\xff",
		github, jwt, pem[:120], long, long[:20], long[:36], glue("AKIA", "IOSFODNN7EXAMPLE"), "https://ann:hunter2@x", strings.Repeat("a", 40), strings.Repeat("b ", 600),
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range 2 + r.IntN(14) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := b.String()
		once := redact.Text(text)
		if again := redact.Text(once); again != once {
			t.Fatalf("what was redacted once does not stay as it is:\n   of %q\n once %q\nagain %q", text, once, again)
		}
		if got := written(t, text, 1+r.IntN(len(text))); got != once {
			t.Fatalf("written in pieces: %q\nwant %q", got, once)
		}
	}
}
