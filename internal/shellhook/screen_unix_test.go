//go:build unix

package shellhook_test

import (
	"path/filepath"
	"testing"

	"airlock/internal/shellhook"
)

// TestScreenOfALine: what the command wrote stands below the line that called airlock, not
// below an older line with the same command.
func TestScreenOfALine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := "#!/bin/sh\necho '$ make'; echo old; echo '$ make || airlock ai fix'; echo boom; echo bang\n"
	writeProgram(t, filepath.Join(dir, "tmux"), program)
	got := shellhook.ReadPatiently(t.Context(), environ(map[string]string{
		"AIRLOCK_SHELL": "bash", "AIRLOCK_LINE": "make || airlock ai fix", "AIRLOCK_LINE_EXIT_CODE": "2",
		"TMUX": "/tmp/x,1,0", "TMUX_PANE": "%1", "PATH": dir + ":/usr/bin:/bin",
	}))
	if got.Command != "make" || got.Stderr != "boom\nbang" || got.Source != "tmux" {
		t.Errorf("Read = %+v, want the output below the line", got)
	}
}
