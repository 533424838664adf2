package redact_test

import (
	"testing"

	"airlock/internal/redact"
)

func TestSmoke(t *testing.T) {
	for in, want := range map[string]string{
		"export GITHUB_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 x": "export GITHUB_TOKEN=[redacted:secret] x",
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789":                       "[redacted:github-token]",
	} {
		if got := redact.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := string(redact.JSON([]byte(`{"a":{"password":"hunter2","n":[1,"--token","abcdefgh"]},"b":"-----BEGIN"}`))); got != `{"a":{"password":"[redacted:password]","n":[1,"--token","[redacted:secret]"]},"b":"-----BEGIN"}` {
		t.Error(got)
	}
}
