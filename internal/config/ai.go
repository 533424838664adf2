package config

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"airlock/internal/near"
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
	maxWord     = 4096 // bytes
)

// read is a set.
func (a *AI) read(r *reader, name string, n ast.Node) error {
	err := r.mapping(n, name, members{
		"provider":     oneOf(&a.Provider, Providers()),
		"model":        word(&a.Model),
		"base_url":     baseURL(&a.BaseURL),
		"api_version":  word(&a.APIVersion),
		"key_command":  word(&a.KeyCommand),
		"include":      words(&a.Include, maxIncludes),
		"instructions": boolean(&a.Instructions),
		"tools":        boolean(&a.Tools),
		"history":      boolean(&a.History),
		"timeout":      age(&a.Timeout),
		"max_tokens":   count(&a.MaxTokens, maxTokens),
	})
	switch {
	case err != nil:
		return err
	case a.APIVersion != "" && a.Provider != "azure":
		return r.fail(n, "ai: api_version is for provider: azure alone; take it out")
	case a.KeyCommand != "" && a.Provider == "" && a.BaseURL == "":
		return r.fail(n, "ai: key_command belongs to a provider; write provider: beside it")
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
	case err != nil || !plain(text) || strings.ContainsAny(text, " \\"):
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
func baseURL(to *string) set {
	return func(r *reader, name string, n ast.Node) error {
		text, err := r.text(n, name)
		if err != nil {
			return err
		}
		if *to, err = BaseURL(text); err != nil {
			return r.fail(n, "%s: %v", name, err)
		}
		return nil
	}
}

// oneOf is one of a few words.
func oneOf(to *string, all []string) set {
	return func(r *reader, name string, n ast.Node) error {
		text, err := r.text(n, name)
		if err != nil {
			return err
		}
		if slices.Contains(all, text) {
			*to = text
			return nil
		}
		if meant := near.Name(text, all); meant != "" {
			return r.fail(n, "%s: there is no %q; did you mean %q?", name, text, meant)
		}
		return r.fail(n, "%s: there is no %q; there is %s", name, text, strings.Join(all, ", "))
	}
}

// word is one line of text.
func word(to *string) set {
	return func(r *reader, name string, n ast.Node) (err error) {
		*to, err = r.text(n, name)
		return err
	}
}

// words is a list of lines.
func words(to *[]string, most int) set {
	return func(r *reader, name string, n ast.Node) error {
		list, ok := n.(*ast.SequenceNode)
		switch {
		case !ok:
			return r.fail(n, `%s is a list, such as [NOTES.md, "docs/**/*.md"]`, name)
		case len(list.Values) > most:
			return r.fail(n, "%s has more than %d entries", name, most)
		}
		out := make([]string, 0, len(list.Values))
		for _, item := range list.Values {
			text, err := r.text(item, name)
			if err != nil {
				return err
			}
			out = append(out, text)
		}
		*to = out
		return nil
	}
}

// boolean is true or false.
func boolean(to *bool) set {
	return func(r *reader, name string, n ast.Node) error {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return r.fail(n, "%s: write true or false", name)
		}
		*to = b.Value
		return nil
	}
}

// count is a whole number from 1 to most.
func count(to *int64, most int64) set {
	return func(r *reader, name string, n ast.Node) error {
		text, err := r.scalar(n, name)
		if err != nil {
			return err
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 1 || v > most {
			return r.fail(n, "%s is %q; write a whole number from 1 to %d", name, text, most)
		}
		*to = v
		return nil
	}
}

// text is one line, with nothing in it that cannot be seen.
func (r *reader) text(n ast.Node, name string) (string, error) {
	text := ""
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.IntegerNode:
		text = n.GetToken().Value
	case *ast.FloatNode:
		text = n.GetToken().Value
	default:
		return "", r.fail(n, "%s: write one line of text here", name)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", r.fail(n, "%s is empty; take it out", name)
	case text != strings.TrimSpace(text):
		return "", r.fail(n, "%s begins or ends with a space", name)
	case len(text) > maxWord:
		return "", r.fail(n, "%s has more than %d bytes", name, maxWord)
	case !plain(text):
		return "", r.fail(n, "%s holds a character that cannot be seen, such as the end of a line", name)
	}
	return text, nil
}

// plain reports whether all of a text can be seen.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}
