package params_test

import (
	"encoding/json"
	"strings"
	"testing"

	"airlock/internal/tool/bridge/setup"
)

func BenchmarkPrepare(b *testing.B) {
	a := labelAgent()
	a.Params = map[string]setup.Rule{"note": {MaxLength: 1 << 20}}
	r := rules(b, a, security())
	tests := []struct{ name, args string }{
		{"a call", `{"repo_name":"a/b","issue_number":7,"note":"x;y"}`},
		{"one long string", `{"note":"` + strings.Repeat("x;", 1<<19-30) + `"}`},
		{"many strings", `{"note":[` + strings.Repeat(`";",`, 1<<18-30) + `""]}`},
	}
	for _, test := range tests {
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := r.Prepare(json.RawMessage(test.args)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
