package config

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/internal/yamlfile"
)

// AI is which language model is asked, and what it is given. There is no member for a key:
// a file is copied, shown and committed.
type AI struct {
	Provider   string // one of Providers; "" is none
	Model      string
	BaseURL    string // as BaseURL gives it
	APIVersion string // of Azure

	// KeyCommand is a line for the shell that prints the key.
	KeyCommand string

	Include      []string // files and globs that are sent with each request
	Instructions bool     // a project's AGENTS.md is sent
	Tools        bool     // the read-only tools are offered to the model
	History      bool     // commands that were run are put into the shell's history
	Timeout      time.Duration
	MaxTokens    int64 // of an answer; 0: as many as the provider has by default
}

// Providers are the names of those that a model can be asked of.
func Providers() []string {
	return []string{"openai", "azure", "anthropic", "gemini", "ollama", "vllm", "llamacpp", "lmstudio", "openrouter", "groq"}
}

const (
	maxTokens   = 1 << 20
	maxIncludes = 100
)

// read is a Set.
func (a *AI) read(name string, n yamlfile.Node) error {
	m := yamlfile.Members{
		"provider":     yamlfile.OneOf(&a.Provider, Providers()...),
		"model":        yamlfile.Line(&a.Model),
		"base_url":     baseURL(&a.BaseURL),
		"api_version":  yamlfile.Line(&a.APIVersion),
		"key_command":  yamlfile.Line(&a.KeyCommand),
		"include":      yamlfile.Lines(&a.Include, maxIncludes, `[NOTES.md, "docs/**/*.md"]`),
		"instructions": yamlfile.Bool(&a.Instructions),
		"tools":        yamlfile.Bool(&a.Tools),
		"history":      yamlfile.Bool(&a.History),
		"timeout":      yamlfile.Span(&a.Timeout),
		"max_tokens":   yamlfile.Whole(&a.MaxTokens, 1, maxTokens),
	}
	err := n.MappingBut(name, m, func(member string) string {
		if !secret(member) {
			return ""
		}
		return "a key does not belong in a file; set key_command to a command that prints it, such as pass show openai, or set the provider's own variable"
	})
	switch {
	case err != nil:
		return err
	case a.APIVersion != "" && a.Provider != "azure":
		return n.Fail("ai: api_version is for provider: azure alone; take it out")
	case a.KeyCommand != "" && a.Provider == "" && a.BaseURL == "":
		return n.Fail("ai: key_command belongs to a provider; write provider: beside it")
	}
	return nil
}

// secret reports whether a member's name is one that people write keys behind.
func secret(key string) bool {
	key = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
	return slices.Contains([]string{"key", "apikey", "token", "apitoken", "authtoken", "secret", "password"}, key)
}

// BaseURL checks the address of an API, and gives it without slashes at its end. The error
// does not hold the text, in which there may be a password.
func BaseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || !yamlfile.Visible(text) || strings.ContainsAny(text, " \\"):
		return "", errors.New("it is no URL; write one such as https://api.example.com/v1")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("it does not begin with https:// or http://")
	case u.Hostname() == "" || u.Opaque != "":
		return "", errors.New("it names no host; write one such as https://api.example.com/v1")
	case u.User != nil:
		return "", errors.New("it holds a name or a password; take them out, and use key_command or the provider's variable")
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("it has a query; take out what begins with ?")
	case strings.Contains(text, "#"):
		return "", errors.New("it has a fragment; take out what begins with #")
	case !goodPort(u):
		return "", errors.New("its port is none from 1 to 65535")
	}
	u.Host = strings.ToLower(u.Host)
	return strings.TrimRight(u.String(), "/"), nil
}

func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// baseURL is the address of an API.
func baseURL(to *string) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		text, err := n.Line(name)
		if err != nil {
			return err
		}
		if *to, err = BaseURL(text); err != nil {
			return n.Fail("%s: %v", name, err)
		}
		return nil
	}
}
