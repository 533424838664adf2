package params_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/setup"
)

// security is what a configuration has that says nothing of it.
func security() *setup.Security {
	return &setup.Security{Validate: true, Sanitize: setup.Strip, MaxParam: 10000, MaxParams: 1 << 20}
}

func with(mode setup.Sanitizing) *setup.Security {
	s := security()
	s.Sanitize = mode
	return s
}

// labelAgent is the original's tool, as its configuration gives it.
func labelAgent() *setup.Agent {
	return &setup.Agent{
		Name: "label_github_issue", Kind: setup.Script,
		Args: []setup.Option{
			{Param: "issue_number", Flag: "--issue"},
			{Param: "repo_name", Flag: "--repo"},
			{Param: "dry_run", Flag: "--dry-run"},
		},
		Defaults: map[string]json.RawMessage{"dry_run": json.RawMessage("true")},
	}
}

func rules(t testing.TB, a *setup.Agent, s *setup.Security) *params.Rules {
	t.Helper()
	r, err := params.New(a, s)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return r
}

// invalid is the text of an error that must be a ValidationError which can be shown.
func invalid(t testing.TB, err error) string {
	t.Helper()
	bad, ok := errors.AsType[*params.ValidationError](err)
	if !ok {
		t.Fatalf("err = %v (%T), want a ValidationError", err, err)
	}
	if text := bad.Error(); text == "" || text != changes.Printable(text) || len(text) > 3000 {
		t.Errorf("an error that cannot be shown: %q", text)
	}
	if bad.Code != tool.ParseError && bad.Code != tool.InvalidArgs {
		t.Errorf("code = %q", bad.Code)
	}
	return bad.Error()
}

