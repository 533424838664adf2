package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log" //nolint:depguard // genai writes to it
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/gemini"
	"airlock/internal/planner/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// key is one that no real account has.
const key = "AIzaSyModelTest-4f9c2e7a-not-a-real-key0"

const (
	newModel = "gemini-3-pro-preview"
	oldModel = "gemini-2.5-flash"
)

// model makes a model at url, and ends its connections with the test.
func model(t testing.TB, name, url string, opts *endpoint.Options) *gemini.Model {
	t.Helper()
	client := endpoint.Client(opts)
	t.Cleanup(client.CloseIdleConnections)
	m, err := gemini.New(&gemini.Options{Model: name, BaseURL: url, Key: key, HTTP: client})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

// ask is a request with a text alone.
func ask(text string) *planner.Request {
	return &planner.Request{
		System:   "You plan.",
		Messages: []planner.Message{{Role: planner.User, Text: text}},
		Format:   planner.FormatText,
	}
}

func answer(t testing.TB, m planner.Model, req *planner.Request) *planner.Answer {
	t.Helper()
	a, err := m.Answer(t.Context(), req, nil)
	if err != nil {
		t.Fatalf("Answer: %v", err)
	}
	return a
}

// fault asks, and gives the error.
func fault(t testing.TB, m planner.Model, req *planner.Request) *planner.Error {
	t.Helper()
	a, err := m.Answer(t.Context(), req, nil)
	var e *planner.Error
	if !errors.As(err, &e) {
		t.Fatalf("Answer = %+v, %v, want a *planner.Error", a, err)
	}
	if strings.Contains(e.Error(), key) {
		t.Errorf("the key is in the error %q", e)
	}
	return e
}

// shown is the body of the request that a model would send.
func shown(t testing.TB, name string, req *planner.Request) []byte {
	t.Helper()
	var body []byte
	m := model(t, name, "", &endpoint.Options{Show: func(s endpoint.Shown) { body = s.Body }})
	if _, err := m.Answer(t.Context(), req, nil); !errors.Is(err, endpoint.ErrShown) {
		t.Fatalf("Answer: %v, want ErrShown", err)
	}
	return body
}

func TestWhatCannotBeUsedIsRefusedByName(t *testing.T) {
	tests := map[string]struct {
		opts *gemini.Options
		want string
	}{
		"no options at all":         {nil, "no model is named"},
		"no model":                  {&gemini.Options{Key: key}, "no model is named"},
		"a prefix alone":            {&gemini.Options{Model: "models/", Key: key}, "no model is named"},
		"a path in the model":       {&gemini.Options{Model: "../../v1/files", Key: key}, "no name of a model"},
		"dots for a model":          {&gemini.Options{Model: "..", Key: key}, "no name of a model"},
		"a version in the model":    {&gemini.Options{Model: "x/v1beta/y", Key: key}, "no name of a model"},
		"a query in the model":      {&gemini.Options{Model: "gemini-3?key=a", Key: key}, "no name of a model"},
		"a method in the model":     {&gemini.Options{Model: "gemini-3:countTokens", Key: key}, "no name of a model"},
		"a line end in the model":   {&gemini.Options{Model: "gemini-3\n", Key: key}, "no name of a model"},
		"no key":                    {&gemini.Options{Model: oldModel}, "there is no key"},
		"a key of spaces":           {&gemini.Options{Model: oldModel, Key: " \n"}, "there is no key"},
		"a key with a line end":     {&gemini.Options{Model: oldModel, Key: "a\nb"}, "characters that no key has"},
		"another scheme":            {&gemini.Options{Model: oldModel, Key: key, BaseURL: "file:///etc/passwd"}, "https:// or http://"},
		"no scheme":                 {&gemini.Options{Model: oldModel, Key: key, BaseURL: "localhost:8080"}, "https:// or http://"},
		"a password in the address": {&gemini.Options{Model: oldModel, Key: key, BaseURL: "https://u:hunter2@h"}, "a password"},
		"a key in the address":      {&gemini.Options{Model: oldModel, Key: key, BaseURL: "https://h?key=hunter2"}, "a query"},
		"no URL":                    {&gemini.Options{Model: oldModel, Key: key, BaseURL: "https://u:hunter2@h:%%"}, "no URL"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := gemini.New(tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("New = %v, %v, want an error with %q", m, err, tt.want)
			}
			if strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret is in the error %q", err)
			}
		})
	}
}

