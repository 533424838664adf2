package image_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"airlock/internal/image"
	"airlock/internal/image/imagetest"
)

// An internet is a few hosts with names and TLS, which are all on the loopback.
type internet struct {
	cert, key []byte // PEM, for all its hosts and the loopback
	pair      tls.Certificate
	roots     *x509.CertPool

	mu    sync.Mutex
	at    map[string]string // addresses, by name
	heard map[string][]string
}

func newInternet(t *testing.T) *internet {
	t.Helper()
	cert, key, err := imagetest.Certificate("*.example.com", "10.1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	n := &internet{cert: cert, key: key, at: map[string]string{}, heard: map[string][]string{}, roots: x509.NewCertPool()}
	if n.pair, err = tls.X509KeyPair(n.cert, n.key); err != nil {
		t.Fatal(err)
	}
	n.roots.AppendCertsFromPEM(n.cert)
	return n
}

// host puts a server there, with TLS, and gives its address.
func (n *internet) host(t *testing.T, name string, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.heard[name] = append(n.heard[name], r.Header.Get("Authorization"))
		n.mu.Unlock()
		handler(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{n.pair}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.EnableHTTP2 = true // as those that people use
	s.StartTLS()
	t.Cleanup(s.Close)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[name] = s.Listener.Addr().String()
	return n.at[name]
}

// keys are the Authorization headers that a host got.
func (n *internet) keys(name string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heard[name]
}

// store gives a store that has the internet before it, and no other.
func (n *internet) store(t *testing.T, roots *x509.CertPool) *image.Store {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(addr)
			n.mu.Lock()
			at := n.at[host]
			n.mu.Unlock()
			if at == "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			if at == "" {
				at = addr
			}
			return new(net.Dialer).DialContext(ctx, network, at)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return newStore(t, &image.Options{Transport: tr})
}

// file writes something to a file that others can read.
func (n *internet) file(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A tokens server gives tokens to ann, each good for a few requests.
type tokens struct {
	realm string
	good  int // requests that a token is good for
	mu    sync.Mutex
	left  map[string]int // requests, by token
	given int
	asked []string // METHOD SERVICE SCOPE USER
}

func newTokens(good int) *tokens {
	return &tokens{realm: "https://auth.example.com/token", good: good, left: map[string]int{}}
}

// give is the token server.
func (k *tokens) give(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	user, password, _ := r.BasicAuth()
	k.asked = append(k.asked, strings.Join([]string{r.Method, r.FormValue("service"), r.FormValue("scope"), user}, " "))
	if password != "secret" && r.PostFormValue("refresh_token") != "identity" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"incorrect username or password"}]}`)
		return
	}
	k.given++
	token := fmt.Sprint("t", k.given)
	k.left[token] = k.good
	fmt.Fprintf(w, `{"access_token":%q,"expires_in":60}`, token)
}

// check is the registry's part: it answers where there is no good token.
func (k *tokens) check(w http.ResponseWriter, r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); k.left[token] > 0 {
		k.left[token]--
		return false
	}
	scope := ""
	if parts := strings.Split(r.URL.Path, "/"); len(parts) > 4 {
		scope = fmt.Sprintf(`,scope="repository:%s:pull"`, strings.Join(parts[2:len(parts)-2], "/"))
	}
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="hub.example.com"%s`, k.realm, scope))
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
	return true
}
