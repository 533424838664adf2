package choice_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/internal/config"
	"airlock/internal/planner/choice"
)

// A page is what a server on this machine answers.
type page struct {
	path, kind, body string
	status           int
	hang             bool
}

// serve starts a server that knows one page, and counts what it is asked.
func serve(t *testing.T, p page) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if p.hang {
			<-r.Context().Done()
			return
		}
		if r.URL.Path != p.path {
			http.NotFound(w, r)
			return
		}
		if p.kind == "" {
			p.kind = "application/json; charset=utf-8"
		}
		w.Header().Set("Content-Type", p.kind)
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(max(p.status, http.StatusOK))
		fmt.Fprint(w, p.body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), asked
}

// instead connects to other addresses than those that are asked for, and to nobody else.
func instead(of map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, ok := of[address]
		if !ok {
			return nobody(ctx, network, address)
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
}

const (
	ollamaAt = "127.0.0.1:11434"
	llamaAt  = "127.0.0.1:8080"
)

func tags(models string) page { return page{path: "/api/tags", body: `{"models":[` + models + `]}`} }

func llama(body string) page { return page{path: "/v1/models", body: body} }

func TestFindOnThisMachine(t *testing.T) {
	const qwen = `{"name":"qwen3:8b","model":"qwen3:8b","size":5,"details":{"family":"qwen3","families":["qwen3"]}}`
	const gemma = `{"name":"gemma3:latest","details":{"family":"gemma3","families":null}}`
	const nomic = `{"name":"nomic-embed-text:latest","details":{"family":"nomic-bert","families":["nomic-bert"]}}`
	const bert = `{"name":"secretly","details":{"family":"bert"}}`
	const able = `{"name":"pictures","capabilities":["image"]}`
	const cloud = `{"name":"gpt-oss:120b-cloud","remote_host":"https://ollama.com:443"}`
	const gguf = `{"object":"list","data":[{"id":"/models/my model.gguf","object":"model","owned_by":"llamacpp"}]}`
	onOllama := want{provider: "ollama", model: "qwen3:8b", endpoint: "http://127.0.0.1:11434/v1", why: "found on 127.0.0.1:11434"}
	onLlama := want{provider: "llamacpp", model: "/models/my model.gguf", endpoint: "http://127.0.0.1:8080/v1", why: "found on 127.0.0.1:8080"}
	for _, tt := range []struct {
		name          string
		ollama, llama page
		model         string
		want          want
	}{
		{"Ollama's first model", tags(qwen + "," + gemma), page{}, "", onOllama},
		{"Ollama is before llama.cpp", tags(qwen), llama(gguf), "", onOllama},
		{"llama.cpp", page{}, llama(gguf), "", onLlama},
		{"the model that was named", tags(gemma + "," + qwen), page{}, "qwen3:8b", onOllama},
		{"one that was named without its tag", tags(qwen + "," + gemma), page{}, "gemma3", want{provider: "ollama", model: "gemma3:latest", endpoint: "http://127.0.0.1:11434/v1", why: "found on 127.0.0.1:11434"}},
		{"the model that was named is llama.cpp's", tags(gemma), llama(gguf), "/models/my model.gguf", want{provider: "llamacpp", model: "/models/my model.gguf", endpoint: "http://127.0.0.1:8080/v1", why: "found on 127.0.0.1:8080", note: `ollama on 127.0.0.1:11434 has no model "/models/my model.gguf"`}},
		{"a model that nobody has", tags(qwen), llama(gguf), "qwen3:80b", want{err: `ollama on 127.0.0.1:11434 has no model "qwen3:80b"; did you mean "qwen3:8b"?`}},
		{"models that answer nothing are passed over", tags(nomic + "," + bert + "," + able + "," + qwen), page{}, "", onOllama},
		{"so is one that another machine answers for", tags(cloud + "," + qwen), page{}, "", onOllama},
		{"only such ones", tags(cloud), page{}, "", want{err: "ollama on 127.0.0.1:11434 has no model of its own"}},
		{"Ollama without models", tags(""), page{}, "", want{err: "ollama on 127.0.0.1:11434 has no model of its own"}},
		{"Ollama without models, and llama.cpp", tags(""), llama(gguf), "", want{provider: "llamacpp", model: "/models/my model.gguf", endpoint: "http://127.0.0.1:8080/v1", why: "found on 127.0.0.1:8080", note: "ollama on 127.0.0.1:11434 has no model of its own"}},
		{"something else on llama.cpp's port", page{}, llama(`{"object":"list","data":[{"id":"gpt-x","owned_by":"openai"}]}`), "", want{err: "no model is set up"}},
		{"one model of another's among them", page{}, llama(`{"data":[{"id":"a","owned_by":"llamacpp"},{"id":"b","owned_by":"x"}]}`), "", want{err: "no model is set up"}},
		{"a web server", page{path: "/api/tags", kind: "text/html", body: "<html>"}, page{path: "/v1/models", kind: "text/html", body: gguf}, "", want{err: "no model is set up"}},
		{"a redirect", page{path: "/api/tags", status: http.StatusFound, body: tags(qwen).body}, page{}, "", want{err: "no model is set up"}},
		{"an error", page{path: "/api/tags", status: http.StatusInternalServerError, body: tags(qwen).body}, page{}, "", want{err: "no model is set up"}},
		{"no JSON", page{path: "/api/tags", body: `{"models":[` + qwen}, page{}, "", want{err: "no model is set up"}},
		{"two documents", page{path: "/api/tags", body: tags(qwen).body + tags(qwen).body}, page{}, "", want{err: "no model is set up"}},
		{"other JSON", page{path: "/api/tags", body: `{"models":{"name":"x"}}`}, page{path: "/v1/models", body: `[]`}, "", want{err: "no model is set up"}},
		{"a model without a name", tags(`{"name":""}`), page{}, "", want{err: "no model is set up"}},
		{"a name with an escape sequence", tags(`{"name":"a\u001b[2J"}`), page{}, "", want{err: "no model is set up"}},
		{"a name of a megabyte", tags(`{"name":"` + strings.Repeat("a", 1<<19) + `"}`), page{}, "", want{err: "no model is set up"}},
		{"a list without an end", tags(`{"name":"a"},` + strings.Repeat(" ", 1<<20) + qwen), page{}, "", want{err: "no model is set up"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			of := map[string]string{}
			if tt.ollama.path != "" {
				of[ollamaAt], _ = serve(t, tt.ollama)
			}
			if tt.llama.path != "" {
				of[llamaAt], _ = serve(t, tt.llama)
			}
			check(t, &choice.Options{Environ: vars{"AIRLOCK_MODEL": tt.model}.get, Dial: instead(of)}, tt.want)
		})
	}
}

func TestNoKeyGoesToWhatWasFound(t *testing.T) {
	address, _ := serve(t, tags(`{"name":"qwen3:8b"}`))
	check(t, &choice.Options{Environ: vars{"OLLAMA_API_KEY": key}.get, Dial: instead(map[string]string{ollamaAt: address})},
		want{provider: "ollama", model: "qwen3:8b", endpoint: "http://127.0.0.1:11434/v1", why: "found on 127.0.0.1:11434"})
}

func TestTheSearchIsShort(t *testing.T) {
	first, _ := serve(t, page{hang: true})
	second, _ := serve(t, page{hang: true})
	begin := time.Now()
	if _, err := choice.Choose(t.Context(), &choice.Options{Dial: instead(map[string]string{ollamaAt: first, llamaAt: second})}); err == nil {
		t.Error("Choose: err = nil")
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("Choose took %v, and should take 400ms", took)
	}
}

func TestAServerThatWasNamedIsAskedForItsModel(t *testing.T) {
	address, _ := serve(t, tags(`{"name":"qwen3:8b"}`))
	check(t, &choice.Options{AI: config.AI{Provider: "ollama", BaseURL: "http://" + address + "/v1"}}, want{err: "does not answer"}) // nobody can be reached
	check(t, &choice.Options{
		AI:   config.AI{Provider: "ollama", BaseURL: "http://" + address + "/v1"},
		Dial: new(net.Dialer).DialContext,
	}, want{provider: "ollama", model: "qwen3:8b", endpoint: "http://" + address + "/v1", why: "the settings"})
	check(t, &choice.Options{
		Environ: vars{"AIRLOCK_PROVIDER": "ollama", "OLLAMA_HOST": address}.get,
		Dial:    new(net.Dialer).DialContext,
	}, want{provider: "ollama", model: "qwen3:8b", endpoint: "http://" + address + "/v1", why: "AIRLOCK_PROVIDER"})
}

func TestNobodyIsLookedForWhereAModelIsNamed(t *testing.T) {
	ollama, first := serve(t, tags(`{"name":"qwen3:8b"}`))
	llamacpp, second := serve(t, llama(`{"data":[{"id":"a","owned_by":"llamacpp"}]}`))
	for _, env := range []vars{
		{"AIRLOCK_PROVIDER": "openai"},
		{"OPENAI_API_KEY": key},
		{"AIRLOCK_PROVIDER": "groq", "GROQ_API_KEY": key},
		{"AIRLOCK_BASE_URL": "http://127.0.0.1:1/v1"},
		{"AIRLOCK_BASE_URL": "http://127.0.0.1:1/v1", "AIRLOCK_MODEL": "m"},
		{"AIRLOCK_PROVIDER": "ollama", "AIRLOCK_MODEL": "m"},
		{"AIRLOCK_PROVIDER": "lmstudio"},
	} {
		_, _ = choice.Choose(t.Context(), &choice.Options{Environ: env.get, Dial: instead(map[string]string{ollamaAt: ollama, llamaAt: llamacpp})})
		if n := first.Load() + second.Load(); n != 0 {
			t.Errorf("with %v servers on this machine were asked %d times", env, n)
		}
	}
}
