package yamlfile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"airlock/internal/yamlfile"
)

var bounds = yamlfile.Bounds{Bytes: 1 << 20, Collections: 1000, Depth: 64, Words: 10_000, What: "such files"}

func TestJSON(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a number", "-12", `-12`},
		{"one that no machine word holds", "99999999999999999999999999", `99999999999999999999999999`},
		{"one below them", "-9223372036854775809", `-9223372036854775809`},
		{"the zeros of a fraction stay", "1.50", `1.50`},
		{"digits that a float has no room for", "0.10000000000000000000000001", `0.10000000000000000000000001`},
		{"an exponent", "1e3", `1e3`},
		{"truth", "True", `true`},
		{"yes in quotes", `"yes"`, `"yes"`},
		{"what only looks like it", "yEs", `"yEs"`},
		{"nothing", "~", `null`},
		{"a number in quotes", `"12"`, `"12"`},
		{"a time", "12:30:45", `"12:30:45"`},
		{"a day", "2024-01-01", `"2024-01-01"`},
		{"a version", "1.5.2", `"1.5.2"`},
		{"text in a block", "|\n  a\n  b\n", `"a\nb\n"`},
		{"folded text", ">\n  a\n  b\n", `"a b\n"`},
		{"what HTML would escape", `"<a>&"`, `"<a>&"`},
		{"control characters", `"\0\e\n"`, `"\u0000\u001b\n"`},
		{"members in their order", "{b: 1, a: {d: [], c: {}}}", `{"b":1,"a":{"d":[],"c":{}}}`},
		{"the same in a block", "b: 1\na:\n  d:\n  c:\n    - x\n    -\n", `{"b":1,"a":{"d":null,"c":["x",null]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := yamlfile.Parse("f.yaml", []byte(tt.text), bounds)
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.JSON("x")
			if err != nil || string(got) != tt.want {
				t.Errorf("JSON = %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestWhatIsNotMadeJSON(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"yes", "a: yes", "f.yaml:1:4: x: some readers take yes for text and some for a truth value; write true or false"},
		{"Off", "[Off]", "f.yaml:1:2: x: some readers take Off"},
		{"an octal number", "010", `write the number "010" as JSON does`},
		{"a hexadecimal one", "0x1F", `write the number "0x1F"`},
		{"one with a sign that is none", "+5", `write the number "+5"`},
		{"one with spaces of a kind", "1_000", `write the number "1_000"`},
		{"half a fraction", ".5", `write the number ".5"`},
		{"infinity", "-.inf", `write the number "-.inf"`},
		{"no number", ".nan", `write the number ".nan"`},
		{"a number beyond all", "1e999", "too long or too large"},
		{"one next to nothing", "1e-99999", "too long or too large"},
		{"one of many digits", strings.Repeat("1", 65), "too long or too large"},
		{"a number as a name", "{1: a}", "f.yaml:1:2: x: a member's name is text; put this one in quotes"},
		{"truth as a name", "{true: a}", "a member's name is text"},
		{"a mapping as a name", "{{a: b}: c}", "f.yaml:1:"},
		{"an empty name", `{"": a}`, "a member's name is empty"},
		{"a name that controls a terminal", `{"a\e[2J": a}`, `"a\x1b[2J" holds a character that cannot be seen`},
		{"a long name", "{" + strings.Repeat("a", 4097) + ": b}", "more than 4096 bytes"},
		{"a name twice", "{a: 1, a: 2}", "already defined"},
		{"the same in quotes", `{a: 1, "a": 2}`, "f.yaml:1:8: "},
		{"half a character", `"\ud800"`, "f.yaml:1:"},
		{"depth in brackets", strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested more than 32 deep"},
		{"depth in a block", staircase("a:", 40), "nested more than 32 deep"},
		{"a long text", `"` + strings.Repeat("a", 257<<10) + `"`, "more than 262144 bytes"},
		{"many texts", "[" + strings.Repeat(strings.Repeat("a", 4000)+",", 100) + "]", "more than 262144 bytes up to here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := yamlfile.Parse("f.yaml", []byte(tt.text), bounds)
			var got json.RawMessage
			if err == nil {
				got, err = n.JSON("x")
			}
			var wrong *yamlfile.Error
			if got != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("JSON = %.80s, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// staircase is a line in itself, so many times.
func staircase(line string, steps int) string {
	var b strings.Builder
	for i := range steps {
		b.WriteString(strings.Repeat(" ", i) + line + "\n")
	}
	return b.String()
}

func FuzzJSON(f *testing.F) {
	for _, text := range []string{"", "a: [1, 2.50, yes, \"no\"]\nb: {c: ~}\n", "- - - x", "a: |\n  x\n", "010", "1e5", `"\ud83d\ude00"`, "{a: &a [*a]}", "? a\n: b", "a: 'it''s'\n", "[a: b]", "{a}", "-\n- x\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := yamlfile.Parse("f.yaml", text, bounds)
		if err != nil {
			if !yamlfile.Visible(err.Error()) {
				t.Errorf("the error is not plain: %q", err)
			}
			return
		}
		got, err := n.JSON("x")
		switch {
		case err != nil && !yamlfile.Visible(err.Error()):
			t.Errorf("the error is not plain: %q", err)
		case err == nil && !json.Valid(got):
			t.Errorf("JSON(%q) = %q, which is none", text, got)
		}
	})
}
