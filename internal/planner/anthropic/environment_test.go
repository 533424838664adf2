package anthropic_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/anthropic"
	"airlock/internal/planner/endpoint"
)

// A keeper keeps each request, and answers it.
type keeper struct {
	seen []*http.Request
	body []byte
}

func (k *keeper) RoundTrip(req *http.Request) (*http.Response, error) {
	k.seen = append(k.seen, req)
	var err error
	if k.body, err = io.ReadAll(req.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", ProtoMajor: 1, ProtoMinor: 1, Request: req, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader([]byte(events(start, textStart, textHello, textStop, end, stop)))),
	}, req.Body.Close()
}

func TestTheEnvironmentSaysNothing(t *testing.T) {
	dir := t.TempDir()
	const profile = `{"version":"1.0","base_url":"http://hostile.test/profile","workspace_id":"wrkspc_hostile","authentication":{"type":"user_oauth","access_token":"hostile"}}`
	for _, name := range []string{"configs/default.json", "configs/hostile.json", "credentials/default.json", "credentials/hostile.json", "anthropic/configs/default.json"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(profile), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, env := range map[string]map[string]string{
		"a key":          {"ANTHROPIC_API_KEY": "hostile"},
		"a token":        {"ANTHROPIC_AUTH_TOKEN": "hostile"},
		"an address":     {"ANTHROPIC_BASE_URL": "http://hostile.test"},
		"headers":        {"ANTHROPIC_CUSTOM_HEADERS": "X-Hostile: yes\nAnthropic-Version: 1999-01-01"},
		"a profile":      {"ANTHROPIC_CONFIG_DIR": dir, "ANTHROPIC_PROFILE": "hostile"},
		"the profile":    {"ANTHROPIC_CONFIG_DIR": dir},
		"a home":         {"HOME": dir, "XDG_CONFIG_HOME": dir, "APPDATA": dir},
		"a federation":   {"ANTHROPIC_FEDERATION_RULE_ID": "fdrl_hostile", "ANTHROPIC_ORGANIZATION_ID": "hostile", "ANTHROPIC_IDENTITY_TOKEN": "hostile", "ANTHROPIC_WORKSPACE_ID": "hostile"},
		"tracing":        {"ANTHROPIC_OPEN_TELEMETRY": "true", "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content", "ANTHROPIC_OPEN_TELEMETRY_PROPAGATION": "true"},
		"another model":  {"ANTHROPIC_MODEL": "hostile", "ANTHROPIC_LOG": "debug"},
		"an empty value": {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""},
	} {
		for _, secret := range []string{key, ""} {
			t.Run(name+map[bool]string{true: ", and no key"}[secret == ""], func(t *testing.T) {
				for variable, value := range env {
					t.Setenv(variable, value)
				}
				keep := &keeper{}
				m, err := anthropic.New(&anthropic.Options{
					Model: "claude-sonnet-5-5", BaseURL: "http://model.test", Key: secret, HTTP: endpoint.Client(&endpoint.Options{Transport: keep}),
				})
				if err != nil {
					t.Fatal(err)
				}
				answer(t, m, ask("hello"))
				if len(keep.seen) != 1 {
					t.Fatalf("%d requests, want 1", len(keep.seen))
				}
				req := keep.seen[0]
				if got := req.URL.String(); got != "http://model.test/v1/messages" {
					t.Errorf("it was sent to %s", got)
				}
				if bytes.Contains(keep.body, []byte("hostile")) || req.Header.Get("X-Api-Key") != secret || req.Header.Get("Anthropic-Version") != "2023-06-01" {
					t.Errorf("it has the header %v and the body %s", req.Header, keep.body)
				}
				known := []string{"Accept", "Anthropic-Version", "Content-Type", "User-Agent", "X-Api-Key"}
				for header, values := range req.Header {
					if !slices.Contains(known, header) || strings.Contains(strings.ToLower(strings.Join(values, " ")), "hostile") {
						t.Errorf("the header %s: %q was sent, and nobody asked for it", header, values)
					}
				}
			})
		}
	}
}

func TestWhatIsShownIsWhatIsSent(t *testing.T) {
	keep := &keeper{}
	var shown endpoint.Shown
	req := &planner.Request{System: "s", Messages: []planner.Message{{Role: planner.User, Text: "<a> & b"}}, Format: planner.FormatSchema, Schema: planner.Schema()}
	for _, opts := range []*endpoint.Options{{Transport: keep}, {Show: func(s endpoint.Shown) { shown = s }}} {
		_, err := model(t, "http://model.test", opts).Answer(t.Context(), req, nil)
		if (err == nil) != (opts.Show == nil) {
			t.Fatalf("Answer: %v", err)
		}
	}
	if !bytes.Equal(shown.Body, keep.body) || shown.URL != "http://model.test/v1/messages" || len(shown.Body) == 0 {
		t.Errorf("shown was %s\n%s\nand sent\n%s", shown.URL, shown.Body, keep.body)
	}
}
