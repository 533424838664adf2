//go:build unix

package shellhook_test

import (
	"os"
	"path/filepath"
	"testing"
)

// asks types a line that calls airlock, and checks what it was told; -1 for no exit code.
func (x *session) asks(line, command string, code int) {
	x.t.Helper()
	got := x.ask(line).Last
	gotCode := -1
	if got.ExitCode != nil {
		gotCode = *got.ExitCode
	}
	if got.Command != command || gotCode != code {
		x.t.Errorf("%s: last = %q, %d, want %q, %d", line, got.Command, gotCode, command, code)
	}
}

// TestAfterSomethingInTheSameLine: what airlock was called after is the last command.
func TestAfterSomethingInTheSameLine(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		before := map[string]string{"bash": "HISTCONTROL=ignoreboth", "zsh": "setopt hist_ignore_space hist_ignore_dups"}[shell]
		x := start(t, &setup{shell: shell, before: before})
		x.types("true earlier")
		x.asks("sh -c 'exit 3' || airlock ai fix", "sh -c 'exit 3'", 3)
		x.asks("sh -c 'exit 3' || airlock ai fix", "sh -c 'exit 3'", 3) // which leaves no second entry
		x.expect("it is the last command of the next line, too", "sh -c 'exit 3'", 3)
		x.expect("and of the one after that", "sh -c 'exit 3'", 3)
		x.types("sh -c 'exit 9'")
		x.asks("sh -c 'exit 4'; airlock ai fix", "sh -c 'exit 4'", 4)
		x.asks("true; ai fix", "true", 0)
		x.asks("true && sh -c 'exit 5' || airlock ai fix", "true && sh -c 'exit 5'", 5)
		x.asks("cd .; sh -c 'exit 6' || ai fix --rerun", "sh -c 'exit 6'", 6)
		x.asks(`false "|| airlock ai fix; x" || airlock ai fix`, `false "|| airlock ai fix; x"`, 1)
		x.types("sh -c 'exit 7'")
		x.asks("echo x | airlock ai explain", "sh -c 'exit 7'", 7)
		x.types("sh -c 'exit 8'")
		x.asks("A=b airlock ai fix", "sh -c 'exit 8'", 8)
		got := x.ask(" sh -c 'exit 9' secret || airlock ai fix").Last
		if got.Command != "" || got.ExitCode != nil {
			t.Errorf("after a hidden command of the same line: told %+v", got)
		}
		if shell == "fish" {
			x.asks("sh -c 'exit 3'; or airlock ai fix", "sh -c 'exit 3'", 3)
		} else {
			x.asks("sh -c '\nexit 3' ||\nairlock ai fix", "sh -c '\nexit 3'", 3)
		}
	})
}

// TestAPipelineThatBeganWithAirlock: of which the shell is not told that airlock ran.
func TestAPipelineThatBeganWithAirlock(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		x := start(t, &setup{shell: shell})
		x.types("sh -c 'exit 3'")
		for _, line := range []string{"airlock ai fix | head -3", "ai fix | cat", "A=b airlock ai fix | cat"} {
			x.asks(line, "sh -c 'exit 3'", 3)
		}
		x.types("command airlock x | cat")
		x.expect("after them", "sh -c 'exit 3'", 3)
		x.types("sh -c 'exit 4'")
		x.expect("after another command", "sh -c 'exit 4'", 4)
	})
}

// TestALinkCalledAi: an ai on PATH that is airlock itself is told the same, another is left alone.
func TestALinkCalledAi(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		for _, tt := range []struct {
			name, before string
			ours         bool
		}{
			{"a link to airlock", "", true},
			{"another program", "", false},
			{"an alias", "alias ai='echo my''own'", false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				exe, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				if tt.name == "another program" {
					writeProgram(t, filepath.Join(dir, "ai"), "#!/bin/sh\necho my''own\n")
				} else if err := os.Symlink(exe, filepath.Join(dir, "ai")); err != nil {
					t.Fatal(err)
				}
				x := start(t, &setup{shell: shell, before: tt.before, env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}})
				if tt.ours {
					x.types("sh -c 'exit 3'")
					x.asks("ai fix", "sh -c 'exit 3'", 3)
					return
				}
				x.types("ai fix")
				x.shows("myown")
			})
		}
	})
}