func TestTheAddressIsTakenAsPeopleWriteIt(t *testing.T) {
	tests := map[string]struct{ base, model, want string }{
		"none":                      {"", oldModel, "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		"with a slash":              {"http://127.0.0.1:9/", oldModel, "http://127.0.0.1:9/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		"with the version":          {"http://h/v1beta", oldModel, "http://h/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		"with another version":      {"http://h/v1alpha/", oldModel, "http://h/v1alpha/models/gemini-2.5-flash:streamGenerateContent"},
		"with a path":               {"http://h/proxy/gemini", oldModel, "http://h/proxy/gemini/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		"with a path and a version": {"http://h/proxy/v1", oldModel, "http://h/proxy/v1/models/gemini-2.5-flash:streamGenerateContent"},
		"a model with its prefix":   {"http://h", "models/gemini-2.5-flash", "http://h/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		"a tuned model":             {"http://h", "tunedModels/mine-1", "http://h/v1beta/tunedModels/mine-1:streamGenerateContent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got endpoint.Shown
			m := model(t, tt.model, tt.base, &endpoint.Options{Show: func(s endpoint.Shown) { got = s }})
			if _, err := m.Answer(t.Context(), ask("hello"), nil); !errors.Is(err, endpoint.ErrShown) {
				t.Fatalf("Answer: %v, want ErrShown", err)
			}
			if got.URL != tt.want || got.Method != http.MethodPost {
				t.Errorf("it goes to %s %s, want %s", got.Method, got.URL, tt.want)
			}
			if !strings.HasPrefix(got.URL, m.Info().Endpoint+"/") {
				t.Errorf("Info().Endpoint = %q, where it goes to %s", m.Info().Endpoint, got.URL)
			}
		})
	}
}

func TestFormatsAreOfTheModelsGeneration(t *testing.T) {
	schemaFirst := []planner.Format{planner.FormatSchema, planner.FormatTool, planner.FormatJSON, planner.FormatText}
	toolFirst := []planner.Format{planner.FormatTool, planner.FormatSchema, planner.FormatJSON, planner.FormatText}
	tests := map[string][]planner.Format{
		"gemini-3-pro-preview":         schemaFirst,
		"gemini-3.1-flash":             schemaFirst,
		"gemini-10-pro":                schemaFirst,
		"gemini-flash-latest":          schemaFirst,
		"some-new-name":                schemaFirst,
		"tunedModels/mine":             schemaFirst,
		"gemini-2.5-pro":               toolFirst,
		"models/gemini-2.5-flash-lite": toolFirst,
		"gemini-2.0-flash-001":         toolFirst,
		"gemini-1.5-flash":             toolFirst,
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			m := model(t, name, "", nil)
			info := m.Info()
			if diff := cmp.Diff(want, info.Formats); diff != "" {
				t.Errorf("Formats (-want +got):\n%s", diff)
			}
			if info.Provider != "gemini" || info.Model != strings.TrimPrefix(name, "models/") || info.Local {
				t.Errorf("Info = %+v", info)
			}
			info.Formats[0] = "changed"
			if m.Info().Formats[0] == "changed" {
				t.Error("what Info gave changes the model")
			}
		})
	}
}

