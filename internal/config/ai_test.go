package config_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/config"
)

func TestAI(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       func(a *config.AI)
	}{
		{"nothing said of it is the defaults", "record: {max_age: 3d}\n", func(*config.AI) {}},
		{"all of it", `ai:
  provider: azure
  model: gpt-5.4
  base_url: https://Ann.openai.azure.com/
  api_version: 2024-10-21
  key_command: pass show "openai" | head -n 1
  include: [NOTES.md, "docs/**/*.md"]
  instructions: false
  tools: false
  history: true
  timeout: 90s
  max_tokens: 100
`, func(a *config.AI) {
			*a = config.AI{
				Provider: "azure", Model: "gpt-5.4", BaseURL: "https://ann.openai.azure.com", APIVersion: "2024-10-21",
				KeyCommand: `pass show "openai" | head -n 1`, Include: []string{"NOTES.md", "docs/**/*.md"},
				History: true, Timeout: 90 * time.Second, MaxTokens: 100,
			}
		}},
		{"a model with a tag", "ai: {provider: ollama, model: \"qwen3:8b\"}\n", func(a *config.AI) { a.Provider, a.Model = "ollama", "qwen3:8b" }},
		{"the same without quotes", "ai:\n  provider: ollama\n  model: qwen3:8b\n", func(a *config.AI) { a.Provider, a.Model = "ollama", "qwen3:8b" }},
		{"a model that is a file's name", "ai:\n  model: /models/my model.gguf\n", func(a *config.AI) { a.Model = "/models/my model.gguf" }},
		{"a model that is a number", "ai: {model: 4.10}\n", func(a *config.AI) { a.Model = "4.10" }},
		{"an address alone", "ai:\n  base_url: http://127.0.0.1:8000/v1\n", func(a *config.AI) { a.BaseURL = "http://127.0.0.1:8000/v1" }},
		{"an address of six", "ai:\n  base_url: http://[::1]:8000/v1//\n", func(a *config.AI) { a.BaseURL = "http://[::1]:8000/v1" }},
		{"no files", "ai: {include: []}\n", func(a *config.AI) { a.Include = []string{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Parse("c.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			want := config.Default().AI
			tt.want(&want)
			if d := cmp.Diff(want, got.AI); d != "" {
				t.Errorf("Parse (-want +got):\n%s", d)
			}
		})
	}
}

func TestWrongAI(t *testing.T) {
	const secret = "sk-THIS-IS-A-KEY"
	for _, tt := range []struct{ name, text, want string }{
		{"a key", "ai:\n  provider: openai\n  key: " + secret + "\n", "c.yaml:3:3: ai: a key does not belong in a file; set key_command"},
		{"a key by another name", "ai: {api_key: " + secret + "}\n", "c.yaml:1:6: ai: a key does not belong in a file"},
		{"one more", "ai: {API-Token: " + secret + "}\n", "c.yaml:1:6: ai: a key does not belong in a file"},
		{"a slip of the pen", "ai:\n  modle: x\n", `c.yaml:2:3: ai: there is no "modle"; did you mean "model"?`},
		{"a provider that nearly is one", "ai: {provider: olama}\n", `c.yaml:1:16: provider: there is no "olama"; did you mean "ollama"?`},
		{"one in capitals", "ai: {provider: OpenAI}\n", `did you mean "openai"?`},
		{"one that is none", "ai: {provider: skynet}\n", `there is openai, azure, anthropic, gemini, ollama,`},
		{"an empty provider", "ai: {provider: \"\"}\n", `provider is empty; take it out`},
		{"a list of models", "ai: {model: [a]}\n", `model: write one line of text here`},
		{"a model of two lines", "ai:\n  model: \"a\\nb\"\n", `model holds a character that cannot be seen`},
		{"a model with an escape sequence", "ai:\n  model: \"a\\e[2Jb\"\n", `model holds a character that cannot be seen`},
		{"a model that turns the text around", "ai:\n  model: \"a\u202eb\"\n", `model holds a character that cannot be seen`},
		{"spaces at an end", "ai: {model: \" a\"}\n", `model begins or ends with a space`},
		{"a long word", "ai: {model: " + strings.Repeat("a", 4097) + "}\n", `model has more than 4096 bytes`},
		{"a key command in a block", "ai:\n  provider: openai\n  key_command: |\n    pass\n", `c.yaml:3:16: key_command: write one line of text here`},
		{"a key command for nobody", "ai:\n  key_command: pass show x\n", `c.yaml:2:3: ai: key_command belongs to a provider; write provider: beside it`},
		{"a version for another", "ai: {provider: openai, api_version: v1}\n", `api_version is for provider: azure alone`},
		{"an address without a scheme", "ai: {base_url: api.openai.com/v1}\n", `c.yaml:1:16: base_url: it does not begin with https:// or http://`},
		{"a file", "ai: {base_url: \"file:///etc/passwd\"}\n", `base_url: it does not begin with`},
		{"an address without a host", "ai: {base_url: \"https:///v1\"}\n", `base_url: it names no host`},
		{"an opaque address", "ai: {base_url: \"https:x\"}\n", `base_url: it names no host`},
		{"an address with a password", "ai: {base_url: \"https://ann:" + secret + "@example.com\"}\n", `base_url: it holds a name or a password`},
		{"an address with a query", "ai: {base_url: \"https://example.com?key=" + secret + "\"}\n", `base_url: it has a query`},
		{"an empty query", "ai: {base_url: \"https://example.com?\"}\n", `base_url: it has a query`},
		{"an address with a fragment", "ai: {base_url: \"https://example.com#" + secret + "\"}\n", `base_url: it has a fragment`},
		{"an empty fragment", "ai: {base_url: \"https://example.com#\"}\n", `base_url: it has a fragment`},
		{"an address with a space", "ai: {base_url: \"https://example.com/a b\"}\n", `base_url: it is no URL`},
		{"a port that is none", "ai: {base_url: \"https://example.com:99999\"}\n", `base_url: its port is none`},
		{"no port behind a colon", "ai: {base_url: \"https://example.com:/v1\"}\n", `base_url: its port is none`},
		{"one file without a list", "ai: {include: NOTES.md}\n", `include is a list, such as [NOTES.md`},
		{"a list in the list", "ai: {include: [[a]]}\n", `include: write one line of text here`},
		{"a glob without quotes", "ai:\n  include:\n    - *.md\n", `what begins with * is written in quotes`},
		{"too many files", "ai: {include: [" + strings.Repeat("a,", 101) + "]}\n", `include has more than 100 entries`},
		{"yes for true", "ai: {tools: yes}\n", `tools: write true or false`},
		{"true in quotes", "ai: {tools: \"true\"}\n", `tools: write true or false`},
		{"no time", "ai: {timeout: 0s}\n", `timeout is "0s"; write a time span`},
		{"no tokens", "ai: {max_tokens: 0}\n", `max_tokens is "0"; write a whole number from 1 to 1048576`},
		{"fewer", "ai: {max_tokens: -1}\n", `write a whole number`},
		{"more than there are", "ai: {max_tokens: 99999999999999999999}\n", `write a whole number`},
		{"half a token", "ai: {max_tokens: 1.5}\n", `c.yaml:1:18: `},
		{"no members", "ai: openai\n", `ai: write members, such as api_version: …`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Parse("c.yaml", []byte(tt.text))
			var wrong *config.Error
			if got != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Parse = %+v, %v, want %q", got, err, tt.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func FuzzBaseURL(f *testing.F) {
	for _, text := range []string{"https://a/v1/", "http://[::1]:80", "https://u:p@h", "https://h?x#y", "https://h/%2f/", "HTTPS://H", "http://h:", "https://h/%zz"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := config.BaseURL(text)
		if err != nil {
			return
		}
		if u, err := url.Parse(got); err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "" {
			t.Errorf("BaseURL(%q) = %q: it is %#v, %v", text, got, u, err)
		}
		again, err := config.BaseURL(got)
		if err != nil || again != got {
			t.Errorf("BaseURL(%q) = %q, and of that %q, %v", text, got, again, err)
		}
	})
}
