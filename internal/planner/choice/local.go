package choice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"airlock/internal/near"
)

// A server is a model server that was looked for on this machine.
type server struct {
	provider string
	address  string // "http://127.0.0.1:11434"
	models   []string
	away     []string // models that it has another machine answer for

	// problem is what is wrong with what answered, for a person; "" where nothing did, or
	// where it is all right.
	problem string
}

// find looks for a model on this machine, and takes it as the target.
func (c *chooser) find(ctx context.Context, t *target) error {
	var servers []*server
	if address, ok := c.ollama(); ok {
		servers = append(servers, &server{provider: ollama, address: address})
	} else {
		c.note("OLLAMA_HOST names another machine, which is not asked unless AIRLOCK_PROVIDER=ollama and AIRLOCK_BASE_URL say so")
	}
	servers = append(servers, &server{provider: llamacpp, address: "http://127.0.0.1:8080"})
	look := c.opts.Look
	if look <= 0 {
		look = lookTime
	}
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	var asked sync.WaitGroup
	for _, s := range servers {
		asked.Go(func() { c.ask(ctx, s, trusted) })
	}
	asked.Wait()
	var said []string
	for _, s := range servers {
		if s.problem == "" && len(s.models) > 0 && s.take(t) {
			for _, problem := range said {
				c.note(problem)
			}
			return nil
		}
		if text := s.why(t.model); text != "" {
			said = append(said, text)
		}
	}
	return c.nothing(said)
}

// take makes the server the target, where it has the model that is named, if one is.
func (s *server) take(t *target) bool {
	model := s.models[0]
	if t.model != "" {
		if model = s.has(t.model); model == "" {
			return false
		}
	}
	t.provider, t.baseURL, t.named, t.model = named(s.provider), s.address+"/v1", true, model
	t.why, t.found = "found on "+host(s.address), true
	return true
}

// has is the server's own name for a model; "" where it has none such.
func (s *server) has(model string) string {
	for _, name := range []string{model, model + ":latest"} {
		if slices.Contains(s.models, name) {
			return name
		}
	}
	return ""
}

// why is the reason why the server was not taken; "" where there is no server.
func (s *server) why(model string) string {
	switch {
	case s.problem != "":
		return s.problem
	case len(s.models) > 0:
		text := fmt.Sprintf("%s on %s has no model %s", s.provider, host(s.address), short(model))
		if meant := near.Name(model, s.models); meant != "" {
			text += fmt.Sprintf("; did you mean %q?", meant)
		}
		return text
	}
	return ""
}

// ask asks a server for its models. check looks at the connection first.
func (c *chooser) ask(ctx context.Context, s *server, check func(net.Conn) error) {
	client := &http.Client{
		Transport:     c.transport(check),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	path, read := "/v1/models", s.readModels
	if s.provider == ollama {
		path, read = "/api/tags", s.readTags
	}
	body, err := get(ctx, client, s.address+path)
	refused, _ := errors.AsType[*refusedError](err)
	switch {
	case refused != nil:
		s.problem = fmt.Sprintf("what listens on %s is left alone: %v; AIRLOCK_PROVIDER=%s uses it all the same", host(s.address), refused, s.provider)
	case err != nil: // nothing is there, or something else
	case !read(body):
		s.models, s.away = nil, nil
	case len(s.models) == 0:
		s.problem = fmt.Sprintf("%s on %s has no model of its own that answers in text", s.provider, host(s.address))
	}
}

// transport carries requests to a server on this machine, after check has passed the
// connection.
func (c *chooser) transport(check func(net.Conn) error) *http.Transport {
	dial := c.opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: namedTime}).DialContext
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if err := check(conn); err != nil {
				conn.Close()
				return nil, &refusedError{err}
			}
			return conn, nil
		},
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           4,
		IdleConnTimeout:        30 * time.Second,
	}
}

// A refusedError is why a server is left alone.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// maxList is how long a list of models may be.
const maxList = 1 << 20

