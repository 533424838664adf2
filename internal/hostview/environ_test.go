package hostview_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/hostview"
)

func TestEnviron(t *testing.T) {
	host := []string{"PATH=/bin", "LC_ALL=C", "GITHUB_TOKEN=secret", "AWS_SECRET_ACCESS_KEY=k", "EMPTY=", "=odd"}
	for _, tt := range []struct {
		name  string
		named []string
		want  map[string]string
	}{
		{"only listed variables pass", nil, map[string]string{"PATH": "/bin", "LC_ALL": "C"}},
		{"a named one passes with its value", []string{"GITHUB_TOKEN"}, map[string]string{"PATH": "/bin", "LC_ALL": "C", "GITHUB_TOKEN": "secret"}},
		{"one can be set, and the last one wins", []string{"A=1", "A=b=c"}, map[string]string{"PATH": "/bin", "LC_ALL": "C", "A": "b=c"}},
		{"a named one without a value now is left out", []string{"NOPE"}, map[string]string{"PATH": "/bin", "LC_ALL": "C"}},
		{"an empty value is a value", []string{"EMPTY"}, map[string]string{"PATH": "/bin", "LC_ALL": "C", "EMPTY": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hostview.Environ(host, tt.named)
			if err != nil || !maps.Equal(got, tt.want) {
				t.Errorf("Environ = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{"=x", "A B=c", ""} {
		if _, err := hostview.Environ(nil, []string{bad}); err == nil {
			t.Errorf("Environ(%q): no error", bad)
		}
	}
}

func TestEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n\nA=1\r\n  B=two words \nC\n")
	got, err := hostview.EnvFile(path)
	if want := "A=1|B=two words |C"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("EnvFile = %q, %v, want %q", got, err, want)
	}
	write("A=1\nB C=2\n")
	if _, err := hostview.EnvFile(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("EnvFile of a bad line: err = %v, want one that names line 2", err)
	}
	write(strings.Repeat("A=1\n", 300_000))
	if _, err := hostview.EnvFile(path); err == nil {
		t.Error("EnvFile of a huge file: no error")
	}
	if _, err := hostview.EnvFile(t.TempDir()); err == nil {
		t.Error("EnvFile of a folder: no error")
	}
}
