package tool_test

import (
	"encoding/json"
	"testing"

	"airlock/internal/tool"
)

// What a call costs before its tool sees it.
func BenchmarkCheck(b *testing.B) {
	r := registry(b, named("a.b", action("go", countSchema)))
	call := tool.Call{Tool: "a.b", Action: "go", Args: json.RawMessage(`{"name":"x","count":3,"kind":"soft","names":["a"]}`)}
	for b.Loop() {
		if res := r.Check(call); res != nil {
			b.Fatal(res.Stderr)
		}
	}
}
