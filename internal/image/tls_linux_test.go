package image_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"airlock/internal/image"
)

// login is a Docker configuration with ann's credentials for a registry.
func login(host, password string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("ann:"+password)))
}

func TestARegistryWithTLS(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	n := newInternet(t)
	local := n.host(t, "hub.example.com", h.Config.Handler.ServeHTTP)
	n.host(t, "hub.example.org", h.Config.Handler.ServeHTTP) // its certificate names others
	plain := httptest.NewServer(h.Config.Handler)
	defer plain.Close()
	n.at["plain.example.com"] = plain.Listener.Addr().String()

	t.Run("one that is trusted", func(t *testing.T) {
		s := n.store(t, n.roots)
		for _, host := range []string{"hub.example.com", local, strings.Replace(local, "127.0.0.1", "localhost", 1)} {
			wantTree(t, pull(t, s, host+"/a:1", nil).RootDir, "a=1")
		}
	})
	for _, test := range []struct {
		name, host string
		roots      *x509.CertPool
		says, not  string
	}{
		{"one that nobody trusts", "hub.example.com", x509.NewCertPool(), "SSL_CERT_FILE", "Bad Request"},
		{"one on the loopback that nobody trusts", local, x509.NewCertPool(), "SSL_CERT_FILE", "Bad Request"},
		{"one with a certificate of others", "hub.example.org", n.roots, "certificate of hub.example.org does not hold", "SSL_CERT_FILE"},
		{"one without TLS", "plain.example.com", n.roots, "--insecure", "SSL_CERT_FILE"},
		{"one that there is not", "none.example.com", n.roots, "none.example.com is no name", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := n.store(t, test.roots).Pull(t.Context(), test.host+"/a:1", nil)
			wantError(t, err, nil, test.says)
			if test.not != "" && strings.Contains(err.Error(), test.not) {
				t.Errorf("Pull: err = %v, want nothing of %s", err, test.not)
			}
		})
	}
	t.Run("one at a private address that breaks off is asked again, and only with TLS", func(t *testing.T) {
		var broken atomic.Bool
		n.host(t, "10.1.2.3", func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil || broken.CompareAndSwap(false, true) {
				panic(http.ErrAbortHandler)
			}
			h.Config.Handler.ServeHTTP(w, r)
		})
		pull(t, n.store(t, n.roots), "10.1.2.3/a:1", nil)
	})
	t.Run("one that does not answer is asked once", func(t *testing.T) {
		asked := 0
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			asked++
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}}
		_, err := newStore(t, &image.Options{Transport: tr}).Pull(t.Context(), "hub.example.com/a:1", nil)
		wantError(t, err, nil, "nobody answers at hub.example.com")
		if asked != 1 {
			t.Errorf("it was asked %d times", asked)
		}
	})
	t.Run("the mend that the error names is one", func(t *testing.T) {
		cmd := childCommand(t, t.TempDir(), local+"/a:1")
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+n.file(t, n.cert), "SSL_CERT_DIR=/nonexistent")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with SSL_CERT_FILE: %v\n%s", err, out)
		}
	})
}

func TestATokenServer(t *testing.T) {
	h := newHub(t, nil)
	h.push(t, "x/a:1", imageOf(t, layerOf(t, file("a", "1")), layerOf(t, file("b", "2")), layerOf(t, file("c", "3"))))
	// world has a registry that takes tokens alone, and who gives them.
	world := func(t *testing.T, good int) (*internet, *tokens) {
		n, k := newInternet(t), newTokens(good)
		n.host(t, "auth.example.com", k.give)
		n.host(t, "hub.example.com", func(w http.ResponseWriter, r *http.Request) {
			if !k.check(w, r) {
				h.Config.Handler.ServeHTTP(w, r)
			}
		})
		return n, k
	}
	const ref = "hub.example.com/x/a:1"
	t.Run("tokens that expire in the middle of a pull", func(t *testing.T) {
		home(t, login("hub.example.com", "secret"))
		n, k := world(t, 3) // as many layers as come at once may share one
		wantTree(t, pull(t, n.store(t, n.roots), ref, nil).RootDir, "a=1", "b=2", "c=3")
		if k.given < 2 {
			t.Errorf("%d tokens were given, want more than one", k.given)
		}
		if want := "GET hub.example.com repository:x/a:pull ann"; k.asked[0] != want {
			t.Errorf("the token server was asked for %q, want %q", k.asked[0], want)
		}
		for _, key := range n.keys("hub.example.com") {
			if key != "" && !strings.HasPrefix(key, "Bearer ") {
				t.Errorf("the registry got %q, want tokens alone", key)
			}
		}
	})
	t.Run("a 401 that stays", func(t *testing.T) {
		home(t, login("hub.example.com", "secret"))
		n, k := world(t, 0)
		_, err := n.store(t, n.roots).Pull(t.Context(), ref, nil)
		wantError(t, err, nil, "refuses in spite of the credentials", "docker login hub.example.com")
		if k.given > 3 {
			t.Errorf("%d tokens were fetched in vain", k.given)
		}
	})
	t.Run("a wrong password", func(t *testing.T) {
		home(t, login("hub.example.com", "wrong"))
		n, k := world(t, 9)
		_, err := n.store(t, n.roots).Pull(t.Context(), ref, nil)
		wantError(t, err, nil, "in spite of the credentials", "docker login hub.example.com", "incorrect username or password")
		if len(k.asked) != 1 || strings.Contains(err.Error(), "wrong") {
			t.Errorf("asked %d times, want one; err = %v, want no password in it", len(k.asked), err)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		home(t, "")
		n, _ := world(t, 9)
		_, err := n.store(t, n.roots).Pull(t.Context(), ref, nil)
		wantError(t, err, nil, "there are no credentials for it", "docker login hub.example.com")
	})
	t.Run("an identity token instead of a password", func(t *testing.T) {
		home(t, `{"auths":{"hub.example.com":{"identitytoken":"identity"}}}`)
		n, k := world(t, 9)
		pull(t, n.store(t, n.roots), ref, nil)
		if want := "POST hub.example.com repository:x/a:pull "; k.asked[0] != want {
			t.Errorf("the token server was asked for %q, want %q", k.asked[0], want)
		}
	})
	t.Run("an answer that is no token", func(t *testing.T) {
		home(t, login("hub.example.com", "secret"))
		n, _ := world(t, 9)
		n.host(t, "auth.example.com", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{\"refresh_token\":\"private\",\n\"\u009b2J\":\"\"}")
		})
		_, err := n.store(t, n.roots).Pull(t.Context(), ref, nil)
		wantError(t, err, nil, "no token")
		if strings.ContainsAny(err.Error(), "\n\u009b") || strings.Contains(err.Error(), "private") {
			t.Errorf("Pull: err = %q", err)
		}
	})
	t.Run("a token server that is asked without TLS", func(t *testing.T) {
		home(t, login("hub.example.com", "secret"))
		n, k := world(t, 9)
		k.realm = "http://auth.example.com/token"
		if _, err := n.store(t, n.roots).Pull(t.Context(), ref, nil); err == nil || len(n.keys("auth.example.com")) != 0 {
			t.Errorf("Pull: err = %v, and it was asked %d times", err, len(n.keys("auth.example.com")))
		}
	})
}

