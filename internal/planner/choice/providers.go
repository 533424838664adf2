package choice

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"airlock/internal/config"
	"airlock/internal/near"
)

// A wire is an API.
type wire int

const (
	wireOpenAI wire = iota + 1
	wireAnthropic
	wireGemini
)

// A provider is what is known of one before it is asked.
type provider struct {
	name     string
	wire     wire
	base     string   // where it is; "" has to be said
	keys     []string // the variables that hold its key, the first one that is set counts
	needsKey bool     // at base
	model    string   // where none is named; "" has to be said

	// other is the variable with which this provider's own programs are sent elsewhere.
	other string
}

// providers are all of them. The models are those that the SDKs name as current.
func providers() []provider {
	return []provider{
		{name: "openai", wire: wireOpenAI, base: "https://api.openai.com/v1", keys: []string{"OPENAI_API_KEY"}, needsKey: true, model: "gpt-5.4", other: "OPENAI_BASE_URL"},
		{name: azure, wire: wireOpenAI, keys: []string{"AZURE_OPENAI_API_KEY"}, needsKey: true},
		{name: "anthropic", wire: wireAnthropic, base: "https://api.anthropic.com", keys: []string{"ANTHROPIC_API_KEY"}, needsKey: true, model: "claude-sonnet-5-5", other: "ANTHROPIC_BASE_URL"},
		{name: "gemini", wire: wireGemini, base: "https://generativelanguage.googleapis.com", keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, needsKey: true, model: "gemini-flash-latest", other: "GOOGLE_GEMINI_BASE_URL"},
		{name: ollama, wire: wireOpenAI, base: "http://127.0.0.1:11434/v1", keys: []string{"OLLAMA_API_KEY"}},
		{name: "vllm", wire: wireOpenAI, base: "http://127.0.0.1:8000/v1", keys: []string{"VLLM_API_KEY"}},
		{name: llamacpp, wire: wireOpenAI, base: "http://127.0.0.1:8080/v1", keys: []string{"LLAMA_API_KEY"}},
		{name: "lmstudio", wire: wireOpenAI, base: "http://127.0.0.1:1234/v1", keys: []string{"LM_API_TOKEN"}},
		{name: "openrouter", wire: wireOpenAI, base: "https://openrouter.ai/api/v1", keys: []string{"OPENROUTER_API_KEY"}, needsKey: true},
		{name: "groq", wire: wireOpenAI, base: "https://api.groq.com/openai/v1", keys: []string{"GROQ_API_KEY"}, needsKey: true},
	}
}

const (
	azure    = "azure"
	ollama   = "ollama"
	llamacpp = "llamacpp"
	compat   = "openai" // what an address without a provider is taken for
)

// byKey is the order in which providers are taken whose key is set.
func byKey() []string {
	return []string{"anthropic", "openai", "gemini", "openrouter", "groq", azure}
}

func named(name string) *provider {
	all := providers()
	if i := slices.IndexFunc(all, func(p provider) bool { return p.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// at is the provider whose own address this is; nil where it is nobody's.
func at(baseURL string) *provider {
	for _, p := range providers() {
		if p.base != "" && sameOrigin(p.base, baseURL) {
			return &p
		}
	}
	return nil
}

// lookUp finds a provider by what somebody wrote; from says where.
func lookUp(from, name string) (*provider, error) {
	if p := named(name); p != nil {
		return p, nil
	}
	if meant := near.Name(name, config.Providers()); meant != "" {
		return nil, fmt.Errorf("%s: there is no provider %s; did you mean %q?", from, short(name), meant)
	}
	return nil, fmt.Errorf("%s: there is no provider %s; there is %s", from, short(name), strings.Join(config.Providers(), ", "))
}

// short quotes what somebody wrote, which need not be short.
func short(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

// origin is the scheme, host and port of an address.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func sameOrigin(a, b string) bool { return origin(a) != "" && origin(a) == origin(b) }

// host is the host of an address, with the port that is written there, for a person.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// loopback reports whether an address is on this machine.
func loopback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && loopbackHost(u.Hostname())
}

func loopbackHost(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
