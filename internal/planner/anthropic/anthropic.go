// Package anthropic asks models of Anthropic's Messages API, and of endpoints that speak it.
// It knows that API's wire format, through its SDK, and neither plans nor where its key comes
// from: of the environment it reads nothing.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// DefaultBaseURL is the API's own address.
const DefaultBaseURL = "https://api.anthropic.com"

// provider is the name in planner.Info and in what comes back as planner.Message.Opaque.
const provider = "anthropic"

// Options say which model is asked, and where.
type Options struct {
	Model   string // required
	BaseURL string // without /v1/messages; "": DefaultBaseURL
	Key     string // "": none is sent, for an endpoint that wants none

	// HTTP carries the requests: a client of package endpoint; nil means one of its own.
	HTTP *http.Client
}

// A Model is a model behind the Messages API. It is safe for concurrent use.
type Model struct {
	model    string
	url      string
	messages anthropic.MessageService
}

// New makes a Model. It asks nobody.
func New(opts *Options) (*Model, error) {
	if opts == nil || strings.TrimSpace(opts.Model) == "" {
		return nil, errors.New("anthropic: no model is named")
	}
	if strings.ContainsFunc(opts.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("anthropic: the key holds a space, a line break or another character that no key has")
	}
	base, err := baseURL(opts.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	client := opts.HTTP
	if client == nil {
		client = endpoint.Client(nil)
	}
	// A service, unlike a client, takes neither credentials nor an address from the
	// environment or from profiles; what is left that does is turned off.
	sdk := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(client),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
		option.WithOpenTelemetryPropagation(false),
	}
	if opts.Key != "" {
		sdk = append(sdk, option.WithAPIKey(opts.Key))
	}
	return &Model{model: opts.Model, url: base, messages: anthropic.NewMessageService(sdk...)}, nil
}

// baseURL checks an address, and brings it into the form in which the SDK adds /v1/messages.
func baseURL(text string) (string, error) {
	if text == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("base_url is no URL") // the cause would quote it
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return "", errors.New("base_url has to begin with https:// or http:// and name a host")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", errors.New("base_url may not hold a name, a password, a query or a fragment")
	}
	path := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"/messages", "/v1"} { // as other programs want it
		path = strings.TrimRight(strings.TrimSuffix(path, end), "/")
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}).String(), nil
}

// Info is what is known of the model.
func (m *Model) Info() planner.Info {
	return planner.Info{
		Provider: provider,
		Model:    m.model,
		Endpoint: m.url,
		Formats:  []planner.Format{planner.FormatSchema, planner.FormatTool, planner.FormatText},
	}
}

// Answer asks for the next message, always as a stream. An endpoint that answers in one piece
// all the same is understood.
func (m *Model) Answer(ctx context.Context, req *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	if on == nil {
		on = func(planner.Delta) {}
	}
	params, err := m.params(req)
	if err != nil {
		return nil, &planner.Error{Fault: planner.FaultRejected, Endpoint: m.url, Text: err.Error()}
	}
	ctx, watched := endpoint.Watch(ctx)
	var res *http.Response
	stream := m.messages.NewStreaming(ctx, *params, option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }()
	var answer *planner.Answer
	var fault *planner.Error
	if err := stream.Err(); err != nil {
		fault = m.failed(watched, err)
	} else if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		answer, fault = m.whole(watched, res.Body, on)
	} else {
		answer, fault = m.streamed(watched, stream, on)
	}
	if fault != nil {
		return nil, fault
	}
	return answer, nil
}

// failed makes the error of what the SDK says went wrong.
func (m *Model) failed(watched *endpoint.Watched, err error) *planner.Error {
	if reported, ok := errors.AsType[*anthropic.Error](err); ok && watched.Seen() == nil {
		return watched.Reported(m.url, reported.StatusCode, []byte(reported.RawJSON()))
	}
	return watched.Error(m.url, err)
}

// streamed reads an answer from its events.
func (m *Model) streamed(watched *endpoint.Watched, stream *ssestream.Stream[anthropic.MessageStreamEventUnion], on func(planner.Delta)) (*planner.Answer, *planner.Error) {
	d := &draft{on: on}
	for stream.Next() {
		event := stream.Current()
		if event.Type == "error" { // under another name than an error's
			return nil, watched.Reported(m.url, http.StatusOK, []byte(event.RawJSON()))
		}
		d.take(&event)
		if d.stopped {
			return m.finish(watched, d)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, m.failed(watched, err)
	}
	if !d.started {
		fault := watched.Fault(m.url, planner.FaultGarbled, "the event stream is not that of the Messages API")
		fault.Mend = "check that base_url is that of an API of Anthropic's kind"
		return nil, fault
	}
	return nil, watched.Fault(m.url, planner.FaultCut, "the answer ended in its middle")
}

// whole reads an answer that came in one piece.
func (m *Model) whole(watched *endpoint.Watched, body io.Reader, on func(planner.Delta)) (*planner.Answer, *planner.Error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, watched.Error(m.url, err)
	}
	var message anthropic.Message
	if err := json.Unmarshal(raw, &message); err != nil || !message.JSON.Content.Valid() {
		fault := watched.Fault(m.url, planner.FaultGarbled, "the answer is no message of the Messages API")
		fault.Mend = "check that base_url is that of an API of Anthropic's kind"
		return nil, fault
	}
	d := &draft{on: on}
	d.takeWhole(&message)
	return m.finish(watched, d)
}

// finish makes the answer of a draft that is complete.
func (m *Model) finish(watched *endpoint.Watched, d *draft) (*planner.Answer, *planner.Error) {
	answer := d.answer()
	if d.stop == anthropic.StopReasonModelContextWindowExceeded && answer.Text == "" && len(answer.Calls) == 0 {
		fault := watched.Fault(m.url, planner.FaultTooLong, "there is no room left for an answer")
		fault.Mend = "give it less material, or take a model with a larger window"
		return nil, fault
	}
	answer.Opaque = m.seal(d)
	return answer, nil
}
