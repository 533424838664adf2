package choice

import (
	"airlock/internal/planner"
	"airlock/internal/planner/anthropic"
	"airlock/internal/planner/endpoint"
	"airlock/internal/planner/gemini"
	"airlock/internal/planner/openai"
)

// make composes the model: the one HTTP client, and the SDK behind its seam.
func (c *chooser) make(t *target, key string) (planner.Model, error) {
	opts := &endpoint.Options{Show: c.opts.Show}
	if t.found {
		// Nobody vouched for this server: each connection is looked at, not the first alone.
		opts.Transport = c.transport(trusted)
	}
	client := endpoint.Client(opts)
	switch t.provider.wire {
	case wireAnthropic:
		return anthropic.New(&anthropic.Options{Model: t.model, BaseURL: t.baseURL, Key: key, HTTP: client})
	case wireGemini:
		if c.opts.Show != nil {
			key = "none" // its SDK insists on one; nothing is sent
		}
		return gemini.New(&gemini.Options{Model: t.model, BaseURL: t.baseURL, Key: key, HTTP: client})
	default:
		return openai.New(&openai.Options{
			Provider: t.provider.name, Model: t.model, BaseURL: t.baseURL, Key: key, NoKey: key == "",
			APIVersion: t.version, Local: loopback(t.baseURL) && !t.away, HTTP: client,
		})
	}
}