func TestTheEnvironmentChangesNothing(t *testing.T) {
	isTrapped := false
	trap := modeltest.Gemini(t, &modeltest.Script{Ask: func(int, []byte) modeltest.Turn {
		isTrapped = true
		return modeltest.Turn{Text: "trapped"}
	}})
	script := &modeltest.Script{Turns: []modeltest.Turn{{Text: "here"}}}
	url := modeltest.Gemini(t, script)
	credentials := filepath.Join(t.TempDir(), "credentials.json")
	text := `{"type":"authorized_user","client_id":"id","client_secret":"secret","refresh_token":"token","token_uri":"` + trap + `"}`
	if err := os.WriteFile(credentials, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	was := http.DefaultTransport
	http.DefaultTransport = trapTransport{t}
	t.Cleanup(func() { http.DefaultTransport = was })
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })

	answer(t, model(t, oldModel, url, nil), ask("hello"))
	for name, value := range map[string]string{
		"GOOGLE_API_KEY": "AIzaSyAnother-key-of-the-environment-000", "GEMINI_API_KEY": "AIzaSyThird-key-of-the-environment-00000",
		"GOOGLE_GEMINI_BASE_URL": trap, "GOOGLE_VERTEX_BASE_URL": trap, "GOOGLE_GENAI_BASE_URL": trap,
		"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_GENAI_USE_ENTERPRISE": "1",
		"GOOGLE_CLOUD_PROJECT": "project", "GOOGLE_CLOUD_LOCATION": "us-central1", "GOOGLE_CLOUD_REGION": "us-central1",
		"GOOGLE_APPLICATION_CREDENTIALS": credentials, "GCE_METADATA_HOST": strings.TrimPrefix(trap, "http://"),
		"GOOGLE_GENAI_REPLAYS_DIRECTORY": t.TempDir(), "GOOGLE_GENAI_CLIENT_MODE": "replay",
	} {
		t.Setenv(name, value)
	}
	if got := answer(t, model(t, oldModel, url, nil), ask("hello")); got.Text != "here" {
		t.Errorf("the answer is %q, from elsewhere", got.Text)
	}
	seen := script.Requests()
	if len(seen) != 2 {
		t.Fatalf("%d requests came, want 2", len(seen))
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("the environment changes the request (-without +with):\n%s", diff)
	}
	if got := seen[1].Header.Get("X-Goog-Api-Client"); got != "" {
		t.Errorf("it is told of this program: %q", got)
	}
	if got := seen[1].Header.Get("X-Goog-Api-Key"); got != key {
		t.Error("the key is another one")
	}
	if _, err := gemini.New(&gemini.Options{Model: oldModel, BaseURL: url}); err == nil {
		t.Error("a model without a key is made, with one of the environment")
	}
	var own string
	m := model(t, oldModel, "", &endpoint.Options{Show: func(s endpoint.Shown) { own = s.URL }})
	if _, err := m.Answer(t.Context(), ask("hello"), nil); !errors.Is(err, endpoint.ErrShown) || !strings.HasPrefix(own, "https://generativelanguage.googleapis.com/v1beta/") {
		t.Errorf("with no base URL it goes to %s", own)
	}
	if isTrapped {
		t.Error("an address of the environment was asked")
	}
	if logged.Len() > 0 {
		t.Errorf("the standard logger wrote: %s", &logged)
	}
}

// A trapTransport fails the test of whoever uses it.
type trapTransport struct{ t *testing.T }

func (tr trapTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	tr.t.Errorf("a request of its own goes to %s", req.URL.Host)
	return nil, errors.New("trapped")
}

func TestNothingIsWrittenWhenAnAnswerIsCut(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Text: "a long text that is cut", CutAfter: 1, Chunk: 4}}}), nil)
	if e := fault(t, m, ask("hello")); e.Fault != planner.FaultCut || !e.Again {
		t.Errorf("the fault is %q, Again %v, want it cut", e.Fault, e.Again)
	}
	m = model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Flood: 8 << 20}}}), nil)
	if e := fault(t, m, ask("hello")); e.Fault != planner.FaultTooBig {
		t.Errorf("the fault is %q, want it too big", e.Fault)
	}
	if logged.Len() > 0 {
		t.Errorf("the standard logger wrote: %s", &logged)
	}
}

func TestAModelIsSafeForConcurrentUse(t *testing.T) {
	m := model(t, newModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Text: "a text of several pieces", Chunk: 3}}}), nil)
	done := make(chan string)
	for range 8 {
		go func() {
			a, err := m.Answer(t.Context(), ask("hello"), nil)
			if err != nil {
				done <- err.Error()
				return
			}
			done <- a.Text
		}()
	}
	for range 8 {
		if got := <-done; got != "a text of several pieces" {
			t.Errorf("an answer is %q", got)
		}
	}
}

// body is a request's body as a value.
func body(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("the body is no JSON: %v\n%s", err, raw)
	}
	return v
}
