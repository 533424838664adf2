package openai_test

import (
	"testing"

	"go.uber.org/goleak"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
	"airlock/internal/planner/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model makes a model of a flavour at url, and ends its connections with the test.
func model(t *testing.T, provider, url, version string) *openai.Model {
	t.Helper()
	client := endpoint.Client(nil)
	t.Cleanup(client.CloseIdleConnections)
	m, err := openai.New(&openai.Options{Provider: provider, Model: "test-model", BaseURL: url, Key: modeltest.Key, APIVersion: version, HTTP: client})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

func TestEveryFlavourPassesTheSuite(t *testing.T) {
	for _, f := range []struct{ provider, version string }{
		{"openai", ""}, {"azure", ""}, {"azure", "2024-10-21"}, {"ollama", ""}, {"lmstudio", ""}, {"openrouter", ""}, {"groq", ""}, {"some-other", ""},
	} {
		t.Run(f.provider+f.version, func(t *testing.T) {
			modeltest.Run(t, modeltest.OpenAI, func(t *testing.T, url string) planner.Model {
				return model(t, f.provider, url, f.version)
			})
		})
	}
}
