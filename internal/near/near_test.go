package near_test

import (
	"strings"
	"testing"

	"airlock/internal/near"
)

func TestName(t *testing.T) {
	names := []string{"verdict", "version", "fs.read_file", "fs.write_file", "ok", "why"}
	for _, tt := range []struct{ name, typed, want string }{
		{"a letter too few", "verdct", "verdict"},
		{"letters in another order", "vesrion", "version"},
		{"another case", "VERSION", "version"},
		{"a part of a name", "read_file", "fs.read_file"},
		{"a name itself", "why", "why"},
		{"nothing like any", "colour", ""},
		{"a single letter says nothing", "v", ""},
		{"nor does nothing", "", ""},
		{"nor what has no end", strings.Repeat("version", 100), ""},
		{"a short name is not meant by what shares nothing with it", "xy", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := near.Name(tt.typed, names); got != tt.want {
				t.Errorf("Name(%q) = %q, want %q", tt.typed, got, tt.want)
			}
		})
	}
}
