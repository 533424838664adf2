package choice_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/choice"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/modeltest"
)

// trap is a server to which nobody should connect; it counts who does.
func trap(t *testing.T) (address string, came *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	came = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			conn.Close()
		}
	}()
	return l.Addr().String(), came
}

// lure sets what the SDKs read of the environment by themselves to the trap.
func lure(t *testing.T, address string) {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME":                        home,
		"XDG_CONFIG_HOME":             home,
		"OPENAI_BASE_URL":             "http://" + address + "/v1",
		"OPENAI_API_KEY":              "SECRET-of-the-environment",
		"OPENAI_ORG_ID":               "SECRET-of-the-environment",
		"OPENAI_PROJECT_ID":           "SECRET-of-the-environment",
		"ANTHROPIC_BASE_URL":          "http://" + address,
		"ANTHROPIC_API_KEY":           "SECRET-of-the-environment",
		"ANTHROPIC_AUTH_TOKEN":        "SECRET-of-the-environment",
		"ANTHROPIC_CUSTOM_HEADERS":    "X-Secret: SECRET-of-the-environment",
		"ANTHROPIC_CONFIG_DIR":        home,
		"ANTHROPIC_OPEN_TELEMETRY":    "true",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + address,
		"GOOGLE_GEMINI_BASE_URL":      "http://" + address,
		"GOOGLE_VERTEX_BASE_URL":      "http://" + address,
		"GOOGLE_GENAI_USE_VERTEXAI":   "true",
		"GOOGLE_GENAI_USE_ENTERPRISE": "true",
		"GOOGLE_CLOUD_PROJECT":        "SECRET-of-the-environment",
		"GOOGLE_CLOUD_LOCATION":       "global",
		"GOOGLE_API_KEY":              "SECRET-of-the-environment",
		"GEMINI_API_KEY":              "SECRET-of-the-environment",
		"HTTP_PROXY":                  "http://" + address,
		"HTTPS_PROXY":                 "http://" + address,
		"ALL_PROXY":                   "http://" + address,
	} {
		t.Setenv(name, value)
	}
}

func TestNothingButTheChosenIsContacted(t *testing.T) {
	for _, tt := range []struct {
		provider string
		server   func(testing.TB, *modeltest.Script) string
		variable string
	}{
		{"openai", modeltest.OpenAI, "OPENAI_API_KEY"},
		{"groq", modeltest.OpenAI, "GROQ_API_KEY"},
		{"azure", modeltest.OpenAI, "AZURE_OPENAI_API_KEY"},
		{"ollama", modeltest.OpenAI, "OLLAMA_API_KEY"},
		{"anthropic", modeltest.Anthropic, "ANTHROPIC_API_KEY"},
		{"gemini", modeltest.Gemini, "GEMINI_API_KEY"},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			address, came := trap(t)
			lure(t, address)
			script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "hello"}}}
			url := tt.server(t, script)
			opts := &choice.Options{
				Environ: vars{
					"AIRLOCK_PROVIDER": tt.provider, "AIRLOCK_MODEL": "m", "AIRLOCK_BASE_URL": url, tt.variable: key,
					"OLLAMA_HOST": address, // nobody asks for what is there
				}.get,
				Dial: instead(map[string]string{ollamaAt: address, llamaAt: address, address: address}),
			}
			ask := &planner.Request{System: "be brief", Messages: []planner.Message{{Role: planner.User, Text: "hello"}}, Format: planner.FormatText}

			opts.Show = func(s endpoint.Shown) {
				if !strings.HasPrefix(s.URL, url) {
					t.Errorf("what is shown goes to %s", s.URL)
				}
			}
			shown, err := choice.Choose(t.Context(), opts)
			if err != nil {
				t.Fatalf("Choose: err = %v", err)
			}
			if _, err := shown.Model.Answer(t.Context(), ask, nil); !errors.Is(err, endpoint.ErrShown) {
				t.Errorf("Answer: err = %v, want that it was shown", err)
			}
			if n := len(script.Requests()); n != 0 {
				t.Fatalf("what was to be shown was sent, in %d requests", n)
			}

			opts.Show = nil
			chosen, err := choice.Choose(t.Context(), opts)
			if err != nil {
				t.Fatalf("Choose: err = %v", err)
			}
			answer, err := chosen.Model.Answer(t.Context(), ask, nil)
			if err != nil || answer.Text != "hello" {
				t.Fatalf("Answer = %+v, %v", answer, err)
			}
			seen := script.Requests()
			if len(seen) != 1 || !hasKey(seen[0].Header) || strings.Contains(seen[0].Query, key) {
				t.Errorf("the server was asked %d times, or without the key, or with the key in the URL", len(seen))
			}
			for name, values := range seen[0].Header {
				if strings.Contains(strings.Join(values, " "), "of-the-environment") {
					t.Errorf("the header %s holds what the environment has for others", name)
				}
			}
			if n := came.Load(); n != 0 {
				t.Errorf("others were contacted %d times", n)
			}
		})
	}
}

func hasKey(h http.Header) bool {
	for _, values := range h {
		for _, v := range values {
			if strings.Contains(v, key) {
				return true
			}
		}
	}
	return false
}