func TestPrepare(t *testing.T) {
	noted := func(rule setup.Rule) *setup.Agent {
		a := labelAgent()
		a.Params = map[string]setup.Rule{"note": rule}
		return a
	}
	off := &setup.Security{MaxParams: 1 << 20}
	tests := []struct {
		name     string
		agent    *setup.Agent
		security *setup.Security
		args     string
		want     string
		cut      []string
	}{
		{"no parameters are the defaults", nil, nil, ``, `{"dry_run":true}`, nil},
		{"members are sorted and white space goes", nil, nil, ` { "b" : 1 , "a" : [ 1 , 2 ] } `, `{"a":[1,2],"b":1,"dry_run":true}`, nil},
		{"a parameter is above its default", nil, nil, `{"dry_run":false}`, `{"dry_run":false}`, nil},
		{"null is given as well", nil, nil, `{"dry_run":null}`, `{"dry_run":null}`, nil},
		{"numbers stay as they are written", nil, nil, `{"n":[1.0,1e3,12345678901234567890,-0,0.10]}`, `{"dry_run":true,"n":[1.0,1e3,12345678901234567890,-0,0.10]}`, nil},
		{"a repository and an issue", nil, nil, `{"repo_name":"a-b/c.d","issue_number":7}`, `{"dry_run":true,"issue_number":7,"repo_name":"a-b/c.d"}`, nil},
		{"the last issue there can be", nil, nil, `{"issue_number":999999999}`, `{"dry_run":true,"issue_number":999999999}`, nil},
		{"all of the sources", nil, nil, `{"sources":["github","pypi","npm","reddit","hackernews"]}`, `{"dry_run":true,"sources":["github","pypi","npm","reddit","hackernews"]}`, nil},
		{"no sources", nil, nil, `{"sources":[]}`, `{"dry_run":true,"sources":[]}`, nil},
		{"a shell's characters are taken out", nil, nil, `{"note":"a $(touch x);|&<>` + "`" + `\\ b"}`, `{"dry_run":true,"note":"a touch x b"}`, []string{"note"}},
		{"and nothing may be left", nil, nil, `{"note":"$(;)"}`, `{"dry_run":true,"note":""}`, []string{"note"}},
		{"they are found however deep", nil, nil, `{"filters":{"name":"a;b","ok":"c","odd name":"$"},"items":["a","b",["c"],"d|"]}`, `{"dry_run":true,"filters":{"name":"ab","odd name":"","ok":"c"},"items":["a","b",["c"],"d"]}`, []string{"filters.name", `filters["odd name"]`, "items[3]"}},
		{"escaped they are the same", nil, nil, `{"note":"\u0024\u0028x\u0029"}`, `{"dry_run":true,"note":"x"}`, []string{"note"}},
		{"control characters are taken out", nil, nil, `{"note":"a\u0000b\u001b[31mc\u007fd\u0085e\bf"}`, `{"dry_run":true,"note":"ab[31mcdef"}`, []string{"note"}},
		{"tabs and lines' ends stay", nil, nil, `{"note":"a\tb\nc\r\nd"}`, `{"dry_run":true,"note":"a\tb\nc\r\nd"}`, nil},
		{"a carriage return alone does not", nil, nil, `{"note":"good\rbad\r\r\n\r;\n"}`, `{"dry_run":true,"note":"goodbad\r\n\n"}`, []string{"note"}},
		{"look-alikes stay, and so does every script", nil, nil, `{"note":"； ｜ ＄ ‘x’ 日本語 🙂 é"}`, `{"dry_run":true,"note":"； ｜ ＄ ‘x’ 日本語 🙂 é"}`, nil},
		{"names are not changed", nil, nil, `{"a;b":{"$(c)":"d"}}`, `{"a;b":{"$(c)":"d"},"dry_run":true}`, nil},
		{"names that mean something elsewhere mean nothing", nil, nil, `{"__proto__":{"x":1},"constructor":1,"Repo_Name":"x","":""}`, `{"":"","Repo_Name":"x","__proto__":{"x":1},"constructor":1,"dry_run":true}`, nil},
		{"the bridge's name within a parameter is no matter", nil, nil, `{"a":{"_airlock":1}}`, `{"a":{"_airlock":1},"dry_run":true}`, nil},
		{"a raw parameter stays as it is", noted(setup.Rule{Raw: true}), nil, `{"note":"$(x)\u0000;\r","nota":";"}`, `{"dry_run":true,"nota":"","note":"$(x)\u0000;\r"}`, []string{"nota"}},
		{"raw is all that is in it", noted(setup.Rule{Raw: true}), nil, `{"note":[{"a":"<b>"}]}`, `{"dry_run":true,"note":[{"a":"<b>"}]}`, nil},
		{"raw is the one at the top", noted(setup.Rule{Raw: true}), nil, `{"a":{"note":"<b>"}}`, `{"a":{"note":"b"},"dry_run":true}`, []string{"a.note"}},
		{"with sanitizing off they stay", nil, with(setup.Off), `{"note":"$(x)\u0001"}`, `{"dry_run":true,"note":"$(x)\u0001"}`, nil},
		{"what refuse has nothing against passes", nil, with(setup.Refuse), `{"note":"a\tb"}`, `{"dry_run":true,"note":"a\tb"}`, nil},
		{"without validation nothing is looked at", nil, off, `{"repo_name":["a"],"issue_number":"12","sources":1,"note":"$(x)","a\nb":1}`, `{"a\nb":1,"dry_run":true,"issue_number":"12","note":"$(x)","repo_name":["a"],"sources":1}`, nil},
		{"characters are counted, not bytes", noted(setup.Rule{MaxLength: 3}), nil, `{"note":"日本語"}`, `{"dry_run":true,"note":"日本語"}`, nil},
		{"one parameter may be longer", noted(setup.Rule{MaxLength: 20000}), nil, `{"note":"` + strings.Repeat("x", 20000) + `"}`, `{"dry_run":true,"note":"` + strings.Repeat("x", 20000) + `"}`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			agent, security := test.agent, security()
			if agent == nil {
				agent = labelAgent()
			}
			if test.security != nil {
				security = test.security
			}
			r := rules(t, agent, security)
			got, cut, err := r.Prepare(json.RawMessage(test.args))
			if err != nil {
				t.Fatalf("Prepare: %v", err)
			}
			if string(got) != test.want {
				t.Errorf("Prepare = %s, want %s", got, test.want)
			}
			if !slices.Equal(cut, test.cut) {
				t.Errorf("cut = %q, want %q", cut, test.cut)
			}
			again, cut, err := r.Prepare(got)
			if err != nil || string(again) != string(got) || len(cut) > 0 {
				t.Errorf("prepared again: %s, %q, %v", again, cut, err)
			}
		})
	}
}

