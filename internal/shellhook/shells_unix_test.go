//go:build unix

package shellhook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/shellhook"
)

// forEach runs a test with each shell, beside the others.
func forEach(t *testing.T, f func(t *testing.T, shell string)) {
	for _, shell := range shellhook.Shells() {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			f(t, shell)
		})
	}
}

func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		x := start(t, &setup{shell: shell})
		x.expect("nothing has run", "", -1)
		x.types("false")
		x.expect("a command that failed", "false", 1)
		x.expect("airlock itself is no last command", "false", 1)
		x.ask("ai fix")
		x.expect("nor is ai", "false", 1)
		x.ask("airlock fail")
		x.expect("nor is an airlock that fails", "false", 1)
		x.types("true")
		x.expect("a command that succeeded", "true", 0)
		x.types("sh -c 'exit 7'")
		x.expect("a command with quotes", "sh -c 'exit 7'", 7)
		x.types("")
		x.expect("an empty line changes nothing", "sh -c 'exit 7'", 7)
		x.types(`sh -c 'echo $((20+22))go; exec sleep 1000'`)
		x.shows("42go")
		x.raw("\x03")
		x.expect("a command that was interrupted", `sh -c 'echo $((20+22))go; exec sleep 1000'`, 130)
		x.types(`false "$HOME" = "\$HOME \\ * ? [a] ] } ! é" '#(x)'`)
		x.expect("signs that mean something", `false "$HOME" = "\$HOME \\ * ? [a] ] } ! é" '#(x)'`, 1)
		x.types(`no-such-program-anywhere`)
		x.expect("a command that there is not", `no-such-program-anywhere`, 127)
	})
}

func TestSeveralLines(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		"bash": "if true; then sh -c 'exit 3'; fi", "zsh": "if true\nthen sh -c 'exit 3'\nfi", "fish": "if true\nsh -c 'exit 3'\nend",
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			x := start(t, &setup{shell: shell})
			lines := []string{"if true", "then sh -c 'exit 3'", "fi"}
			if shell == "fish" {
				lines = []string{"if true", "sh -c 'exit 3'", "end"}
			}
			x.types(lines...)
			got := x.ask("airlock").Last
			if squeeze(got.Command) != squeeze(want) || got.ExitCode == nil || *got.ExitCode != 3 {
				t.Errorf("last = %q, %v, want %q, 3", got.Command, got.ExitCode, want)
			}
			x.types("sh -c '", "exit 5'")
			got = x.ask("airlock").Last
			if got.Command != "sh -c '\nexit 5'" || got.ExitCode == nil || *got.ExitCode != 5 {
				t.Errorf("last = %q, %v, want a line break in quotes, 5", got.Command, got.ExitCode)
			}
		})
	}
}

// squeeze leaves one space where there are several, and spaces where lines ended.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestHiddenCommands: what the shell does not keep, airlock is not told.
func TestHiddenCommands(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		before := map[string]string{"bash": "HISTCONTROL=ignorespace", "zsh": "setopt hist_ignore_space"}[shell]
		x := start(t, &setup{shell: shell, before: before})
		x.types("false", " sh -c 'exit 9' secret")
		for range 2 {
			got := x.ask("airlock")
			if got.Last.Command != "" || strings.Contains(strings.Join(got.Env, " "), "secret") {
				t.Errorf("after a hidden command: told %q", got.Env)
			}
		}
		x.types("sh -c 'exit 4'")
		x.expect("the next one is told again", "sh -c 'exit 4'", 4)
	})
}

// TestNothingElseSees: the variables reach airlock and no other program.
func TestNothingElseSees(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		before := map[string]string{"bash": "set -a", "zsh": "setopt all_export"}[shell]
		x := start(t, &setup{shell: shell, before: before})
		x.types("echo a-secret-word; false", "airlock ai; env >$HOME/env; echo all-'done'")
		x.shows("all-done\r\n")
		env, err := os.ReadFile(filepath.Join(x.home, "env"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(env), "\nAIRLOCK_") || strings.Contains(string(env), "BASH_FUNC") || shell != "zsh" && strings.Contains(string(env), "a-secret-word") {
			t.Errorf("another program sees %s", env)
		}
	})
}

func TestLongAndStrangeLines(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			x := start(t, &setup{shell: shell, pipe: true})
			long := "false " + strings.Repeat("é", 1<<19)
			x.types(long)
			got := x.ask("airlock").Last
			if !strings.HasPrefix(long, got.Command) || len(got.Command) < 8<<10-4 || len(got.Command) > 8<<10 || got.ExitCode == nil || *got.ExitCode != 1 {
				t.Errorf("of a line of a megabyte %d bytes are told: %.40q", len(got.Command), got.Command)
			}
			x.types("sh -c 'exit 6' \xff\xfe")
			x.expect("what is no UTF-8", "sh -c 'exit 6' \uFFFD", 6)
		})
	}
}

// TestHistory: what airlock leaves is in the shell's history after the next prompt, byte
// for byte, and nothing of it was run.
func TestHistory(t *testing.T) {
	t.Parallel()
	commands := []string{
		"echo plain", "echo 'two\nlines'", "touch $HOME/pwned", "$(touch $HOME/pwned)", "`touch $HOME/pwned`", "!! !touch", "-n dash",
		`back\slash \n \0101 %s`, "tab\there", "\x1b]0;title\a", "bytes \xff\xfe", "é", "  spaces  ", "a; touch $HOME/pwned", "last one",
	}
	for _, shell := range []string{"bash", "zsh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			x := start(t, &setup{shell: shell, env: []string{"HISTSIZE=1000"}, before: "HISTSIZE=1000 SAVEHIST=1000"})
			var raw [][]byte // which JSON holds whatever the bytes are
			for _, c := range commands {
				raw = append(raw, []byte(c))
			}
			data, err := json.Marshal(raw)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(x.home, "commands"), string(data))
			x.types("false")
			if got := x.ask("airlock leave commands"); got.History != "" {
				t.Fatalf("leaving commands: %s", got.History)
			}
			x.expect("the last command is the same", "false", 1)
			dump := map[string]string{
				"bash": `for ((i = 2; i < 40; i++)); do fc -ln $i $i 2>/dev/null; printf '\1'; done >$HOME/dump`,
				"zsh":  `zmodload zsh/parameter; for i in {1..40}; do printf '%s\1' "${history[$i]}"; done >$HOME/dump`,
			}[shell]
			x.types(dump, "echo it-is-'written'")
			x.shows("it-is-written\r\n")
			got, err := os.ReadFile(filepath.Join(x.home, "dump"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range commands {
				if !strings.Contains(string(got), strings.TrimSuffix(want, "\n")) {
					t.Errorf("%q is not in the history: %q", want, got)
				}
			}
			if _, err := os.Stat(filepath.Join(x.home, "pwned")); err == nil {
				t.Error("something of it was run")
			}
			files, err := os.ReadDir(filepath.Join(x.home, "run", "airlock"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files: %v, %v", files, err)
			}
			if st, err := files[0].Info(); err != nil || st.Size() != 0 || st.Mode().Perm() != 0o600 {
				t.Errorf("the file holds %d bytes, mode %v, %v", st.Size(), st.Mode(), err)
			}
		})
	}
}

// writeProgram writes a program. While it is open, nobody forks: a child that has not started its own program yet
// would hold it open for writing, and for that long it could not be started.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
