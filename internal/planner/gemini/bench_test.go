package gemini_test

import (
	"testing"

	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/gemini"
)

// BenchmarkNew is what a model costs that is not asked.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := gemini.New(&gemini.Options{Model: newModel, Key: key}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstAnswer is what a model's first answer costs beside the endpoint's time: that
// genai's client is made, the request written and the answer read.
func BenchmarkFirstAnswer(b *testing.B) {
	body := canned(`data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP"}]}` + "\r\n\r\n")
	req := ask("hello")
	req.Tools = tools
	for b.Loop() {
		m := model(b, newModel, "http://localhost", &endpoint.Options{Transport: body})
		if _, err := m.Answer(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}
