package image_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"airlock/internal/image"
)

// home gives the test a home folder with this Docker configuration.
func home(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for _, name := range []string{"DOCKER_AUTH_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, ".docker")) // the library looks for $HOME once a process
	if config != "" {
		if err := os.Mkdir(filepath.Join(dir, ".docker"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".docker", "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// basic lets only ann in.
func basic(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); user == "ann" && password == "secret" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func TestCredentialsComeFromDocker(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	helper := "#!/bin/sh\ncat >/dev/null\necho '{\"Username\":\"ann\",\"Secret\":\"secret\"}'\n"
	tests := []struct{ name, config string }{
		{"from config.json", `{"auths":{"HOST":{"auth":"` + auth + `"}}}`},
		{"from a helper of the registry's", `{"credHelpers":{"HOST":"test"}}`},
		{"from a helper of all registries", `{"credsStore":"test"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
			h.answer(basic)
			dir := home(t, strings.ReplaceAll(test.config, "HOST", h.ref("")[:len(h.ref(""))-1]))
			if err := os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte(helper), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			wantTree(t, pull(t, newStore(t, nil), h.ref("a:1"), nil).RootDir, "a=1")
		})
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	h := newHub(t, basic)
	host := strings.TrimSuffix(h.ref(""), "/")
	for name, config := range map[string]string{
		"without credentials":    "",
		"with a wrong password":  `{"auths":{"` + host + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("ann:wrong")) + `"}}}`,
		"with those of others'":  `{"auths":{"example.com":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("ann:secret")) + `"}}}`,
		"with an empty password": `{"auths":{"` + host + `":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			home(t, config)
			_, err := newStore(t, nil).Pull(t.Context(), h.ref("a:1"), nil)
			wantError(t, err, nil, "docker login "+host)
			if strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password in it: %v", err)
			}
		})
	}
	t.Run("a configuration that cannot be read is named", func(t *testing.T) {
		home(t, "{")
		_, err := newStore(t, nil).Pull(t.Context(), h.ref("a:1"), nil)
		wantError(t, err, nil, "config.json")
	})
	t.Run("what is not there", func(t *testing.T) {
		home(t, "")
		h.answer(nil)
		_, err := newStore(t, nil).Pull(t.Context(), h.ref("a:none"), nil)
		wantError(t, err, nil, "does not have it")
	})
	t.Run("nobody there", func(t *testing.T) {
		home(t, "")
		_, err := newStore(t, nil).Pull(t.Context(), refusing(t)+"/a:1", nil)
		wantError(t, err, nil, "refused")
	})
}

func TestTokensAreFetchedAndFetchedAgain(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1")), layerOf(t, file("b", "2"))))
	var tokens atomic.Int64
	var uses [100]atomic.Int64 // of each token: two pulls of layers may ask for one at once
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			fmt.Fprintf(w, `{"token":"t%d"}`, tokens.Add(1))
			return true
		}
		// Each token is good for three requests: they run out in the middle of a pull.
		var token int64
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer t%d", &token); err == nil && uses[token].Add(1) <= 3 {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="hub",scope="repository:a:pull"`, r.Host))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	wantTree(t, pull(t, newStore(t, nil), h.ref("a:1"), nil).RootDir, "a=1", "b=2")
	if tokens.Load() < 2 {
		t.Errorf("%d tokens were fetched, want more", tokens.Load())
	}
}

func TestATokenServerWithoutAnEnd(t *testing.T) {
	home(t, "")
	h := newHub(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		for {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
				return true
			}
		}
	})
	if _, err := newStore(t, nil).Pull(t.Context(), h.ref("a:1"), nil); err == nil {
		t.Fatal("it was believed")
	}
	if n := h.bytes("/token"); n > 64<<20 {
		t.Errorf("%d bytes of it were taken", n)
	}
}

// elsewhere takes all names for one server.
func elsewhere(h *hub) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, h.Listener.Addr().String())
	}}
}

func TestWithoutTLSOnlyOnTheLoopback(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	for _, host := range []string{"10.1.2.3:5000", "registry.local:5000", "localhost.example.com:5000", "hub.example.com", "192.168.0.1:80"} {
		t.Run(host, func(t *testing.T) {
			h.answer(nil)
			tr := elsewhere(h)
			defer tr.CloseIdleConnections()
			s := newStore(t, &image.Options{Transport: tr})
			if _, err := s.Pull(t.Context(), host+"/a:1", nil); err == nil {
				t.Error("it was pulled without TLS")
			}
			if n := h.asked("/v2/"); n != 0 {
				t.Errorf("%d requests went out without TLS", n)
			}
			wantTree(t, pull(t, s, host+"/a:1", &image.PullOptions{Insecure: true}).RootDir, "a=1")
		})
	}
	_, err := newStore(t, &image.Options{Transport: elsewhere(h)}).Pull(t.Context(), "10.1.2.3:5000/a:1", nil)
	wantError(t, err, nil, "--insecure")
}

func TestALoopbackRegistryDoesNotLeadElsewhere(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	img, l, _ := big(t)
	h.push(t, "a:1", img)
	to := "http://192.0.2.1/layer"
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, digestOf(t, l).Hex) {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	_, err := newStore(t, nil).Pull(t.Context(), h.ref("a:1"), nil)
	wantError(t, err, nil, "192.0.2.1")
}

func TestARedirectedLayerIsTakenButCredentialsStay(t *testing.T) {
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "a:1", img)
	var leaked atomic.Bool
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		_, _ = w.Write(data)
	}))
	defer cdn.Close()
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if basic(w, r) {
			return true
		}
		if strings.Contains(r.URL.Path, digestOf(t, l).Hex) {
			http.Redirect(w, r, strings.Replace(cdn.URL, "127.0.0.1", "localhost", 1)+"/layer", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	host := strings.TrimSuffix(h.ref(""), "/")
	home(t, `{"auths":{"`+host+`":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("ann:secret"))+`"}}}`)
	pull(t, newStore(t, nil), h.ref("a:1"), nil)
	if leaked.Load() {
		t.Error("credentials went to where the layer was")
	}
}

func TestWhatARegistrySaysIsOneLineWithoutControls(t *testing.T) {
	home(t, "")
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"\u001b[2J\u0007evil\r\nairlock: all is well\u202e%s"}]}`, strings.Repeat("x", 20_000))
	}))
	defer registry.Close()
	_, err := newStore(t, nil).Pull(t.Context(), strings.TrimPrefix(registry.URL, "http://")+"/x/y:1", nil)
	if err == nil || !strings.Contains(err.Error(), "evil") {
		t.Fatalf("Pull: err = %v, want what the registry said", err)
	}
	if text := err.Error(); strings.ContainsAny(text, "\x1b\a\r\n\u202e") || len(text) > 2000 {
		t.Errorf("Pull: err = %.300q, of %d bytes", text, len(text))
	}
}
