package cli_test

import (
	"bytes"
	"testing"

	"airlock/internal/surface/cli"
)

func TestWhatIsSaidMovesNoCursor(t *testing.T) {
	var out bytes.Buffer
	cli.Say(&cli.Program{Stderr: &out}, "registry: %s\nand more", "\x1b[2J\revil\u202e")
	if want := "airlock: registry: \\x1b[2J\\revil\\u202e\nand more\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

func TestOnlyPlainNamesAreCompleted(t *testing.T) {
	for name, want := range map[string]bool{
		"p1": true, "p4096": true, "": false, "$(id)": false, "p1;id": false, "p1`id`": false, "p 1": false, "-f": false, "p1\n": false, "p\u202e1": false,
	} {
		if got := cli.IsPlain(name); got != want {
			t.Errorf("IsPlain(%q) = %v", name, got)
		}
	}
}
