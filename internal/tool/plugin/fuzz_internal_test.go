package plugin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool"
)

// FuzzAnswer holds for everything that an executable can print: it is an answer with
// the envelope's promises, or an error.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"ok":true,"stdout":"a","stderr":"b","meta":{"exit_code":1,"duration_ms":2,"x":[1,2.5,null,{"y":"z"}]}}`,
		`{"ok":false,"stderr":"gone","meta":{"error_code":"NOT_FOUND"}}`, `{"ok":false,"meta":{"error_code":42}}`,
		`{"ok":true,"ok":true}`, `{"ok":true}}`, `{"ok":true,"meta":{"a":1e999}}`, `{"ok":true,"stdout":"\ud800"}`, `{`, `[]`, ``, "\x00", `{"a" 1}`, `{1:2}`, `{"ok":true,}`,
		`{"ok":true,"meta":` + strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 51),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := parseAnswer(data)
		if err != nil {
			return
		}
		code := res.Code()
		if res.OK != (code == "") || !res.OK && !slices.Contains(tool.ErrorCodes, code) {
			t.Errorf("ok %v with code %q", res.OK, code)
		}
		if _, given := res.Meta[tool.MetaDurationMS]; given || res.Meta == nil {
			t.Errorf("meta = %v", res.Meta)
		}
		if n, given := res.Meta[tool.MetaExitCode]; given {
			if _, ok := n.(int); !ok {
				t.Errorf("exit_code is a %T", n)
			}
		}
		text, err := json.Marshal(res)
		if err != nil {
			t.Fatalf("an answer that cannot be written: %v", err)
		}
		again, err := parseAnswer(text)
		if err != nil {
			if len(text) > len(data) { // escapes can make it too long
				return
			}
			t.Fatalf("%s is not read again: %v", text, err)
		}
		if text2, err := json.Marshal(again); err != nil || string(text2) != string(text) {
			t.Errorf("%s is read again as %s (%v)", text, text2, err)
		}
	})
}
