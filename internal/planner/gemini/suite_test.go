package gemini_test

import (
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/gemini"
	"airlock/internal/planner/modeltest"
)

func TestEveryGenerationPassesTheSuite(t *testing.T) {
	for _, name := range []string{"gemini-3.8-flash", "gemini-flash-latest", "gemini-2.5-flash"} {
		t.Run(name, func(t *testing.T) {
			modeltest.Run(t, modeltest.Gemini, func(t *testing.T, url string) planner.Model {
				client := endpoint.Client(nil)
				t.Cleanup(client.CloseIdleConnections)
				m, err := gemini.New(&gemini.Options{Model: name, BaseURL: url, Key: modeltest.Key, HTTP: client})
				if err != nil {
					t.Fatalf("New: %v", err)
				}
				return m
			})
		})
	}
}
