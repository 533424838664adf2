package shellhook_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"airlock/internal/shellhook"
)

func environ(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		shell   string
		command string
		code    string
		want    string
		code0   int // -1 for none
	}{
		{"a command and its code", "bash", "make", "2", "make", 2},
		{"no hook", "", "make", "2", "", -1},
		{"a shell that there is no hook for", "tcsh", "make", "2", "", -1},
		{"a code without a command means nothing", "zsh", "", "1", "", -1},
		{"no code", "zsh", "make", "", "make", -1},
		{"a code with a sign", "zsh", "make", "+1", "make", -1},
		{"a negative code", "zsh", "make", "-1", "make", -1},
		{"a code with a zero before it", "zsh", "make", "01", "make", -1},
		{"a code that no program has", "zsh", "make", "256", "make", -1},
		{"a code with words after it", "zsh", "make", "1 and more", "make", -1},
		{"the largest code", "fish", "make", "255", "make", 255},
		{"lines stay lines, and the last needs no end", "fish", "if true\nfalse\nend\n", "1", "if true\nfalse\nend", 1},
		{"what is no UTF-8", "bash", "a\xffb\xf0\x9f", "1", "a\uFFFDb\uFFFD", 1},
		{"too long", "bash", strings.Repeat("é", 1<<20), "1", strings.Repeat("é", 4<<10), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := shellhook.Read(t.Context(), environ(map[string]string{
				"AIRLOCK_SHELL": tt.shell, "AIRLOCK_LAST_COMMAND": tt.command, "AIRLOCK_LAST_EXIT_CODE": tt.code,
			}))
			code := -1
			if got.ExitCode != nil {
				code = *got.ExitCode
			}
			if got.Command != tt.want || code != tt.code0 || got.Stderr != "" || got.Source != "" {
				t.Errorf("Read = %.80q, %d, %q, want %.80q, %d", got.Command, code, got.Stderr, tt.want, tt.code0)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, screen, command, want string }{
		{"between the command and the call", "$ make\nboom\n$ ai fix\n", "make", "boom"},
		{"the last time it ran", "$ make\nold\n$ make\nnew\n$ ls\nx\n$ airlock ai fix", "make", "new\n$ ls\nx"},
		{"a command in the call does not count", "$ make\nboom\n$ ai explain make\n", "make", "boom"},
		{"nothing was written", "$ make\n$ ai fix", "make", ""},
		{"a command that is not there", "$ ls\nx\n$ ai fix", "make", ""},
		{"the end of another word is not the command", "$ cmake\nx\n$ ai fix", "make", ""},
		{"no call", "$ make\nboom", "make", ""},
		{"several lines", "$ if true\n> then make\n> fi\nboom\n$ ai", "if true\nthen make\nfi", "boom"},
		{"an empty screen", "", "make", ""},
		{"a long output is cut at its start", "$ make\n" + strings.Repeat("a\n", 8<<10) + "the end\n$ ai", "make", strings.Repeat("a\n", 4<<10-4) + "\nthe end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := shellhook.Output(tt.screen, tt.command)
			if tt.name == "a long output is cut at its start" {
				if len(got) != 8<<10 || !strings.HasSuffix(got, "the end") {
					t.Errorf("Output = %d bytes that end with %q", len(got), got[max(0, len(got)-20):])
				}
				return
			}
			if got != tt.want {
				t.Errorf("Output = %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("$ make\nboom\n$ ai fix\n", "make")
	f.Add("\xff\n\n ai", "\n")
	f.Fuzz(func(t *testing.T, screen, command string) {
		got := shellhook.Output(screen, command)
		if len(got) > 8<<10 || !utf8.ValidString(got) {
			t.Errorf("Output = %d bytes, valid: %t", len(got), utf8.ValidString(got))
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("make", "1")
	f.Add("\xff\x00", "-0")
	f.Fuzz(func(t *testing.T, command, code string) {
		got := shellhook.Read(t.Context(), environ(map[string]string{"AIRLOCK_SHELL": "zsh", "AIRLOCK_LAST_COMMAND": command, "AIRLOCK_LAST_EXIT_CODE": code}))
		if len(got.Command) > 8<<10 || !utf8.ValidString(got.Command) || strings.ContainsRune(got.Command, 0) {
			t.Errorf("Command = %q", got.Command)
		}
		if got.ExitCode != nil && (*got.ExitCode < 0 || *got.ExitCode > 255) {
			t.Errorf("ExitCode = %d", *got.ExitCode)
		}
	})
}

func TestScript(t *testing.T) {
	t.Parallel()
	if _, err := shellhook.Script("tcsh", "/bin/airlock", nil); !errors.Is(err, shellhook.ErrShell) {
		t.Errorf("Script of an unknown shell: err = %v, want %v", err, shellhook.ErrShell)
	}
	for _, path := range []string{"airlock", "", "/a\x00b"} {
		if _, err := shellhook.Script("bash", path, nil); err == nil {
			t.Errorf("Script with the program %q: no error", path)
		}
	}
	for _, shell := range shellhook.Shells() {
		script, err := shellhook.Script(shell, "/o'p\\t/@FOLDER@/airlock", nil)
		want := `'/o'\''p\t/@FOLDER@/airlock'`
		if shell == "fish" {
			want = `'/o\'p\\t/@FOLDER@/airlock'`
		}
		if err != nil || !strings.Contains(script, want) {
			t.Errorf("Script(%s): err = %v; it must have %s", shell, err, want)
		}
	}
}
