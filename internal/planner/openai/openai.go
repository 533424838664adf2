// Package openai asks models by the Chat Completions API: OpenAI's own, and the many servers
// that speak it in their own dialects. What is known of a dialect is a row of a table; what
// an endpoint does not take is found out from its refusal, and remembered.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// Options say which model to ask, and where.
type Options struct {
	Provider string // the name of a flavour: "openai", "ollama", …; another name is one that is like OpenAI's
	Model    string // of Azure: the deployment
	BaseURL  string // ""; the flavour's own
	Key      string // may be empty where NoKey says so

	// APIVersion is Azure's: with one, its older addresses are used.
	APIVersion string

	Header  map[string]string // sent beside the usual ones
	Formats []planner.Format  // in place of the flavour's own
	Local   bool              // the endpoint is on this machine
	HTTP    *http.Client      // nil: endpoint.Client(nil)
	NoKey   bool              // an empty Key is meant
}

// A Model is a model behind a Chat Completions endpoint. It is safe for concurrent use.
type Model struct {
	info     planner.Info
	flavour  flavour
	model    string
	url      string
	chat     openai.ChatCompletionService
	learnt   sync.Mutex
	refusals refusals
}

// New makes a model. It asks nothing yet, and takes nothing from the environment.
func New(opts *Options) (*Model, error) {
	if opts == nil || opts.Model == "" {
		return nil, errors.New("there is no model: name one")
	}
	f := flavourOf(opts.Provider)
	base, err := baseURL(opts, f)
	if err != nil {
		return nil, err
	}
	if opts.Key == "" && !opts.NoKey {
		return nil, fmt.Errorf("there is no key for %s", opts.Provider)
	}
	if strings.ContainsFunc(opts.Key, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("the key for %s has characters that no key has: a space, a line's end or the like", opts.Provider)
	}
	client := opts.HTTP
	if client == nil {
		client = endpoint.Client(nil)
	}
	options := []option.RequestOption{option.WithBaseURL(base.String()), option.WithHTTPClient(client), option.WithMaxRetries(0)}
	switch {
	case opts.Key == "":
	case f.apiKeyHeader:
		options = append(options, option.WithHeader("api-key", opts.Key))
	default:
		options = append(options, option.WithAPIKey(opts.Key))
	}
	if f.apiKeyHeader && opts.APIVersion != "" {
		options = append(options, option.WithQuery("api-version", opts.APIVersion))
	}
	for name, value := range opts.Header {
		options = append(options, option.WithHeader(name, value))
	}
	formats := f.formats
	if len(opts.Formats) > 0 {
		formats = opts.Formats
	}
	formats = slices.DeleteFunc(slices.Clone(formats), func(x planner.Format) bool { return x == planner.FormatText })
	address := base.JoinPath("chat/completions").String()
	return &Model{
		info: planner.Info{
			Provider: opts.Provider, Model: opts.Model, Endpoint: address, Local: opts.Local,
			Formats: append(formats, planner.FormatText),
		},
		flavour: f,
		model:   opts.Model,
		url:     address,
		chat:    openai.NewChatCompletionService(options...),
		refusals: refusals{
			maxCompletionTokens: !f.maxCompletionTokens && base.Hostname() != "api.openai.com",
		},
	}, nil
}

