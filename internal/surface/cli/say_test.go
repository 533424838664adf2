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
