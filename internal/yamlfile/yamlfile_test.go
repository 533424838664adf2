package yamlfile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/yamlfile"
)

// thing is what a file of these tests says.
type thing struct {
	On    bool
	Count int
	Span  time.Duration
	Size  int64
	Word  string
	Line  string
	Lines []string
}

func (x *thing) members() yamlfile.Members {
	return yamlfile.Members{
		"on":    yamlfile.Bool(&x.On),
		"count": yamlfile.Whole(&x.Count, -1, 9),
		"bounds": yamlfile.Section(yamlfile.Members{
			"span": yamlfile.Span(&x.Span),
			"size": yamlfile.Size(&x.Size),
		}),
		"word":  yamlfile.OneOf(&x.Word, "none", "host"),
		"line":  yamlfile.Line(&x.Line),
		"lines": yamlfile.Lines(&x.Lines, 2, "[a]"),
	}
}

func read(text string) (*thing, error) {
	root, err := yamlfile.Parse("f.yaml", []byte(text), bounds)
	if err != nil || root.Empty() {
		return &thing{}, err
	}
	x := &thing{}
	return x, root.Mapping("the file", x.members())
}

func TestMapping(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       thing
	}{
		{"nothing", "", thing{}},
		{"a comment", "# x\n---\n# y\n", thing{}},
		{"null", "~\n", thing{}},
		{"all of it", "on: true\ncount: -1\nbounds: {span: 2d, size: 3K}\nword: host\nline: a b\nlines: [x, 1]\n", thing{
			On: true, Count: -1, Span: 48 * time.Hour, Size: 3072, Word: "host", Line: "a b", Lines: []string{"x", "1"},
		}},
		{"in blocks, with another system's lines", "bounds:\r\n  span: 1h30m\r\nlines:\r\n- x\r\n", thing{Span: 90 * time.Minute, Lines: []string{"x"}}},
		{"behind a mark of its encoding", "\ufeffline: x\n", thing{Line: "x"}},
		{"one member alone", "line: 4.10\n", thing{Line: "4.10"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestWrongFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a slip of the pen", "lin: x\n", `f.yaml:1:1: the file: there is no "lin"; did you mean "line"?`},
		{"one within", "bounds:\n  spann: 1h\n", `f.yaml:2:3: bounds: there is no "spann"; did you mean "span"?`},
		{"a name that is like none", "\"x\\e[2J\": 1\n", `the file: there is no "x\x1b[2J"; there is bounds, count, line, lines, on, word`},
		{"no value", "on:\n", "f.yaml:1:1: on has no value; take it out for the default"},
		{"yes", "on: yes\n", "f.yaml:1:5: on: write true or false"},
		{"too many", "count: 10\n", `f.yaml:1:8: count is "10"; write a whole number from -1 to 9`},
		{"too few", "count: -2\n", "write a whole number"},
		{"an octal number", "count: 0o7\n", "write a whole number"},
		{"a word that nearly is one", "word: hots\n", `word: there is no "hots"; did you mean "host"?`},
		{"a word like none", "word: all-of-it\n", `word: there is no "all-of-it"; there is none, host`},
		{"a span of nothing", "bounds: {span: 0s}\n", "write a time span"},
		{"a size of words", "bounds: {size: big}\n", "write a number of bytes"},
		{"one line for many", "lines: x\n", "lines is a list, such as [a]"},
		{"too many lines", "lines: [a, b, c]\n", "lines has more than 2 entries"},
		{"an alias", "line: *x\n", "f.yaml:1:7: such files have no anchors, aliases, tags or merges; what begins with * is written in quotes"},
		{"an anchor", "line: &x y\n", "such files have no anchors"},
		{"a merge", "<<: {line: x}\n", "such files have no anchors"},
		{"a directive", "%YAML 1.2\n---\nline: x\n", "such files have no anchors"},
		{"a second document", "line: x\n---\nline: y\n", "f.yaml:3:1: there is a second document"},
		{"a list", "[a]\n", "f.yaml:1:1: the file: write members, such as bounds: …"},
		{"depth in brackets", strings.Repeat("[", 65), "f.yaml:1:65: lists and mappings are nested more than 64 deep"},
		{"depth in dashes", strings.Repeat("- ", 65) + "x", "f.yaml:1:129: lists and mappings are nested more than 64 deep"},
		{"depth in question marks", strings.Repeat("? ", 65) + "x", "nested more than 64 deep"},
		{"many lists", strings.Repeat("-\n", 1001), "f.yaml:1001:1: there are too many lists"},
		{"many members", "{" + strings.Repeat("a,", 6000) + "}", "f.yaml: it has more than 10000 words and signs"},
		{"a large file", strings.Repeat("#", 1<<20+1), "f.yaml: it has more than 1048576 bytes"},
		{"what is no text", "line: \xff\n", "f.yaml: it is not UTF-8"},
		{"what is no YAML", "line: [\n", "f.yaml:1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(tt.text)
			var wrong *yamlfile.Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAnErrorIsOneLineThatCanBeSeen(t *testing.T) {
	err := &yamlfile.Error{File: "a\x1b[2J\n.yaml", Line: 3, Column: 4, Text: "x\u202ey\xff 'ok' \"\\"}
	if got, want := err.Error(), `a\x1b[2J\n.yaml:3:4: x\u202ey\xff 'ok' "\`; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
}

func TestAMemberCanBeRefusedWithAReason(t *testing.T) {
	root, err := yamlfile.Parse("f.yaml", []byte("key: x\n"), bounds)
	if err != nil {
		t.Fatal(err)
	}
	err = root.MappingBut("it", (&thing{}).members(), func(member string) string { return "no " + member + " here" })
	if want := "f.yaml:1:1: it: no key here"; fmt.Sprint(err) != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

func TestFreeMembersKeepTheirOrder(t *testing.T) {
	root, err := yamlfile.Parse("f.yaml", []byte("z: 1\na:\nm: {q: 1}\n"), bounds)
	if err != nil {
		t.Fatal(err)
	}
	members, err := root.Free("it")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, m := range members {
		line, column := m.Key.Place()
		got += fmt.Sprint(m.Name, line, ":", column, m.Value.Null(), " ")
	}
	if want := "z1:1 false a2:1 true m3:1 false "; got != want {
		t.Errorf("Free = %q, want %q", got, want)
	}
}

func TestOldBool(t *testing.T) {
	for word, want := range map[string]string{"yes": "true", "On": "true", "NO": "false", "off": "false", "oN": "", "y": "", "": "", "true": "", "none": ""} {
		got := ""
		if b := yamlfile.OldBool(word); b != nil {
			got = fmt.Sprint(*b)
		}
		if got != want {
			t.Errorf("OldBool(%q) = %q, want %q", word, got, want)
		}
	}
}