// baseURL is where the API is.
func baseURL(opts *Options, f flavour) (*url.URL, error) {
	text := opts.BaseURL
	if text == "" {
		text = f.base
	}
	if text == "" {
		return nil, fmt.Errorf("there is no base_url for %s: it has none of its own", opts.Provider)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("base_url is no URL") // the error would have it in full, a password included
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("base_url needs to begin with https:// or http:// and a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("base_url may have no credentials, no query and no fragment: a key has a setting of its own")
	}
	if f.apiKeyHeader && opts.APIVersion != "" && (strings.Contains(opts.Model, "/") || strings.Trim(opts.Model, ".") == "") {
		return nil, errors.New("the model is no name of a deployment")
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/chat/completions")
	switch {
	case f.apiKeyHeader && opts.APIVersion != "":
		if !strings.Contains(path, "/openai/deployments/") {
			path = strings.TrimSuffix(strings.TrimSuffix(path, "/v1"), "/openai") + "/openai/deployments/" + opts.Model
		}
	case f.apiKeyHeader:
		if !strings.HasSuffix(path, "/openai/v1") {
			path = strings.TrimSuffix(path, "/openai") + "/openai/v1"
		}
	case path == "":
		path = f.path()
	}
	u.Path, u.RawPath = path+"/", ""
	return u, nil
}

// Info is what is known of the model without asking it.
func (m *Model) Info() planner.Info {
	info := m.info
	info.Formats = slices.Clone(info.Formats)
	return info
}

// maxTries is how often a request is sent until it has nothing left that the endpoint says it
// does not know.
const maxTries = 4

// Answer asks for the next message, as a stream where the endpoint has that. An endpoint that
// refuses a parameter for itself, such as the older name of another one, is asked again
// without it.
func (m *Model) Answer(ctx context.Context, req *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	if on == nil {
		on = func(planner.Delta) {}
	}
	for try := 1; ; try++ {
		known := m.known()
		answer, fault := m.once(ctx, req, known, on)
		if fault == nil {
			return answer, nil
		}
		if try == maxTries || !m.learn(known, fault) {
			return nil, fault
		}
	}
}

// once sends a request, and reads its answer.
func (m *Model) once(ctx context.Context, req *planner.Request, known refusals, on func(planner.Delta)) (*planner.Answer, *planner.Error) {
	params, options, err := m.params(req, known)
	if err != nil {
		return nil, &planner.Error{Fault: planner.FaultRejected, Endpoint: m.url, Text: err.Error()}
	}
	ctx, watched := endpoint.Watch(ctx)
	var res *http.Response
	_, err = m.chat.New(ctx, *params, append(options, option.WithResponseBodyInto(&res))...)
	if err != nil {
		if own, ok := errors.AsType[*openai.Error](err); ok && watched.Seen() == nil {
			return nil, watched.Reported(m.url, own.StatusCode, []byte(own.RawJSON()))
		}
		return nil, watched.Error(m.url, err)
	}
	defer res.Body.Close()
	d := &draft{on: on}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return m.streamed(ctx, watched, d, ssestream.NewDecoder(res))
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, watched.Error(m.url, err)
	}
	if fault := m.take(watched, d, raw); fault != nil {
		return nil, fault
	}
	return m.finish(watched, d, true)
}

// streamed reads an answer from its events. Their framing is the SDK's.
func (m *Model) streamed(ctx context.Context, watched *endpoint.Watched, d *draft, events ssestream.Decoder) (*planner.Answer, *planner.Error) {
	for events.Next() {
		event := events.Event()
		data := strings.TrimSpace(string(event.Data))
		switch {
		case data == "":
			continue
		case strings.HasPrefix(data, "[DONE]"):
			return m.finish(watched, d, true)
		case event.Type == "error":
			return nil, watched.Reported(m.url, http.StatusOK, []byte(data))
		}
		if fault := m.take(watched, d, []byte(data)); fault != nil {
			return nil, fault
		}
	}
	// What goes wrong behind the end of the answer is no matter, unless nobody waits for it.
	if err := events.Err(); err != nil && (d.stop == "" || ctx.Err() != nil) {
		return nil, watched.Error(m.url, err)
	}
	return m.finish(watched, d, d.stop != "")
}

// take adds a chunk, or a whole answer, to a draft.
func (m *Model) take(watched *endpoint.Watched, d *draft, raw []byte) *planner.Error {
	err := d.take(raw)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errReported):
		return watched.Reported(m.url, http.StatusOK, raw)
	}
	fault := watched.Fault(m.url, planner.FaultGarbled, err.Error())
	fault.Mend = "check that base_url is that of a Chat Completions API"
	return fault
}

// finish makes the answer of a draft. Ended says that its end was seen.
func (m *Model) finish(watched *endpoint.Watched, d *draft, ended bool) (*planner.Answer, *planner.Error) {
	switch {
	case !d.begun && ended:
		fault := watched.Fault(m.url, planner.FaultGarbled, "the answer is none of the Chat Completions API")
		fault.Mend = "check that base_url is that of a Chat Completions API"
		return nil, fault
	case !ended:
		return nil, watched.Fault(m.url, planner.FaultCut, "the answer ended in its middle")
	}
	return d.answer(), nil
}