// get reads a JSON document.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "application/json" {
		return nil, errors.New("this is no list of models")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	if err == nil && len(body) > maxList {
		err = errors.New("this is no list of models")
	}
	return body, err
}

// readTags reads Ollama's list, which begins with what came last.
func (s *server) readTags(body []byte) bool {
	var list struct {
		Models []struct {
			Name         string   `json:"name"`
			RemoteHost   string   `json:"remote_host"`
			Capabilities []string `json:"capabilities"`
			Details      struct {
				Family   string   `json:"family"`
				Families []string `json:"families"`
			} `json:"details"`
		} `json:"models"`
	}
	if json.Unmarshal(body, &list) != nil || list.Models == nil {
		return false
	}
	for _, m := range list.Models {
		switch {
		case m.Name == "" || goodModel(m.Name) != nil:
			return false
		case embeds(m.Name, append(m.Details.Families, m.Details.Family)):
		case len(m.Capabilities) > 0 && !slices.Contains(m.Capabilities, "completion"):
		case m.RemoteHost != "" || cloud(m.Name):
			s.away = append(s.away, m.Name)
		default:
			s.models = append(s.models, m.Name)
		}
	}
	return true
}

// cloud reports whether a name is one of those that Ollama hands on to its maker's machines.
func cloud(name string) bool {
	return strings.HasSuffix(name, "-cloud") || strings.HasSuffix(name, ":cloud")
}

// embeds reports whether a model turns text into numbers, and answers nothing.
func embeds(name string, families []string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"embed", "minilm", "bge-"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return slices.ContainsFunc(families, func(f string) bool { return strings.HasSuffix(f, "bert") })
}

// readModels reads llama.cpp's list. What is not llama.cpp's is none of ours.
func (s *server) readModels(body []byte) bool {
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Data) == 0 {
		return false
	}
	for _, m := range list.Data {
		if m.ID == "" || goodModel(m.ID) != nil || m.OwnedBy != llamacpp {
			return false
		}
		if !embeds(m.ID, nil) {
			s.models = append(s.models, m.ID)
		}
	}
	return true
}

// needModel fills in the model where nobody named one.
func (c *chooser) needModel(ctx context.Context, t *target) error {
	p := t.provider
	if t.model == "" && sameOrigin(t.baseURL, p.base) {
		t.model = p.model
	}
	if t.model == "" && (p.name == ollama || p.name == llamacpp) && loopback(t.baseURL) {
		if err := c.askNamed(ctx, t); err != nil {
			return err
		}
	}
	if t.model == "" {
		return fmt.Errorf("%s (%s): no model is named; write model: NAME below ai: in %s, or set AIRLOCK_MODEL", p.name, t.why, c.file())
	}
	if p.name == ollama && cloud(t.model) {
		t.away = true
		c.note(fmt.Sprintf("Ollama has %s answered by its maker's machines: what is sent leaves this one", t.model))
	}
	return nil
}

// namedTime bounds the question for a model to a server that was named.
const namedTime = 2 * time.Second

// askNamed asks the server that was named for a model; it is trusted as it was named.
func (c *chooser) askNamed(ctx context.Context, t *target) error {
	ctx, cancel := context.WithTimeout(ctx, namedTime)
	defer cancel()
	s := &server{provider: t.provider.name, address: strings.TrimSuffix(t.baseURL, "/v1")}
	c.ask(ctx, s, func(net.Conn) error { return nil })
	switch {
	case len(s.models) > 0:
		t.model = s.models[0]
		return nil
	case len(s.away) > 0:
		return fmt.Errorf("%s on %s has only models that other machines answer for, such as %s; write model: NAME below ai: in %s if you want one", s.provider, host(s.address), s.away[0], c.file())
	case s.problem != "":
		return errors.New(s.problem)
	}
	return fmt.Errorf("%s on %s does not answer, or has no model: start it and give it one, or write model: NAME below ai: in %s", s.provider, host(s.address), c.file())
}
