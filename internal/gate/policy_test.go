package gate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/gate"
)

// load reads a policy as a user's would be read.
func load(t *testing.T, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(&gate.Options{Builtin: []byte(asks), NoProject: true})
	if err != nil {
		t.Fatal(err)
	}
	err = g.Check(file)
	var bad *gate.LoadError
	if err != nil && (!errors.As(err, &bad) || bad.File != file) {
		t.Fatalf("Check: err = %v (%T), want a LoadError of %s", err, err, file)
	}
	return err
}

const head = "version: 1\nrules:\n"

func TestLoadErrorsNameThePlaceAndTheMend(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an empty file", "", `begins with "version: 1"`},
		{"no version", "rules: []\n", "version is missing"},
		{"another version", "version: 2\n", ":1:10: version 2 is not known"},
		{"a list of rules only", "- name: a\n", "must be a mapping"},
		{"an unknown member", "version: 1\nruels: []\n", `:2:1: a policy has no member "ruels"; did you mean "rules"?`},
		{"an unknown member of a rule", head + "- name: a\n  progam: git\n", `:4:3: a rule has no member "progam"; did you mean "program"?`},
		{"a member in other letters", head + "- name: a\n  Program: git\n", `did you mean "program"?`},
		{"a member twice", head + "- name: a\n  program: git\n  program: ls\n", ":5:3:"},
		{"a rule without a name", head + "- program: git\n", "has no name"},
		{"a name that is a path", head + "- name: a/b\n  program: git\n", "the name"},
		{"a name with control characters", head + "- name: \"a\\e[2J\"\n  program: git\n", "the name"},
		{"two rules of a name", head + "- name: a\n  program: git\n- name: a\n  program: ls\n", `5:3: there are two rules named "a"`},
		{"an unknown verdict", head + "- name: a\n  program: git\n  verdict: alow\n", `did you mean "allow"?`},
		{"a verdict in capitals", head + "- name: a\n  program: git\n  verdict: DENY\n", "a verdict is deny, ask or allow"},
		{"an unknown place", head + "- name: a\n  program: git\n  where: hots\n", `did you mean "host"?`},
		{"an unknown risk", head + "- name: a\n  risk: [destructiv]\n", `did you mean "destructive"?`},
		{"an unknown operation", head + "- name: a\n  paths: /x\n  op: remove\n", `"remove" is not one of delete, read, write`},
		{"no condition", head + "- name: a\n  verdict: deny\n", "has no condition"},
		{"programs as a regular expression has them", head + "- name: a\n  program: ls|rm\n", "as a list"},
		{"a program with its arguments", head + "- name: a\n  program: git push\n", "no program's name"},
		{"arguments of no program", head + "- name: a\n  args: [push]\n", "args without a program"},
		{"an operation on no path", head + "- name: a\n  program: rm\n  op: delete\n", "op without paths"},
		{"an empty list", head + "- name: a\n  program: []\n", "program is empty"},
		{"an empty word", head + "- name: a\n  program: \"\"\n", "an element is empty"},
		{"null", head + "- name: a\n  program: ~\n", `a home folder "~"`},
		{"a relative program with a slash", head + "- name: a\n  program: ./git\n", "a name, or an absolute path"},
		{"a path that begins nowhere", head + "- name: a\n  paths: build/**\n", "begins with none of"},
		{"a path that goes up", head + "- name: a\n  paths: ./../x\n", "must not go up"},
		{"a path with a variable", head + "- name: a\n  paths: $HOME/x\n", "variables"},
		{"half a double star", head + "- name: a\n  paths: ./x**\n", "** stands alone"},
		{"destructive by default", "version: 1\ndefaults: {destructive: allow}\n", "cannot be allowed by default"},
		{"unknown by default", "version: 1\ndefaults: {unknown: allow}\n", "cannot be allowed by default"},
		{"privileged by default", "version: 1\ndefaults: {privileged: allow}\n", "cannot be allowed by default"},
		{"a default twice, spelled twice", "version: 1\ndefaults: {writes inside: ask, sirks: deny}\n", `no member "sirks"`},
		{"a mapping for a word", head + "- name: {a: b}\n  program: git\n", "must be a word"},
		{"two documents", "version: 1\n---\nversion: 1\n", "one document"},
		{"a tag", head + "- name: !!str a\n", "tags are not taken"},
		{"an alias", head + "- name: &x a\n  why: *x\n", "anchors and aliases are not taken"},
		{"a star that is not quoted", head + "- name: a\n  tool: *\n", "quotes"},
		{"a merge", head + "- <<: {name: a}\n  program: git\n", "anchors and aliases"},
		{"not UTF-8", "version: 1 # \xff\n", ":1: not UTF-8"},
		{"a control character", "version: 1 # \x1b[2J\n", ":1:14: a control character"},
		{"a tab for indentation", "version: 1\nrules:\n\t- name: a\n", ":3:"},
		{"a torn list", "version: 1\nrules: [\n", "policy.yaml"},
		{"a certain allow", head + "- name: a\n  program: git\n  verdict: allow\n  certain: true\n", "always certain"},
		{"certain is no word", head + "- name: a\n  program: git\n  certain: maybe\n", "true or false"},
		{"a test that fails", head + "- name: a\n  program: git\n  match:\n  - git status\n  - ls\n", `:7:5: rule a: match: the rule does not match "ls"`},
		{"a counter-test that fails", head + "- name: a\n  program: git\n  no_match: [git status]\n", `:5:14: rule a: no_match: the rule matches "git status"`},
		{"a test of a call without a tool", head + "- name: a\n  program: git\n  match: [{action: x}]\n", "names a tool"},
		{"a test with an unknown member", head + "- name: a\n  program: git\n  match: [{tool: x, arg: {}}]\n", `no member "arg"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := load(t, tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check: err = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestPoliciesThatLoad(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"a version alone", "version: 1\n"},
		{"the three spellings of a risk", "version: 1\ndefaults: {writes inside: ask, writes_outside: ask, read-only: ask}\n" +
			"rules: [{name: a, risk: [writes inside, writes_outside, read-only]}]\n"},
		{"a single word for a list", head + "- name: a\n  program: git\n  args: push\n"},
		{"numbers are words", head + "- {name: a, program: 7z, args: [-9, 10, 1.5, true]}\n"},
		{"lines that end as on Windows", "version: 1\r\nrules:\r\n- name: a\r\n  program: git\r\n  match:\r\n  - git status\r\n"},
		{"a byte order mark", "\ufeffversion: 1\n"},
		{"a sentence over lines", head + "- name: a\n  program: git\n  why: |\n    one\n    two\n"},
		{"JSON", `{"version": 1, "rules": [{"name": "a", "program": ["git"], "verdict": "ask"}]}`},
		{"a rule for a tool", head + "- name: a\n  tool: fs.*\n  paths: ['~/.ssh/**']\n  match: [{tool: fs.read_file, action: read, args: {path: /home/you/.ssh/id}}]\n" +
			"  no_match: [{tool: fs.read_file, action: read, args: {path: x}}, {tool: sysinfo, action: get}]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := load(t, tt.text); err != nil {
				t.Errorf("Check: err = %v, want none", err)
			}
		})
	}
}

// TestPolicyBombs: little text must not take much time or memory.
func TestPolicyBombs(t *testing.T) {
	wide := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		laughs += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	deep := ""
	for i := range 700 {
		deep += strings.Repeat(" ", i) + "a:\n"
	}
	for _, tt := range []struct{ name, text string }{
		{"billion laughs", laughs},
		{"brackets in brackets", "version: 1\nrules: " + wide(100_000)},
		{"braces in braces", "version: 1\nrules: " + strings.Repeat("{a: ", 60_000)},
		{"dashes after dashes", "version: 1\nrules: " + strings.Repeat("- ", 120_000) + "a"},
		{"dashes after dashes on a line of their own", "version: 1\nrules:\n" + strings.Repeat("- ", 120_000) + "a"},
		{"question marks", "version: 1\nrules:\n" + strings.Repeat("? ", 120_000) + "a"},
		{"mappings in mappings", deep},
		{"colons", "version: 1\n" + strings.Repeat("a: ", 80_000)},
		{"a large file", "version: 1\n" + strings.Repeat("# comment\n", 100_000)},
		{"a long word", head + "- name: a\n  why: " + strings.Repeat("x", 10_000) + "\n"},
		{"many rules", head + strings.Repeat("- {name: a, program: b}\n", 5_000)},
		{"a long list", head + "- name: a\n  program: [" + strings.Repeat("a,", 500) + "a]\n"},
		{"quotes", "version: 1\nrules: " + strings.Repeat(`"`, 200_001)},
		{"tags", "version: 1\nrules: " + strings.Repeat("!a ", 80_000)},
		{"blank keys", "version: 1\n" + strings.Repeat(":\n", 100_000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			if err := load(t, tt.text); err == nil {
				t.Error("Check: err = nil, want one")
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("Check took %v", took)
			}
		})
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte("version: 1\n"))
	f.Add([]byte(head + "- name: a\n  program: git\n  args: [push, '-f|--force']\n  match: [git push -f]\n"))
	f.Add([]byte(head + "- {name: a, tool: 'fs.*', paths: ['~/.ssh/**', ./x, '@secrets'], op: read, hosts: '*.x', user: root, risk: [writes inside]}\n"))
	f.Add([]byte("version: 1\ndefaults: {read-only: deny}\nrules: []\n"))
	f.Add([]byte("? a\n: - b\n  - &x c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := gate.New(&gate.Options{Builtin: append([]byte{}, text...), NoProject: true})
		var bad *gate.LoadError
		switch {
		case err == nil:
			if o := g.Show("/"); o.Error != "" {
				t.Errorf("a policy that loads is in error: %s", o.Error)
			}
		case !errors.As(err, &bad):
			t.Errorf("New: err = %v (%T), want a LoadError", err, err)
		case strings.ContainsAny(bad.Text, "\n\x1b\r"):
			t.Errorf("the error cannot be shown: %q", bad.Text)
		}
	})
}
