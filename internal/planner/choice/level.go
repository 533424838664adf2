package choice

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"airlock/internal/config"
)

// A level is what one place says: its members belong together.
type level struct {
	provider *provider // nil where the level names none
	model    string
	baseURL  string

	version, keyCommand string // of the settings

	// names are those of provider, model and base URL there.
	names [3]string
	// place is the level for a person: "the settings".
	place string
}

// levels are the places that can name a model, the strongest first.
func (c *chooser) levels() ([]level, error) {
	o, ai := c.opts, &c.opts.AI
	said := []struct {
		level
		provider, model, baseURL string
	}{
		{level{place: "the command line", names: [3]string{"--provider", "--model", "--base-url"}}, o.Provider, o.Model, o.BaseURL},
		{
			level{place: "the environment", names: [3]string{"AIRLOCK_PROVIDER", "AIRLOCK_MODEL", "AIRLOCK_BASE_URL"}},
			c.env("AIRLOCK_PROVIDER"), c.env("AIRLOCK_MODEL"), c.env("AIRLOCK_BASE_URL"),
		},
		{level{place: settings, names: [3]string{settings, settings, settings}, version: ai.APIVersion, keyCommand: ai.KeyCommand}, ai.Provider, ai.Model, ai.BaseURL},
	}
	out := make([]level, 0, len(said))
	for _, s := range said {
		l := s.level
		var err error
		if s.provider != "" {
			if l.provider, err = lookUp(l.names[0], s.provider); err != nil {
				return nil, err
			}
		}
		if s.model != "" {
			if err := goodModel(s.model); err != nil {
				return nil, fmt.Errorf("%s: %w", l.names[1], err)
			}
			l.model = s.model
		}
		if s.baseURL != "" {
			if l.baseURL, err = config.BaseURL(s.baseURL); err != nil {
				return nil, fmt.Errorf("%s: %w", l.names[2], err)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

const settings = "the settings"

func goodModel(name string) error {
	const most = 500 // bytes
	switch {
	case len(name) > most:
		return fmt.Errorf("the model's name has more than %d bytes", most)
	case name != strings.TrimSpace(name):
		return errors.New("the model's name begins or ends with a space")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the model's name holds a character that cannot be seen")
	}
	return nil
}

// merge adds what a weaker level says to what stronger ones said. The strongest level that
// names a provider or an address decides both; of weaker levels only those count that name
// the same provider at the same address. A model counts for a provider of its own level and
// for those of weaker ones.
func (c *chooser) merge(t *target, l *level) {
	names := l.provider != nil || l.baseURL != ""
	switch {
	case t.provider == nil:
		if t.model == "" && l.model != "" {
			t.model, t.modelFrom = l.model, l.names[1]
		}
		if names {
			t.take(l)
		}
	case names && t.same(l):
		t.complete(l)
	default:
		c.leaveOut(t, l)
	}
}

// take makes a level's provider and address the target's.
func (t *target) take(l *level) {
	t.provider, t.named, t.why = l.provider, true, l.names[0]
	if l.provider == nil {
		// The address of a provider's own says whose it is; any other is OpenAI's API.
		t.named, t.why = false, l.names[2]
		if t.provider = at(l.baseURL); t.provider == nil {
			t.provider = named(compat)
		}
	}
	t.baseURL, t.version, t.keyCommand = l.baseURL, l.version, l.keyCommand
}

// same reports whether a weaker level is about the target.
func (t *target) same(l *level) bool {
	switch {
	case l.provider == nil: // an address alone
		return t.baseURL != "" && sameOrigin(t.baseURL, l.baseURL)
	case t.named && l.provider.name != t.provider.name:
		return false
	case t.baseURL == "":
		return true
	}
	return sameOrigin(t.baseURL, l.address())
}

// address is where a level's provider is; "" where that is not said.
func (l *level) address() string {
	if l.baseURL != "" || l.provider == nil {
		return l.baseURL
	}
	return l.provider.base
}

// complete adds what a weaker level says of the target.
func (t *target) complete(l *level) {
	if l.provider != nil && !t.named {
		t.provider, t.named = l.provider, true
	}
	if t.baseURL == "" {
		t.baseURL = l.baseURL
	}
	if t.model == "" && l.model != "" {
		t.model, t.modelFrom = l.model, l.names[1]
	}
	if t.version == "" {
		t.version = l.version
	}
	if t.keyCommand == "" {
		t.keyCommand = l.keyCommand
	}
}

// leaveOut says so where a level's model would otherwise have counted.
func (c *chooser) leaveOut(t *target, l *level) {
	if l.model != "" && t.model == "" {
		c.note(fmt.Sprintf("the model %s of %s is left out: %s names another provider or address, and what a place says belongs together", l.model, l.place, t.why))
	}
}

// place settles the address of a provider that was named.
func (c *chooser) place(t *target) error {
	p := t.provider
	switch {
	case t.baseURL != "":
	case p.name == ollama:
		address, ok := c.ollama()
		if !ok {
			return fmt.Errorf("OLLAMA_HOST names another machine; write base_url: http://HOST:11434/v1 below ai: in %s, or set AIRLOCK_PROVIDER=ollama and AIRLOCK_BASE_URL", c.file())
		}
		if t.baseURL = address + "/v1"; !sameOrigin(t.baseURL, p.base) {
			t.fromEnv = "OLLAMA_HOST"
		}
	case p.name == azure:
		address, err := c.azure()
		if err != nil {
			return err
		}
		t.baseURL, t.fromEnv = address, azureVariable
	default:
		t.baseURL = p.base
		if other := c.env(p.other); p.other != "" && other != "" && !sameOrigin(other, p.base) {
			c.note(fmt.Sprintf("%s is not used: set AIRLOCK_PROVIDER=%s and AIRLOCK_BASE_URL for another address than %s", p.other, p.name, p.base))
		}
	}
	return nil
}

const azureVariable = "AZURE_OPENAI_ENDPOINT"

// azure is the address that its variable names.
func (c *chooser) azure() (string, error) {
	text := c.env(azureVariable)
	if text == "" {
		return "", fmt.Errorf("azure has an address of your own: write base_url: https://NAME.openai.azure.com below ai: in %s, or set AZURE_OPENAI_ENDPOINT", c.file())
	}
	address, err := config.BaseURL(text)
	if err != nil {
		return "", fmt.Errorf("AZURE_OPENAI_ENDPOINT: %w", err)
	}
	return address, nil
}

// ollama is where Ollama is, by OLLAMA_HOST; false where that is another machine. A server
// that listens everywhere listens here too.
func (c *chooser) ollama() (string, bool) {
	text := strings.TrimSpace(c.env("OLLAMA_HOST"))
	scheme, rest, found := strings.Cut(text, "://")
	port := "11434"
	switch {
	case !found:
		scheme, rest = "http", text
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	default:
		return "", false
	}
	rest = strings.TrimRight(rest, "/")
	name := rest
	if h, p, err := net.SplitHostPort(rest); err == nil {
		name = h
		if p != "" {
			port = p
		}
	}
	switch name = strings.Trim(name, "[]"); name {
	case "", "0.0.0.0":
		name = "127.0.0.1"
	case "::":
		name = "::1"
	}
	if !loopbackHost(name) {
		return "", false
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(name, port)}
	address, err := config.BaseURL(u.String())
	return address, err == nil
}

// file is the settings file for a sentence.
func (c *chooser) file() string {
	if c.opts.Settings == "" {
		return settings
	}
	return c.opts.Settings
}