func TestWhatDoesNotHold(t *testing.T) {
	limited := security()
	limited.MaxParams = 40
	named := labelAgent()
	named.Params = map[string]setup.Rule{"note": {Raw: true, MaxLength: 5}}
	tests := []struct {
		name     string
		agent    *setup.Agent
		security *setup.Security
		args     string
		want     string // what the error has in it; all of it where it ends in a full stop
	}{
		{"a repository without an owner", nil, nil, `{"repo_name":"a"}`, "Invalid repo_name format."},
		{"a repository with a line's end behind it", nil, nil, `{"repo_name":"a/b\n"}`, "Invalid repo_name format."},
		{"a repository with a shell in it", nil, nil, `{"repo_name":"a/b;id"}`, "Invalid repo_name format."},
		{"a repository that is a list", nil, nil, `{"repo_name":["a"]}`, "Invalid repo_name format."},
		{"a repository that is null", nil, nil, `{"repo_name":null}`, "Invalid repo_name format."},
		{"a repository in look-alikes", nil, nil, `{"repo_name":"а/b"}`, "Invalid repo_name format."},
		{"a repository of 201 characters", nil, nil, `{"repo_name":"a/` + strings.Repeat("b", 199) + `"}`, "Invalid repo_name: has 201 characters, more than 200"},
		{"issue 0", nil, nil, `{"issue_number":0}`, "Invalid issue_number: want a whole number from 1 to 999999999, got 0."},
		{"issue -1", nil, nil, `{"issue_number":-1}`, "got -1"},
		{"issue 1,000,000,000", nil, nil, `{"issue_number":1000000000}`, "got 1000000000"},
		{"issue 12.0", nil, nil, `{"issue_number":12.0}`, "got 12.0: write it with digits alone"},
		{"issue 1e3", nil, nil, `{"issue_number":1e3}`, "got 1e3: write it with digits alone"},
		{"issue true", nil, nil, `{"issue_number":true}`, "got true or false"},
		{"an issue as text", nil, nil, `{"issue_number":"12"}`, `got the text "12": write it without quotes`},
		{"an issue as other text", nil, nil, `{"issue_number":"12; id"}`, "got a text"},
		{"an issue that is null", nil, nil, `{"issue_number":null}`, "got null"},
		{"sources as text", nil, nil, `{"sources":"github"}`, "Invalid sources: want a list of github, pypi, npm, reddit, hackernews, got a text."},
		{"a source that there is not", nil, nil, `{"sources":["github","GitHub\u001b"]}`, `with "GitHub\x1b" in it`},
		{"a source that is a list", nil, nil, `{"sources":[["github"]]}`, "with a list in it"},
		{"a long string", nil, nil, `{"note":"` + strings.Repeat("x", 10001) + `"}`, "Invalid note: has 10001 characters, more than 10000 (max_param_length)"},
		{"a long string down below", nil, nil, `{"a":[{"b":"` + strings.Repeat("x", 10001) + `"}]}`, "Invalid a[0].b: has 10001"},
		{"a long string of what would be taken out", nil, nil, `{"note":"` + strings.Repeat(";", 10001) + `"}`, "has 10001 characters"},
		{"a string of a mebibyte", nil, nil, `{"note":"` + strings.Repeat("x", 1<<20-30) + `"}`, "more than 10000"},
		{"a raw string that is too long", named, nil, `{"note":"123456"}`, "Invalid note: has 6 characters, more than 5 (its max_length)"},
		{"more than a mebibyte", nil, nil, `{"note":"` + strings.Repeat("x", 1<<20) + `"}`, "Invalid parameters: they have 1048587 bytes, more than 1048576"},
		{"more than may be in all, with the defaults", nil, limited, `{"a":"12345678","b":"12345678"}`, "Invalid parameters: they have 46 bytes as JSON, more than 40 (max_total_length)"},
		{"refused characters", nil, with(setup.Refuse), `{"a":{"b":"x$(y)"}}`, `Invalid a.b: has the character '$': leave it out, or let the configuration say params: {a: {raw: true}}.`},
		{"a refused control character", nil, with(setup.Refuse), `{"b":"x\u0000"}`, `Invalid b: has the character '\x00'`},
		{"a name with a control character", nil, nil, `{"a\nb":1}`, `the name "a\nb" has a control character`},
		{"such a name down below, in a raw parameter as well", named, nil, `{"note":{"a\u001bb":1}}`, `the name "a\x1bb" has a control character`},
		{"such a name with sanitizing off", nil, with(setup.Off), `{"a\u0000b":1}`, `the name "a\x00b" has a control character`},
		{"the bridge's own name", nil, nil, `{"_airlock":{}}`, "_airlock is the bridge's own"},
		{"a list", nil, nil, `[1]`, "Invalid parameters: the text is a list, want an object."},
		{"null", nil, nil, `null`, "is null, want an object"},
		{"no JSON", nil, nil, `{"a":`, "is not JSON"},
		{"two documents", nil, nil, `{} {}`, "has something behind its end"},
		{"a name twice", nil, nil, `{"repo_name":"a/b","repo_name":"c/d;"}`, `has the name "repo_name" twice`},
		{"a name twice, escaped", nil, nil, `{"a":1,"\u0061":2}`, `has the name "a" twice`},
		{"half a character", nil, nil, `{"a":"\ud800"}`, "surrogate"},
		{"bytes that are no text", nil, nil, "{\"a\":\"\xff\"}", "is not UTF-8"},
		{"depth", nil, nil, `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "is nested deeper than 64 levels"},
		{"endless depth", nil, nil, strings.Repeat(`{"a":`, 100000), "is nested deeper than 64 levels"},
		{"a number that would fill the memory", nil, nil, `{"a":1e1000000}`, "number that is out of bounds"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			agent, security := test.agent, security()
			if agent == nil {
				agent = labelAgent()
			}
			if test.security != nil {
				security = test.security
			}
			got, _, err := rules(t, agent, security).Prepare(json.RawMessage(test.args))
			if err == nil {
				t.Fatalf("Prepare = %.200s, want an error", got)
			}
			text := invalid(t, err)
			whole, isWhole := strings.CutSuffix(test.want, ".")
			if !strings.Contains(text, whole) || isWhole && text != whole {
				t.Errorf("err = %s, want %s", text, test.want)
			}
		})
	}
}

func TestTheErrorsOfTheLimitsAreAboutJSONOrArguments(t *testing.T) {
	r := rules(t, labelAgent(), security())
	for args, want := range map[string]tool.ErrorCode{`{`: tool.ParseError, `[]`: tool.ParseError, `{"repo_name":1}`: tool.InvalidArgs} {
		_, _, err := r.Prepare(json.RawMessage(args))
		if bad, ok := errors.AsType[*params.ValidationError](err); !ok || bad.Code != want {
			t.Errorf("%s: err = %v, want code %s", args, err, want)
		}
	}
}

func TestOnlyTheFirstStringsThatWereCutAreNamed(t *testing.T) {
	args := `{"a":["` + strings.Repeat(`;","`, 20) + `;"]}`
	_, cut, err := rules(t, labelAgent(), security()).Prepare(json.RawMessage(args))
	if err != nil || len(cut) != 17 || cut[0] != "a[0]" || cut[16] != "and 5 more" {
		t.Errorf("cut = %q, %v", cut, err)
	}
}

func TestNamesOfWhatWasCutCanBeShown(t *testing.T) {
	long := strings.Repeat("n", 5000)
	args := fmt.Sprintf(`{"a b":";","é\u202e":{"%s":{"%s":{"%s":{"%s":";"}}}}}`, long, long, long, long)
	_, cut, err := rules(t, labelAgent(), security()).Prepare(json.RawMessage(args))
	if err != nil || len(cut) != 2 || cut[0] != `"a b"` {
		t.Fatalf("cut = %.200q, %v", cut, err)
	}
	if cut[1] != changes.Printable(cut[1]) || len(cut[1]) > 500 || !strings.HasPrefix(cut[1], `"\u00e9\u202e"["nnn`) {
		t.Errorf("cut = %q", cut[1])
	}
}

func TestWhatIsPreparedIsNotTheDefaults(t *testing.T) {
	a := &setup.Agent{Name: "x", Defaults: map[string]json.RawMessage{"filters": json.RawMessage(`{"name":"a;b"}`)}}
	r := rules(t, a, security())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, cut, err := r.Prepare(nil)
			if err != nil || string(got) != `{"filters":{"name":"ab"}}` || !slices.Equal(cut, []string{"filters.name"}) {
				t.Errorf("Prepare = %s, %q, %v", got, cut, err)
			}
		})
	}
	group.Wait()
	if string(a.Defaults["filters"]) != `{"name":"a;b"}` {
		t.Errorf("the default is %s now", a.Defaults["filters"])
	}
}

func TestAReportIsNeeded(t *testing.T) {
	a := &setup.Agent{Name: "analyse_watch_report", Kind: setup.Script, Defaults: map[string]json.RawMessage{"format": json.RawMessage(`"json"`)}}
	for _, args := range []string{`{}`, `{"report":null}`, `{"report":"","report_path":""}`, `{"report":";;"}`} {
		_, _, err := rules(t, a, security()).Prepare(json.RawMessage(args))
		if err == nil || invalid(t, err) != "Missing report or report_path: give one of them" {
			t.Errorf("%s: err = %v", args, err)
		}
		if _, _, err := rules(t, a, &setup.Security{MaxParams: 1000}).Prepare(json.RawMessage(args)); err == nil && args != `{"report":";;"}` {
			t.Errorf("%s passes without validation", args)
		}
	}
	for _, args := range []string{`{"report":"x"}`, `{"report_path":"x"}`, `{"report":{"a":1},"report_path":null}`} {
		if _, _, err := rules(t, a, security()).Prepare(json.RawMessage(args)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	own := *a
	own.Schema = json.RawMessage(`{"type":"object"}`)
	if _, _, err := rules(t, &own, security()).Prepare(nil); err != nil {
		t.Errorf("an entry with a schema of its own: %v", err)
	}
}

func TestSchema(t *testing.T) {
	a := &setup.Agent{
		Name: "x", Schema: json.RawMessage(`{"type":"object","required":["to","mode"],"properties":{
			"to":{"type":"string","minLength":3},"mode":{"enum":["fast","slow"]},"n":{"type":"integer"}},"additionalProperties":false}`),
		Defaults: map[string]json.RawMessage{"mode": json.RawMessage(`"fast"`)},
	}
	tests := []struct{ name, args, want, err string }{
		{"a default is what is required", `{"to":"abc"}`, `{"mode":"fast","to":"abc"}`, ""},
		{"what is missing", `{}`, "", "args.to: is missing"},
		{"what there is not", `{"to":"abc","tp":1}`, "", "args.tp: there is no such argument, did you mean to?"},
		{"what is of another kind", `{"to":"abc","n":"1"}`, "", "args.n: want a whole number, got a text"},
		{"what was taken out is missed", `{"to":"ab;"}`, "", "Invalid to: without the characters that are not let through the schema does not hold: args.to: want at least 3 characters, got 2"},
		{"what was taken out is not missed", `{"to":"abc;"}`, `{"mode":"fast","to":"abc"}`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := rules(t, a, security()).Prepare(json.RawMessage(test.args))
			if test.err == "" {
				if err != nil || string(got) != test.want {
					t.Errorf("Prepare = %s, %v, want %s", got, err, test.want)
				}
				return
			}
			if err == nil || !strings.Contains(invalid(t, err), test.err) {
				t.Errorf("err = %v, want %s", err, test.err)
			}
		})
	}
	t.Run("it holds without validation too", func(t *testing.T) {
		if _, _, err := rules(t, a, &setup.Security{MaxParams: 1000}).Prepare(json.RawMessage(`{}`)); err == nil {
			t.Error("nothing is missing")
		}
	})
	t.Run("one that is none is no fault of the parameters", func(t *testing.T) {
		bad := &setup.Agent{Name: "x", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"https://example.com/x.json"}}}`)}
		_, _, err := rules(t, bad, security()).Prepare(json.RawMessage(`{}`))
		if _, ok := errors.AsType[*params.ValidationError](err); ok || err == nil || !strings.Contains(err.Error(), "agent x: schema: ") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestACP(t *testing.T) {
	r := rules(t, &setup.Agent{Name: "gemini", Kind: setup.ACP}, security())
	got, cut, err := r.Prepare(json.RawMessage(`{"prompt":"run $(x); then say ` + "`y`" + `","files":["a.go"]}`))
	if want := `{"files":["a.go"],"prompt":"run $(x); then say ` + "`y`" + `"}`; err != nil || string(got) != want || len(cut) > 0 {
		t.Errorf("Prepare = %s, %q, %v, want %s", got, cut, err, want)
	}
	for args, want := range map[string]string{
		`{}`: "args.prompt: is missing", `{"prompt":""}`: "args.prompt: is empty", `{"prompt":"a","file":"b"}`: "did you mean files?", `{"prompt":"a","files":"b"}`: "want a list",
	} {
		if _, _, err := r.Prepare(json.RawMessage(args)); err == nil || !strings.Contains(invalid(t, err), want) {
			t.Errorf("%s: err = %v, want %s", args, err, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	raw := func(text string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"d": json.RawMessage(text)}
	}
	tests := []struct {
		name     string
		defaults map[string]json.RawMessage
		security setup.Security
		want     string
	}{
		{"no room at all", nil, setup.Security{}, "max_total_length is 0"},
		{"more room than a call has", nil, setup.Security{MaxParams: 1<<20 + 1}, "max_total_length is 1048577"},
		{"strings of no length", nil, setup.Security{Validate: true, Sanitize: setup.Strip, MaxParams: 1}, "max_param_length is 0"},
		{"no kind of sanitizing", nil, setup.Security{Validate: true, MaxParam: 1, MaxParams: 1}, "sanitize_inputs"},
		{"a default that is no JSON", raw(`{`), *security(), "defaults"},
		{"a default with a name twice", raw(`{"a":1,"a":2}`), *security(), "twice"},
		{"a default that is too deep to be read again", raw(strings.Repeat("[", 64) + strings.Repeat("]", 64)), *security(), "deeper"},
		{"a default of the bridge's own name", map[string]json.RawMessage{"_airlock": json.RawMessage("1")}, *security(), "_airlock is the bridge's own"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := params.New(&setup.Agent{Name: "x", Defaults: test.defaults}, &test.security)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: err = %v, want %s", err, test.want)
			}
		})
	}
}
