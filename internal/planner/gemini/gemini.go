// Package gemini asks Google's Gemini models, through the Gemini Developer API. It speaks to
// its endpoint alone: it knows no Vertex AI, no application-default credentials and no
// metadata server, and nothing of the environment.
package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp/syntax"
	"strings"
	"sync"

	"google.golang.org/genai"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// Provider is Info.Provider of these models.
const Provider = "gemini"

// DefaultBaseURL is where Google has the API.
const DefaultBaseURL = "https://generativelanguage.googleapis.com"

const defaultVersion = "v1beta"

// Options say which model is asked, and where.
type Options struct {
	// Model is a name such as gemini-2.5-flash, with or without models/ before it.
	Model string

	// BaseURL is where the API is, with or without its version as the last part; "" means
	// DefaultBaseURL.
	BaseURL string

	// Key is sent in the header x-goog-api-key of each request, and to nobody else.
	Key string

	// HTTP carries the requests: a client of package endpoint. Nil means one with its
	// defaults.
	HTTP *http.Client
}

// A Model is a Gemini model. It is safe for concurrent use.
type Model struct {
	info    planner.Info
	name    string // with models/ or tunedModels/
	traits  traits
	base    string
	version string
	key     string
	http    *http.Client
	client  func() (*genai.Client, error)
}

var _ planner.Model = (*Model)(nil)

// New makes a model. It asks nothing and costs next to nothing: genai's client is made when
// the first answer is asked for. An error says what of opts is not to be used, without the key.
func New(opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	name, err := modelPath(opts.Model)
	if err != nil {
		return nil, err
	}
	base, version, err := address(opts.BaseURL)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(opts.Key)
	if key == "" {
		return nil, errors.New("gemini: there is no key: set GEMINI_API_KEY, or key_command in the settings")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("gemini: the key has characters that no key has: check where it comes from")
	}
	client := opts.HTTP
	if client == nil {
		client = endpoint.Client(nil)
	}
	m := &Model{name: name, traits: traitsOf(name), base: base, version: version, key: key, http: reading(client)}
	m.client = sync.OnceValues(m.connect)
	m.info = planner.Info{
		Provider: Provider,
		Model:    strings.TrimPrefix(name, "models/"),
		Endpoint: base + "/" + version,
		Formats:  m.traits.formats,
	}
	return m, nil
}

// Info is what is known of the model.
func (m *Model) Info() planner.Info {
	info := m.info
	info.Formats = append([]planner.Format(nil), info.Formats...)
	return info
}

// modelPath is a model's name as it stands in the API's paths.
func modelPath(name string) (string, error) {
	bare, prefix := name, "models/"
	for _, p := range []string{"models/", "tunedModels/"} {
		if rest, ok := strings.CutPrefix(name, p); ok {
			bare, prefix = rest, p
		}
	}
	if bare == "" {
		return "", errors.New("gemini: no model is named: set model")
	}
	isOther := func(r rune) bool { return !syntax.IsWordChar(r) && r != '-' && r != '.' }
	if len(bare) > 200 || strings.ContainsFunc(bare, isOther) || strings.Trim(bare, ".") == "" {
		return "", fmt.Errorf("gemini: %.100q is no name of a model: check model", name)
	}
	return prefix + bare, nil
}

// address takes a base URL apart: what comes before the API's version, and the version.
func address(text string) (base, version string, err error) {
	if text == "" {
		text = DefaultBaseURL
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // the error has the whole URL in it
		return "", "", errors.New("gemini: base_url is no URL")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return "", "", errors.New("gemini: base_url has to begin with https:// or http:// and name a host")
	case u.User != nil:
		return "", "", errors.New("gemini: base_url must not have a name or a password in it")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", "", errors.New("gemini: base_url must not have a query or a fragment: the key is sent in a header")
	}
	path, version := strings.TrimRight(u.Path, "/"), defaultVersion
	if i := strings.LastIndexByte(path, '/'); i >= 0 && isVersion(path[i+1:]) {
		path, version = path[:i], path[i+1:]
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}
	return bare.String(), version, nil
}

// isVersion reports whether a part of a path is a version of the API: v1, v1beta, v1alpha.
func isVersion(part string) bool {
	rest, ok := strings.CutPrefix(part, "v")
	if !ok || rest == "" || rest[0] < '1' || rest[0] > '9' {
		return false
	}
	rest = strings.TrimLeft(rest, "0123456789")
	for _, stage := range []string{"alpha", "beta"} {
		if after, ok := strings.CutPrefix(rest, stage); ok {
			return strings.Trim(after, "0123456789") == ""
		}
	}
	return rest == ""
}

// connect makes genai's client. All that genai would otherwise take from the environment is
// said: the backend, the key, the base URL, the version and the HTTP client.
func (m *Model) connect() (*genai.Client, error) {
	defer quiet()()
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey:      m.key,
		Backend:     genai.BackendGeminiAPI,
		HTTPClient:  m.http,
		HTTPOptions: genai.HTTPOptions{BaseURL: m.base, APIVersion: m.version},
	})
	if err != nil {
		return nil, errors.New("genai's client cannot be made") // its error has the key in it
	}
	return client, nil
}
