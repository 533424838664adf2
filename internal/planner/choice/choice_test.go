package choice_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/config"
	"airlock/internal/planner/choice"
	"airlock/internal/planner/endpoint"
)

// vars are an environment.
type vars map[string]string

func (v vars) get(name string) string { return v[name] }

// nobody is a machine on which nothing listens.
func nobody(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

const key = "sk-SECRET-0123456789"

// A want is what a choice comes to.
type want struct {
	provider, model, endpoint string // endpoint: how it begins
	key, why, note            string // note: part of one; "" is none at all
	err                       string // part of it
}

func check(t *testing.T, opts *choice.Options, w want) {
	t.Helper()
	if opts.Settings == "" {
		opts.Settings = "/home/ann/config.yaml"
	}
	if opts.Dial == nil {
		opts.Dial = nobody
	}
	if opts.Look == 0 {
		opts.Look = 20 * time.Second // a busy machine is no failure
	}
	got, err := choice.Choose(t.Context(), opts)
	if err != nil && strings.Contains(err.Error(), "SECRET") {
		t.Fatalf("Choose: the error shows a key")
	}
	if w.err != "" {
		if err == nil || !strings.Contains(err.Error(), w.err) {
			t.Fatalf("Choose: err = %v, want %q", err, w.err)
		}
		return
	}
	if err != nil {
		t.Fatalf("Choose: err = %v", err)
	}
	info := got.Model.Info()
	if info.Provider != w.provider || info.Model != w.model || !strings.HasPrefix(info.Endpoint, w.endpoint) {
		t.Errorf("Choose = %s, %s, %s, want %s, %s, %s…", info.Provider, info.Model, info.Endpoint, w.provider, w.model, w.endpoint)
	}
	if got.Key != w.key || got.Why != w.why {
		t.Errorf("Choose: a key of %d bytes because of %q, want %d because of %q", len(got.Key), got.Why, len(w.key), w.why)
	}
	notes := strings.Join(got.Notes, "\n")
	if (w.note == "") != (notes == "") || !strings.Contains(notes, w.note) {
		t.Errorf("Choose: notes = %q, want %q", notes, w.note)
	}
	if strings.Contains(notes, "SECRET") {
		t.Error("Choose: a note shows a key")
	}
}

func TestOrder(t *testing.T) {
	anthropic := config.AI{Provider: "anthropic", Model: "claude-x"}
	for _, tt := range []struct {
		name string
		opts choice.Options
		env  vars
		want want
	}{
		{
			"the settings",
			choice.Options{AI: anthropic},
			vars{"ANTHROPIC_API_KEY": key},
			want{provider: "anthropic", model: "claude-x", endpoint: "https://api.anthropic.com", key: key, why: "the settings"},
		},
		{
			"the environment is before the settings, and their model stays with their provider",
			choice.Options{AI: config.AI{Provider: "openai", Model: "gpt-x"}},
			vars{"AIRLOCK_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": key},
			want{provider: "anthropic", model: "claude-sonnet-5-5", endpoint: "https://api.anthropic.com", key: key, why: "AIRLOCK_PROVIDER", note: "the model gpt-x of the settings is left out"},
		},
		{
			"the command line is before the environment, and its model stays there",
			choice.Options{Provider: "openai"},
			vars{"AIRLOCK_PROVIDER": "ollama", "AIRLOCK_MODEL": "llama3", "OPENAI_API_KEY": key},
			want{provider: "openai", model: "gpt-5.4", endpoint: "https://api.openai.com/v1", key: key, why: "--provider", note: "the model llama3 of the environment is left out"},
		},
		{
			"a model of a stronger place counts for a provider of a weaker one",
			choice.Options{Model: "claude-y", AI: anthropic},
			vars{"AIRLOCK_MODEL": "claude-z", "ANTHROPIC_API_KEY": key},
			want{provider: "anthropic", model: "claude-y", endpoint: "https://api.anthropic.com", key: key, why: "the settings"},
		},
		{
			"the same provider named twice takes what the weaker place says of it",
			choice.Options{AI: config.AI{Provider: "vllm", Model: "qwen", BaseURL: "https://gpu.example.com/v1"}},
			vars{"AIRLOCK_PROVIDER": "vllm", "VLLM_API_KEY": key},
			want{provider: "vllm", model: "qwen", endpoint: "https://gpu.example.com/v1", key: key, why: "AIRLOCK_PROVIDER"},
		},
		{
			"the same provider at another address takes nothing",
			choice.Options{AI: config.AI{Provider: "vllm", Model: "qwen", BaseURL: "https://gpu.example.com/v1"}},
			vars{"AIRLOCK_PROVIDER": "vllm", "AIRLOCK_BASE_URL": "https://other.example.com/v1"},
			want{err: "vllm (AIRLOCK_PROVIDER): no model is named; write model: NAME below ai: in /home/ann/config.yaml, or set AIRLOCK_MODEL"},
		},
		{
			"the same address without its provider is that provider's",
			choice.Options{BaseURL: "https://gpu.example.com/v2", AI: config.AI{Provider: "vllm", Model: "qwen", BaseURL: "https://GPU.example.com:443/v1"}},
			vars{"VLLM_API_KEY": key},
			want{provider: "vllm", model: "qwen", endpoint: "https://gpu.example.com/v2", key: key, why: "--base-url"},
		},
		{
			"an address alone speaks OpenAI's API, and is sent no key",
			choice.Options{BaseURL: "https://gpu.example.com/v1", Model: "qwen"},
			vars{"OPENAI_API_KEY": key},
			want{provider: "openai", model: "qwen", endpoint: "https://gpu.example.com/v1", why: "--base-url", note: "OPENAI_API_KEY is not sent to gpu.example.com"},
		},
		{
			"a provider's own address alone is that provider's",
			choice.Options{BaseURL: "https://openrouter.ai/api/v1", Model: "a/b"},
			vars{"OPENROUTER_API_KEY": key, "OPENAI_API_KEY": "sk-SECRET-other"},
			want{provider: "openrouter", model: "a/b", endpoint: "https://openrouter.ai/api/v1", key: key, why: "--base-url"},
		},
		{
			"a model of the settings alone goes with the key that is set",
			choice.Options{AI: config.AI{Model: "gpt-x"}},
			vars{"OPENAI_API_KEY": key},
			want{provider: "openai", model: "gpt-x", endpoint: "https://api.openai.com/v1", key: key, why: "OPENAI_API_KEY is set"},
		},
		{
			"several keys have an order, and a word about it",
			choice.Options{},
			vars{"OPENAI_API_KEY": "sk-SECRET-other", "ANTHROPIC_API_KEY": key, "GROQ_API_KEY": "sk-SECRET-third"},
			want{provider: "anthropic", model: "claude-sonnet-5-5", endpoint: "https://api.anthropic.com", key: key, why: "ANTHROPIC_API_KEY is set", note: "OPENAI_API_KEY, GROQ_API_KEY is set too"},
		},
		{
			"Gemini by Google's variable",
			choice.Options{},
			vars{"GOOGLE_API_KEY": key},
			want{provider: "gemini", model: "gemini-flash-latest", endpoint: "https://generativelanguage.googleapis.com", key: key, why: "GOOGLE_API_KEY is set"},
		},
		{
			"Azure by its two variables",
			choice.Options{Model: "my-deployment"},
			vars{"AZURE_OPENAI_API_KEY": key, "AZURE_OPENAI_ENDPOINT": "https://ann.openai.azure.com/"},
			want{provider: "azure", model: "my-deployment", endpoint: "https://ann.openai.azure.com", key: key, why: "AZURE_OPENAI_API_KEY is set"},
		},
		{
			"a key that its other variable sends elsewhere is not sent to the maker",
			choice.Options{},
			vars{"OPENAI_API_KEY": key, "OPENAI_BASE_URL": "https://proxy.example.com/v1", "ANTHROPIC_API_KEY": "sk-SECRET-other"},
			want{provider: "anthropic", model: "claude-sonnet-5-5", endpoint: "https://api.anthropic.com", key: "sk-SECRET-other", why: "ANTHROPIC_API_KEY is set", note: "OPENAI_API_KEY is passed over: OPENAI_BASE_URL says"},
		},
		{
			"a key of spaces is none",
			choice.Options{},
			vars{"OPENAI_API_KEY": " \n", "GROQ_API_KEY": key},
			want{err: "groq (GROQ_API_KEY is set): no model is named"},
		},
		{
			"nothing at all",
			choice.Options{},
			vars{},
			want{err: "no model is set up: write ai: {provider: anthropic, key_command: pass show anthropic}, or whichever you use, into /home/ann/config.yaml, set one of ANTHROPIC_API_KEY,"},
		},
		{
			"Azure's key without its address is said",
			choice.Options{},
			vars{"AZURE_OPENAI_API_KEY": key},
			want{err: "no model is set up"},
		},
		{
			"Azure without an address",
			choice.Options{AI: config.AI{Provider: "azure", Model: "d"}},
			vars{"AZURE_OPENAI_API_KEY": key},
			want{err: "set AZURE_OPENAI_ENDPOINT"},
		},
		{
			"a key is needed",
			choice.Options{AI: anthropic},
			vars{},
			want{err: "anthropic needs a key; set ANTHROPIC_API_KEY, or key_command below ai: in /home/ann/config.yaml"},
		},
		{
			"Ollama on another machine by its own variable has to be said",
			choice.Options{AI: config.AI{Provider: "ollama", Model: "m"}},
			vars{"OLLAMA_HOST": "http://192.0.2.1:11434"},
			want{err: "OLLAMA_HOST names another machine"},
		},
		{
			"Ollama on another machine that was said",
			choice.Options{AI: config.AI{Provider: "ollama", Model: "m", BaseURL: "http://192.0.2.1:11434/v1"}},
			vars{"OLLAMA_HOST": "http://192.0.2.9:11434"},
			want{provider: "ollama", model: "m", endpoint: "http://192.0.2.1:11434/v1", why: "the settings", note: "what is sent to http://192.0.2.1:11434 can be read on its way"},
		},
		{
			"Ollama that listens everywhere listens here",
			choice.Options{AI: config.AI{Provider: "ollama", Model: "m"}},
			vars{"OLLAMA_HOST": "0.0.0.0:4321"},
			want{provider: "ollama", model: "m", endpoint: "http://127.0.0.1:4321/v1", why: "the settings"},
		},
		{
			"a model that Ollama has answered elsewhere",
			choice.Options{AI: config.AI{Provider: "ollama", Model: "big:480b-cloud"}},
			vars{},
			want{provider: "ollama", model: "big:480b-cloud", endpoint: "http://127.0.0.1:11434/v1", why: "the settings", note: "what is sent leaves this one"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Environ = tt.env.get
			check(t, &tt.opts, tt.want)
		})
	}
}

func TestHostileValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  vars
		want string
	}{
		{"a provider that nearly is one", vars{"AIRLOCK_PROVIDER": "antropic"}, `AIRLOCK_PROVIDER: there is no provider "antropic"; did you mean "anthropic"?`},
		{"a provider that is none", vars{"AIRLOCK_PROVIDER": "skynet"}, `there is openai, azure,`},
		{"a provider with an escape sequence", vars{"AIRLOCK_PROVIDER": "\x1b[2Jopenai"}, `"\x1b[2Jopenai"`},
		{"a provider of a megabyte", vars{"AIRLOCK_PROVIDER": strings.Repeat("q", 1<<20)}, strings.Repeat("q", 60) + `…"`},
		{"a model with the end of a line", vars{"AIRLOCK_MODEL": "a\nb"}, "AIRLOCK_MODEL: the model's name holds a character that cannot be seen"},
		{"a model of a megabyte", vars{"AIRLOCK_MODEL": strings.Repeat("q", 1<<20)}, "AIRLOCK_MODEL: the model's name has more than 500 bytes"},
		{"a model that is no text", vars{"AIRLOCK_MODEL": "a\xffb"}, "AIRLOCK_MODEL: the model's name holds"},
		{"a password in the address", vars{"AIRLOCK_BASE_URL": "https://ann:SECRET@example.com/v1"}, "AIRLOCK_BASE_URL: it holds a name or a password"},
		{"a query", vars{"AIRLOCK_BASE_URL": "https://example.com/v1?key=SECRET"}, "AIRLOCK_BASE_URL: it has a query"},
		{"a fragment", vars{"AIRLOCK_BASE_URL": "https://example.com/v1#SECRET"}, "AIRLOCK_BASE_URL: it has a fragment"},
		{"no address", vars{"AIRLOCK_BASE_URL": "example.com SECRET"}, "AIRLOCK_BASE_URL: it is no URL"},
		{"another scheme", vars{"AIRLOCK_BASE_URL": "unix:///run/SECRET"}, "AIRLOCK_BASE_URL: it does not begin with https://"},
		{"Azure's address with a password", vars{"AIRLOCK_PROVIDER": "azure", "AIRLOCK_MODEL": "m", "AZURE_OPENAI_ENDPOINT": "https://a:SECRET@b"}, "AZURE_OPENAI_ENDPOINT: it holds a name or a password"},
		{"a key of two lines", vars{"AIRLOCK_PROVIDER": "openai", "OPENAI_API_KEY": "SECRET\r\nX-Header: 1"}, "the key of OPENAI_API_KEY has several lines"},
		{"a key with a control character", vars{"AIRLOCK_PROVIDER": "openai", "OPENAI_API_KEY": "SECRET\x00a"}, "the key of OPENAI_API_KEY holds characters that no key has"},
		{"a key that is a sentence", vars{"AIRLOCK_PROVIDER": "openai", "OPENAI_API_KEY": "SECRET is not set"}, "the key of OPENAI_API_KEY has a space in it"},
		{"a key of other letters", vars{"AIRLOCK_PROVIDER": "openai", "OPENAI_API_KEY": "SECRETé"}, "the key of OPENAI_API_KEY holds characters"},
		{"a key of a megabyte", vars{"AIRLOCK_PROVIDER": "openai", "OPENAI_API_KEY": strings.Repeat("SECRET", 1<<17)}, "the key of OPENAI_API_KEY has more than 8192 bytes"},
		{"a key on its way in the clear", vars{"AIRLOCK_PROVIDER": "openai", "AIRLOCK_BASE_URL": "http://gpu.example.com/v1", "AIRLOCK_MODEL": "m", "OPENAI_API_KEY": key}, "the key for openai would be readable on its way to http://gpu.example.com; use https://"},
		{"a host that only begins as this machine", vars{"AIRLOCK_PROVIDER": "openai", "AIRLOCK_BASE_URL": "http://127.0.0.1.example.com/v1", "AIRLOCK_MODEL": "m", "OPENAI_API_KEY": key}, "would be readable on its way"},
		{"one that ends as this machine", vars{"AIRLOCK_PROVIDER": "openai", "AIRLOCK_BASE_URL": "http://localhost.example.com/v1", "AIRLOCK_MODEL": "m", "OPENAI_API_KEY": key}, "would be readable on its way"},
		{"Ollama's variable with a password", vars{"AIRLOCK_PROVIDER": "ollama", "AIRLOCK_MODEL": "m", "OLLAMA_HOST": "http://a:SECRET@127.0.0.1"}, "OLLAMA_HOST names another machine"},
		{"Ollama's variable with another scheme", vars{"AIRLOCK_PROVIDER": "ollama", "AIRLOCK_MODEL": "m", "OLLAMA_HOST": "unix:///SECRET"}, "OLLAMA_HOST names another machine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, &choice.Options{Environ: tt.env.get}, want{err: tt.want})
		})
	}
}

func TestShowNeedsNoKey(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	got, err := choice.Choose(t.Context(), &choice.Options{
		AI:      config.AI{Provider: "openai", Model: "m", KeyCommand: "touch " + ran},
		Environ: vars{"OPENAI_API_KEY": "SECRET two words"}.get,
		Dial:    nobody,
		Show:    func(endpoint.Shown) {},
	})
	if err != nil {
		t.Fatalf("Choose: err = %v", err)
	}
	if got.Key != "" {
		t.Error("Choose: there is a key")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the key command was run")
	}
}
