package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/surface/cli"
)

func TestLinesOfASession(t *testing.T) {
	tests := []struct{ name, text, command, words string }{
		{"words are a request", "list the files", "", "list the files"},
		{"a slash is a command", "/do make it so", "/do", "make it so"},
		{"a command may stand alone", "/quit", "/quit", ""},
		{"a command's words may be on lines of their own", "/do one\ntwo", "/do", "one\ntwo"},
		{"a path is no command", "/etc/hosts has which names?", "", "/etc/hosts has which names?"},
		{"a slash alone is a request", "/ is full", "", "/ is full"},
		{"an exclamation mark is for a sandbox", "! ls -l", "!", "ls -l"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if command, words := cli.SessionLine(tt.text); command != tt.command || words != tt.words {
				t.Errorf("%q is %q with %q, want %q with %q", tt.text, command, words, tt.command, tt.words)
			}
		})
	}
}

func TestWordsAreSplitAsAShellDoes(t *testing.T) {
	tests := []struct {
		text string
		want []string
		ok   bool
	}{
		{"", nil, true},
		{" a  b\tc\n", []string{"a", "b", "c"}, true},
		{`a\ b 'c d' "e f"g ''`, []string{"a b", "c d", "e fg", ""}, true},
		{`'$HOME' "a\"b" 'a\b'`, []string{"$HOME", `a"b`, `a\b`}, true},
		{`'open`, nil, false},
		{`end\`, nil, false},
	}
	for _, tt := range tests {
		got, err := cli.SplitWords(tt.text)
		if !slices.Equal(got, tt.want) || (err == nil) != tt.ok {
			t.Errorf("%q is %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
}

func TestACommandThatIsOpenGoesOn(t *testing.T) {
	tests := map[string]bool{
		"don't stop":      false,
		"!echo don't":     true,
		"!echo 'a b'":     false,
		"!for i in 1 2":   true,
		"!(cd /":          true,
		"!cat <<E\nx":     true,
		"!cat <<E\nx\nE":  false,
		"!echo )":         false,
		"/do make (a lot": false,
	}
	for text, want := range tests {
		if got := cli.IncompleteLine(text); got != want {
			t.Errorf("%q goes on: %t, want %t", text, got, want)
		}
	}
}

func TestAWrongCommandIsToldTheRightOne(t *testing.T) {
	names := []string{"/help", "/include", "/explain"}
	for name, want := range map[string]string{
		"/hlep":      "did you mean /help",
		"/explian":   "did you mean /explain",
		"/zzzz\x1b[": `there is no /zzzz\x1b[; /help lists`,
	} {
		if err := cli.NoSuchSessionCommand(name, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

func TestCompletionOfALine(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"main.go", "main_test.go", ".hidden", "with space.txt", "evil\x1b[31m", "sub/one.txt", "a'b"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "notes"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	commands := []string{"/help", "/include", "/clear", "/context"}
	tests := []struct {
		name, text string
		want       []string // each with what stands before it
	}{
		{"a command", "/he", []string{"/help "}},
		{"commands with the same beginning", "/c", []string{"/clear ", "/context "}},
		{"no words", "list ", nil},
		{"a path among words", "look at main", []string{"look at main.go ", "look at main_test.go "}},
		{"a folder goes on", "/include su", []string{"/include sub/"}},
		{"what is in a folder", "/include sub/", []string{"/include sub/one.txt "}},
		{"a name with a space", "/include wi", []string{`/include with\ space.txt `}},
		{"a name that is escaped already", `/include with\ s`, []string{`/include with\ space.txt `}},
		{"a name with a quote", "!cat a", []string{`!cat a\'b `}},
		{"hidden files only when asked for", "/include .h", []string{"/include .hidden "}},
		{"no name that cannot be shown", "/include ev", nil},
		{"a path of home", "!cat ~/no", []string{"!cat ~/notes "}},
		{"a command that is a file here", "!su", []string{"!sub/"}},
		{"an absolute path is no command", "/" + "nothing-here/x", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range cli.CompleteLine(dir, home, commands, tt.text) {
				got = append(got, tt.text[:c.From]+c.Text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q completes to %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func FuzzEscapedWord(f *testing.F) {
	for _, seed := range []string{"plain", "a b", `a\'"$(x)`, "[1]*?", "~", "größe\u202e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || strings.ContainsAny(name, "\n\x00") {
			return // no file's name, or none that is offered
		}
		words, err := cli.SplitWords(cli.EscapedWord(name))
		if err != nil || len(words) != 1 || words[0] != strings.ToValidUTF8(name, "\ufffd") && words[0] != string([]rune(name)) {
			t.Errorf("%q comes back as %q, %v", name, words, err)
		}
	})
}
