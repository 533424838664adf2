package planner_test

import (
	"testing"

	"airlock/internal/planner"
)

// BenchmarkPlan is all that a Planner adds to a model that answers at once.
func BenchmarkPlan(b *testing.B) {
	for name, said := range map[string]string{"json": listing, "fenced": "Here:\n```json\n" + listing + "\n```\n"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m := script(textOnly, text(said))
				if _, err := planner.New(m, nil).Plan(b.Context(), run, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
