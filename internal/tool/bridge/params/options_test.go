package params_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/setup"
)

func TestOptions(t *testing.T) {
	tests := []struct {
		name, args string
		want       []string
	}{
		{"the original's options, in args' order", `{"repo_name":"a/b","issue_number":7}`, []string{"--issue", "7", "--repo", "a/b", "--dry-run"}},
		{"false and null are not given", `{"dry_run":false,"repo_name":null}`, nil},
		{"other parameters are not given", `{"dry_run":null,"other":"x"}`, nil},
		{"a value is one word, whatever it holds", `{"dry_run":null,"repo_name":"a b\n$(c) --evil"}`, []string{"--repo", "a b\n$(c) --evil"}},
		{"an empty text is a word", `{"dry_run":null,"repo_name":""}`, []string{"--repo", ""}},
		{"a value is no option", `{"dry_run":null,"repo_name":"--evil"}`, []string{"--repo=--evil"}},
		{"nor is a dash, nor the end of options", `{"dry_run":null,"repo_name":["-","--"]}`, []string{"--repo=-", "--repo=--"}},
		{"a number below 0", `{"dry_run":null,"issue_number":-1.50}`, []string{"--issue=-1.50"}},
		{"numbers are as they are written", `{"dry_run":null,"issue_number":1e3}`, []string{"--issue", "1e3"}},
		{"a list is given element by element", `{"dry_run":null,"repo_name":["a",1,true,false,null,"-b",[1,["x"]],{"k":"<v>"}]}`, []string{"--repo", "a", "--repo", "1", "--repo", "--repo=-b", "--repo", `[1,["x"]]`, "--repo", `{"k":"<v>"}`}},
		{"an empty list is not given", `{"dry_run":null,"repo_name":[]}`, nil},
		{"an object is JSON", `{"dry_run":null,"repo_name":{"b":1.0,"a":"-"}}`, []string{"--repo", `{"a":"-","b":1.0}`}},
	}
	r := rules(t, labelAgent(), &setup.Security{MaxParams: 1 << 20})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			prepared, _, err := r.Prepare(json.RawMessage(test.args))
			if err != nil {
				t.Fatalf("Prepare: %v", err)
			}
			got, err := r.Options(prepared)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("Options = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestOptionsThatDoNotFitAreFoundBeforeAnythingIsStarted(t *testing.T) {
	a := labelAgent()
	a.Params = map[string]setup.Rule{"note": {Raw: true, MaxLength: 1 << 20}}
	a.Args = append(a.Args, setup.Option{Param: "note", Flag: "--note"})
	kib := strings.Repeat("x", 1<<10)
	tests := []struct{ name, note, want string }{
		{"a NUL", `"a\u0000b"`, "Invalid note: has a NUL character"},
		{"a word that is too long", `"` + strings.Repeat(kib, 101) + `"`, "Invalid note: has 103424 bytes, more than the 102400"},
		{"an object that is too long", `{"a":["` + strings.Repeat(kib, 60) + `","` + strings.Repeat(kib, 60) + `"]}`, "bytes, more than the 102400"},
		{"many words", `[` + strings.Repeat(`"`+strings.Repeat(kib, 90)+`",`, 5) + `"` + strings.Repeat(kib, 90) + `"]`, "more than the 524288 bytes"},
		{"very many words", `[0` + strings.Repeat(`,0`, 60000) + `]`, "more than the 524288 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := rules(t, a, security()).Prepare(json.RawMessage(`{"note":` + test.note + `}`))
			if err == nil {
				t.Fatal("it is prepared")
			}
			if text := invalid(t, err); !strings.Contains(text, test.want) || !strings.Contains(text, "read it from stdin") {
				t.Errorf("err = %s, want %s", text, test.want)
			}
		})
	}
	t.Run("as much as fits", func(t *testing.T) {
		r := rules(t, a, security())
		prepared, _, err := r.Prepare(json.RawMessage(`{"note":"` + strings.Repeat(kib, 100) + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Options(prepared); err != nil || len(got) != 3 {
			t.Errorf("%d options, %v", len(got), err)
		}
	})
}

func TestOptionsOfWhatIsNoObject(t *testing.T) {
	r := rules(t, labelAgent(), security())
	for _, text := range []string{``, `[]`, `{"repo_name":"a","repo_name":"b"}`} {
		if got, err := r.Options(json.RawMessage(text)); err == nil {
			t.Errorf("%q: Options = %q", text, got)
		}
	}
}

func FuzzOptions(f *testing.F) {
	for _, text := range []string{
		`{"repo_name":"--evil","issue_number":-1}`, `{"repo_name":["-x",["-y"],{"-z":"-"}]}`, `{"repo_name":"\u0000"}`, `{"dry_run":"-"}`, `{"dry_run":[true,[],"-"]}`, `{`,
	} {
		f.Add(text)
	}
	a := labelAgent()
	a.Params = map[string]setup.Rule{"dry_run": {Raw: true}}
	flags := []string{"--issue", "--repo", "--dry-run"}
	checkers := []*params.Rules{rules(f, a, security()), rules(f, a, &setup.Security{MaxParams: 1 << 20})}
	f.Fuzz(func(t *testing.T, args string) {
		for _, r := range checkers {
			prepared, _, err := r.Prepare(json.RawMessage(args))
			if err != nil {
				continue
			}
			words, err := r.Options(prepared)
			if err != nil {
				t.Fatalf("Options of %s: %v", prepared, err)
			}
			for _, word := range words {
				flag, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(word, "-") && !slices.Contains(flags, flag) {
					t.Errorf("%s gives the option %q", prepared, word)
				}
				if strings.ContainsRune(word, 0) || len(word) > 100<<10 {
					t.Errorf("%s gives a word that cannot be given: %.200q", prepared, word)
				}
			}
		}
	})
}