func TestCredentialsGoNowhereElse(t *testing.T) {
	home(t, login("hub.example.com", "secret"))
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "x/a:1", img)
	const ref = "hub.example.com/x/a:1"
	// world has a registry that leads to a CDN for its layer, with an address that is good once.
	world := func(t *testing.T, letIn func(w http.ResponseWriter, r *http.Request) bool, cdn http.HandlerFunc) *internet {
		n := newInternet(t)
		links := 0
		n.host(t, "hub.example.com", func(w http.ResponseWriter, r *http.Request) {
			switch {
			case letIn(w, r):
			case strings.Contains(r.URL.Path, digestOf(t, l).Hex):
				links++
				http.Redirect(w, r, fmt.Sprintf("https://cdn.example.com/layer?signature=key%d", links), http.StatusTemporaryRedirect)
			default:
				h.Config.Handler.ServeHTTP(w, r)
			}
		})
		n.host(t, "cdn.example.com", cdn)
		return n
	}
	tokenWorld := func(t *testing.T, cdn http.HandlerFunc) *internet {
		k := newTokens(3)
		n := world(t, k.check, cdn)
		n.host(t, "auth.example.com", k.give)
		return n
	}
	basicWorld := func(t *testing.T, cdn http.HandlerFunc) *internet { return world(t, basic, cdn) }
	for name, make := range map[string]func(*testing.T, http.HandlerFunc) *internet{"a token": tokenWorld, "a password": basicWorld} {
		t.Run(name+" does not go to where a layer is", func(t *testing.T) {
			used := map[string]bool{}
			n := make(t, func(w http.ResponseWriter, r *http.Request) {
				key := r.FormValue("signature")
				if used[key] {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				used[key] = true
				from := 0
				_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				if from > 0 {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
					w.WriteHeader(http.StatusPartialContent)
				}
				_, _ = w.Write(data[from:min(from+400_000, len(data))])
			})
			pull(t, n.store(t, n.roots), ref, nil)
			if got := n.keys("cdn.example.com"); len(got) != 3 || slices.ContainsFunc(got, func(key string) bool { return key != "" }) {
				t.Errorf("the CDN got %q, want three requests without credentials", got)
			}
		})
		for challenge, header := range map[string]string{
			"asks for a password": `Basic realm="cdn"`, "asks for a token": `Bearer realm="https://evil.example.com/token",service="hub.example.com"`,
		} {
			t.Run(name+" does not go to a CDN that "+challenge, func(t *testing.T) {
				n := make(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("WWW-Authenticate", header)
					w.WriteHeader(http.StatusUnauthorized)
				})
				n.host(t, "evil.example.com", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"token":"evil"}`) })
				_, err := n.store(t, n.roots).Pull(t.Context(), ref, nil)
				wantError(t, err, nil, "hub.example.com leads to cdn.example.com")
				got := slices.DeleteFunc(slices.Concat(n.keys("cdn.example.com"), n.keys("evil.example.com")), func(key string) bool {
					return key == "" || key == "Bearer evil" // its own
				})
				if len(got) > 0 || strings.Contains(err.Error(), "signature=key") {
					t.Errorf("they got %q; err = %v, want no key in it", got, err)
				}
			})
		}
	}
}

func TestALayersOwnAddressIsNotAsked(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	l := layerOf(t, file("a", "1"))
	img := imageOf(t, l)
	h.push(t, "x/a:1", img)
	n := newInternet(t)
	n.host(t, "elsewhere.example.com", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	led := strings.Replace(string(manifest), `"layers":[{`, `"layers":[{"urls":["https://elsewhere.example.com/layer"],`, 1)
	n.host(t, "hub.example.com", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			_, _ = io.WriteString(w, led)
			return
		}
		h.Config.Handler.ServeHTTP(w, r)
	})
	wantTree(t, pull(t, n.store(t, n.roots), "hub.example.com/x/a:1", &image.PullOptions{}).RootDir, "a=1")
	if led == string(manifest) || len(n.keys("elsewhere.example.com")) > 0 {
		t.Error("the address that the manifest names was asked, or there was none")
	}
}
