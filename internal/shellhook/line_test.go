package shellhook_test

import (
	"strings"
	"testing"

	"airlock/internal/shellhook"
)

// TestReadOfALine: what a line says of the command before its airlock. "earlier" is the
// command before the line, "" that nothing is known.
func TestReadOfALine(t *testing.T) {
	t.Parallel()
	const earlier = "earlier"
	for _, tt := range []struct {
		name, line string
		want       string // in bash and zsh
		fish       string // in fish
		code       int    // 7 where the line's code is the command's, 1 the earlier's, -1 for none
	}{
		{"after ||", "make deploy || airlock ai fix", "make deploy", "make deploy", 7},
		{"a chain", "a && b || airlock ai fix", "a && b", "a && b", 7},
		{"the last of a list", "cd x; make || ai fix --rerun", "make", "make", 7},
		{"after a semicolon", "make; airlock ai fix", "make", "make", 7},
		{"after a chain and a semicolon", "a && b; airlock ai fix", "a && b", "a && b", 7},
		{"after a new line", "make\nairlock ai fix", "make", "make", 7},
		{"with a path", "make || /usr/bin/airlock ai fix", "make", "make", 7},
		{"as a command of its own", "make || A=b command airlock ai fix", "make", "make", 7},
		{"into a pipeline", "make || airlock ai fix | head -3", "make", "make", 7},
		{"after a pipeline", "make | tee log || ai fix", "make | tee log", "make | tee log", 7},
		{"before something else", "make || airlock ai fix || echo no", "make", "make", 7},
		{"with a redirection", "make 2>&1 || airlock ai fix", "make 2>&1", "make 2>&1", 7},
		{"an operator in quotes", `echo "a || ai fix; b" '; ai' || airlock ai fix`, `echo "a || ai fix; b" '; ai'`, `echo "a || ai fix; b" '; ai'`, 7},
		{"an operator in a comment", "make # || airlock\nai fix", "make", "make", 7},
		{"alone", "airlock ai fix", earlier, earlier, 1},
		{"alone with variables", "A=b airlock ai fix", earlier, earlier, 1},
		{"by another name", "fixit now", earlier, earlier, 1},
		{"at a pipeline's end", "git diff | airlock ai explain", earlier, earlier, 1},
		{"alone and before others", "airlock ai fix; make", earlier, earlier, 1},
		{"by another name after something", "make; fixit", "", "", -1},
		{"in the background before", "make & airlock ai fix", "", "", -1},
		{"in a loop", "for a in b; do airlock ai fix; done", "", "", -1},
		{"in a condition", "if make; then airlock ai fix; fi", "", "", -1},
		{"airlock in quotes alone", `make || "ai fix"`, "", "", -1},
		{"twice after something", "make || airlock ai fix || ai fix", "", "", -1},
		{"what does not end", "make 'x || airlock ai fix", "", "", -1},
		{"alone and without an end", "airlock ai 'x", earlier, earlier, 1},
		{"too long", "echo " + strings.Repeat("a", 8<<10) + " || airlock ai fix", "", "", -1},
		{"alone and too long", "airlock ai fix " + strings.Repeat("a", 8<<10), earlier, earlier, 1},
	} {
		for _, shell := range shellhook.Shells() {
			t.Run(shell+": "+tt.name, func(t *testing.T) {
				t.Parallel()
				got := shellhook.Read(t.Context(), environ(map[string]string{
					"AIRLOCK_SHELL": shell, "AIRLOCK_LAST_COMMAND": earlier, "AIRLOCK_LAST_EXIT_CODE": "1", "AIRLOCK_LINE": tt.line, "AIRLOCK_LINE_EXIT_CODE": "7",
				}))
				want, code := tt.want, -1
				if shell == "fish" {
					want = tt.fish
				}
				if got.ExitCode != nil {
					code = *got.ExitCode
				}
				if got.Command != want || code != tt.code {
					t.Errorf("Read = %q, %d, want %q, %d", got.Command, code, want, tt.code)
				}
			})
		}
	}
}

// TestReadOfHostileLines: here-documents and substitutions, of bash and zsh.
func TestReadOfHostileLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, line, want string }{
		{"a here-document", "cat <<E || airlock ai fix\nx || airlock ai fix\nE", ""},
		{"a here-document with a call", "cat <<E\nmake || airlock ai fix\nE", "earlier"},
		{"a substitution", `echo "$(make || airlock ai ask x)"`, "earlier"},
		{"a group", "{ make || airlock ai fix; }", ""},
		{"a subshell", "(make; airlock ai fix)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := shellhook.Read(t.Context(), environ(map[string]string{
				"AIRLOCK_SHELL": "bash", "AIRLOCK_LAST_COMMAND": "earlier", "AIRLOCK_LINE": tt.line, "AIRLOCK_LINE_EXIT_CODE": "7",
			}))
			if got.Command != tt.want {
				t.Errorf("Read = %q, want %q", got.Command, tt.want)
			}
		})
	}
	got := shellhook.Read(t.Context(), environ(map[string]string{
		"AIRLOCK_SHELL": "bash", "AIRLOCK_LINE": `make || airlock ai fix "$(date)"`, "AIRLOCK_LINE_EXIT_CODE": "7",
	}))
	if got.Command != "make" || got.ExitCode != nil {
		t.Errorf("with a substitution: Read = %+v, want no exit code", got)
	}
	got = shellhook.Read(t.Context(), environ(map[string]string{
		"AIRLOCK_SHELL": "bash", "AIRLOCK_LAST_COMMAND": "make || airlock ai fix | head", "AIRLOCK_LAST_EXIT_CODE": "0",
	}))
	if got.Command != "make" || got.ExitCode != nil {
		t.Errorf("of an earlier line whose pipeline has the code: Read = %+v, want no exit code", got)
	}
}

func FuzzReadOfALine(f *testing.F) {
	f.Add("a && b || airlock ai fix")
	f.Add("cat <<E || ai\nE")
	f.Add("echo (x '#)') | ai; or airlock")
	f.Fuzz(func(t *testing.T, line string) {
		for _, shell := range shellhook.Shells() {
			got := shellhook.Read(t.Context(), environ(map[string]string{"AIRLOCK_SHELL": shell, "AIRLOCK_LINE": line, "AIRLOCK_LINE_EXIT_CODE": "7"}))
			if !strings.Contains(strings.ToValidUTF8(strings.ReplaceAll(line, "\x00", ""), "\uFFFD"), got.Command) {
				t.Errorf("%s: Command = %q, which is not of the line %q", shell, got.Command, line)
			}
			if got.Command == "" && got.ExitCode != nil {
				t.Errorf("%s: an exit code of no command in %q", shell, line)
			}
		}
	})
}
