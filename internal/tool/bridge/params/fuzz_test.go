package params_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/setup"
)

// FuzzPrepare holds for all that anybody can pass: it is refused in words that can be
// shown, or it is prepared once and for all, with nothing in it that should be out.
func FuzzPrepare(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `{"repo_name":"a/b","issue_number":7,"sources":["npm"],"note":"$(x);|\u0000\r\n\r;\n"}`, `{"a":{"b":[";",{"c$":"<"}]},"raw":"$"}`,
		`{"a":1,"a":2}`, `{"_airlock":1}`, `{"__proto__":{}}`, `{"a":1e400,"b":-0.0,"c":"\u2028\ud83d\ude00\ufffd"}`, `[`, `{"a":"\ud800"}`, `{"dry_run":["--evil",-1]}`,
		`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, "{\"a\":\"\x7f\u0085\"}",
	} {
		f.Add(text)
	}
	a := labelAgent()
	a.Params = map[string]setup.Rule{"raw": {Raw: true}}
	schemed := *a
	schemed.Schema = json.RawMessage(`{"type":"object","properties":{"note":{"type":"string","minLength":2},"a":{"pattern":"^[^$]*$"}}}`)
	small := with(setup.Strip)
	small.MaxParam, small.MaxParams = 20, 200
	all := []*params.Rules{rules(f, a, security()), rules(f, &schemed, security()), rules(f, a, small)}
	refusing := rules(f, a, with(setup.Refuse))
	f.Fuzz(func(t *testing.T, args string) {
		for _, r := range all {
			prepared, cut, err := r.Prepare(json.RawMessage(args))
			if err != nil {
				invalid(t, err)
				continue
			}
			checkPrepared(t, prepared)
			again, cutAgain, err := r.Prepare(prepared)
			if err != nil || string(again) != string(prepared) || len(cutAgain) > 0 {
				t.Errorf("%s is prepared again as %s, %q, %v", prepared, again, cutAgain, err)
			}
			if _, _, err := refusing.Prepare(json.RawMessage(args)); (err != nil) != (len(cut) > 0) && r == all[0] {
				t.Errorf("%q are taken out of what refuse says of: %v", cut, err)
			}
		}
	})
}

// checkPrepared says what there must not be in parameters.
func checkPrepared(t *testing.T, prepared json.RawMessage) {
	t.Helper()
	value, err := tool.ParseJSON(prepared)
	values, ok := value.(map[string]any)
	if err != nil || !ok {
		t.Fatalf("%s is prepared: %v", prepared, err)
	}
	if _, given := values["_airlock"]; given {
		t.Error("the bridge's own member is let through")
	}
	if _, given := values["dry_run"]; !given {
		t.Error("a default is missing")
	}
	for name, value := range values {
		checkStrings(t, name, value, name == "raw")
	}
}

func checkStrings(t *testing.T, name string, value any, raw bool) {
	t.Helper()
	if strings.IndexFunc(name, unicode.IsControl) >= 0 {
		t.Errorf("the name %q is let through", name)
	}
	switch v := value.(type) {
	case string:
		rest := strings.NewReplacer("\r\n", "", "\n", "", "\t", "").Replace(v)
		if !raw && (strings.ContainsAny(rest, ";&|<>()$`\\") || strings.IndexFunc(rest, unicode.IsControl) >= 0) {
			t.Errorf("%s: %q is left", name, v)
		}
	case []any:
		for _, e := range v {
			checkStrings(t, name, e, raw)
		}
	case map[string]any:
		for n, e := range v {
			checkStrings(t, n, e, raw)
		}
	}
}
